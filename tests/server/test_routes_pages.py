"""The studio over HTTP: one page for its addresses, its files, and what is said where it was not built."""

from __future__ import annotations

import gzip
import http.client
import re
import socket
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import pytest

from runyard.server.routes.pages import PAGES
from runyard.studio import built
from tests.server.conftest import Served

PAGE = b"<!doctype html><title>Runyard</title><script type=module src=/static/index-abc.js></script>"
SCRIPT = b"console.log('here')\n" * 100


@pytest.fixture
def static(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "index.html").write_bytes(PAGE)
    (tmp_path / "index-abc.js").write_bytes(SCRIPT)
    (tmp_path / "secret.txt").write_text("not of the page")
    monkeypatch.setattr(built, "STATIC", tmp_path)
    return tmp_path


def get(served: Served, path: str, **headers: str) -> tuple[int, bytes, dict[str, str]]:
    """Ask as a browser would; pages lie beside the API, where the client does not go."""
    connection = http.client.HTTPConnection("runyard")
    connection.sock = socket.socket(socket.AF_UNIX)
    assert served.address.path is not None
    connection.sock.connect(served.address.path)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {served.address.token}", **headers})
        answer = connection.getresponse()
        found = {key.lower(): value for key, value in answer.getheaders()}
        return answer.status, answer.read(), found
    finally:
        connection.close()


def test_every_address_of_the_studio_is_the_one_page(served: Served, static: Path) -> None:
    for path in PAGES:
        status, body, headers = get(served, path.replace("{name}", "a-name"))
        assert (status, body) == (200, PAGE), path
        assert headers["content-type"] == "text/html; charset=utf-8" and headers["cache-control"] == "no-store"
        policy = headers["content-security-policy"]
        assert "script-src 'self'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy


def test_its_files_come_compressed_and_are_kept(served: Served, static: Path) -> None:
    status, body, headers = get(served, "/static/index-abc.js", **{"Accept-Encoding": "gzip, br"})
    assert status == 200 and gzip.decompress(body) == SCRIPT and len(body) < len(SCRIPT) / 5
    assert headers["content-type"] == "text/javascript; charset=utf-8" and "immutable" in headers["cache-control"]

    status, body, headers = get(served, "/static/index-abc.js")
    assert (status, body) == (200, SCRIPT) and "content-encoding" not in headers


@pytest.mark.parametrize("name", ["secret.txt", "index.html", "gone-abc.js", "..%2fbuilt.py", ".built-from"])
def test_nothing_else_of_the_folder_is_given_out(served: Served, static: Path, name: str) -> None:
    assert get(served, f"/static/{name}")[0] in (400, 404)


def test_an_unknown_address_is_the_page_for_people_and_an_error_for_programs(served: Served, static: Path) -> None:
    status, body, _ = get(served, "/nowhere", Accept="text/html,*/*")
    assert (status, body) == (404, PAGE)
    status, body, _ = get(served, "/nowhere")
    assert status == 404 and b'"code": "NotFound"' in body
    status, body, _ = get(served, "/api/v1/nowhere", Accept="text/html")
    assert status == 404 and b'"code": "NotFound"' in body


def test_where_it_was_not_built_the_page_says_how_to_get_it(served: Served, static: Path) -> None:
    (static / "index.html").unlink()
    status, body, _ = get(served, "/runs")
    assert status == 503 and b"make studio" in body and b"runyard runs list" in body


def test_a_runs_token_is_no_reader_of_pages(served: Served, static: Path) -> None:
    served.submit()
    run = served.as_run("exp_1")
    assert get(served, "/runs", Authorization=f"Bearer {run.address.token}")[0] == 403


def test_the_page_of_the_api_shows_every_operation_and_schema_without_scripts(served: Served) -> None:
    document = served.client.transport.request("GET", "/openapi.json").json()
    status, body, headers = get(served, "/api/docs")
    text = body.decode()
    style = text.partition("<style>")[2].partition("</style>")[0]

    assert status == 200 and headers["content-type"] == "text/html; charset=utf-8"
    for methods in document["paths"].values():
        for operation in methods.values():
            assert f'id="{operation["operationId"]}"' in text
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids)) and set(re.findall(r'href=[\'"]#([^\'"]+)', text)) <= set(ids)
    assert b64encode(sha256(style.encode()).digest()).decode() in headers["content-security-policy"]
    assert "<script" not in text and " style=" not in text and "http://" not in text and "https://" not in text
