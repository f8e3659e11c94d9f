"""Notices that a run is silent, probes its ranks, and reports which rank holds the others up.

Silence means no new bytes in logs and journals. Then `Probe` takes the stacks of all ranks several times, `judge`
decides from these views, and `HangReport` makes the run's error and the file of stacks.
"""

from __future__ import annotations

import os
import re
import time
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import field
from typing import TYPE_CHECKING, Dict, List, Mapping, Optional, Sequence, Tuple, cast

from runyard.core.lazy_dataclass import dataclass
from runyard.core.specs import JobSpec
from runyard.supervisor.diagnosis.causes import HANG
from runyard.supervisor.diagnosis.diagnosis import DEFAULT_LOG, facts_of, name_ranks, place_of, process_of
from runyard.supervisor.diagnosis.stacks import (
    Frame,
    cpu_seconds,
    list_rank_processes,
    main_stack,
    read_line,
    take_stacks,
)
from runyard.supervisor.proc import ProcessEntry
from runyard.supervisor.run_folder import RunFolder

if TYPE_CHECKING:
    from runyard.core.formats.documents import ErrorDetails, EvidenceLine, RankFacts, RunError
    from runyard.core.formats.run_files import LaunchPlan, RankExit

IDLE_PERCENT = 5.0
OWN_FRAMES = 3  # of the user's code that are checked: a hand-written collective reads in functions of its own
LIBRARY_FRAMES = 8

# Functions in which a rank waits for others: of torch.distributed, horovod, mpi4py, TensorFlow, or written by hand.
_WAITS = re.compile(
    r"(?i)all_?reduce|all_?gather|reduce_scatter|all_?to_?all|\bbarrier|\bbcast|broadcast|rendezvous|init_process_group"
    r"|\bgather\b|\bscatter\b|\breduce\b|\brecv|recv\b|\baccept\b|synchroni[sz]e|wait_for_peers|DistributedDataParallel"
    r"|comm\.\w+\(|quick_execute|hvd\.\w+|join_process_group|sync_global"
)
STACKS_FILE = "diagnosis-stacks.txt"
PROBES = 3  # before a judgement, about a second apart
PROBE_EVERY_S = 1.0
_WRITER = re.compile(r"r(\d+)-")


@dataclass(frozen=True)
class RankView:
    """What one rank did during several probes in a row."""

    rank: int
    silent_s: float
    stacks: List[List[Frame]] = field(default_factory=list)  # of the main thread, innermost first; empty: no answer
    cpu_percent: float = 0.0
    state: str = "S"  # the letter in /proc

    @property
    def is_stopped(self) -> bool:
        """Whether the process is stopped by a signal or a debugger."""
        return self.state in "Tt"

    @property
    def is_idle(self) -> bool:
        """Whether the rank used almost no CPU time."""
        return self.cpu_percent < IDLE_PERCENT

    @property
    def makes_progress(self) -> bool:
        """Whether it was seen in different functions. Lines are not compared, because an endless loop has several."""
        return len({tuple((frame.file, frame.function) for frame in stack) for stack in self.stacks}) > 1


@dataclass(frozen=True)
class Judgement:
    """Which rank holds the others up: `first`."""

    first: int
    why: str  # what that rank does, or that it has ended
    waiting: List[int]  # ranks that wait for others


class Code(ABC):
    """What is known about the program's source code."""

    @abstractmethod
    def is_own(self, frame: Frame) -> bool:
        """Return whether the frame belongs to the user's code, not to a library."""

    @abstractmethod
    def line_of(self, frame: Frame) -> str:
        """Return the source line of a frame, "" when it cannot be read."""
        ...

    def own_frame(self, stack: Sequence[Frame]) -> Optional[Frame]:
        """Return the innermost frame of the user's code."""
        return next((frame for frame in stack if self.is_own(frame)), None)


def judge(
    views: Sequence[RankView], *, ended: Sequence[int], code: Code, has_peers: bool = False
) -> Optional[Judgement]:
    """Return which rank holds the others up; None when the run makes progress or all ranks are busy.

    `ended`: ranks that have ended without an error. `has_peers`: the job has ranks on other nodes, so when all ranks
    here wait, they may wait for one of those. Pure.
    """
    answered = [view for view in views if view.stacks or view.is_stopped]
    if not answered or any(view.makes_progress for view in answered):
        return None
    waiting = [view for view in answered if _waits(view, code)]
    others = [view for view in answered if view not in waiting]
    if not waiting and not any(view.is_stopped or view.is_idle for view in others):
        return None
    if len(answered) == 1 and not ended and not answered[0].is_stopped and not answered[0].is_idle:
        return None  # a single rank waits for no other, whatever its functions are called
    names = sorted(view.rank for view in waiting)
    if others:
        first = min(others, key=lambda view: (not view.is_stopped, -view.silent_s, view.rank))
        return Judgement(first.rank, describe_view(first, code), names)
    if has_peers:
        return None
    if ended:
        return Judgement(min(ended), "it has ended, without an error", names)
    first = _odd_one(waiting, code)
    return Judgement(first.rank, describe_view(first, code), [rank for rank in names if rank != first.rank])


def describe_view(view: RankView, code: Code) -> str:
    """Return what a rank does: `it is idle in train.py line 3, main: `time.sleep(9)``."""
    if view.is_stopped:
        return "it is stopped (SIGSTOP)"
    how = "idle" if view.is_idle else "busy"
    frame = code.own_frame(view.stacks[-1]) if view.stacks else None
    if frame is None:
        return f"it is {how}"
    text = code.line_of(frame)
    return f"it is {how} in {os.path.basename(frame.file)} line {frame.line}{f', `{text}`' if text else ''}"


def _waits(view: RankView, code: Code) -> bool:
    if view.is_stopped or not view.stacks:
        return False
    stack = view.stacks[-1]
    own = [index for index, frame in enumerate(stack) if code.is_own(frame)][:OWN_FRAMES]
    inner = stack[: own[-1] + 1] if own else stack[:LIBRARY_FRAMES]
    if any(_WAITS.search(frame.function) for frame in inner):
        return True
    return bool(own and _WAITS.search(code.line_of(stack[own[0]])))


def _odd_one(views: Sequence[RankView], code: Code) -> RankView:
    """Return a rank of the smallest group that waits at the same place; among equals the one that was silent first."""
    places = {view.rank: _place(view, code) for view in views}
    counts = Counter(places.values())
    return min(views, key=lambda view: (counts[places[view.rank]], -view.silent_s, view.rank))


def _place(view: RankView, code: Code) -> Tuple[str, int]:
    frame = code.own_frame(view.stacks[-1])
    return (frame.file, frame.line) if frame else ("", 0)


class WorkCode(Code):
    """Takes the code in the work folder as the user's."""

    def __init__(self, folder: RunFolder) -> None:
        self._root = os.path.realpath(folder.at("work")) + os.sep
        self._lines: Dict[Frame, str] = {}

    def is_own(self, frame: Frame) -> bool:
        """Return whether the frame's file lies in the work folder."""
        return os.path.realpath(os.path.join(self._root, frame.file)).startswith(self._root)

    def line_of(self, frame: Frame) -> str:
        """Return the source line of a frame; each is read once."""
        if frame not in self._lines:
            self._lines[frame] = read_line(frame._replace(file=os.path.join(self._root, frame.file)))
        return self._lines[frame]


class Probe:
    """One probe: the processes of each rank, their stacks, and the CPU time that they have used."""

    def __init__(self, cookie: str) -> None:
        self.ranks = list_rank_processes(cookie)
        everybody = [entry for entries in self.ranks.values() for entry in entries]
        self.at = time.monotonic()
        self.cpu_s = {entry.pid: cpu_seconds(entry.pid) for entry in everybody}
        self.stacks = take_stacks(everybody)

    def chosen(self, rank: int, code: Code) -> Optional[ProcessEntry]:
        """Return the process to judge the rank by: a stopped one, one in the user's code, else one that answered."""
        entries = self.ranks.get(rank, [])
        stopped = [entry for entry in entries if entry.state in "Tt"]
        answered = [entry for entry in entries if entry.pid in self.stacks]
        own = [entry for entry in answered if code.own_frame(main_stack(self.stacks[entry.pid]))]
        return next(iter([*stopped, *own, *answered, *entries]), None)


def list_views(probes: Sequence[Probe], silences: Mapping[int, float], code: Code) -> List[RankView]:
    """Return what each rank did during the probes."""
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


class HangReport:
    """Turns a judgement into texts."""

    def __init__(self, job: JobSpec, launch: LaunchPlan, code: Code, views: Sequence[RankView]) -> None:
        self._job = job
        self._launch = launch
        self._code = code
        self._views = views
        self._is_one = len([one for one in launch.get("processes", ()) if one["rank"] >= 0]) < 2

    def stacks(self, probe: Probe) -> str:
        """Return the content of `diagnosis-stacks.txt`."""
        parts = []
        for view in self._views:
            silent = f"silent for {view.silent_s:.0f} s, {view.cpu_percent:.0f} % CPU"
            parts.append(f"{self._name(view.rank)}, {silent}: {describe_view(view, self._code)}\n")
            for entry in probe.ranks.get(view.rank, ()):
                stacks = probe.stacks.get(entry.pid, "no Python stacks\n")
                parts.append(f"process {entry.pid}, state {entry.state}\n{stacks}\n")
        return "\n".join(parts)

    def error(self, found: Judgement, *, limit_s: float, stacks: str) -> RunError:
        """Return the run's error; `stacks` is the text in which its evidence is found."""
        process = process_of(self._launch, found.first)
        details: ErrorDetails = {
            **cast("ErrorDetails", facts_of(found.first, process, self._job)),
            "kind": HANG,
            "log": str(process.get("log") or DEFAULT_LOG),
            "evidence": self._evidence(found, stacks),
            "consequences": [self._consequence(rank) for rank in found.waiting],
            "stacks": STACKS_FILE,
            "silent_s": {str(view.rank): round(view.silent_s, 1) for view in self._views},
        }
        return {"code": "RunHangs", "message": "\n".join(self._message(found, limit_s)), "details": details}

    def _message(self, found: Judgement, limit_s: float) -> List[str]:
        silent = f"Nothing was written to a log and no metric was logged for {limit_s:g} s."
        who = "The program" if self._is_one else f"{self._name(found.first)} holds the others up"
        lines = [f"User program seems to hang. {silent}", f"{who}: {found.why}."]
        if found.waiting and not self._is_one:
            lines.append(self._about_waiting(found.waiting))
        return [*lines, f"The stacks of all ranks are in the run's file {STACKS_FILE}."]

    def _about_waiting(self, waiting: Sequence[int]) -> str:
        one = next(view for view in self._views if view.rank == waiting[0])
        frame = self._code.own_frame(one.stacks[-1])
        line = f", `{self._code.line_of(frame)}`" if frame else ""
        place = f" in {os.path.basename(frame.file)} line {frame.line}{line}" if frame else ""
        return f"{name_ranks(waiting)} {'waits' if len(waiting) == 1 else 'wait'}{place}."

    def _evidence(self, found: Judgement, stacks: str) -> List[EvidenceLine]:
        """Return the lines of the stacks file that show where the rank is."""
        lines = stacks.splitlines()
        head = next(
            (index for index, line in enumerate(lines) if line.startswith(f"{self._name(found.first)}, ")), None
        )
        if head is None:
            return []
        chosen = [head]
        view = next((view for view in self._views if view.rank == found.first), None)
        frame = self._code.own_frame(view.stacks[-1]) if view and view.stacks else None
        if frame is not None:
            text = f'"{frame.file}", line {frame.line} in '
            chosen += [index for index in range(head, len(lines)) if text in lines[index]][:1]
        return [{"file": STACKS_FILE, "line": index + 1, "text": lines[index]} for index in chosen]

    def _consequence(self, rank: int) -> RankFacts:
        return {**facts_of(rank, process_of(self._launch, rank), self._job), "why": "waits for another rank"}

    def _name(self, rank: int) -> str:
        return f"Rank {rank}{place_of(facts_of(rank, process_of(self._launch, rank), self._job))}"


@dataclass(frozen=True)
class Hang:
    """A run that makes no progress: its error and the stacks of all its ranks."""

    error: RunError
    stacks: str


class HangWatch:
    """Watches one run for silence. The supervisor's main thread calls `step` about once a second.

    Signs of life are new bytes in logs and journals; no process is disturbed before `limit_s` of silence. `limit_s` 0:
    it never probes.
    """

    def __init__(self, folder: RunFolder, job: JobSpec, *, limit_s: float) -> None:
        self._folder = folder
        self._job = job
        self._limit_s = limit_s
        self._sizes: Dict[str, int] = {}
        self._signs: Dict[int, float] = {}  # when each rank last wrote something
        self._last_sign = time.monotonic()
        self._probes: List[Probe] = []
        self._next_probe = 0.0

    def step(self, launch: LaunchPlan, exits: Sequence[RankExit]) -> Optional[Hang]:
        """Return a hang, once per silence; None otherwise. A probe can take a second."""
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
        # A busy run is probed again after another silence; a hang is reported once.
        self._next_probe = now + self._limit_s if found is None else float("inf")
        return found

    def _look_for_signs(self, launch: LaunchPlan) -> None:
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

    def _written_files(self, launch: LaunchPlan) -> List[Tuple[str, int]]:
        processes = [one for one in launch.get("processes", ()) if one["rank"] >= 0]
        found = [(self._folder.at(str(one.get("log") or DEFAULT_LOG)), int(one["rank"])) for one in processes]
        try:
            names = os.listdir(self._folder.at("journal"))
        except OSError:
            names = []
        writers = [(name, _WRITER.match(name)) for name in names if name.endswith(".journal")]
        return found + [(self._folder.at("journal", name), int(match.group(1))) for name, match in writers if match]

    def _judge(self, probes: Sequence[Probe], launch: LaunchPlan, exits: Sequence[RankExit]) -> Optional[Hang]:
        code = WorkCode(self._folder)
        silences = {rank: time.monotonic() - at for rank, at in self._signs.items()}
        views = list_views(probes, silences, code)
        ended = [int(one["rank"]) for one in exits if one.get("code") == 0 and one["rank"] >= 0]
        # Parameter servers wait for ever by design.
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


def _nobody_started(launch: LaunchPlan, limit_s: float) -> Optional[Hang]:
    """Return the hang of a launcher that started no rank; None when the ranks need no launcher."""
    helper = next((one for one in launch.get("processes", ()) if one["rank"] < 0), None)
    if helper is None:
        return None
    message = f"{helper['role']} has not started a rank in {limit_s:g} s. What it said is in {helper['log']}."
    details: ErrorDetails = {"rank": helper["rank"], "role": helper["role"], "kind": HANG, "log": helper["log"]}
    return Hang(
        {"code": "RunHangs", "message": message, "details": {**details, "evidence": [], "consequences": []}}, ""
    )
