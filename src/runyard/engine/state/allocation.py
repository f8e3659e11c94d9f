"""Slots and GPUs: which run holds which, and which run could start with the rest. Pure bookkeeping."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from enum import Enum

from runyard.engine.state.targets import Key, Target, Targets


class Stage(Enum):
    """How far a run's attempt is on its way to its target."""

    WAITING = "waiting"  # not handed to its target yet
    HANDING = "handing"
    HANDED = "handed"
    FENCED = "fenced"  # its attempt was given up and may still live


@dataclass(frozen=True)
class QueueEntry:
    """One unfinished run as the board keeps it. Times are of the monotonic clock."""

    run_id: str
    target: str
    launched: bool = True  # false: a run that we only watch; it takes no slot of its target
    stage: Stage = Stage.WAITING
    attempt: int = 0
    last_heard_at: float = 0.0  # monotonic time of the supervisor's last message, or of the hand-over
    has_reported: bool = False  # the supervisor has sent a message to this server process
    silent: bool = False  # shown as NotResponding
    gone_polls: int = 0  # polls in a row that found no such job
    cluster_gone: bool = False  # the supervisor says that the cluster's own process beside it is gone
    node0_ended: bool = False  # node 0 of a fenced attempt reported its end; other nodes may not have yet
    doubted_at: float = 0.0  # since when the cluster is asked why it killed the program
    wait_reason: str = ""  # why it waits in the cluster's queue, in the cluster's words
    adopted_at: float = 0.0
    retry_at: float = 0.0
    is_first: bool = False  # its attempt was begun just now: no earlier hand-over can have got through
    noted_shortage: str = ""  # the Shortage that was last noted with the run
    faults: int = 0
    fault: str = ""  # why it could not be handed over, in words
    workspace: str = ""
    parent: str = ""  # the run that submitted it
    nodes: int = 1
    slots: tuple[int, ...] = ()  # which slots of its target it has
    gpus: int = 0  # how many devices it is given when it starts
    shares_gpus: bool = False  # others may have them too
    devices: tuple[str, ...] = ()  # what it has; before the start what it named itself

    @property
    def owned_gpus(self) -> tuple[str, ...]:
        """The devices that nobody else gets meanwhile."""
        return self.devices if self.gpus and not self.shares_gpus else ()


class Shortage(Enum):
    """What a job that cannot start has too little of."""

    NOTHING = "nothing"
    TARGET = "target"  # it is gone, stopped, or smaller than the job
    SLOTS = "slots"
    GPUS = "gpus"
    TURN = "turn"  # there is room, and others are in front of it


@dataclass(frozen=True)
class Capacity:
    """What the allocator may give out."""

    targets: Targets
    devices: Callable[[], Sequence[str]]  # the machine's GPUs that runs may have
    closed: Callable[[Target], AbstractSet[int]] = lambda target: frozenset()  # slots whose machine does not answer


class Allocator:
    """Starts from the jobs that hold something; `place` jobs in the order of the queue.

    First come, first served at every target; among those that want GPUs also across targets. A job that finds no room
    keeps those behind it from passing, unless its target can never hold it. A run that submits a child mostly waits for
    it, so it lends its slots and GPUs to one child at a time: otherwise both could wait for ever.
    """

    def __init__(self, room: Capacity, holders: Iterable[QueueEntry]) -> None:
        self._room = room
        self._taken: dict[Key, set[int]] = defaultdict(set)
        self._owned: set[str] = set()  # GPUs that one run has for itself
        self._shared: Counter[str] = Counter()
        self._closed: set[Key] = set()
        self._gpus_are_due = False  # to a job in front
        self._holders: dict[str, QueueEntry] = {}
        self._lent: set[str] = set()  # runs whose child has what they have
        for job in holders:
            self._note(job)

    def place(self, job: QueueEntry) -> QueueEntry | None:
        """Return the job as it would start, with its nodes and GPUs; None when it must wait."""
        target = self._target(job)
        if target is not None and target.key in self._closed and job.launched and not job.parent:
            return None  # a queue may be long
        shortage, placed = self.look(job)
        if placed is not None:
            self._note(placed)
        elif shortage is not Shortage.TARGET:
            self._keep_turn(job, shortage)
        return placed

    def look(self, job: QueueEntry) -> tuple[Shortage, QueueEntry | None]:
        """Return what the job lacks, or how it would start. Changes nothing."""
        if not job.launched:
            return Shortage.NOTHING, replace(job, stage=Stage.HANDING)
        target = self._target(job)
        if target is None or target.is_stopped or target.slots_of(job.nodes) > _room_of(target):
            return Shortage.TARGET, None
        lender = self._find_lender(job)
        wanted, taken = target.slots_of(job.nodes), self._taken[target.key] - set(lender.slots if lender else ())
        taken = taken | self._room.closed(target)
        if len(taken) + wanted > _room_of(target):
            return Shortage.SLOTS, None
        devices = self._find_devices(job, lender)
        if devices is None:
            return Shortage.GPUS, None
        if target.key in self._closed and lender is None:
            return Shortage.TURN, None
        return Shortage.NOTHING, replace(job, stage=Stage.HANDING, slots=lowest_free(taken, wanted), devices=devices)

    def _keep_turn(self, job: QueueEntry, shortage: Shortage) -> None:
        target = self._target(job)
        assert target is not None
        if shortage is not Shortage.GPUS:
            self._closed.add(target.key)
            return
        taken = self._taken[target.key]
        taken |= set(lowest_free(taken, target.slots_of(job.nodes)))
        self._gpus_are_due = True

    def _note(self, job: QueueEntry) -> None:
        if not job.launched:
            return
        self._holders[job.run_id] = job
        self._lent.add(job.parent)
        target = self._target(job)
        if target is not None:
            self._taken[target.key] |= set(job.slots)
        self._owned.update(job.owned_gpus)
        self._shared.update(set(job.devices) - set(job.owned_gpus))

    def _find_lender(self, job: QueueEntry) -> QueueEntry | None:
        """Return the run that submitted this one, when it holds slots here and no other child has them."""
        parent = self._holders.get(job.parent)
        if parent is None or parent.run_id in self._lent or self._target(parent) != self._target(job):
            return None
        return parent

    def _find_devices(self, job: QueueEntry, lender: QueueEntry | None) -> tuple[str, ...] | None:
        """Return GPUs for the job, those first that nobody shares; one that wants others' company never waits."""
        if not job.gpus:
            return job.devices
        if lender is not None and len(lender.owned_gpus) >= job.gpus:
            return lender.owned_gpus[: job.gpus]
        if self._gpus_are_due and not job.shares_gpus:
            return None
        use = {device: self._shared[device] + (device in self._owned) for device in self._room.devices()}
        free = [device for device in use if job.shares_gpus or device not in self._owned]
        chosen = sorted(sorted(free, key=lambda device: use[device])[: job.gpus], key=list(use).index)
        return tuple(chosen) if len(chosen) == job.gpus else None

    def _target(self, job: QueueEntry) -> Target | None:
        return self._room.targets.find(job.workspace, job.target)


def lowest_free(taken: Iterable[int], count: int) -> tuple[int, ...]:
    """Return the `count` smallest numbers that nobody has."""
    held, number = set(taken), 0
    found: list[int] = []
    while len(found) < count:
        if number not in held:
            found.append(number)
        number += 1
    return tuple(found)


def _room_of(target: Target) -> float:
    return float("inf") if target.slots is None else target.slots
