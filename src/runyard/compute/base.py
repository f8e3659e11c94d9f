"""The seam `ComputeBackend`: gets supervisors started on machines and tells what became of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from runyard.core.specs import JobSpec


class JobState(str, Enum):
    WAITING = "waiting"  # not started yet by the target
    ALIVE = "alive"  # a supervisor or reaper lives
    ORPHANED = "orphaned"  # processes of the job may live, no supervisor does: `adopt` it
    GONE = "gone"  # nothing of it lives; if the run has no end yet, it is lost
    UNKNOWN = "unknown"


class Cause(str, Enum):
    """Why nothing of a job lives any more, as the engine that had it says."""

    UNKNOWN = ""
    ENDED = "ended"  # by itself
    NODE_LOST = "node lost"
    PREEMPTED = "preempted"
    TIME_LIMIT = "time limit"
    CANCELED = "canceled"  # somebody told the engine to
    REFUSED = "refused"  # the engine will never start it


@dataclass(frozen=True)
class JobReport:
    """How a job stands."""

    state: JobState
    why: str = ""  # in the engine's own words: what a waiting job waits for, what became of one that is gone
    cause: Cause = Cause.UNKNOWN  # of one that is gone


@dataclass(frozen=True)
class JobRequest:
    """What would be started: `runyard submit --dry-run` prints this. `argv` runs once per node."""

    run_id: str
    attempt: int
    target: str
    node_count: int
    argv: list[str]
    run_folder: str
    job: JobSpec
    script: str = ""  # what the engine is given, where that is a text: an sbatch script
    resources: dict[str, Any] = field(default_factory=dict)  # what the engine is asked for, in its own words
    is_first: bool = False  # nobody can have submitted this attempt before, so the engine need not be asked


@dataclass(frozen=True)
class JobHandle:
    """Names a started job for good, across restarts of the server."""

    run_id: str
    attempt: int


@dataclass(frozen=True)
class ClusterNode:
    """A machine of a target, as its engine knows it."""

    name: str
    address: str = ""
    state: str = ""  # the engine's word: idle, alive, down …
    cpus: float = 0
    gpus: float = 0
    memory_bytes: int = 0
    note: str = ""  # why it cannot be used
    host_key: str = ""  # fingerprints of the keys that it must show, over SSH


class ComputeBackend(ABC):
    """Starts supervisors on machines. Calls may be repeated; threads share one instance.

    `poll`, `adopt` and `cancel` return at once: what takes long happens in a thread of the backend's own. `submit` and
    `end` may take as long as the engine does, at most half a minute.
    """

    @abstractmethod
    def plan(self, job: JobSpec) -> JobRequest:
        """Return what would be submitted. Touches nothing.

        Raises:
            SubmitRejected: the job asks for something this backend cannot give.
        """

    @abstractmethod
    def submit(self, request: JobRequest) -> JobHandle:
        """Start it. Submitting the same attempt again never starts its code twice."""

    @abstractmethod
    def poll(self, handles: Sequence[JobHandle]) -> Mapping[JobHandle, JobReport]:
        """Return how the jobs stand, from one question to the engine for all of them."""

    @abstractmethod
    def adopt(self, handle: JobHandle) -> None:
        """Start a supervisor for an orphaned job; a live one makes this a no-op."""

    @abstractmethod
    def cancel(self, handle: JobHandle) -> None:
        """Take a job that has not started out of the engine's queue. One that runs is told at once that the run's
        desired state changed, where that is possible; its next word to the server tells it too.
        """

    def end(self, handle: JobHandle) -> None:  # noqa: B027  # most have nothing to give back
        """Give back all that the engine holds for this attempt, and kill what is left of it there. Called when the run
        has ended, or when the attempt must not go on.
        """

    @abstractmethod
    def close(self) -> None:
        """Let go of spare processes. Started jobs go on."""


class Attachable(ABC):
    """A backend whose machines somebody else runs: it can say whether they are there."""

    @abstractmethod
    def check(self) -> str:
        """Return one line about the engine that was found.

        Raises:
            UserError: it cannot be used, with what to do.
        """

    @abstractmethod
    def list_nodes(self) -> list[ClusterNode]:
        """Ask the engine now. Raises SystemFailure when it does not answer."""


class HasPlaces(ABC):
    """A backend whose machines' places the engine gives out: `JobSpec.places`."""

    @abstractmethod
    def closed_places(self) -> frozenset[int]:
        """Return, at once, those that no run should be given now: their machine does not answer."""


class ReachesBack(ABC):
    """A backend that can have each of its machines try to reach the server, before a run needs it."""

    @abstractmethod
    def check_reach(self, server: Mapping[str, Any]) -> None:
        """`server`: `client.address.Address` as a dict, as nodes get it.

        Raises:
            UserError: one of them does not, with what to do.
        """
