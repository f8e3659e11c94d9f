"""System metrics of a run: reads what its processes use every few seconds, and writes rates into a journal."""

from __future__ import annotations

import os
import threading
import time
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from runyard.core.machine.gpus import read_gpu_usage
from runyard.core.names import SYSTEM_METRICS
from runyard.core.specs import JobSpec
from runyard.supervisor.proc import descendants, list_processes
from runyard.supervisor.processes.killing import ControlGroup
from runyard.supervisor.run_folder import RunFolder
from runyard.supervisor.shipping.loops import ShippingLoop
from runyard.supervisor.shipping.own_journal import OwnJournal

MOST_PROCESSES = 256  # a reading of more would take too long; those that use most are rarely the last
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_MB = 1 << 20
FIRST_S = 2.0  # a run that ends earlier gets no samples
FIRST_RATE_S = 1.0  # between the first two readings


class Reading(NamedTuple):
    """Counters of the run's processes and of the machine's network at one moment."""

    at_s: float
    cpu_s: Dict[int, float]  # by process
    disk: Dict[int, Tuple[int, int]]  # bytes read and written, by process
    net: Tuple[int, int]  # bytes received and sent by this machine
    memory_bytes: int


def read_usage(pids: Sequence[int]) -> Reading:
    """Read the counters of these processes from /proc; processes that are gone are left out."""
    cpu_s: Dict[int, float] = {}
    disk: Dict[int, Tuple[int, int]] = {}
    memory = 0
    for pid in pids[:MOST_PROCESSES]:
        found = _cpu_and_memory(pid)
        if found is not None:
            cpu_s[pid] = found[0]
            memory += found[1]
            disk[pid] = _disk(pid)
    return Reading(time.monotonic(), cpu_s, disk, _network(), memory)


def rates(before: Reading, now: Reading) -> Dict[str, float]:
    """Return what was used between two readings. Processes that ended in between are left out."""
    seconds = max(now.at_s - before.at_s, 1e-3)
    cpu_s = sum(used - before.cpu_s.get(pid, 0.0) for pid, used in now.cpu_s.items())
    started = (0, 0)
    read = sum(count[0] - before.disk.get(pid, started)[0] for pid, count in now.disk.items())
    written = sum(count[1] - before.disk.get(pid, started)[1] for pid, count in now.disk.items())
    return {
        "cpu_percent": max(0.0, 100 * cpu_s / seconds),
        "memory_mb": now.memory_bytes / _MB,
        "disk_read_mb_s": max(0.0, read / _MB / seconds),
        "disk_write_mb_s": max(0.0, written / _MB / seconds),
        "net_received_mb_s": max(0.0, (now.net[0] - before.net[0]) / _MB / seconds),
        "net_sent_mb_s": max(0.0, (now.net[1] - before.net[1]) / _MB / seconds),
    }


def _cpu_and_memory(pid: int) -> Optional[Tuple[float, int]]:
    """Return CPU seconds, with those of collected children, and resident bytes; None when the process is gone."""
    data = _read(f"/proc/{pid}/stat")
    fields = data[data.rfind(b")") + 2 :].split()
    if len(fields) < 22 or fields[0] in (b"Z", b"X"):
        return None
    return sum(map(int, fields[11:15])) / _TICKS, int(fields[21]) * _PAGE


def _disk(pid: int) -> Tuple[int, int]:
    found = {b"read_bytes:": 0, b"write_bytes:": 0}
    for line in _read(f"/proc/{pid}/io").splitlines():
        name, _, value = line.partition(b" ")
        if name in found:
            found[name] = int(value)
    return found[b"read_bytes:"], found[b"write_bytes:"]


def _network() -> Tuple[int, int]:
    received = sent = 0
    for line in _read("/proc/net/dev").splitlines()[2:]:
        name, _, rest = line.partition(b":")
        fields: List[bytes] = rest.split()
        if name.strip() != b"lo" and len(fields) > 8:
            received += int(fields[0])
            sent += int(fields[8])
    return received, sent


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


class Sampling:
    """Samples system metrics in the thread `sample`, from the launch to the end; `every_s` 0: not at all."""

    def __init__(self, folder: RunFolder, job: JobSpec, *, ranks: Callable[[], List[int]], every_s: float) -> None:
        self._folder = folder
        self._ranks = ranks
        self._gpus = sorted({gpu for node in job.nodes for gpu in node.gpus})
        self._journal = OwnJournal(folder, job)
        self._before: Optional[Reading] = None
        self._is_over = threading.Event()
        self._loop = (
            ShippingLoop("sample", self._step, every_s=every_s, first_s=FIRST_S - FIRST_RATE_S) if every_s else None
        )

    def start(self) -> None:
        """Start the thread. Called once."""
        if self._loop is not None:
            self._loop.start()

    def stop(self) -> None:
        """Stop the thread and close the journal, before the end is reported."""
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
    """Return the pids of the run: the members of its cgroup, else its ranks and all below them."""
    path = folder.read_object("cgroup.json").get("path")
    members = ControlGroup(str(path)).members() if path else []
    if members:
        return sorted(members)
    entries = list_processes()
    found = set(ranks)
    for rank in ranks:
        found.update(entry.pid for entry in descendants(entries, rank))
    return sorted(found)


def gpu_values(chosen: Sequence[str]) -> Dict[str, float]:
    """Return utilization and memory of the run's GPUs; of all GPUs when the run was given none by name."""
    values: Dict[str, float] = {}
    for gpu in read_gpu_usage():
        if chosen and not {str(gpu.index), gpu.uuid} & set(chosen):
            continue
        if gpu.utilization_percent is not None:
            values[f"gpu_{gpu.index}_percent"] = gpu.utilization_percent
        if gpu.memory_used_bytes is not None:
            values[f"gpu_{gpu.index}_memory_mb"] = gpu.memory_used_bytes / _MB
    return values
