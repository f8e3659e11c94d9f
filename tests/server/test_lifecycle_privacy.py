"""One running server, looked at from outside: what others could reach, read or have planted (A45, A77, A79)."""

from __future__ import annotations

import os
import re
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from runyard.client.client import Client
from runyard.client.private_server import find
from tests.server.private import (
    holder_of,
    is_alive,
    listening_addresses,
    mode_of,
    python_prints,
    settings_of,
    stop,
    variables_of,
)

ASK_FOR_PID = """
import os
os.umask(0)
from runyard.client.private_server import connect
from runyard.core.config.settings import read_settings
print(connect(read_settings()).server.info().pid)
"""
HOSTILE = {
    "BASH_ENV": "/tmp/evil",
    "PYTHONSTARTUP": "/tmp/evil.py",
    "PYTHONWARNINGS": "ignore",
    "GIT_SSH_COMMAND": "evil",
    "AWS_SECRET_ACCESS_KEY": "canary",
    "LD_AUDIT": "",
    "LD_PRELOAD": "",
    "RUNYARD_TOKEN": "canary",
}


class Running(NamedTuple):
    home: Path
    pid: int
    client: Client


@pytest.fixture(scope="module")
def running(session_folder: Path) -> Iterator[Running]:
    """A server that a process with umask 0 and hostile variables started."""
    home = Path(tempfile.mkdtemp(prefix="p", dir=session_folder))
    home.rmdir()
    pid = int(python_prints(ASK_FOR_PID, RUNYARD_HOME=str(home), **HOSTILE))
    client = find(settings_of(home))
    assert client is not None
    yield Running(home, pid, client)
    stop(home)


@pytest.mark.long
def test_only_its_owner_reaches_its_socket_and_files(running: Running) -> None:
    path = str(running.client.address.path)
    files = [entry for entry in (running.home / "server").iterdir() if entry.is_file()]

    assert stat.S_ISSOCK(os.lstat(path).st_mode)
    assert (mode_of(path), mode_of(os.path.dirname(path))) == (0o600, 0o700)
    assert len(path.encode()) <= 107
    assert (mode_of(running.home), mode_of(running.home / "server")) == (0o700, 0o700)
    assert {entry.name for entry in files} >= {"token", "lock", "server.log", "runyard.db"}
    assert {mode_of(entry) for entry in files} == {0o600}


def test_its_token_has_256_random_bits(running: Running) -> None:
    assert re.fullmatch(r"ryt_[0-9a-f]{64}\n", (running.home / "server/token").read_text())


def test_its_token_is_in_no_argument_variable_or_log(running: Running) -> None:
    token = (running.home / "server/token").read_bytes().strip()

    assert token not in Path(f"/proc/{running.pid}/cmdline").read_bytes()
    assert token not in Path(f"/proc/{running.pid}/environ").read_bytes()
    assert token not in (running.home / "server/server.log").read_bytes()
    assert token not in b"".join(path.read_bytes() for path in (running.home / "server").glob("runyard.db*"))


def test_it_listens_on_loopback_and_unix_sockets_only(running: Running) -> None:
    found = list(listening_addresses(running.pid))

    assert [address for address, _ in found] == ["127.0.0.1"]
    assert running.client.server.info().url == f"http://127.0.0.1:{found[0][1]}"


def test_the_lock_names_host_boot_and_process(running: Running) -> None:
    ticks = int(Path(f"/proc/{running.pid}/stat").read_bytes().rpartition(b")")[2].split()[19])

    assert holder_of(running.home) == {
        "host": socket.gethostname(),
        "boot_id": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        "pid": running.pid,
        "start_ticks": ticks,
        "socket": running.client.address.path,
    }


def test_nothing_of_the_starters_variables_reaches_it(running: Running) -> None:
    variables = variables_of(running.pid)

    assert not set(HOSTILE) & set(variables)
    assert variables["RUNYARD_HOME"] == str(running.home)
    assert os.readlink(f"/proc/{running.pid}/cwd") == "/"
    assert os.readlink(f"/proc/{running.pid}/fd/0") == "/dev/null"
    assert os.readlink(f"/proc/{running.pid}/fd/2") == str(running.home / "server/server.log")


def test_it_is_nobodys_child_and_has_a_session_of_its_own(running: Running) -> None:
    fields = Path(f"/proc/{running.pid}/stat").read_bytes().rpartition(b")")[2].split()
    parent, session = int(fields[1]), int(fields[3])

    assert parent != os.getpid()
    assert session != os.getsid(0)


def test_another_login_session_finds_the_same_server(running: Running, tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    pid = python_prints(ASK_FOR_PID, RUNYARD_HOME=str(running.home), XDG_RUNTIME_DIR=str(tmp_path))

    assert int(pid) == running.pid


def test_a_second_server_leaves_quietly(running: Running) -> None:
    command = [sys.executable, "-m", "runyard.server", "--home", str(running.home)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)

    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert is_alive(running.pid)


def test_the_token_file_alone_opens_it(running: Running) -> None:
    address = running.client.address
    code = """
import sys
from runyard.client.client import Client
from runyard.client.transport import Transport
from runyard.client.address import Address
print(Client(Transport(Address("unix", path=sys.argv[1], token="ryt_" + "0" * 64))).server.info())
"""
    result = subprocess.run(
        [sys.executable, "-c", code, str(address.path)], capture_output=True, text=True, timeout=30, check=False
    )

    assert result.returncode == 1
    assert "NotAuthenticated" in result.stderr
    assert address.token not in result.stderr
