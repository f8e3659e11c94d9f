"""What all parts of the engine work with."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

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

_STRIPES = 64
BEFORE_START = (RunStatus.NOT_STARTED, RunStatus.QUEUED)


class RunLocks:
    """A lock per run, from a fixed set: who hands a run over, ends it or ships for it does so alone."""

    def __init__(self) -> None:
        self._locks = [threading.RLock() for _ in range(_STRIPES)]

    def __call__(self, run_id: str) -> threading.RLock:
        return self._locks[hash(run_id) % _STRIPES]


def ignore_run(run_id: str) -> None:
    """Nobody listens for changes."""


def ignore() -> None:
    """Nobody listens for deletes."""


@dataclass(frozen=True)
class EngineContext:
    settings: Settings
    store: RunStore
    artifacts: ArtifactStore
    backends: Backends
    secrets: ComputeSecrets
    cluster_nodes: ClusterNodes
    address: Mapping[str, Any]
    spool: Spool
    targets: Targets
    gpus: Gpus
    board: Board
    bundles: Bundles  # our code, for nodes of a cluster
    node_address: Mapping[str, Any] | None = None  # how other machines reach this server; None: they cannot
    gangs: GangBoard = field(default_factory=GangBoard)
    idle: IdleNodes = field(default_factory=IdleNodes)
    locks: RunLocks = field(default_factory=RunLocks)
    shipping: RunLocks = field(default_factory=RunLocks)
    clock: Clock = field(default_factory=SystemClock)
    on_change: Callable[[str], None] = ignore_run  # a run's status moved, or what it waits for
    on_log: Callable[[str], None] = ignore_run  # a run's log grew
    hold_snapshot: Callable[[str], None] = ignore_run  # a run is about to name this snapshot: it must stay
    check_snapshot: Callable[[str], None] = ignore_run  # raises where the content of this root tree is damaged
    on_delete: Callable[[], None] = ignore  # a run is about to be deleted for good
    on_hide: Callable[[], None] = ignore  # a run was deleted, and can be restored for a while
    sweeps: dict[str, Any] = field(default_factory=dict)  # live sweeps: run id → what sweeps.py knows of it
    wake: threading.Event = field(default_factory=threading.Event)  # the loop has something to do
    threads: CallThreads = field(default_factory=CallThreads)  # for calls to engines that may hang
    releases: ReleaseQueue = field(default_factory=ReleaseQueue)

    def backend(self, workspace: str, target: str) -> ComputeBackend:
        """Return who starts runs on that target.

        Raises:
            SubmitRejected: the workspace has no target of that name.
            UserError: the target's engine cannot be set up here.
        """
        return self.backends.of(self.targets.get(workspace, target))

    def is_local(self, run: Run) -> bool:
        """Whether the run's processes are on this machine."""
        target = self.targets.find(run.workspace, run.spec.target)
        return target is None or target.is_local

    def ended(self, run: Run) -> None:
        """Take a finished run off the board; whoever waited behind it may start."""
        job = self.board.remove(run.id)
        if job is not None:
            self.idle.note_release(job, self.clock.now())
        self.release(run, done=lambda: self.spool.remove(run.id))
        self.on_change(run.id)
        self.gangs.forget(run.id)
        self.wake.set()

    def release(self, run: Run, *, done: Callable[[], None] = ignore) -> None:
        """Have the engine let go of the run's present attempt soon, then `done`; at once where there is no engine."""
        if run.attempt == 0 or self.is_local(run):
            return done()
        workspace, target = run.workspace, run.spec.target
        handle = JobHandle(run.id, run.attempt)
        self.releases.add(PendingRelease(handle, target, lambda: self.backend(workspace, target), done))
        self.wake.set()


def handle_of(job: QueueEntry) -> JobHandle:
    return JobHandle(job.run_id, job.attempt)


def is_launched(run: Run) -> bool:
    """Whether we start the run's processes; otherwise somebody else's process reports about itself."""
    return bool(run.spec.script or run.spec.command) and run.spec.sweep is None
