"""The pages over HTTP, from the real store."""

from __future__ import annotations

import http.client
import socket

from runyard.core import journal
from runyard.core.statuses import RunStatus
from tests.engine.bench import header, journal_frame, log_frame, name, number
from tests.server.conftest import Served


def get(served: Served, path: str) -> tuple[int, str, dict[str, str]]:
    """Ask as a browser would; pages lie beside the API, where the client does not go."""
    connection = http.client.HTTPConnection("runyard")
    connection.sock = socket.socket(socket.AF_UNIX)
    assert served.address.path is not None
    connection.sock.connect(served.address.path)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {served.address.token}"})
        answer = connection.getresponse()
        headers = {key.lower(): value for key, value in answer.getheaders()}
        return answer.status, answer.read().decode(), headers
    finally:
        connection.close()


def test_a_live_run_is_shown_with_its_metrics_chart_and_log(served: Served) -> None:
    served.submit(display_name="<b>bold</b>")
    own = served.as_run("exp_1").runs
    own.state("exp_1", 1, RunStatus.RUNNING, environment={"interpreter": "/usr/bin/python3"})
    numbers = b"".join(number(1, 1 / (at + 1), time=at) for at in range(500))
    own.ship("exp_1", [journal_frame(header() + name(1, "loss") + numbers), log_frame(b"epoch 1 <i>\n")])

    status, html, headers = get(served, "/runs/exp_1")

    assert status == 200 and headers["content-type"] == "text/html; charset=utf-8"
    assert "&lt;b&gt;bold&lt;/b&gt;" in html and "<b>bold" not in html and "epoch 1 &lt;i&gt;" in html
    assert "<polygon" in html and "0.002" in html and 'http-equiv="refresh"' in html
    assert (
        "script" not in headers["content-security-policy"]
        and "'unsafe-inline'" not in headers["content-security-policy"]
    )


def test_the_front_page_and_its_style(served: Served) -> None:
    served.submit("exp_1")
    served.submit("other_1", experiment="other")

    status, html, _headers = get(served, "/")
    style_status, style, style_headers = get(served, "/style.css")

    assert status == 200 and "/runs/exp_1" in html and "/runs/other_1" in html
    assert style_status == 200 and "svg polygon" in style and style_headers["content-type"].startswith("text/css")


def test_a_run_that_is_not_there(served: Served) -> None:
    assert get(served, "/runs/nobody")[0] == 404
    assert get(served, "/runs/a%2fb")[0] in (400, 404)


def test_words_among_the_numbers_leave_the_page_whole(served: Served) -> None:
    served.submit()
    words = journal.pack_long(journal.VALUES, {"name": "mixed", "values": ["a", 1.5], "step": None, "t": 1})
    served.as_run("exp_1").runs.ship("exp_1", [journal_frame(header() + words)])

    status, html, _headers = get(served, "/runs/exp_1")
    assert status == 200 and "mixed" in html
