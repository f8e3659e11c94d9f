"""Records that do more than add data: a child run is made, a run without a supervisor ends, a script calls `fail()`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from runyard.core import journal
from runyard.core.errors import RunyardError, StoreUnavailable
from runyard.core.names import check_run_id
from runyard.core.records import NewRun
from runyard.core.statuses import RunStatus
from runyard.engine.ends import end_unsupervised
from runyard.engine.texts import storable, storable_value
from runyard.engine.yard import Yard

if TYPE_CHECKING:
    from runyard.engine.ingest import Event

logger = logging.getLogger(__name__)


def act(yard: Yard, run_id: str, event: Event) -> None:
    """Act on a CHILD or FAIL record before its bytes are stored: a crash between repeats it, which changes nothing."""
    try:
        if event.kind == journal.CHILD:
            _make_child(yard, run_id, event.payload)
        elif event.kind == journal.FAIL:
            _note_failure(yard, run_id, event.payload)
    except StoreUnavailable:
        raise
    except (RunyardError, ValueError, TypeError) as error:
        logger.warning("run %s: record at %d not applied: %s", run_id, event.offset, error)


def act_on_end(yard: Yard, run_id: str, event: Event) -> None:
    """Act on an END record: everything before it is stored."""
    try:
        status = RunStatus(event.payload.get("status"))
    except ValueError:
        logger.warning("run %s: END record at %d names no status", run_id, event.offset)
        return
    error = event.payload.get("error")
    end_unsupervised(yard, run_id, status, error if isinstance(error, dict) else None)


def _make_child(yard: Yard, run_id: str, payload: dict[str, Any]) -> None:
    parent = yard.store.get_run(run_id)
    child_id = check_run_id(payload.get("run_id", ""))
    tags = payload.get("tags")
    yard.store.create_run(
        NewRun(
            key=f"child:{child_id}",
            id=child_id,
            workspace=parent.workspace,
            experiment=parent.experiment,
            type=None,
            status=RunStatus.RUNNING,
            display_name=_chained(parent.display_name, storable(str(payload.get("name") or ""))),
            parent_id=run_id,
            tags=_text_tags(tags) if isinstance(tags, dict) else {},
            submitted_by=parent.submitted_by,
        )
    )


def _chained(parent: str, name: str) -> str:
    """Return a child's name after its parent's, as Azure does: `parent>child`."""
    return (f"{parent}>{name}" if parent and name else name)[:255]


def _note_failure(yard: Yard, run_id: str, payload: dict[str, Any]) -> None:
    """Keep what a script said with `run.fail()`; inside a submitted run it does not set the status, the exit does."""
    message = storable(str(payload.get("error_details") or "The script called run.fail()."))[:10_000]
    warning = {"source": "run.fail", "message": message, "code": storable(str(payload.get("error_code") or ""))[:200]}
    if warning not in yard.store.get_run(run_id).warnings:
        yard.store.update_run(run_id, warnings_add=[storable_value(warning)])


def _text_tags(tags: dict[str, Any]) -> dict[str, str | None]:
    return {storable(key): None if value is None else storable(str(value)) for key, value in tags.items()}
