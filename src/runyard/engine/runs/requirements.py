"""What a run takes while it lives: nodes of its target, and GPUs of the machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from runyard.core.records import NewRun, Run
from runyard.core.specs import RunSpec
from runyard.engine.context import Yard, is_launched
from runyard.engine.state.allocation import Job, Stage
from runyard.engine.state.gpus import GpuWish, devices_of, find_live_job, wish_of


def waiting_job(yard: Yard, run: Run) -> Job:
    """Return the job of a run that was not handed over."""
    spooled = yard.spool.read(run.id)
    submitter = spooled.submitter if spooled is not None else {}
    wish = find_wish(yard, run.workspace, run.spec, submitter) if is_launched(run) else GpuWish()
    return _job(run, Stage.WAITING, wish, wish.devices)


def handed_job(yard: Yard, run: Run) -> Job:
    """Return the job of a run that an earlier server started, with the places and GPUs that it was given."""
    if is_launched(run) and not yard.is_local(run):
        spooled = yard.spool.read(run.id)
        slots = spooled.slots if spooled is not None and spooled.handed == run.attempt else ()
        return replace(_job(run, Stage.HANDED, GpuWish(), ()), slots=slots)
    live = find_live_job(yard.settings.home, run.id, run.attempt) if is_launched(run) and yard.gpus.devices() else None
    if live is None:
        return _job(run, Stage.HANDED, GpuWish(), ())
    return _job(run, Stage.HANDED, find_wish(yard, run.workspace, live.spec, live.submitter), devices_of(live))


def find_wish(yard: Yard, workspace: str, spec: RunSpec, submitter: Mapping[str, str]) -> GpuWish:
    """Return which GPUs of this machine a run wants; none when it goes to another, whose engine gives out its own.

    Raises:
        SubmitRejected: its variables say something impossible.
    """
    target = yard.targets.find(workspace, spec.target)
    if target is not None and not target.is_local:
        return GpuWish()
    return wish_of(spec, submitter, len(yard.gpus.devices()))


def would_get(yard: Yard, new: NewRun, submitter: Mapping[str, str]) -> list[str]:
    """Return the GPUs that a run would have if it were submitted now; none when it would have to wait for some."""
    wish = find_wish(yard, new.workspace, new.spec, submitter)
    nodes = new.spec.distribution.node_count
    place = Job(new.id, new.spec.target, workspace=new.workspace, parent=new.parent_id or "", nodes=nodes)
    asked = replace(place, gpus=wish.count, devices=wish.devices)
    placed = yard.board.preview(replace(asked, shares_gpus=wish.is_shared), now=yard.clock.monotonic())
    return list(placed.devices) if placed is not None else []


def _job(run: Run, stage: Stage, wish: GpuWish, devices: tuple[str, ...]) -> Job:
    return Job(
        run.id,
        run.spec.target,
        is_launched(run),
        stage,
        attempt=run.attempt,
        workspace=run.workspace,
        parent=run.parent_id or "",
        nodes=run.spec.distribution.node_count,
        gpus=wish.count,
        shares_gpus=wish.is_shared,
        devices=devices,
    )
