"""Cancel and fail a run: the wish is stored first and delivered at once where possible."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from runyard.compute.base import JobHandle, JobState
from runyard.core.errors import Conflict, InvalidTransition
from runyard.core.records import Run
from runyard.core.statuses import RunStatus
from runyard.engine.context import BEFORE_START, EngineContext, is_launched
from runyard.engine.runs.dispatch import end_unstarted
from runyard.engine.runs.retries import never_ran
from runyard.engine.sanitize import storable_value
from runyard.engine.state.allocation import Stage
from runyard.store.base import RunQuery, RunStore

logger = logging.getLogger(__name__)


def cancel(context: EngineContext, run_id: str) -> Run:
    """Ask for the end of the run and its descendants. A finished run is returned as it is.

    Called by request threads and by the loop, for sweeps. It takes the run's lock and may be repeated: the wish is
    stored first, so a supervisor that cannot be reached now hears of it with its next heartbeat.

    Raises:
        InvalidTransition: the run ended meanwhile.
    """
    run = _wish(context, run_id, "cancel", None)
    if run.desired == "cancel":
        _cancel_children(context, run)
    return run


def fail(context: EngineContext, run_id: str, error: Mapping[str, Any]) -> Run:
    """End the run as failed with `error` and stop its processes.

    It takes the run's lock and may be repeated.
    """
    message = str(error.get("message") or "The run was marked as failed.")
    plain = {"code": str(error.get("code") or "UserError"), "message": message, "details": error.get("details") or {}}
    return _wish(context, run_id, "fail", storable_value(plain))


def _cancel_children(context: EngineContext, parent: Run) -> None:
    for child in _unfinished_children(context.store, parent):
        try:
            cancel(context, child.id)
        except InvalidTransition:  # it ended by itself just now
            logger.debug("run %s ended before its parent's cancel reached it", child.id)


def _unfinished_children(store: RunStore, parent: Run) -> list[Run]:
    """Return them all: cancelling one takes it out of the list, so the pages are read first."""
    query = RunQuery(
        workspace=parent.workspace,
        parent_id=parent.id,
        statuses=[one for one in RunStatus if not one.is_terminal],
        view="all",
    )
    found: list[Run] = []
    while True:
        page = store.list_runs(query)
        found += page.runs
        if page.next is None:
            return found
        query = replace(query, cursor=page.next)


def _wish(context: EngineContext, run_id: str, desired: str, error: Mapping[str, Any] | None) -> Run:
    with context.locks.of_run(run_id):
        run = context.store.set_desired(run_id, desired, error)
        if run.status.is_terminal:
            return run
        if _nothing_runs(context, run):
            return end_unstarted(context, run)
        if run.spec.sweep is not None:
            return _end_sweep(context, run)
        if run.attempt == 0:
            return _end_unwatched(context, run)
        run = _show_wish(context, run)
    _tell(context, run)
    context.events.on_change(run_id)
    context.gangs.touch(run_id)
    return run


def _nothing_runs(context: EngineContext, run: Run) -> bool:
    """Whether the run was never handed over, so that no process can exist; or no node elsewhere has joined, and none
    that comes later may.
    """
    if run.status not in BEFORE_START:
        return False
    if run.attempt == 0 or run.is_between_attempts:
        return True
    if run.is_fenced:
        return False
    job = context.board.find(run.id)
    if job is not None and not context.compute.is_local(run):
        return never_ran(context.store, job)
    if job is None or job.stage is not Stage.WAITING:
        return False
    handle = JobHandle(run.id, run.attempt)
    report = context.compute.backend(run.workspace, run.spec.target).poll([handle]).get(handle)
    return report is not None and report.state is JobState.GONE


def _end_sweep(context: EngineContext, run: Run) -> Run:
    """Let the sweep end itself: it waits for its children."""
    context.events.wake.set()
    return _show_wish(context, run)


def _end_unwatched(context: EngineContext, run: Run) -> Run:
    """End a run that nobody supervises (a child run made by a script): there is nothing to stop."""
    assert not is_launched(run)
    status = RunStatus.CANCELED if run.desired == "cancel" else RunStatus.FAILED
    error = run.desired_error if status is RunStatus.FAILED else None
    ended = context.store.set_status(run.id, status, attempt=0, error=error)
    context.ended(ended)
    return ended


def _show_wish(context: EngineContext, run: Run) -> Run:
    if run.desired != "cancel" or run.status is RunStatus.CANCEL_REQUESTED:
        return run
    try:
        return context.store.set_status(run.id, RunStatus.CANCEL_REQUESTED, attempt=run.attempt, expected=[run.status])
    except Conflict:
        # The supervisor reported something in between; whatever it was, the wish is stored and it will hear of it.
        return context.store.get_run(run.id)


def _tell(context: EngineContext, run: Run) -> None:
    if run.status.is_terminal:
        return
    try:
        context.compute.backend(run.workspace, run.spec.target).cancel(JobHandle(run.id, run.attempt))
    except Exception:
        # The wish is durable; the supervisor learns it with its next heartbeat.
        logger.warning("run %s: its supervisor could not be told to stop at once", run.id, exc_info=True)
