"""Ends a run before its own end with TERM, grace and KILL, counts its time limit, and wakes its supervisor.

Reasons for a stop are cancel, fail, the time limit, a failed rank, a hang, a newer attempt, a lost lease, and a removed
run folder.
"""

from __future__ import annotations

import os
import select
import signal
from typing import Optional

from runyard.core.formats.documents import RunError
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
    """A decided stop, kept in `stop.json`, so that a restarted supervisor continues it."""

    reason: str
    since_boot_ns: int
    grace_s: float
    error: Optional[RunError] = None


class Stopping:
    """Carries out a stop step by step. Only the supervisor's main thread uses it; every step may be repeated."""

    def __init__(self, folder: RunFolder, keeper: ProcessOwner) -> None:
        self._folder = folder
        self._keeper = keeper
        known = folder.read_object("stop.json")
        self.stop: Optional[Stop] = from_plain(Stop, known) if known else None
        self._signalled = False
        self._killed = False

    def begin(self, reason: str, *, grace_s: float, error: Optional[RunError] = None) -> None:
        """Decide to stop. The first reason counts, except that any other reason replaces RANK_FAILED."""
        if self.stop is not None and not (self.stop.reason == RANK_FAILED and reason != RANK_FAILED):
            return
        since = self.stop.since_boot_ns if self.stop is not None else boot_ns()
        self.stop = Stop(reason, since, grace_s, error)
        try:
            self._folder.write("stop.json", to_plain(self.stop))
        except OSError:  # a full disk must not prevent a stop
            pass

    def advance(self) -> Optional[float]:
        """Send the signal that is due; return the seconds until the next step, None when there is none."""
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
        """Whether the grace has passed and KILL was ordered."""
        return self._killed


class TimeLimit:
    """The time limit of a run, counted from Running on CLOCK_BOOTTIME, also across restarts of the supervisor."""

    def __init__(self, folder: RunFolder, limit_s: float) -> None:
        self._folder = folder
        self._limit_s = limit_s
        self._since: int | None = None

    def begin(self) -> None:
        """Start to count, or continue the count that an earlier supervisor of this boot began."""
        known = self._folder.read_object("limits.json")
        if known.get("boot_id") == boot_id() and isinstance(known.get("running_since_boot_ns"), int):
            self._since = known["running_since_boot_ns"]
            return
        self._since = boot_ns()
        limits = {"running_since_boot_ns": self._since, "boot_id": boot_id(), "time_limit_s": self._limit_s}
        try:
            self._folder.write("limits.json", limits)
        except OSError:  # a full disk: only this supervisor knows the start
            pass

    def left_s(self) -> float:
        """Return the seconds left; infinity without a limit or before the start."""
        if self._since is None or self._limit_s <= 0:
            return float("inf")
        return self._limit_s - (boot_ns() - self._since) / 1e9


class Wake:
    """Lets the supervisor's main thread wait for the FIFO `wake`, its own threads, and `control.json`.

    Backends, rank shims and the program's journal writer ring the FIFO. It is opened for reading and writing, so it
    never reads as closed.
    """

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
        """Wake the main thread. Any thread of this process may call this; it never waits."""
        try:
            os.write(self._writer, b"\n")
        except BlockingIOError:
            pass

    def wait(self, also: Optional[int], timeout_s: float) -> None:
        """Wait for the FIFO, for `notify` or for the descriptor `also`, at most `timeout_s`."""
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
        """Return whether the FIFO was written to since the last call."""
        rung, self._rung = self._rung, False
        return rung

    def control_changed(self) -> bool:
        """Return whether `control.json` is there and changed since the last call."""
        try:
            changed = os.stat(self._folder.at("control.json")).st_mtime_ns
        except OSError:
            return False
        if changed == self._control:
            return False
        self._control = changed
        return True

    def desired(self) -> Optional[str]:
        """Return the desired state in `control.json`; usually None, as the file only says that the server has news."""
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
