"""What a run takes while it lives: slots of its target, and GPUs of this machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from runyard.core.records import NewRun, Run
from runyard.core.specs import RunSpec
from runyard.engine.context import ComputeState, EngineContext, is_launched
from runyard.engine.state.allocation import QueueEntry, Stage
from runyard.engine.state.gpus import GpuRequest, devices_of, find_live_job, gpu_request_of


def waiting_entry(context: EngineContext, run: Run) -> QueueEntry:
    """Return the queue entry of a run that is not started."""
    spooled = context.spool.read(run.id)
    submitter = spooled.submitter if spooled is not None else {}
    gpus = find_gpu_request(context.compute, run.workspace, run.spec, submitter) if is_launched(run) else GpuRequest()
    return _job(run, Stage.WAITING, gpus, gpus.devices)


def dispatched_entry(context: EngineContext, run: Run) -> QueueEntry:
    """Return the queue entry of a run that an earlier server started, with its slots and GPUs."""
    if is_launched(run) and not context.compute.is_local(run):
        spooled = context.spool.read(run.id)
        slots = spooled.slots if spooled is not None and spooled.handed == run.attempt else ()
        return replace(_job(run, Stage.HANDED, GpuRequest(), ()), slots=slots)
    live = (
        find_live_job(context.settings.home, run.id, run.attempt)
        if is_launched(run) and context.compute.gpus.devices()
        else None
    )
    if live is None:
        return _job(run, Stage.HANDED, GpuRequest(), ())
    return _job(
        run, Stage.HANDED, find_gpu_request(context.compute, run.workspace, live.spec, live.submitter), devices_of(live)
    )


def find_gpu_request(compute: ComputeState, workspace: str, spec: RunSpec, submitter: Mapping[str, str]) -> GpuRequest:
    """Return which GPUs of this machine a run wants. A run on a cluster wants none: the cluster gives out its own.

    Raises:
        SubmitRejected: its variables ask for something impossible.
    """
    target = compute.targets.find(workspace, spec.target)
    if target is not None and not target.is_local:
        return GpuRequest()
    return gpu_request_of(spec, submitter, len(compute.gpus.devices()))


def would_get(context: EngineContext, new: NewRun, submitter: Mapping[str, str]) -> list[str]:
    """Return the GPUs that a run would get if it were submitted now; none if it would have to wait."""
    gpus = find_gpu_request(context.compute, new.workspace, new.spec, submitter)
    nodes = new.spec.distribution.node_count
    place = QueueEntry(new.id, new.spec.target, workspace=new.workspace, parent=new.parent_id or "", nodes=nodes)
    asked = replace(place, gpus=gpus.count, devices=gpus.devices)
    placed = context.board.preview(replace(asked, shares_gpus=gpus.is_shared), now=context.clock.monotonic())
    return list(placed.devices) if placed is not None else []


def _job(run: Run, stage: Stage, gpus: GpuRequest, devices: tuple[str, ...]) -> QueueEntry:
    return QueueEntry(
        run.id,
        run.spec.target,
        is_launched(run),
        stage,
        attempt=run.attempt,
        workspace=run.workspace,
        parent=run.parent_id or "",
        nodes=run.spec.distribution.node_count,
        gpus=gpus.count,
        shares_gpus=gpus.is_shared,
        devices=devices,
    )
