"""One look at what all ranks of a run do, and several looks put together."""

from __future__ import annotations

import os
import time
from typing import Dict, List, Mapping, Optional, Sequence

from runyard.supervisor.diagnosis.hang_judge import Code, RankView
from runyard.supervisor.diagnosis.rank_processes import cpu_seconds, list_rank_processes
from runyard.supervisor.diagnosis.stacks import Frame, main_stack, read_line, take_stacks
from runyard.supervisor.proc import ProcessEntry
from runyard.supervisor.run_folder import RunFolder


class WorkCode(Code):
    """The code in the work folder is the user's."""

    def __init__(self, folder: RunFolder) -> None:
        self._root = os.path.realpath(folder.at("work")) + os.sep
        self._lines: Dict[Frame, str] = {}

    def is_own(self, frame: Frame) -> bool:
        return os.path.realpath(os.path.join(self._root, frame.file)).startswith(self._root)

    def line_of(self, frame: Frame) -> str:
        if frame not in self._lines:
            self._lines[frame] = read_line(frame._replace(file=os.path.join(self._root, frame.file)))
        return self._lines[frame]


class Probe:
    """One look: the processes of each rank, their stacks and the CPU time that they have used."""

    def __init__(self, cookie: str) -> None:
        self.ranks = list_rank_processes(cookie)
        everybody = [entry for entries in self.ranks.values() for entry in entries]
        self.at = time.monotonic()
        self.cpu_s = {entry.pid: cpu_seconds(entry.pid) for entry in everybody}
        self.stacks = take_stacks(everybody)

    def chosen(self, rank: int, code: Code) -> Optional[ProcessEntry]:
        """Return the rank's own process: a stopped one, one in the user's code, else the first that answered."""
        entries = self.ranks.get(rank, [])
        stopped = [entry for entry in entries if entry.state in "Tt"]
        answered = [entry for entry in entries if entry.pid in self.stacks]
        own = [entry for entry in answered if code.own_frame(main_stack(self.stacks[entry.pid]))]
        return next(iter([*stopped, *own, *answered, *entries]), None)


def list_views(probes: Sequence[Probe], silences: Mapping[int, float], code: Code) -> List[RankView]:
    """Return what each rank was seen to do."""
    views = []
    for rank in sorted(probes[-1].ranks):
        entry = probes[-1].chosen(rank, code)
        if entry is None:
            continue
        stacks = [main_stack(probe.stacks[entry.pid]) for probe in probes if entry.pid in probe.stacks]
        views.append(
            RankView(
                rank=rank,
                silent_s=silences.get(rank, 0.0),
                stacks=[stack for stack in stacks if stack],
                cpu_percent=_cpu_percent(probes, rank),
                state=entry.state,
            )
        )
    return views


def _cpu_percent(probes: Sequence[Probe], rank: int) -> float:
    first, last = probes[0], probes[-1]
    pids = [entry.pid for entry in last.ranks.get(rank, ()) if entry.pid in first.cpu_s]
    used_s = sum(last.cpu_s[pid] - first.cpu_s[pid] for pid in pids)
    return 100 * used_s / max(last.at - first.at, 0.01)
