"""The time limit: counted from Running on CLOCK_BOOTTIME, kept across restarts of the supervisor."""

from __future__ import annotations

from runyard.core.machine.facts import boot_id
from runyard.supervisor.proc import boot_ns
from runyard.supervisor.run_folder import RunFolder


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
