"""A private server as a user has one: its own process, found and looked at from outside."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from runyard.client.client import Client
from runyard.client.private_server import ensure, find
from runyard.client.transport import Transport
from runyard.core.config.settings import Settings, read_settings
from tests.waiting import wait_for


def settings_of(home: Path, **variables: str) -> Settings:
    return read_settings({**os.environ, "RUNYARD_HOME": str(home), **variables})


def start(home: Path, **variables: str) -> Client:
    """Have a server running and return a plain client of it: one that would not start it again."""
    return Client(Transport(ensure(settings_of(home, **variables))))


def python_prints(code: str, cwd: Path | None = None, **variables: str) -> str:
    """Return what a fresh Python process with these variables prints."""
    result = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **variables},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def mode_of(path: Path | str) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)


def pid_of(client: Client) -> int:
    return client.server.info().pid


def holder_of(home: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((home / "server/lock").read_text())
    return found


def log_of(home: Path) -> str:
    return (home / "server/server.log").read_text()


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not is_alive(pid))


def stop(home: Path) -> None:
    client = find(settings_of(home))
    if client is not None:
        pid = pid_of(client)
        client.server.stop()
        wait_for(lambda: not is_alive(pid))


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except OSError:
        return False
    return state not in (b"Z", b"X")


def variables_of(pid: int) -> dict[str, str]:
    items = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return dict(item.decode("utf-8", "replace").split("=", 1) for item in items if b"=" in item)


def listening_addresses(pid: int) -> Iterator[tuple[str, int]]:
    """Yield (address, port) of every TCP socket that a process listens on, IPv6 ones with their raw hex address."""
    inodes = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            inodes.add(os.readlink(f"/proc/{pid}/fd/{name}"))
        except OSError:
            continue
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                address, _, port = fields[1].partition(":")
                yield _dotted(address), int(port, 16)


def _dotted(address: str) -> str:
    if len(address) != 8:
        return address
    return ".".join(str(byte) for byte in reversed(bytes.fromhex(address)))
