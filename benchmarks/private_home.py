"""A home of its own for a benchmark: a fresh private server, gone with everything it started when the block ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Iterator, List


@contextlib.contextmanager
def private_home() -> Iterator[Path]:
    """Set RUNYARD_HOME to a temporary folder; afterwards stop its server and end what is left of it."""
    before = os.environ.get("RUNYARD_HOME")
    # Bytecode that is never written would be compiled in every run, which no user's machine does.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory(prefix="ry-", ignore_cleanup_errors=True) as folder:
        os.environ["RUNYARD_HOME"] = folder
        try:
            yield Path(folder)
        finally:
            command = [sys.executable, "-m", "runyard.cli", "server", "stop"]
            subprocess.run(command, check=False, capture_output=True, timeout=60)
            end_processes_of(folder)
            if before is None:
                del os.environ["RUNYARD_HOME"]
            else:
                os.environ["RUNYARD_HOME"] = before


def pids_of(home: str) -> List[int]:
    """Return the processes, other than this one, whose RUNYARD_HOME is `home`."""
    entry = b"RUNYARD_HOME=" + os.fsencode(home)
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError):
                if entry in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                    found.append(int(name))
    return found


def end_processes_of(home: str, *, patience_s: float = 10.0) -> None:
    deadline = time.monotonic() + patience_s
    while pids_of(home) and time.monotonic() < deadline:
        time.sleep(0.05)
    for pid in pids_of(home):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
