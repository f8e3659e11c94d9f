"""Which rank holds the others up, from what every rank was seen to do. Pure."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import field
from typing import List, Optional, Sequence, Tuple

from runyard.core.lazy_dataclass import dataclass
from runyard.supervisor.diagnosis.stacks import Frame

IDLE_PERCENT = 5.0
OWN_FRAMES = 3  # of the user's code are looked at: a collective written by hand has its reads in functions of its own
LIBRARY_FRAMES = 8

# Functions in which a rank waits for others: of torch.distributed, horovod, mpi4py, TensorFlow, or written by hand.
_WAITS = re.compile(
    r"(?i)all_?reduce|all_?gather|reduce_scatter|all_?to_?all|\bbarrier|\bbcast|broadcast|rendezvous|init_process_group"
    r"|\bgather\b|\bscatter\b|\breduce\b|\brecv|recv\b|\baccept\b|synchroni[sz]e|wait_for_peers|DistributedDataParallel"
    r"|comm\.\w+\(|quick_execute|hvd\.\w+|join_process_group|sync_global"
)


@dataclass(frozen=True)
class RankView:
    """One rank, looked at several times in a row."""

    rank: int
    silent_s: float
    stacks: List[List[Frame]] = field(default_factory=list)  # main thread's, innermost first; empty: it did not answer
    cpu_percent: float = 0.0
    state: str = "S"  # as /proc shows it

    @property
    def is_stopped(self) -> bool:
        return self.state in "Tt"

    @property
    def is_idle(self) -> bool:
        return self.cpu_percent < IDLE_PERCENT

    @property
    def makes_progress(self) -> bool:
        """Whether it was seen in different functions. Lines are not compared: an endless loop has several."""
        return len({tuple((frame.file, frame.function) for frame in stack) for stack in self.stacks}) > 1


@dataclass(frozen=True)
class Judgement:
    first: int
    why: str  # what the first one does, or that it has ended
    waiting: List[int]  # those that wait for others


class Code(ABC):
    """What is known of the program's source."""

    @abstractmethod
    def is_own(self, frame: Frame) -> bool:
        """Whether the frame is of the user's code, not of a library."""

    @abstractmethod
    def line_of(self, frame: Frame) -> str: ...

    def own_frame(self, stack: Sequence[Frame]) -> Optional[Frame]:
        """Return the innermost frame of the user's own code."""
        return next((frame for frame in stack if self.is_own(frame)), None)


def judge(
    views: Sequence[RankView], *, ended: Sequence[int], code: Code, has_peers: bool = False
) -> Optional[Judgement]:
    """Return who holds the others up; None when it goes on, or when all of it is busy with work of its own.

    `ended`: ranks that have ended without an error. `has_peers`: there are more ranks that nobody here can look at, so
    when all wait, they wait for one of those.
    """
    answered = [view for view in views if view.stacks or view.is_stopped]
    if not answered or any(view.makes_progress for view in answered):
        return None
    waiting = [view for view in answered if _waits(view, code)]
    others = [view for view in answered if view not in waiting]
    if not waiting and not any(view.is_stopped or view.is_idle for view in others):
        return None
    if len(answered) == 1 and not ended and not answered[0].is_stopped and not answered[0].is_idle:
        return None  # one rank alone waits for nobody, whatever its functions are called
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
    """Say what a rank does: `it is idle in train.py line 3, main: `time.sleep(9)``."""
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
    """Return one of the fewest that wait at the same place; among equals who was silent first."""
    places = {view.rank: _place(view, code) for view in views}
    counts = Counter(places.values())
    return min(views, key=lambda view: (counts[places[view.rank]], -view.silent_s, view.rank))


def _place(view: RankView, code: Code) -> Tuple[str, int]:
    frame = code.own_frame(view.stacks[-1])
    return (frame.file, frame.line) if frame else ("", 0)
