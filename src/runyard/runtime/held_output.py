"""Hold what a program prints while the disk of its log is full. Loaded only then.

The output waits in memory, up to a limit, and is written in order as soon as there is space. At the exit the rest goes
into the supervisor's folder in memory. `journal/waiting` counts the bytes that a kill would lose.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from runyard.core.machine.disk import NO_SPACE, OUTPUT
from runyard.runtime.appender import wake
from runyard.runtime.overflow import OverflowTally, find_folder

LIMIT_BYTES = 16 << 20
_EXIT_S = 5.0
_PART_BYTES = 1 << 20


class HeldOutput:
    """Takes the place of the disk for one raw stream, which calls `write` under its own lock, until the disk takes
    bytes again. `log`: the file's name below `user_logs`.

    The stream says by `is_leaving` that the process is about to end.
    """

    def __init__(self, raw: Any, run_folder: str, *, log: str, code: int) -> None:
        self._raw = raw
        self._run_folder = run_folder
        self._log = log
        self._code = code
        self._bytes = bytearray()
        self._lost = 0
        self._deadline = 0.0
        self._seen_to = 0
        self._forget()
        if hasattr(os, "register_at_fork"):  # Windows has no fork
            os.register_at_fork(after_in_child=self._forget)
        wake(run_folder)

    def write(self, data: Any) -> int:
        """Keep the bytes and try to write all that wait; return how many were given, as if they had been written."""
        size = len(data)
        self._see_to_workers()
        if len(self._bytes) + size > LIMIT_BYTES:
            self._lost += size
        else:
            self._bytes += data
        if self._raw.is_leaving:
            self.finish()
        else:
            self._flush()
        return size

    def finish(self) -> None:
        """At the exit: wait a while for space, or for the folder in memory."""
        self._deadline = self._deadline or time.monotonic() + _EXIT_S
        self._flush()
        while self._bytes and time.monotonic() < self._deadline:
            time.sleep(0.05)
            self._flush()

    def _see_to_workers(self) -> None:
        """Processes of multiprocessing leave without atexit."""
        workers: Any = sys.modules.get("multiprocessing.util")
        if getattr(workers, "_exiting", False):  # it flushes the streams last of all
            self._raw.is_leaving = True
        elif workers is not None and self._seen_to != os.getpid():
            self._seen_to = os.getpid()
            workers.Finalize(None, self._leave, exitpriority=0)

    def _leave(self) -> None:
        self._raw.is_leaving = True
        self.finish()

    def _flush(self) -> None:
        try:
            while self._bytes:
                del self._bytes[: os.write(self._raw.fileno(), self._bytes[:_PART_BYTES])]
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            if self._raw.is_leaving:
                self._spill()
        else:
            self._raw.held = None
        self._tally.write(self._code, waiting=len(self._bytes), lost=self._lost)

    def _spill(self) -> None:
        folder = find_folder(self._run_folder)
        if folder is None:
            return
        try:
            os.makedirs(f"{folder}/user_logs", mode=0o700, exist_ok=True)
            path = f"{folder}/user_logs/{self._log}.{os.getpid()}"
            with open(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600), "ab") as file:
                file.write(self._bytes)
            self._bytes.clear()
        except OSError:  # that one is full too: it stays counted
            pass

    def _forget(self) -> None:
        """In a forked child: what waits is the parent's."""
        self._bytes = bytearray()
        self._lost = 0
        self._tally = OverflowTally(self._run_folder, f"{OUTPUT}{os.getpid()}-{self._raw.fileno()}")
