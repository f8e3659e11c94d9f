"""Notices that a run has fallen silent, looks at what its ranks do, and says who holds the others up."""

from __future__ import annotations

import os
import re
import time
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from runyard.core.lazy_dataclass import dataclass
from runyard.core.specs import JobSpec
from runyard.supervisor.diagnosis.causes import HANG
from runyard.supervisor.diagnosis.hang_judge import judge
from runyard.supervisor.diagnosis.hang_probe import Probe, WorkCode, list_views
from runyard.supervisor.diagnosis.hang_report import HangReport
from runyard.supervisor.diagnosis.rank_ends import DEFAULT_LOG
from runyard.supervisor.run_folder import RunFolder

PROBES = 3  # looks at the stacks, a second or so apart
PROBE_EVERY_S = 1.0
_WRITER = re.compile(r"r(\d+)-")


@dataclass(frozen=True)
class Hang:
    """A run that does not go on: the error that tells of it, and the stacks of all its ranks."""

    error: Dict[str, Any]
    stacks: str


class HangWatch:
    """Call `step` about once a second. Signs of life are bytes in logs and journals; nobody is asked before silence.

    `limit_s` 0: it never looks.
    """

    def __init__(self, folder: RunFolder, job: JobSpec, *, limit_s: float) -> None:
        self._folder = folder
        self._job = job
        self._limit_s = limit_s
        self._sizes: Dict[str, int] = {}
        self._signs: Dict[int, float] = {}  # when a rank last wrote something
        self._last_sign = time.monotonic()
        self._probes: List[Probe] = []
        self._next_probe = 0.0

    def step(self, launch: Mapping[str, Any], exits: Sequence[Mapping[str, Any]]) -> Optional[Hang]:
        """Return a hang, once per silence; None while there is none."""
        if not self._limit_s:
            return None
        self._look_for_signs(launch)
        now = time.monotonic()
        if now - self._last_sign < self._limit_s or now < self._next_probe:
            return None
        self._probes.append(Probe(self._job.cookie))
        self._next_probe = now + PROBE_EVERY_S
        if len(self._probes) < PROBES:
            return None
        probes, self._probes = self._probes, []
        found = self._judge(probes, launch, exits)
        # What works on silently is worth another look after a while; a hang is told of once.
        self._next_probe = now + self._limit_s if found is None else float("inf")
        return found

    def _look_for_signs(self, launch: Mapping[str, Any]) -> None:
        now = time.monotonic()
        for path, rank in self._written_files(launch):
            try:
                size = os.stat(path).st_size
            except OSError:
                continue
            if self._sizes.get(path) != size:
                self._sizes[path] = size
                self._signs[rank] = self._last_sign = now
                self._probes, self._next_probe = [], 0.0

    def _written_files(self, launch: Mapping[str, Any]) -> List[Tuple[str, int]]:
        processes = [one for one in launch.get("processes", ()) if one["rank"] >= 0]
        found = [(self._folder.at(str(one.get("log") or DEFAULT_LOG)), int(one["rank"])) for one in processes]
        try:
            names = os.listdir(self._folder.at("journal"))
        except OSError:
            names = []
        writers = [(name, _WRITER.match(name)) for name in names if name.endswith(".journal")]
        return found + [(self._folder.at("journal", name), int(match.group(1))) for name, match in writers if match]

    def _judge(
        self, probes: Sequence[Probe], launch: Mapping[str, Any], exits: Sequence[Mapping[str, Any]]
    ) -> Optional[Hang]:
        code = WorkCode(self._folder)
        silences = {rank: time.monotonic() - at for rank, at in self._signs.items()}
        views = list_views(probes, silences, code)
        ended = [int(one["rank"]) for one in exits if one.get("code") == 0 and one["rank"] >= 0]
        # Parameter servers wait for ever: that is their work.
        servers = {one["rank"] for one in launch.get("processes", ()) if not one.get("counts", True)}
        if not views and not any(one["rank"] >= 0 for one in exits):
            return _nobody_started(launch, self._limit_s)
        looked_at = [view for view in views if view.rank not in servers or view.is_stopped]
        found = judge(looked_at, ended=ended, code=code, has_peers=self._job.is_gang)
        if found is None:
            return None
        report = HangReport(self._job, launch, code, views)
        stacks = report.stacks(probes[-1])
        return Hang(report.error(found, limit_s=self._limit_s, stacks=stacks), stacks)


def _nobody_started(launch: Mapping[str, Any], limit_s: float) -> Optional[Hang]:
    """Return a hang of the launcher; None when there is none that starts the ranks."""
    helper = next((one for one in launch.get("processes", ()) if one["rank"] < 0), None)
    if helper is None:
        return None
    message = f"{helper['role']} has not started a rank in {limit_s:g} s. What it said is in {helper['log']}."
    details = {"rank": helper["rank"], "role": helper["role"], "kind": HANG, "log": helper["log"]}
    return Hang(
        {"code": "RunHangs", "message": message, "details": {**details, "evidence": [], "consequences": []}}, ""
    )
