"""One attempt is handed to its compute target. Repeating it is safe: a claimed attempt never starts twice."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping

from runyard.core.errors import InvalidTransition, UserError
from runyard.core.plain import from_plain
from runyard.core.records import NewRun, Run
from runyard.core.specs import JobSpec, RunSpec
from runyard.core.statuses import RunStatus
from runyard.engine.gpu_wish import with_device_order
from runyard.engine.job import Stage
from runyard.engine.spool import Spooled
from runyard.engine.tokens import hash_token, mint_run_token
from runyard.engine.yard import BEFORE_START, Yard, is_launched

logger = logging.getLogger(__name__)

_FIRST_RETRY_S, _LAST_RETRY_S = 1.0, 30.0


def hand_over(yard: Yard, run_id: str) -> str | None:
    """Start the run's attempt on its target and return the run's new token; None when there was nothing to start.

    A target that refuses for good ends the run; one that cannot now (disk full) is asked again later.
    """
    with yard.locks(run_id):
        run = yard.store.find_run(run_id)
        if run is None or run.status.is_terminal:
            yard.board.remove(run_id)
            yard.spool.remove(run_id)
            return None
        if run.desired is not None and run.attempt == 0:
            end_unstarted(yard, run)
            return None
        if run.attempt and run.status is not RunStatus.QUEUED:
            _note_handed(yard, run)
            return None
        return _start(yard, run)


def mint_token(yard: Yard, run: Run) -> str:
    """Return one more token of the run's present attempt."""
    token = mint_run_token()
    yard.store.add_token(hash_token(token), run_id=run.id, attempt=run.attempt)
    return token


def end_unstarted(yard: Yard, run: Run) -> Run:
    """End a run that was never handed over, as its desired state says."""
    status = RunStatus.CANCELED if run.desired == "cancel" else RunStatus.FAILED
    error = run.desired_error if status is RunStatus.FAILED else None
    ended = yard.store.set_status(run.id, status, attempt=run.attempt, expected=BEFORE_START, error=error, waits_for="")
    logger.info("run %s: %s before it started", run.id, ended.status)
    yard.ended(ended)
    return ended


def draft_job(yard: Yard, new: NewRun, submitter: Mapping[str, str]) -> JobSpec:
    """Return the job that a request would become: enough for a backend to refuse it before anything is stored."""
    return JobSpec(
        run_id=new.id,
        attempt=1,
        experiment=new.experiment,
        workspace=new.workspace,
        spec=new.spec,
        snapshot_root=new.snapshot_root,
        server={**yard.address, "token": ""},
        token="",
        cookie="",
        home=str(yard.settings.home),
        node_count=new.spec.distribution.node_count,
        submitter=dict(submitter),
    )


def job_of(yard: Yard, run: Run, token: str, spooled: Spooled) -> JobSpec:
    """Return the job of the run's present attempt."""
    workspace = yard.store.get_workspace(run.workspace)
    spec = from_plain(RunSpec, dict(spooled.spec)) if spooled.spec else run.spec
    held = yard.board.find(run.id)
    devices = list(held.devices) if held is not None and held.launched else []
    return JobSpec(
        run_id=run.id,
        attempt=run.attempt,
        experiment=run.experiment,
        workspace=run.workspace,
        spec=with_device_order(spec, spooled.submitter) if devices else spec,
        snapshot_root=run.snapshot_root,
        server={**yard.address, "token": token},
        token=token,
        cookie=_cookie(yard, run.id, run.attempt),
        home=str(yard.settings.home),
        experiment_id=run.experiment_id,
        workspace_id=workspace.id,
        subscription_id=workspace.subscription_id,
        resource_group=workspace.resource_group,
        node_count=run.spec.distribution.node_count,
        devices=devices,
        submitter=dict(spooled.submitter),
        interactive_pid=spooled.interactive_pid,
        interactive_start_ticks=spooled.interactive_start_ticks,
        interactive_folders=dict(spooled.interactive_folders),
    )


def _start(yard: Yard, run: Run) -> str | None:
    token = mint_run_token()
    spooled = yard.spool.read(run.id) or Spooled()
    if run.attempt == 0:
        run = yard.store.start_attempt(run.id, token_hash=hash_token(token))
    else:
        yard.store.add_token(hash_token(token), run_id=run.id, attempt=run.attempt)
    yard.board.update(run.id, attempt=run.attempt)
    if not is_launched(run):
        yard.store.set_status(run.id, RunStatus.RUNNING, attempt=run.attempt)
    try:
        backend = yard.backend(run.workspace, run.spec.target)
        backend.submit(backend.plan(job_of(yard, run, token, spooled)))
    except UserError as error:
        _refused(yard, run, error)
        return None
    except Exception as error:
        # A compute target is somebody else's code: whatever it raises must not lose the run.
        _postpone(yard, run, error)
        return token
    yard.spool.remove(run.id)
    _note_handed(yard, run)
    logger.info("run %s: attempt %d handed to %s", run.id, run.attempt, run.spec.target)
    return token


def _cookie(yard: Yard, run_id: str, attempt: int) -> str:
    # The same for every hand-over of one attempt: a repeated one must not hide processes that the first one started.
    return hashlib.sha256(f"{yard.settings.home}\0{run_id}\0{attempt}".encode()).hexdigest()[:32]


def _note_handed(yard: Yard, run: Run) -> None:
    now = yard.clock.monotonic()
    yard.board.update(run.id, stage=Stage.HANDED, attempt=run.attempt, heard=now, fault="", retry_at=0.0)
    yard.wake.set()


def _refused(yard: Yard, run: Run, error: UserError) -> None:
    plain = {"code": error.code, "message": str(error), "details": {}}
    try:
        ended = yard.store.set_status(run.id, RunStatus.FAILED, attempt=run.attempt, error=plain, waits_for="")
    except InvalidTransition:
        ended = yard.store.get_run(run.id)
    logger.info("run %s: refused by %s", run.id, run.spec.target)
    yard.ended(ended)


def _postpone(yard: Yard, run: Run, error: Exception) -> None:
    job = yard.board.find(run.id)
    faults = job.faults + 1 if job is not None else 1
    delay = min(_FIRST_RETRY_S * 2 ** (faults - 1), _LAST_RETRY_S)
    logger.warning("run %s: not handed to %s, again in %.0f s", run.id, run.spec.target, delay, exc_info=error)
    retry_at = yard.clock.monotonic() + delay
    text = f"{type(error).__name__}: {error}".partition("\n")[0]
    yard.board.update(run.id, stage=Stage.WAITING, faults=faults, fault=text, retry_at=retry_at)
    yard.wake.set()
