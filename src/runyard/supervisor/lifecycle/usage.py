"""System metrics of a run: read every few seconds, written to a journal of the supervisor's own."""

from __future__ import annotations

import threading
from typing import Callable, Dict, List, Optional, Sequence

from runyard.core.machine.gpus import read_gpu_usage
from runyard.core.names import SYSTEM_METRICS
from runyard.core.specs import JobSpec
from runyard.supervisor.lifecycle.usage_part import Reading, rates, read_usage
from runyard.supervisor.proc import descendants, list_processes
from runyard.supervisor.processes.cgroups import Group
from runyard.supervisor.run_folder import RunFolder
from runyard.supervisor.shipping.loops import Loop
from runyard.supervisor.shipping.own_journal import OwnJournal

FIRST_S = 2.0  # a run that ends before is too short to be looked at
FIRST_RATE_S = 1.0  # over which the first rates are taken
_MB = 1 << 20


class Sampling:
    """`start` at the launch; `stop` before the end is reported. `every_s` 0: it does nothing."""

    def __init__(self, folder: RunFolder, job: JobSpec, *, ranks: Callable[[], List[int]], every_s: float) -> None:
        self._folder = folder
        self._ranks = ranks
        self._gpus = sorted({gpu for node in job.nodes for gpu in node.gpus})
        self._journal = OwnJournal(folder, job)
        self._before: Optional[Reading] = None
        self._is_over = threading.Event()
        self._loop = Loop("sample", self._step, every_s=every_s, first_s=FIRST_S - FIRST_RATE_S) if every_s else None

    def start(self) -> None:
        if self._loop is not None:
            self._loop.start()

    def stop(self) -> None:
        self._is_over.set()
        if self._loop is not None:
            self._loop.stop()
        self._journal.close()

    def _step(self) -> None:
        if self._before is None:
            self._before = self._read()
            self._is_over.wait(FIRST_RATE_S)
        if self._is_over.is_set():
            return
        before, self._before = self._before, self._read()
        values = {**rates(before, self._before), **gpu_values(self._gpus)}
        self._journal.add_numbers({SYSTEM_METRICS + name: value for name, value in values.items()})

    def _read(self) -> Reading:
        return read_usage(list_run_processes(self._folder, self._ranks()))


def list_run_processes(folder: RunFolder, ranks: Sequence[int]) -> List[int]:
    """Return the run's processes: the members of its cgroup, else all below its ranks."""
    path = folder.read_object("cgroup.json").get("path")
    members = Group(str(path)).members() if path else []
    if members:
        return sorted(members)
    entries = list_processes()
    found = set(ranks)
    for rank in ranks:
        found.update(entry.pid for entry in descendants(entries, rank))
    return sorted(found)


def gpu_values(chosen: Sequence[str]) -> Dict[str, float]:
    """Return utilisation and memory of the run's devices; of all when none were given to it by name."""
    values: Dict[str, float] = {}
    for gpu in read_gpu_usage():
        if chosen and not {str(gpu.index), gpu.uuid} & set(chosen):
            continue
        if gpu.utilization_percent is not None:
            values[f"gpu_{gpu.index}_percent"] = gpu.utilization_percent
        if gpu.memory_used_bytes is not None:
            values[f"gpu_{gpu.index}_memory_mb"] = gpu.memory_used_bytes / _MB
    return values
