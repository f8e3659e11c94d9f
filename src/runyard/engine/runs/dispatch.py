"""Starts one attempt on its compute target. It may be repeated: an attempt never starts twice."""

from __future__ import annotations

import hashlib
import logging
import socket
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from runyard.compute.base import JobHandle
from runyard.core.compute import LOCAL
from runyard.core.errors import InvalidTransition, SubmissionLost, UserError
from runyard.core.formats.plain import from_plain
from runyard.core.machine.facts import find_own_address
from runyard.core.records import IGNORED_PROPERTY, SOURCE_PROPERTY, NewRun, Run
from runyard.core.specs import JobSpec, RunSpec
from runyard.core.statuses import RunStatus
from runyard.engine.context import BEFORE_START, Addresses, ComputeState, EngineContext, is_launched
from runyard.engine.runs.wait_reasons import note_wait
from runyard.engine.sanitize import holds_hidden
from runyard.engine.state.allocation import Stage
from runyard.engine.state.gpus import with_device_order
from runyard.engine.state.spool import Spool, Spooled, hash_token, mint_run_token
from runyard.engine.state.targets import Targets
from runyard.store.base import RunStore

_FIRST_RETRY_S, _LAST_RETRY_S = 1.0, 30.0
_STORE_RETRY_S = 2.0


def address_for(addresses: Addresses, targets: Targets, workspace: str, target: str) -> Mapping[str, Any]:
    """Return the address by which processes of the target reach this server."""
    found = targets.find(workspace, target)
    if found is None or found.backend == LOCAL:
        return addresses.local
    return addresses.for_nodes or addresses.local


def require_reachable(addresses: Addresses, target_kind: str) -> None:
    """Raise UserError unless machines of a cluster can reach this server."""
    if addresses.for_nodes is not None:
        return
    name = find_own_address() or socket.gethostname()
    raise UserError(
        f"Machines of kind `{target_kind}` cannot be used: they cannot reach this server.",
        why="The server listens on a socket and on loopback addresses of its own machine only.",
        hint=f"On the server's machine: `runyard server start --host {name} --port 8787`, with a name or address under "
        "which the nodes know it. Nothing is lost by it: the server of this home starts again, and runs go on.",
    )


logger = logging.getLogger(__name__)


def dispatch(context: EngineContext, run_id: str) -> str | None:
    """Start the run's attempt on its target. Return the run's new token, or None if there was nothing to start.

    Called by request threads and by the loop once the board has reserved slots; it takes the run's lock. It may be
    repeated: an attempt that a killed server began is continued, never started twice. A target that refuses ends the
    run; one that fails is tried again later. A cluster's call may hang, so another thread makes it, without the lock.
    """
    with context.locks.of_run(run_id):
        run = context.store.find_run(run_id)
        if run is None:
            context.board.remove(run_id)
            context.spool.remove(run_id)
            return None
        if run.status.is_terminal:
            context.ended(run)
            return None
        if run.desired is not None and (run.attempt == 0 or run.is_between_attempts):
            end_unstarted(context, run)
            return None
        if run.is_fenced and not run.is_between_attempts:
            context.board.update(run_id, stage=Stage.FENCED)
            return None
        if run.attempt and run.status is not RunStatus.QUEUED:
            _note_handed(context, run)
            return None
        token, run = _begin_attempt(context, run)
        if context.compute.is_local(run):
            return token if _deliver(context, run, token) else None
    context.compute.threads.submit(run.spec.target, lambda: _deliver_elsewhere(context, run, token))
    return token


def mint_token(store: RunStore, run: Run) -> str:
    """Return one more token of the run's present attempt."""
    token = mint_run_token()
    store.add_token(hash_token(token), run_id=run.id, attempt=run.attempt)
    return token


def end_unstarted(context: EngineContext, run: Run) -> Run:
    """End a run of which nothing was started, as its desired state says. The caller holds the run's lock."""
    status = RunStatus.CANCELED if run.desired == "cancel" else RunStatus.FAILED
    error = run.desired_error if status is RunStatus.FAILED else None
    ended = context.store.set_status(
        run.id, status, attempt=run.attempt, expected=BEFORE_START, error=error, waits_for=""
    )
    logger.info("run %s: %s before it started", run.id, ended.status)
    context.ended(ended)
    return ended


def draft_entry(context: EngineContext, new: NewRun, submitter: Mapping[str, str]) -> JobSpec:
    """Return the job that a request would become: enough for a backend to refuse it before anything is stored."""
    return JobSpec(
        run_id=new.id,
        attempt=1,
        experiment=new.experiment,
        workspace=new.workspace,
        spec=new.spec,
        snapshot_root=new.snapshot_root,
        server={**address_for(context.addresses, context.compute.targets, new.workspace, new.spec.target), "token": ""},
        token="",
        cookie="",
        home=str(context.settings.home),
        node_count=new.spec.distribution.node_count,
        submitter=dict(submitter),
    )


def job_spec_of(context: EngineContext, run: Run, token: str, spooled: Spooled) -> JobSpec:
    """Return the job of the run's present attempt."""
    workspace = context.store.get_workspace(run.workspace)
    spec = from_plain(RunSpec, dict(spooled.spec)) if spooled.spec else run.spec
    held = context.board.find(run.id)
    devices = list(held.devices) if held is not None and held.launched else []
    return JobSpec(
        run_id=run.id,
        attempt=run.attempt,
        experiment=run.experiment,
        workspace=run.workspace,
        spec=with_device_order(spec, spooled.submitter) if devices else spec,
        snapshot_root=run.snapshot_root,
        server={
            **address_for(context.addresses, context.compute.targets, run.workspace, run.spec.target),
            "token": token,
        },
        token=token,
        cookie=_cookie(context, run.id, run.attempt),
        home=str(context.settings.home),
        experiment_id=run.experiment_id,
        workspace_id=workspace.id,
        subscription_id=workspace.subscription_id,
        resource_group=workspace.resource_group,
        node_count=run.spec.distribution.node_count,
        devices=devices,
        slots=list(held.slots) if held is not None else [],
        bundle=_bundle_for(context.compute, context.addresses, run),
        submitter=dict(spooled.submitter),
        interactive_pid=spooled.interactive_pid,
        interactive_start_ticks=spooled.interactive_start_ticks,
        interactive_folders=dict(spooled.interactive_folders),
        source=run.properties.get(SOURCE_PROPERTY) or "",
        left_out=run.properties.get(IGNORED_PROPERTY) or "",
    )


def spooled_of(spool: Spool, targets: Targets, run: Run) -> Spooled:
    """Return what the run was submitted with beyond its stored record: variables and secrets.

    Raises:
        SubmissionLost: the spool file is gone or damaged, so the run cannot start as it was submitted.
        StoreUnavailable: the file cannot be read now.
    """
    try:
        return spool.get(run.id)
    except SubmissionLost:
        target = targets.find(run.workspace, run.spec.target)
        if target is None or target.is_local or holds_hidden(run.spec):
            raise
        return Spooled()  # a cluster's run that hides nothing has nothing there


def try_again_soon(context: EngineContext, run_id: str) -> None:
    """Put a run that could not be started, because the store failed, back into the queue for a few seconds."""
    logger.exception("run %s: not started, will be tried again", run_id)
    retry_at = context.clock.monotonic() + _STORE_RETRY_S
    context.board.update(run_id, stage=Stage.WAITING, fault="the server's store is not available", retry_at=retry_at)
    context.events.wake.set()


def keeps_spool(compute: ComputeState, run: Run) -> bool:
    """Whether the run's spool file is still needed after the dispatch: by nodes, or by a next attempt."""
    return not compute.is_local(run) or run.spec.max_attempts > 1


def _begin_attempt(context: EngineContext, run: Run) -> tuple[str, Run]:
    """Count the attempt up, unless it is one that a killed server had begun, and give it a token."""
    token = mint_run_token()
    is_first = run.attempt == 0 or run.is_between_attempts
    if is_first:
        handed = f"Waiting for its supervisor to start on `{run.spec.target}`." if is_launched(run) else ""
        run = context.store.start_attempt(run.id, token_hash=hash_token(token), waits_for=handed)
    else:
        context.store.add_token(hash_token(token), run_id=run.id, attempt=run.attempt)
    context.board.update(run.id, attempt=run.attempt, is_first=is_first)
    if not is_launched(run):
        context.store.set_status(run.id, RunStatus.RUNNING, attempt=run.attempt)
    return token, run


def _deliver(context: EngineContext, run: Run, token: str) -> bool:
    """Submit, and note what came of it; the caller holds the run's lock. False: the run was refused."""
    try:
        _submit(context, run, token)
    except UserError as error:
        _refused(context, run, error)
        return False
    except Exception as error:
        # A compute target is somebody else's code: whatever it raises must not lose the run.
        _postpone(context, run, error)
        return True
    _delivered(context, run)
    return True


def _deliver_elsewhere(context: EngineContext, run: Run, token: str) -> None:
    """Submit without any lock, since the cluster may hang; then note what came of it, if the run still waits for it."""
    fault: Exception | None = None
    try:
        _submit(context, run, token)
    except Exception as error:
        # As above.
        fault = error
    try:
        with context.locks.of_run(run.id):
            now = context.store.get_run(run.id)
            if now.status.is_terminal or now.attempt != run.attempt or now.is_fenced:
                _give_late_back(context, run, now)
            elif isinstance(fault, UserError):
                _refused(context, run, fault)
            elif fault is not None:
                _postpone(context, run, fault)
            else:
                _delivered(context, run)
        if fault is None and now.desired is not None:  # it came when the cluster did not know the job yet
            context.compute.backend(run.workspace, run.spec.target).cancel(JobHandle(run.id, run.attempt))
    except Exception:
        # The run is committed: it waits, and the same attempt is handed over again.
        try_again_soon(context, run.id)


def _give_late_back(context: EngineContext, run: Run, now: Run) -> None:
    """Give back a job that a cluster took after nobody wanted it any more."""
    if now.status.is_terminal:
        context.release(run, done=lambda: context.spool.remove(run.id))
    else:
        context.release(run)


def _submit(context: EngineContext, run: Run, token: str) -> None:
    spooled = spooled_of(context.spool, context.compute.targets, run)
    backend = context.compute.backend(run.workspace, run.spec.target)
    request = backend.plan(job_spec_of(context, run, token, spooled))
    held = context.board.find(run.id)
    backend.submit(replace(request, is_first=held is not None and held.is_first))


def _delivered(context: EngineContext, run: Run) -> None:
    if keeps_spool(context.compute, run):
        held = context.board.find(run.id)
        context.spool.note_handed(run.id, run.attempt, held.slots if held is not None else ())
    else:
        context.spool.remove(run.id)
    _note_handed(context, run)
    logger.info("run %s: attempt %d handed to %s", run.id, run.attempt, run.spec.target)


def _bundle_for(compute: ComputeState, addresses: Addresses, run: Run) -> str:
    target = compute.targets.find(run.workspace, run.spec.target)
    return "" if target is None or target.backend == LOCAL else addresses.bundles.get().key


def _cookie(context: EngineContext, run_id: str, attempt: int) -> str:
    # The same for every hand-over of one attempt: a repeated one must not hide processes that the first one started.
    return hashlib.sha256(f"{context.settings.home}\0{run_id}\0{attempt}".encode()).hexdigest()[:32]


def _note_handed(context: EngineContext, run: Run) -> None:
    now = context.clock.monotonic()
    context.board.update(run.id, stage=Stage.HANDED, attempt=run.attempt, last_heard_at=now, fault="", retry_at=0.0)
    context.events.wake.set()


def _refused(context: EngineContext, run: Run, error: UserError) -> None:
    plain = {"code": error.code, "message": str(error), "details": {}}
    try:
        ended = context.store.set_status(run.id, RunStatus.FAILED, attempt=run.attempt, error=plain, waits_for="")
    except InvalidTransition:
        ended = context.store.get_run(run.id)
    logger.info("run %s: refused by %s", run.id, run.spec.target)
    context.ended(ended)


def _postpone(context: EngineContext, run: Run, error: Exception) -> None:
    job = context.board.find(run.id)
    faults = job.faults + 1 if job is not None else 1
    delay = min(_FIRST_RETRY_S * 2 ** (faults - 1), _LAST_RETRY_S)
    logger.warning("run %s: not handed to %s, again in %.0f s", run.id, run.spec.target, delay, exc_info=error)
    retry_at = context.clock.monotonic() + delay
    text = f"{type(error).__name__}: {error}".partition("\n")[0]
    context.board.update(run.id, stage=Stage.WAITING, faults=faults, fault=text, retry_at=retry_at)
    context.events.wake.set()
    if job is None or job.fault != text:
        note_wait(context, run.id)
