"""A26: a server that lies about names cannot make the SDK write outside the folder that the user named."""

from __future__ import annotations

import http.server
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runyard.sdk.exceptions import UserErrorException
from runyard.sdk.runs.run import Run
from runyard.sdk.workspaces.workspace import Workspace

MOMENT = "2026-11-15T09:30:00+00:00"
RUN = {
    "id": "e_1_a",
    "number": 1,
    "workspace": "default",
    "experiment": "e",
    "experiment_id": "x",
    "status": "Completed",
    "created_at": MOMENT,
}


class Liar(http.server.ThreadingHTTPServer):
    """Answers what the SDK asks; the names of the run's files are the test's."""

    names: list[str]


class Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        assert isinstance(self.server, Liar)
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path.endswith("/files"):
            self.reply([{"name": name, "size": 6, "kind": "blob"} for name in self.server.names])
        elif "/files/" in self.path:
            self.reply(b"canary")
        elif "/runs/" in self.path:
            self.reply(RUN)
        elif "/workspaces/" in self.path:
            self.reply({"id": "w", "name": "default", "created_at": MOMENT})
        else:
            self.reply({"id": "s", "version": "0.1.0", "api": 1, "pid": 1, "host": "h"})

    def reply(self, value: Any) -> None:
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Runyard-Size", str(len(body)))
        self.send_header("Content-Disposition", 'attachment; filename="../../escaped"')
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def liar(monkeypatch: pytest.MonkeyPatch) -> Iterator[Liar]:
    server = Liar(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setenv("RUNYARD_URL", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("RUNYARD_TOKEN", f"ryt_{server.server_port}")
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def run(liar: Liar) -> Run:
    return Workspace().get_run("e_1_a")


def files_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_honest_names_are_written_where_they_belong(liar: Liar, run: Run, tmp_path: Path) -> None:
    liar.names = ["outputs/a.txt", "user_logs/std_log.txt"]
    run.download_files(output_directory=str(tmp_path / "in"))

    assert files_below(tmp_path) == ["in/outputs/a.txt", "in/user_logs/std_log.txt"]
    assert (tmp_path / "in/outputs/a.txt").read_bytes() == b"canary"


@pytest.mark.parametrize(
    "name",
    [
        "../escaped",
        "outputs/../../escaped",
        "/tmp/escaped",
        "user_logs/../../../escaped",
        "outputs/./x",
        "a\0b",
        "\ud800",
        "\uf02e\uf02e/escaped",
        "outputs/\uf02e./\uf02e\uf02e/escaped",
    ],
)
@pytest.mark.parametrize("append_prefix", [True, False])
def test_names_that_leave_the_folder_are_refused(
    liar: Liar, run: Run, tmp_path: Path, name: str, append_prefix: bool
) -> None:
    liar.names = [name]
    target = tmp_path / "a" / "b" / "in"

    with pytest.raises(UserErrorException, match="cannot be used"):
        run.download_files(name[:3], str(target), append_prefix=append_prefix)
    assert files_below(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "prefix", "written"),
    [
        ("outputs\\..\\..\\escaped", "out", b"outputs\\..\\..\\escaped"),
        ("%2e%2e%2fescaped", "%2e%2e%2f", b"%2e%2e%2fescaped"),
        ("deep/%2e%2e%2fescaped", "deep", b"%2e%2e%2fescaped"),
        ("..%2fescaped", "", b"..%2fescaped"),
        ("\uf0ff\x1b[2J\n", "", b"\xff\x1b[2J\n"),
        ("outputs/a../escaped", "outputs/a", b"outputs/a../escaped"),  # less its beginning it would lead out
        ("a.../escaped", "a.", b"a.../escaped"),
    ],
)
def test_odd_names_are_written_below_the_folder_and_nowhere_else(
    liar: Liar, run: Run, tmp_path: Path, name: str, prefix: str, written: bytes
) -> None:
    liar.names = [name]
    run.download_files(prefix, str(tmp_path / "in"), append_prefix=False)
    found = [path for path in (tmp_path / "in").rglob("*") if path.is_file()]

    assert [os.fsencode(path.relative_to(tmp_path / "in")) for path in found] == [written]
    assert len(files_below(tmp_path)) == 1


def test_logs_with_such_names_are_refused_too(liar: Liar, run: Run, tmp_path: Path) -> None:
    liar.names = ["user_logs/../../escaped"]

    with pytest.raises(UserErrorException, match="cannot be used"):
        run.get_all_logs(str(tmp_path / "in"))
    assert files_below(tmp_path) == []
