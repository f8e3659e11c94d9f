"""A packaged model's own server: the answers of a service, with the standard library alone."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.interpreters import pythons
from tests.serving.deployments import SOURCE, Answer, send
from tests.waiting import wait_for

SCRIPT = """
    import os, json, threading
    from azureml.contrib.services.aml_response import AMLResponse
    def init():
        print("loaded")
    def run(data, request_headers):
        if data == "fail":
            raise KeyError("hidden")
        if data == "leave":
            os._exit(1)
        if data == "teapot":
            return AMLResponse(b"\\x00", 418, {"Content-Type": "x/y"})
        return {"data": data, "mine": request_headers.get("X-Mine"), "pid": os.getpid()}
"""


@dataclass
class Standalone:
    process: subprocess.Popen[bytes]
    log: Path
    port: int

    def post(self, body: bytes | str | None, path: str = "/score", method: str = "POST", **headers: str) -> Answer:
        return send(self.port, method, path, body, {name.replace("_", "-"): text for name, text in headers.items()})


@contextmanager
def standalone(
    folder: Path, script: str, *arguments: str, python: str = sys.executable, **variables: str
) -> Iterator[Standalone]:
    (folder / "score.py").write_text(textwrap.dedent(script))
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    code = "import sys; from runyard.serving.standalone import main; sys.exit(main())"
    words = [python, "-c", code, "--port", "0", "--entry", "score.py", "--app-root", str(folder), *arguments]
    log = folder / "log.txt"
    with log.open("ab") as file:
        process = subprocess.Popen(words, stdout=file, stderr=file, env={**environ, "PYTHONPATH": SOURCE, **variables})
    try:

        def is_ready() -> bool:
            assert process.poll() is None, log.read_text()
            return "Serving on" in log.read_text()

        wait_for(is_ready, what=log.read_text)
        found = re.search(r"Serving on http://[\w.]+:(\d+)/score", log.read_text())
        assert found is not None
        yield Standalone(process, log, int(found[1]))
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


@pytest.mark.parametrize("version", pythons())
def test_it_answers_as_a_service_does(tmp_path: Path, version: str) -> None:
    with standalone(tmp_path, SCRIPT, python=pythons()[version]) as served:
        answer = served.post("é".encode(), x_mine="7", x_request_id="id-1", TraceId="t")
        assert (answer.status, answer.json["data"], answer.json["mine"]) == (200, "é", "7")
        assert (answer.header("x-request-id"), answer.header("x-ms-request-id")) == ("id-1", "id-1")
        assert (answer.header("traceid"), answer.header("x-ms-run-function-failed")) == ("t", "False")
        assert re.fullmatch(r"\d+\.\d{3}", answer.header("x-ms-run-fn-exec-ms") or "")
        assert served.post(None, "/score?a=1&b=x", "GET").json["data"] == '{"a": 1, "b": "x"}'
        assert served.post(b"", "/", "GET").body == b"Healthy"
        raw = served.post("teapot")
        assert (raw.status, raw.body, raw.header("content-type")) == (418, b"\x00", "x/y")
        failed = served.post("fail", x_request_id="id-2")
        assert (failed.status, failed.header("x-ms-run-function-failed")) == (500, "True")
        assert "hidden" not in failed.json["message"] and "KeyError: 'hidden'" in served.log.read_text()
        assert served.post(None, "/swagger.json?version=3", "GET").json["openapi"] == "3.0.3"
        assert served.post(b"\xff").status == 400
        assert served.post(b"x", method="PUT").status == 405
        assert served.post(None, method="OPTIONS").status == 200
        assert served.post(b"x", "/other").status == 404
        assert served.post(b"x", x_request_id="x" * 101).status == 431
        assert served.post(b"", content_length=str(101 << 20)).status == 413
        assert served.post(b"x", "/api/v1/service/local/score").json["data"] == "x"


def test_a_key_is_asked_for_and_kept_from_the_script(tmp_path: Path) -> None:
    script = """
    import os
    def init(): pass
    def run(d, request_headers):
        return [os.environ.get('RUNYARD_SERVING_KEY'), request_headers.get('Authorization')]
    """
    with standalone(tmp_path, script, RUNYARD_SERVING_KEY="secret") as served:
        assert served.post(b"").status == 401
        assert served.post(b"", authorization="Bearer wrong").status == 401
        assert served.post(b"", authorization="Bearer secret").json == [None, None]
        assert served.post(None, "/", "GET").status == 200


def test_a_worker_that_dies_is_replaced(tmp_path: Path) -> None:
    with standalone(tmp_path, SCRIPT, "--workers", "2") as served:
        wait_for(lambda: served.log.read_text().count("Serving on") == 2, what=served.log.read_text)
        with pytest.raises(ConnectionError):
            served.post("leave")
        wait_for(lambda: served.log.read_text().count("Serving on") == 3, what=served.log.read_text)
        assert served.post("x").status == 200


def test_a_chunked_body_is_read_whole(tmp_path: Path) -> None:
    with standalone(tmp_path, SCRIPT) as served:
        chunked = b"3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\n\r\n"
        assert served.post(chunked, transfer_encoding="chunked").json["data"] == "abcdefg"


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_script_that_does_not_load_ends_it_with_code_3(tmp_path: Path, workers: str) -> None:
    (tmp_path / "score.py").write_text("def init():\n    import nosuchmodule\ndef run(d):\n    pass\n")
    code = "import sys; from runyard.serving.standalone import main; sys.exit(main())"
    words = [sys.executable, "-c", code, "--port", "0", "--entry", "score.py", "--app-root", str(tmp_path)]
    done = subprocess.run(
        [*words, "--workers", workers],
        env={**os.environ, "PYTHONPATH": SOURCE},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 3
    assert "No module named 'nosuchmodule'" in done.stderr
