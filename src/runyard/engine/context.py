"""What the engine's functions share: where runs are stored, what the engine remembers, and whom it tells.

`Engine` makes one `EngineContext` and hands it, or parts of it, to the functions of this package.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from runyard.artifacts.base import ArtifactStore
from runyard.compute.base import ComputeBackend, JobHandle
from runyard.core.config.settings import Settings
from runyard.core.records import Run
from runyard.core.statuses import RunStatus
from runyard.engine.state.allocation import QueueEntry
from runyard.engine.state.backends import Backends, ComputeSecrets
from runyard.engine.state.board import Board
from runyard.engine.state.clock import Clock, SystemClock
from runyard.engine.state.gang_board import GangBoard
from runyard.engine.state.gpus import Gpus
from runyard.engine.state.nodes import ClusterNodes, IdleNodes
from runyard.engine.state.releases import CallThreads, PendingRelease, ReleaseQueue
from runyard.engine.state.spool import Spool
from runyard.engine.state.targets import Targets
from runyard.runtime.bundle import Bundles
from runyard.store.base import RunStore

if TYPE_CHECKING:
    from runyard.engine.sweeps.journal import SweepState

_STRIPES = 64
BEFORE_START = (RunStatus.NOT_STARTED, RunStatus.QUEUED)


class RunLocks:
    """Two reentrant locks per run, each taken from a fixed set, so two runs may share one.

    A thread that needs both takes `of_shipments` first.
    """

    def __init__(self) -> None:
        self._of_runs = [threading.RLock() for _ in range(_STRIPES)]
        self._of_shipments = [threading.RLock() for _ in range(_STRIPES)]

    def of_run(self, run_id: str) -> threading.RLock:
        """Return the lock to hold while a run is dispatched, retried or ended."""
        return self._of_runs[hash(run_id) % _STRIPES]

    def of_shipments(self, run_id: str) -> threading.RLock:
        """Return the lock to hold while a run's logs and journals are stored or deleted."""
        return self._of_shipments[hash(run_id) % _STRIPES]


def ignore_run(run_id: str) -> None:
    """Do nothing: the default of callbacks that get a run's id."""


def ignore() -> None:
    """Do nothing: the default of callbacks without an argument."""


@dataclass(frozen=True)
class EngineEvents:
    """What the engine signals, to its own loop and to the server.

    Callbacks are called on the thread that made the change, sometimes under the run's lock: they must not wait.
    """

    on_change: Callable[[str], None] = ignore_run  # a run's status or wait reason changed
    on_log: Callable[[str], None] = ignore_run  # a run's log grew
    hold_snapshot: Callable[[str], None] = ignore_run  # a run will name this snapshot: do not collect it
    check_snapshot: Callable[[str], None] = ignore_run  # raises if the content of this root tree is damaged
    on_delete: Callable[[], None] = ignore  # a run is about to be deleted for good
    on_hide: Callable[[], None] = ignore  # a run was soft-deleted and can be restored for a while
    wake: threading.Event = field(default_factory=threading.Event)  # the loop has something to do


@dataclass(frozen=True)
class Addresses:
    """How processes of a run reach this server, and the code that nodes of a cluster fetch from it.

    The addresses are `client.address.Address` as dictionaries.
    """

    local: Mapping[str, Any]  # for processes on this machine
    for_nodes: Mapping[str, Any] | None  # for other machines; None: they cannot reach this server
    bundles: Bundles  # our code as an archive


@dataclass(frozen=True)
class ComputeState:
    """The compute targets of all workspaces, their backends, and the calls to clusters that are under way.

    Every part is thread-safe.
    """

    targets: Targets
    backends: Backends
    secrets: ComputeSecrets
    nodes: ClusterNodes
    gpus: Gpus
    threads: CallThreads
    idle: IdleNodes = field(default_factory=IdleNodes)
    releases: ReleaseQueue = field(default_factory=ReleaseQueue)

    def backend(self, workspace: str, target: str) -> ComputeBackend:
        """Return the backend that starts runs on that target.

        Raises:
            SubmitRejected: the workspace has no target of that name.
            UserError: the target's cluster cannot be set up here.
        """
        return self.backends.of(self.targets.get(workspace, target))

    def is_local(self, run: Run) -> bool:
        """Whether the run's processes are on this machine. A target that was deleted counts as this machine."""
        target = self.targets.find(run.workspace, run.spec.target)
        return target is None or target.is_local


@dataclass(frozen=True)
class EngineContext:
    """The engine's stores, memory and signals. Every part is thread-safe and lives as long as the engine.

    The store holds the truth; `board`, `gangs` and `sweeps` are rebuilt from it when the server starts. A change to a
    run's attempt or end is made under `locks.of_run`.
    """

    settings: Settings
    store: RunStore
    artifacts: ArtifactStore
    spool: Spool  # what a run needs to start and no database may hold
    compute: ComputeState
    addresses: Addresses
    board: Board  # unfinished runs: the queue, and what each one holds
    gangs: GangBoard  # what the nodes of multi-node runs tell each other
    clock: Clock = field(default_factory=SystemClock)
    events: EngineEvents = field(default_factory=EngineEvents)
    locks: RunLocks = field(default_factory=RunLocks)
    sweeps: dict[str, SweepState | None] = field(default_factory=dict)  # live ones; None: read the journal again

    def ended(self, run: Run) -> None:
        """Clean up after a run that has just ended, so that runs behind it can start.

        Called on any thread, with or without the run's lock. It may be repeated.
        """
        job = self.board.remove(run.id)
        if job is not None:
            self.compute.idle.note_release(job, self.clock.now())
        self.release(run, done=lambda: self.spool.remove(run.id))
        self.events.on_change(run.id)
        self.gangs.forget(run.id)
        self.events.wake.set()

    def release(self, run: Run, *, done: Callable[[], None] = ignore) -> None:
        """Have the cluster free what it holds for the run's present attempt, then call `done`.

        The loop does it soon, on another thread; for a run on this machine `done` is called at once. May be repeated.
        """
        if run.attempt == 0 or self.compute.is_local(run):
            return done()
        workspace, target = run.workspace, run.spec.target
        handle = JobHandle(run.id, run.attempt)
        release = PendingRelease(handle, target, lambda: self.compute.backend(workspace, target), done)
        self.compute.releases.add(release)
        self.events.wake.set()


def handle_of(job: QueueEntry) -> JobHandle:
    """Return the handle by which a backend knows the entry's present attempt."""
    return JobHandle(job.run_id, job.attempt)


def is_launched(run: Run) -> bool:
    """Whether this server starts the run's processes. It does not for sweeps and for runs that log from outside."""
    return bool(run.spec.script or run.spec.command) and run.spec.sweep is None
