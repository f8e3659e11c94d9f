"""The seam `ComputeBackend`: gets supervisors started on machines and tells what became of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from runyard.core.specs import JobSpec


class JobState(str, Enum):
    WAITING = "waiting"  # not started yet by the target
    ALIVE = "alive"  # a supervisor or reaper lives
    ORPHANED = "orphaned"  # processes of the job may live, no supervisor does: `adopt` it
    GONE = "gone"  # nothing of it lives; if the run has no end yet, it is lost
    UNKNOWN = "unknown"


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


@dataclass(frozen=True)
class JobHandle:
    """Names a started job for good, across restarts of the server."""

    run_id: str
    attempt: int


class ComputeBackend(ABC):
    """Starts supervisors on machines. Calls return at once and may be repeated; threads share one instance."""

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
    def poll(self, handles: Sequence[JobHandle]) -> Mapping[JobHandle, JobState]: ...

    @abstractmethod
    def adopt(self, handle: JobHandle) -> None:
        """Start a supervisor for an orphaned job; a live one makes this a no-op."""

    @abstractmethod
    def cancel(self, handle: JobHandle) -> None:
        """Tell the supervisor at once that the run's desired state changed; its next heartbeat tells it too."""

    @abstractmethod
    def close(self) -> None:
        """Let go of spare processes. Started jobs go on."""
