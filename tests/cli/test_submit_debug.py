"""`runyard submit --debug`: a debugger that speaks DAP stops the run at a breakpoint of the user's own file."""

from __future__ import annotations

import json
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import runyard
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("shared_home")


class Debugger:
    """As much of the Debug Adapter Protocol as an editor speaks to stop once."""

    def __init__(self, port: int) -> None:
        self._socket = wait_for(lambda: connected(port), timeout_s=60)
        self._file = self._socket.makefile("rb")
        self._sent = 0

    def send(self, command: str, **arguments: Any) -> None:
        self._sent += 1
        message = {"seq": self._sent, "type": "request", "command": command, "arguments": arguments}
        body = json.dumps(message).encode()
        self._socket.sendall(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))

    def wait(self, name: str) -> dict[str, Any]:
        """Return the event, or the answer to the request, of this name."""
        while True:
            length = 0
            while line := self._file.readline().strip():
                if line.lower().startswith(b"content-length:"):
                    length = int(line.partition(b":")[2])
            message: dict[str, Any] = json.loads(self._file.read(length))
            if name in (message.get("event"), message.get("command")):
                return message

    def close(self) -> None:
        self._file.close()
        self._socket.close()


def connected(port: int) -> socket.socket | None:
    try:
        return socket.create_connection(("127.0.0.1", port), timeout=60)
    except OSError:
        return None


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@pytest.mark.long
def test_a_breakpoint_in_the_own_folder_stops_the_run(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import sys\nsecret = int(sys.argv[1]) * 2\nprint('secret', secret)\n")
    port = free_port()
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(runyard, "submit", "--debug", str(port), "train.py", "--", "21", cwd=tmp_path)
        debugger = Debugger(port)
        debugger.send("initialize", adapterID="python", pathFormat="path")
        debugger.wait("initialize")
        debugger.send("attach", pathMappings=[{"localRoot": str(tmp_path), "remoteRoot": "."}])
        debugger.wait("initialized")
        debugger.send("setBreakpoints", source={"path": str(script)}, breakpoints=[{"line": 3}])
        assert debugger.wait("setBreakpoints")["body"]["breakpoints"][0]["verified"]
        debugger.send("configurationDone")
        thread = debugger.wait("stopped")["body"]["threadId"]
        debugger.send("stackTrace", threadId=thread)
        frame = debugger.wait("stackTrace")["body"]["stackFrames"][0]
        debugger.send("evaluate", expression="secret", frameId=frame["id"])
        value = debugger.wait("evaluate")["body"]["result"]
        debugger.send("continue", threadId=thread)
        result: subprocess.CompletedProcess[str] = ended.result(60)
        debugger.close()

    assert (value, frame["line"], frame["source"]["path"]) == ("42", 3, str(script))
    assert result.returncode == 0, result.stderr
    assert "secret 42\n" in result.stdout
    assert f'"port": {port}' in result.stderr and f'"localRoot": "{tmp_path}"' in result.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--", "ls"), "--debug goes with a Python script or a module."),
        (("--processes", "2", "train.py"), "--debug goes with one process, and this job has 2."),
    ],
    ids=["a command", "two processes"],
)
def test_what_cannot_be_debugged_is_refused(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    (tmp_path / "train.py").touch()
    result = runyard("submit", "--debug", "5678", "--dry-run", *words, cwd=tmp_path)

    assert result.returncode != 0
    assert message in result.stderr
