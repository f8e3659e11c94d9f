"""Journal records that do more than add data: create a child run, end a run without a supervisor, call `fail()`.

It also lets a process outside of a run log to it, often after the run's end.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from runyard.core.attempts import external_writer_number
from runyard.core.config.paths import run_folder
from runyard.core.errors import RunyardError, StoreUnavailable
from runyard.core.formats import journal
from runyard.core.formats.documents import RunWarning
from runyard.core.names import check_run_id
from runyard.core.records import MLFLOW_NAME, MLFLOW_NOTE, NewRun, Run, RunChange
from runyard.core.specs import RunSpec
from runyard.core.statuses import RunStatus
from runyard.engine.context import EngineContext
from runyard.engine.runs.dispatch import job_spec_of
from runyard.engine.runs.reports import end_unsupervised
from runyard.engine.runs.submit import ExternalProcess
from runyard.engine.sanitize import storable
from runyard.engine.state.spool import Spooled, hash_token, mint_run_token
from runyard.engine.sweeps.sweeps import check_free_id
from runyard.store.record_limits import MOST_DESCRIPTION, MOST_NAME, without_known

if TYPE_CHECKING:
    from runyard.engine.ingest.decode import Event


logger = logging.getLogger(__name__)


def apply_event(context: EngineContext, run_id: str, events: Sequence[Event]) -> None:
    """Act on CHILD, TAGS and FAIL records before their bytes are stored. A crash between repeats it: nothing changes.

    The cost grows with the number of records, never faster: the run is read once, and all failures are one change.
    """
    if not events:
        return
    run = context.store.get_run(run_id)
    for event in events:
        if event.kind == journal.CHILD:
            _try_to_make_child(context, run, event)
    told = _told_texts(events)
    if told:
        context.store.update_run(run_id, told)
    failures = [_failure(event.payload) for event in events if event.kind == journal.FAIL]
    new = without_known(run.warnings, failures)
    if new:
        context.store.update_run(run_id, RunChange(warnings_add=new))


def apply_end(context: EngineContext, run_id: str, event: Event) -> None:
    """Act on an END record: everything before it is stored. `may_end` says whether it can change anything."""
    try:
        status = RunStatus(event.payload.get("status"))
    except ValueError:
        logger.warning("run %s: END record at %d names no status", run_id, event.offset)
        return
    error = event.payload.get("error")
    end_unsupervised(context, run_id, status, error if isinstance(error, dict) else None)


def may_end(run: Run) -> bool:
    """Whether an END record of the run's journal can end it: supervised and ended runs pass over those records."""
    return not run.attempt and not run.status.is_terminal


def _try_to_make_child(context: EngineContext, parent: Run, event: Event) -> None:
    try:
        _make_child(context, parent, event.payload)
    except StoreUnavailable:
        raise
    except (RunyardError, ValueError, TypeError) as error:
        logger.warning("run %s: record at %d not applied: %s", parent.id, event.offset, error)


def _make_child(context: EngineContext, parent: Run, payload: journal.Payload) -> None:
    run_id = payload.get("run_id")
    child_id = check_run_id(run_id if isinstance(run_id, str) else "")
    check_free_id(context.store, child_id)
    given = payload.get("tags")
    tags = _text_tags(given) if isinstance(given, dict) else {}
    name, note = tags.pop(MLFLOW_NAME, None), tags.pop(MLFLOW_NOTE, None)
    context.store.create_run(
        NewRun(
            key=run_key(parent.id, f"child:{child_id}"),
            id=child_id,
            workspace=parent.workspace,
            experiment=parent.experiment,
            type=None,
            status=RunStatus.RUNNING,
            display_name=(name or "")[:MOST_NAME]
            or _chained(parent.display_name, storable(str(payload.get("name") or ""))),
            description=(note or "")[:MOST_DESCRIPTION],
            parent_id=parent.id,
            tags=tags,
            submitted_by=parent.submitted_by,
            owner=parent.owner,
        )
    )


def run_key(run_id: str, key: str) -> str:
    """Return the key under which the code of a run asks for a run: no other code's key is the same."""
    return f"run:{run_id}:{key}"


def _chained(parent: str, name: str) -> str:
    """Return a child's name after its parent's, as Azure does: `parent>child`."""
    return (f"{parent}>{name}" if parent and name else name)[:255]


def _told_texts(events: Sequence[Event]) -> RunChange | None:
    """Return the name and the description that the last of the records tell."""
    told: dict[str, object] = {}
    for event in events:
        if event.kind == journal.TAGS:
            told.update(event.payload)
    name, note = told.get(MLFLOW_NAME), told.get(MLFLOW_NOTE)
    if not name and note is None:
        return None
    return RunChange(
        display_name=storable(str(name))[:MOST_NAME] if name else None,
        description=None if note is None else storable(str(note))[:MOST_DESCRIPTION],
    )


def _failure(payload: journal.Payload) -> RunWarning:
    """Return what a script said with `run.fail()`; inside a submitted run it does not set the status, the exit does."""
    message = storable(str(payload.get("error_details") or "The script called run.fail()."))[:10_000]
    return {"source": "run.fail", "message": message, "code": storable(str(payload.get("error_code") or ""))[:200]}


def _text_tags(tags: Mapping[str, object]) -> dict[str, str | None]:
    return {storable(key): None if value is None else storable(str(value)) for key, value in tags.items()}


@dataclass(frozen=True)
class Writer:
    """What a process outside of a run gets to log to it."""

    token: str
    folder: str
    external_writer: int


def add_writer(context: EngineContext, run_id: str, process: ExternalProcess) -> Writer:
    """Start a watcher that ships what `process` writes about the run. The same process again gets the same folder.
    One on another machine has a watcher there, and gets the token for it.

    Its token adds metrics and files, and never moves the run's status.
    """
    run = context.store.get_run(run_id)
    number = external_writer_number(process.pid, process.start_ticks, process.host)
    token = mint_run_token()
    context.store.add_token(hash_token(token), run_id=run.id, attempt=0, external_writer=number)
    if process.host:
        return Writer(token, "", number)
    here = replace(run, attempt=0, snapshot_root=None, spec=RunSpec())
    spooled = Spooled(interactive_pid=process.pid, interactive_start_ticks=process.start_ticks)
    job = replace(job_spec_of(context, here, token, spooled), external_writer=number)
    backend = context.compute.backend(job.workspace, job.spec.target)
    backend.submit(backend.plan(job))
    return Writer(token, str(run_folder(context.settings.home, run.id, 0, number)), number)
