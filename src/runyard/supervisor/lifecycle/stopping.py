"""Ending a run before its own end: cancel, fail, the time limit, a rank that failed. TERM, grace, KILL."""

from __future__ import annotations

import signal
from typing import Any, Dict, Optional

from runyard.core.formats.plain import from_plain, to_plain
from runyard.core.lazy_dataclass import dataclass
from runyard.supervisor.proc import boot_ns
from runyard.supervisor.processes.keeper import Keeper
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

    def __init__(self, folder: RunFolder, keeper: Keeper) -> None:
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
