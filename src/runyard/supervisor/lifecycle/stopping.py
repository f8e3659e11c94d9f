"""Ending a run before its own end: cancel, fail, the time limit, a rank that failed. TERM, grace, KILL.

The time limit: counted from Running on CLOCK_BOOTTIME, kept across restarts of the supervisor.

What can wake a waiting supervisor: the FIFO `wake`, its own threads, and `control.json`.
"""

from __future__ import annotations

import os
import select
import signal
from typing import Any, Dict, Optional

from runyard.core.formats.plain import from_plain, to_plain
from runyard.core.lazy_dataclass import dataclass
from runyard.core.machine.facts import boot_id
from runyard.supervisor.proc import boot_ns
from runyard.supervisor.processes.keeper import ProcessOwner
from runyard.supervisor.run_folder import RunFolder

CANCEL, FAIL, TIME_LIMIT, RANK_FAILED, SUPERSEDED = "cancel", "fail", "time limit", "rank failed", "superseded"
FOLDER_GONE, HANG, CUT_OFF = "folder gone", "hang", "cut off"


@dataclass(frozen=True)
class Stop:
    """A decided stop, kept in `stop.json` so that a restarted supervisor goes on with it."""

    reason: str
    since_boot_ns: int
    grace_s: float
    error: Optional[Dict[str, Any]] = None


class Stopping:
    """Walks a stop through its steps; every step may be repeated."""

    def __init__(self, folder: RunFolder, keeper: ProcessOwner) -> None:
        self._folder = folder
        self._keeper = keeper
        known = folder.read_object("stop.json")
        self.stop: Optional[Stop] = from_plain(Stop, known) if known else None
        self._signalled = False
        self._killed = False

    def begin(self, reason: str, *, grace_s: float, error: Optional[Dict[str, Any]] = None) -> None:
        """Decide to stop; the first reason counts, but a cancel takes the place of one that only waits for ranks."""
        if self.stop is not None and not (self.stop.reason == RANK_FAILED and reason != RANK_FAILED):
            return
        since = self.stop.since_boot_ns if self.stop is not None else boot_ns()
        self.stop = Stop(reason, since, grace_s, error)
        try:
            self._folder.write("stop.json", to_plain(self.stop))
        except OSError:  # a full disk must not keep us from stopping
            pass

    def advance(self) -> Optional[float]:
        """Do what is due; return the seconds until the next step, None when there is none."""
        if self.stop is None:
            return None
        if not self._signalled:
            self._signalled = True
            self._keeper.signal(signal.SIGTERM)
        left_s = self.stop.grace_s - (boot_ns() - self.stop.since_boot_ns) / 1e9
        if left_s > 0:
            return left_s
        if not self._killed:
            self._killed = True
            self._keeper.kill(grace_s=0.0)
        return None

    @property
    def had_to_kill(self) -> bool:
        return self._killed


class TimeLimit:
    def __init__(self, folder: RunFolder, limit_s: float) -> None:
        self._folder = folder
        self._limit_s = limit_s
        self._since: int | None = None

    def begin(self) -> None:
        """Start counting, or go on where an earlier supervisor of this boot began."""
        known = self._folder.read_object("limits.json")
        if known.get("boot_id") == boot_id() and isinstance(known.get("running_since_boot_ns"), int):
            self._since = known["running_since_boot_ns"]
            return
        self._since = boot_ns()
        limits = {"running_since_boot_ns": self._since, "boot_id": boot_id(), "time_limit_s": self._limit_s}
        try:
            self._folder.write("limits.json", limits)
        except OSError:  # a full disk: this supervisor counts on
            pass

    def left_s(self) -> float:
        if self._since is None or self._limit_s <= 0:
            return float("inf")
        return self._limit_s - (boot_ns() - self._since) / 1e9


class Wake:
    """The FIFO is opened for reading and writing, so it never reads as closed."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        try:
            os.mkfifo(folder.at("wake"), 0o600)
        except FileExistsError:
            pass
        self._fifo = os.open(folder.at("wake"), os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._rung = False
        self._control: Optional[int] = None

    def notify(self) -> None:
        """Called by other threads of this process."""
        try:
            os.write(self._writer, b"\n")
        except BlockingIOError:
            pass

    def wait(self, also: Optional[int], timeout_s: float) -> None:
        """Wait for any of these or the descriptor `also`, at most `timeout_s`."""
        poll = select.poll()
        for fd in (self._fifo, self._reader, also):
            if fd is not None:
                poll.register(fd, select.POLLIN)
        ready = {fd for fd, _ in poll.poll(max(0, int(timeout_s * 1000) + 1))}
        if self._fifo in ready:
            self._rung = True
            _drain(self._fifo)
        if self._reader in ready:
            _drain(self._reader)

    def was_rung(self) -> bool:
        """Whether somebody wrote to the FIFO since the last call."""
        rung, self._rung = self._rung, False
        return rung

    def control_changed(self) -> bool:
        """Whether `control.json` is there and new."""
        try:
            changed = os.stat(self._folder.at("control.json")).st_mtime_ns
        except OSError:
            return False
        if changed == self._control:
            return False
        self._control = changed
        return True

    def desired(self) -> Optional[str]:
        """Return what `control.json` itself asks for; usually it only says that the server knows something new."""
        if self._control is None:
            return None
        value = self._folder.read_object("control.json").get("desired")
        return value if value in ("cancel", "fail") else None


def _drain(fd: int) -> None:
    try:
        while os.read(fd, 4096):
            pass
    except BlockingIOError:
        pass
