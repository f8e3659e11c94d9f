"""The engine: decides what happens next to every run. Synchronous; shared between the server's threads."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from runyard.artifacts.aside import ASIDE
from runyard.artifacts.base import ArtifactStore
from runyard.core.config.paths import server_folder
from runyard.core.config.settings import Settings
from runyard.core.errors import Conflict, StoreUnavailable
from runyard.core.formats.frames import Frame
from runyard.core.machine.gpus import Gpu, list_gpus
from runyard.core.records import NewRun, Run
from runyard.core.specs import JobSpec
from runyard.engine import deletes
from runyard.engine.context import Addresses, ComputeState, EngineContext, EngineEvents, ignore, ignore_run
from runyard.engine.deletes import Deleted, Purging, archive
from runyard.engine.ingest.effects import Writer, add_writer
from runyard.engine.ingest.ship import ShipAnswer, ShipmentReceiver, ShipmentSource
from runyard.engine.loop import Loop
from runyard.engine.runs import control, liveness, reports, schedule
from runyard.engine.runs.events import RunHost, list_hosts
from runyard.engine.runs.join import GangAnswer, Join, NodeWord, hear_node, join, look
from runyard.engine.runs.plan import RunPlan, plan_of, plan_run
from runyard.engine.runs.reports import StateReport
from runyard.engine.runs.resubmit import ResubmitRequest, own_variables, resubmit_request
from runyard.engine.runs.submit import ExternalProcess, Submitted, register_external_run, submit
from runyard.engine.runs.wait_reasons import explain_run
from runyard.engine.state.allocation import Capacity
from runyard.engine.state.backends import (
    BackendFactory,
    Backends,
    BackendsByKind,
    ComputeSecrets,
    load_backend,
    open_backends,
)
from runyard.engine.state.board import Board
from runyard.engine.state.clock import Clock, SystemClock
from runyard.engine.state.gang_board import GangBoard
from runyard.engine.state.gpus import Gpus
from runyard.engine.state.horizon import Horizon
from runyard.engine.state.nodes import ClusterNodes
from runyard.engine.state.releases import CallThreads
from runyard.engine.state.reserve import Reserve
from runyard.engine.state.spool import Spool
from runyard.engine.state.targets import AliasBook, Targets, builtin_targets
from runyard.engine.sweeps import sweeps
from runyard.engine.sweeps.report import SweepFacts, show_sweep
from runyard.runtime.bundle import Bundle, Bundles
from runyard.store.base import RunStore

if TYPE_CHECKING:
    from runyard.engine.compute.admin import ComputeTargets

logger = logging.getLogger(__name__)

_MOST_CONFIRM_S = 86400.0
_STOP_S = 2.0  # what hangs longer is taken up by the next server


class Engine:
    """The engine's public face: every route and the loop decide through it.

    Call `start` before the first other call and `stop` once at the end. All methods are synchronous and thread-safe;
    the functions that they call take the locks that they need.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        store: RunStore,
        artifacts: ArtifactStore,
        address: Mapping[str, Any],
        node_address: Mapping[str, Any] | None = None,
        backends: BackendsByKind | None = None,
        make_backend: BackendFactory = load_backend,
        clock: Clock | None = None,
        threads: CallThreads | None = None,
        on_change: Callable[[str], None] = ignore_run,
        on_log: Callable[[str], None] = ignore_run,
        on_node: Callable[[str], None] = ignore_run,
        hold_snapshot: Callable[[str], None] = ignore_run,
        check_snapshot: Callable[[str], None] = ignore_run,
        on_delete: Callable[[], None] = ignore,
        find_gpus: Callable[[], Sequence[Gpu]] = list_gpus,
    ) -> None:
        opened = backends if backends is not None else open_backends(settings)
        targets = Targets(builtin_targets(opened, local_runs=settings.local_runs), AliasBook(settings.home))
        secrets = ComputeSecrets(server_folder(settings.home) / "compute")
        made = Backends(settings, opened, secrets, make=make_backend)
        gpus = Gpus(settings.gpu_devices, find_gpus)
        self.context = EngineContext(
            settings=settings,
            store=store,
            artifacts=artifacts,
            spool=Spool(server_folder(settings.home) / "spool"),
            compute=ComputeState(targets, made, secrets, ClusterNodes(made), gpus, threads or CallThreads()),
            addresses=Addresses(address, node_address, Bundles(settings.home)),
            board=Board(Capacity(targets, gpus.devices, closed=made.closed_slots)),
            gangs=GangBoard(on_node),
            clock=clock or SystemClock(),
            events=EngineEvents(on_change, on_log, hold_snapshot, check_snapshot, on_delete, self._note_hidden),
        )
        self.reserve = Reserve(server_folder(settings.home))
        self.loop = Loop(self.context)
        self._shipping = ShipmentReceiver(self.context)
        self.horizon = Horizon(
            store,
            self.context.clock,
            confirm_s=min(settings.undo_s, _MOST_CONFIRM_S),
            is_awaited=lambda: store.find_next_purge() is not None or any(artifacts.iter_keys(ASIDE)),
        )
        self._purging = Purging(self.purge, store.find_next_purge, self.horizon.observe)

    def start(self, *, thread: bool = True) -> None:
        """Take up the work of the last server: unfinished runs are on the board before this returns.

        With `thread` False the caller drives `loop.tick` itself, as tests do.
        """
        self.horizon.observe()
        self.context.compute.targets.load(self.context.store)
        self.context.compute.secrets.sweep(target.options for target in self.context.compute.targets.list_all())
        sweeps.recover_sweeps(self.context)
        schedule.recover(self.context)
        deletes.finish_deletes(self.context, self._shipping)
        self.reserve.keep()
        if thread:
            self.loop.start()
            self._purging.start()

    def stop(self) -> None:
        """Stop deciding. Started runs go on; spare processes of the targets end."""
        self.loop.stop()
        self._purging.stop()
        try:
            self.horizon.save()
        except StoreUnavailable as error:
            logger.warning("where the horizon is was not stored: %s", error)
        self.context.compute.threads.close(wait_s=_STOP_S)
        self.context.compute.backends.close()

    @cached_property
    def compute(self) -> ComputeTargets:
        """The compute targets of all workspaces: create, attach, change, delete, describe."""
        # Loaded with the routes that ask for it: runs need none of it.
        from runyard.engine.compute.admin import ComputeTargets

        return ComputeTargets(self.context)

    def submit(self, new: NewRun, *, submitter: Mapping[str, str] | None = None) -> Submitted:
        """Create a run, or a sweep, and start it when its target has room. The same key again returns the same run."""
        if new.spec.sweep is not None:
            return sweeps.start_sweep(self.context, new, submitter=submitter)
        return submit(self.context, new, submitter=submitter)

    def plan(self, new: NewRun, *, submitter: Mapping[str, str] | None = None) -> RunPlan:
        """Return what `submit` would start. Nothing is stored or started."""
        return plan_run(self.context, new, submitter=submitter)

    def plan_of(self, run: Run) -> RunPlan:
        """Return what the run's present attempt was started with."""
        return plan_of(self.context, run)

    def register_external_run(self, new: NewRun, watched: ExternalProcess | None = None) -> Submitted:
        """Create a run whose process this server did not start, and start a supervisor that ships for it."""
        return register_external_run(self.context, new, watched)

    def add_writer(self, run_id: str, process: ExternalProcess) -> Writer:
        """Let a process outside of the run log to it. The same process again gets the same folder."""
        return add_writer(self.context, run_id, process)

    def cancel(self, run_id: str) -> Run:
        """Ask for the end of a run and its descendants. It may be repeated, and works on a full disk."""
        return self.reserve.spend(lambda: control.cancel(self.context, run_id))

    def fail(self, run_id: str, error: Mapping[str, Any]) -> Run:
        """End a run as failed with `error` and stop its processes. It may be repeated."""
        return control.fail(self.context, run_id, error)

    def delete_run(self, run_id: str, *, now: bool = False) -> Deleted:
        """Delete a finished run and its descendants; see `deletes.delete_run`."""
        return self.reserve.spend(lambda: deletes.delete_run(self.context, self._shipping, run_id, now=now))

    def delete_experiment(self, workspace: str, name: str, *, now: bool = False) -> Deleted:
        """Delete an experiment and its runs; see `deletes.delete_experiment`."""
        shipping = self._shipping
        return self.reserve.spend(lambda: deletes.delete_experiment(self.context, shipping, workspace, name, now=now))

    def restore_run(self, run_id: str) -> list[str]:
        """Restore a soft-deleted run. Return the ids of all runs that came back."""
        return deletes.restore_run(self.context.store, self.context.events, run_id)

    def restore_experiment(self, workspace: str, name: str) -> list[str]:
        """Restore a soft-deleted experiment. Return the ids of the runs that came back."""
        return deletes.restore_experiment(self.context.store, self.context.events, workspace, name)

    def archive(self, run_id: str, archived: bool) -> Run:
        """Archive a run and its descendants, or bring them back. Return the run."""
        return archive(self.context.store, self.context.events, run_id, archived)

    def resubmit(self, run_id: str, wanted: ResubmitRequest, *, owner: str = "") -> Submitted:
        """Submit a copy of the run, owned by user `owner`. The same id and key again return the same run."""
        new = resubmit_request(self.context.store, self.context.events, run_id, wanted)
        submitter = wanted.submitter or own_variables()
        signed = replace(new, submitted_by=owner or new.submitted_by, owner=owner)
        return self.submit(signed, submitter=submitter)

    def purge(self) -> list[str]:
        """Delete for good what was soft-deleted long enough ago. Return the runs' ids."""
        return self.reserve.spend(lambda: deletes.purge(self.context, self._shipping, self.horizon.observe()))

    def delete_workspace(self, name: str) -> list[str]:
        """Delete a workspace and all in it for good. Return the runs' ids."""
        return self.reserve.spend(lambda: deletes.delete_workspace(self.context, self._shipping, name))

    def show_sweep(self, run_id: str) -> SweepFacts:
        """Return a sweep with its children, as `GET /runs/{id}/sweep` answers."""
        return show_sweep(self.context.store, run_id)

    def heartbeat(self, run_id: str, attempt: int, *, external_writer: int = 0, cluster_gone: bool = False) -> Run:
        """Note that the run's supervisor lives. Return the run, which says whether it shall stop.

        Args:
            external_writer: the number of the external writer that it watches; then nothing is noted.
            cluster_gone: the cluster's own process beside the supervisor has ended.

        Raises:
            Conflict: the run is at another attempt.
        """
        run = self.context.store.get_run(run_id)
        if external_writer:
            return replace(run, desired=None, desired_error=None)
        if run.attempt != attempt:
            raise Conflict(f"Run `{run_id}` is at attempt {run.attempt}; this is a supervisor of attempt {attempt}.")
        if cluster_gone:
            liveness.note_cluster_report(self.context, run)
        return liveness.note_heartbeat(self.context, run, attempt)

    def bundle(self) -> Bundle:
        """Return the archive of our code that nodes of a cluster fetch."""
        return self.context.addresses.bundles.get()

    def join(self, run_id: str, rank: int, said: Join) -> JobSpec:
        """Give a node of a cluster its part of an attempt; see `runs.join.join`."""
        return join(self.context, run_id, rank, said)

    def hear_node(self, run_id: str, rank: int, said: NodeWord) -> GangAnswer:
        """Take a message of a node of a multi-node run and return the answer; see `runs.join.hear_node`."""
        return hear_node(self.context, run_id, rank, said)

    def look_at_nodes(self, run_id: str, attempt: int) -> GangAnswer:
        """Return what a waiting node of the attempt is answered now."""
        return look(self.context, run_id, attempt)

    def list_hosts(self, run: Run) -> list[RunHost]:
        """Return the machines of all attempts of a run."""
        return list_hosts(self.context.store, self.context.compute, run)

    def report(self, run_id: str, said: StateReport, *, external_writer: int = 0) -> Run:
        """Take a supervisor's report about its run; see `runs.reports.accept_report`."""
        return reports.accept_report(self.context, run_id, said, external_writer=external_writer)

    def ship(self, run_id: str, attempt: int, frames: Iterable[Frame], *, external_writer: int = 0) -> ShipAnswer:
        """Store journals, side files and logs that a supervisor sends; see `ingest.ship.ShipmentReceiver.take`."""
        return self._shipping.take(run_id, ShipmentSource(attempt, external_writer), frames)

    def explained(self, run: Run) -> Run:
        """Return the run with its current wait reason."""
        text = explain_run(self.context, run)
        return run if text == run.waits_for else replace(run, waits_for=text)

    def is_local(self, workspace: str, target: str) -> bool:
        """Whether runs on that target are processes of this machine.

        Raises:
            SubmitRejected: the workspace has no target of that name.
        """
        return self.context.compute.targets.get(workspace, target).is_local

    def live_runs(self) -> int:
        """Return how many unfinished runs there are."""
        return len(self.context.board)

    def is_idle(self) -> bool:
        """Whether there is no unfinished run and no live sweep."""
        return len(self.context.board) == 0 and not self.context.sweeps

    def _note_hidden(self) -> None:
        self._purging.note()
