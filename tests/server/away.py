"""A private server that is away for a while: killed, and not to be started again before the block ends."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from runyard.client.private_server import find, runtime_folder
from runyard.core.config.settings import read_settings
from tests.conftest import is_zombie
from tests.waiting import wait_for


@contextmanager
def server_away() -> Iterator[None]:
    """Kill the server of RUNYARD_HOME. Whoever would start it again waits for the lock of those who start it."""
    settings = read_settings()
    with open(runtime_folder(settings) / "start.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        client = find(settings)
        assert client is not None, "no server runs"
        pid = client.server.info().pid
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not os.path.exists(f"/proc/{pid}") or is_zombie(pid))
        yield
