"""The seam `ComputeBackend`: start supervisors on machines, and report the state of their jobs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from runyard.core.specs import JobSpec


class JobState(str, Enum):
    """The state of a job, as its backend sees it."""

    WAITING = "waiting"  # not started yet by the target
    ALIVE = "alive"  # a supervisor or reaper lives
    ORPHANED = "orphaned"  # processes of the job may live, no supervisor does: `adopt` it
    GONE = "gone"  # nothing of it lives; if the run has no end yet, it is lost
    UNKNOWN = "unknown"


class Cause(str, Enum):
    """Why no process of a job lives any more, as its cluster reports it."""

    UNKNOWN = ""
    ENDED = "ended"  # by itself
    NODE_LOST = "node lost"
    PREEMPTED = "preempted"
    TIME_LIMIT = "time limit"
    CANCELED = "canceled"  # by a command to the cluster
    REFUSED = "refused"  # the cluster will never start it


@dataclass(frozen=True)
class JobReport:
    """The state of a job."""

    state: JobState
    why: str = ""  # in the cluster's own words: why a waiting job waits, or how a job that is gone ended
    cause: Cause = Cause.UNKNOWN  # of a job that is gone


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
    script: str = ""  # the text that the cluster is given, if any: an sbatch script
    resources: dict[str, Any] = field(default_factory=dict)  # what the cluster is asked for, in its own words
    is_first: bool = False  # this attempt cannot have been submitted before, so the cluster need not be asked


@dataclass(frozen=True)
class JobHandle:
    """Names a started job for good, across restarts of the server."""

    run_id: str
    attempt: int
    external_writer: int = 0  # of the job that watches a process which is no part of the run (`local` only)


@dataclass(frozen=True)
class ClusterNode:
    """A machine of a target, as its cluster knows it."""

    name: str
    address: str = ""
    state: str = ""  # the cluster's word: idle, alive, down …
    cpus: float = 0
    gpus: float = 0
    memory_bytes: int = 0
    note: str = ""  # why it cannot be used
    host_key: str = ""  # fingerprints of the keys that it must show, over SSH


class ComputeBackend(ABC):
    """Starts supervisors on machines. Calls may be repeated; threads share one instance.

    `poll`, `adopt` and `cancel` return at once: what takes long happens in a thread of the backend's own. `submit` and
    `end` may take as long as the cluster does, at most half a minute.
    """

    @abstractmethod
    def plan(self, job: JobSpec) -> JobRequest:
        """Return what would be submitted. Changes nothing.

        Raises:
            SubmitRejected: the job asks for something this backend cannot give.
        """

    @abstractmethod
    def submit(self, request: JobRequest) -> JobHandle:
        """Start the job. Submitting the same attempt again never starts its code twice."""

    @abstractmethod
    def poll(self, handles: Sequence[JobHandle]) -> Mapping[JobHandle, JobReport]:
        """Return the state of the jobs, with one query to the cluster for all of them."""

    @abstractmethod
    def adopt(self, handle: JobHandle) -> None:
        """Start a supervisor for an orphaned job; do nothing when one lives."""

    @abstractmethod
    def cancel(self, handle: JobHandle) -> None:
        """Take a job that has not started out of the cluster's queue. A job that runs is told at once that the run's
        desired state changed, where that is possible; the answer to its next request tells it too.
        """

    def end(self, handle: JobHandle) -> None:  # noqa: B027  # most have nothing to give back
        """Give back all that the cluster holds for this attempt, and kill its remaining processes. Called when the run
        has ended, or when the attempt must not go on.
        """

    @abstractmethod
    def close(self) -> None:
        """End spare processes. Started jobs go on."""


class Attachable(ABC):
    """A backend for machines that Runyard does not manage: it can tell whether they are there."""

    @abstractmethod
    def check(self) -> str:
        """Return one line about the cluster that was found.

        Raises:
            UserError: the cluster cannot be used; the error has a hint.
        """

    @abstractmethod
    def list_nodes(self) -> list[ClusterNode]:
        """Ask the cluster now. Raises SystemFailure when it does not answer."""


class HasPlaces(ABC):
    """A backend whose slots on machines are given out by the package `engine`, as `JobSpec.places`."""

    @abstractmethod
    def closed_places(self) -> frozenset[int]:
        """Return at once the places that no run should get now, because their machine does not answer."""


class ReachesBack(ABC):
    """A backend whose machines can test the connection to the server, before a run needs it."""

    @abstractmethod
    def check_reach(self, server: Mapping[str, Any]) -> None:
        """`server`: `client.address.Address` as a dict, as nodes get it.

        Raises:
            UserError: a machine cannot reach the server; the error has a hint.
        """
