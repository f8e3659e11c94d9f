"""A05: nobody makes us run code without a token, at none of our sockets."""

from __future__ import annotations

import ast
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import runyard
from runyard.core.config.paths import run_folder
from runyard.core.names import make_uuid
from tests.attacks.conftest import Team
from tests.conftest import belongs_to, live_pids

# Files that may open a listening socket: the server's own; the agent that mpirun reaches (a unix socket, 0700); a probe
# for free ports; the gateway of services; and the job of `runyard compute test`, whose nodes tell each other where they
# are.
LISTENERS = {
    "server/net/binding.py",
    "server/loop.py",
    "serving/gateway/__main__.py",
    "serving/gateway/keeper.py",
    "serving/gateway/process.py",
    "serving/standalone.py",  # the server of a package, which its user starts
    "supervisor/mpi/agent_server.py",
    "supervisor/lifecycle/layout.py",
    "sdk/compute/node_check.py",
}
LISTENING = {"listen", "create_server", "create_unix_server", "start_server", "start_unix_server", "serve_forever"}


def test_a05_nothing_starts_code_without_a_token(team: Team) -> None:
    run = {"key": make_uuid(), "id": "intruder", "workspace": "default", "experiment": "attacked"}
    body = json.dumps({"run": run})
    for wire in (team.wire, team.unix):
        for headers in ([], [("Authorization", "Bearer ")], team.bearer("ryt_" + "0" * 64), team.bearer("ryu_x")):
            answer = wire.send(
                "POST", "/api/v1/runs", headers=[*headers, ("Content-Type", "application/json")], body=body.encode()
            )
            assert answer.status in (401, 429)

    assert "intruder" not in [run.id for run in team.client.runs.list("default").runs]
    typed = [*team.bearer(), ("Content-Type", "application/json")]
    assert team.wire.send("POST", "/api/v1/runs", headers=typed, body=body.encode()).status == 422  # the control


def test_a05_every_socket_of_ours_is_loopback_or_in_a_private_folder(team: Team) -> None:
    """The control: the same look finds a socket of this process that everybody may reach."""
    unix, tcp = sockets_of(processes_of(team.home))

    assert tcp == {f"0100007F:{team.wire.port:04X}"}
    assert str(team.client.address.path) in unix
    for path in unix:
        assert path.startswith("@") or os.lstat(os.path.dirname(path)).st_mode & 0o077 == 0, path
    with socket.create_server(("0.0.0.0", 0)) as open_to_all:
        assert f"00000000:{open_to_all.getsockname()[1]:04X}" in sockets_of([os.getpid()])[1]


AS_NOBODY = """
import os, socket, sys
if sys.argv[1] == "nobody":
    os.setgroups([]), os.setgid(65534), os.setuid(65534)
for path in sys.argv[2:]:
    try:
        socket.socket(socket.AF_UNIX).connect(path)
        print("connected")
    except OSError as error:
        print(type(error).__name__)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a05_another_user_reaches_neither_the_server_nor_a_supervisors_socket(team: Team) -> None:
    """A supervisor listens in its run folder, for mpirun. The control: we reach both, and all a socket elsewhere."""
    place = run_folder(team.home, team.first.id, 1) / "agent"
    with listening_at(place), tempfile.TemporaryDirectory() as folder, listening_at(Path(folder, "s")):
        Path(folder).chmod(0o755)
        command = [sys.executable, "-c", AS_NOBODY]
        paths = [str(team.client.address.path), str(place), f"{folder}/s"]
        found = {who: subprocess.check_output([*command, who, *paths], text=True) for who in ("us", "nobody")}

    assert found["us"].split() == ["connected"] * 3
    assert found["nobody"].split() == ["PermissionError", "PermissionError", "connected"]


@contextmanager
def listening_at(path: Path) -> Iterator[None]:
    """A socket that its own mode opens to everybody."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        path.chmod(0o777)
        listener.listen()
        yield
    path.unlink()


def processes_of(home: Path) -> list[int]:
    found = [pid for pid in live_pids() if belongs_to(pid, home)]
    assert len(found) >= 2  # the server and the runs' supervisors
    return found


def sockets_of(pids: list[int]) -> tuple[set[str], set[str]]:
    """Return the paths of listening unix sockets and the addresses of listening TCP sockets."""
    inodes = set()
    for pid in pids:
        for entry in os.scandir(f"/proc/{pid}/fd"):
            try:
                inodes.add(os.readlink(entry.path))
            except OSError:
                continue
    unix = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    ours = [fields for fields in unix if len(fields) > 7 and f"socket:[{fields[6]}]" in inodes]
    listening = {fields[7] for fields in ours if fields[3] == "00010000"}  # __SO_ACCEPTCON
    tcp = [line.split() for kind in ("tcp", "tcp6") for line in Path(f"/proc/net/{kind}").read_text().splitlines()[1:]]
    return listening, {fields[1] for fields in tcp if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes}


def listeners_in(source: str) -> set[str]:
    if not any(f".{word}(" in source for word in LISTENING):
        return set()  # most files: not worth a parse
    calls = [node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return {call.attr for call in calls if isinstance(call, ast.Attribute)} & LISTENING


def test_a05_bridges_backends_and_supervisors_open_no_listener_of_their_own() -> None:
    root = Path(runyard.__file__).parent
    files = [path for path in root.rglob("*.py") if "testing" not in path.parts]
    found = {str(path.relative_to(root)) for path in files if listeners_in(path.read_text(encoding="utf-8"))}

    others = {"supervisor/gang/mpi_job.py", "server/routes/events.py"}  # call agent_server's, and listen to news
    assert found - others <= LISTENERS
    assert {"server/net/binding.py", "supervisor/mpi/agent_server.py"} <= found  # the look does find them
