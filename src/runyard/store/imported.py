"""Runs of other trackers as records of ours: made, known again, changed. Pure; every store uses it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from runyard.core.errors import Conflict
from runyard.core.formats.documents import RunWarning
from runyard.core.records import IMPORTED_PROPERTY, MLFLOW_RUN, Experiment, Phase, Run
from runyard.core.statuses import RunStatus
from runyard.store.record_limits import add_warnings, check_labels, check_texts, short_error, without_known
from runyard.store.rules import create
from runyard.store.types import ImportedRecord

PARENT_TAG, PARENT_PROPERTY = "mlflow.parentRunId", "runyard.imported_parent"


def create_imported(
    record: ImportedRecord, *, number: int, experiment: Experiment, parent: Run | None, now: datetime
) -> Run:
    """Return the run that a record makes.

    Raises:
        TooLarge: its tags or texts are beyond the limits of a run.
    """
    new = record.new if parent is not None else replace(record.new, parent_id=None)
    root_id = new.id if parent is None else parent.root_id
    made = create(new, number=number, experiment=experiment, root_id=root_id, now=record.created_at or now)
    return _changed(made, record, now=now)


def change_imported(run: Run, record: ImportedRecord, *, now: datetime) -> Run:
    """Return a run that was imported before, as the source has it now.

    Raises:
        Conflict: the run is another than the record's.
        TooLarge: its tags or texts are beyond the limits of a run.
    """
    check_same_import(run, record)
    check_texts(run.id, display_name=record.new.display_name, description=record.new.description)
    return _changed(run, record, now=now)


def check_same_import(run: Run, record: ImportedRecord) -> None:
    """Raise Conflict unless the run was imported from where the record comes from."""
    found, wanted = _origin(run.properties.get(IMPORTED_PROPERTY, "")), _origin(record.origin)
    keys = ("source", "created_ns")
    if run.workspace == record.new.workspace and found and all(found.get(key) == wanted.get(key) for key in keys):
        return
    why = f"It is a run of workspace `{run.workspace}`, experiment `{run.experiment}`"
    why += f", imported from {found.get('source')}, but made at another time." if found else ", and was not imported."
    raise Conflict(
        f"The run id `{run.id}` is taken.",
        why=why,
        hint=f"Delete that run for good (`runyard runs delete --now {run.id}`), then import again.",
    )


def note_parent(record: ImportedRecord, parent: Run | None) -> ImportedRecord:
    """Return the record; one whose parent is not there says so, and keeps the parent's id as a tag or property."""
    parent_id = record.new.parent_id
    if parent_id is None or parent is not None:
        return record
    if record.new.type == MLFLOW_RUN:
        new = replace(record.new, tags={**record.new.tags, PARENT_TAG: parent_id})
    else:
        new = replace(record.new, properties={**record.new.properties, PARENT_PROPERTY: parent_id})
    return replace(record, new=new, notes=[*record.notes, f"its parent `{parent_id}` is not here"])


def with_notes(run: Run, notes: Sequence[str]) -> Run:
    """Return the run with notes of its import among its warnings, each once."""
    new: list[RunWarning] = [{"source": "import", "message": note} for note in notes]
    fresh = without_known(run.warnings, new)
    return replace(run, warnings=add_warnings(run.warnings, fresh)) if fresh else run


def _changed(run: Run, record: ImportedRecord, *, now: datetime) -> Run:
    new = record.new
    tags = {**run.tags, **new.tags}
    properties = {**run.properties, **new.properties, IMPORTED_PROPERTY: record.origin}
    logged = {**run.logged_parameters, **record.parameters}
    parameters = {**run.parameters, **logged}
    check_labels(f"Run `{new.id}`", tags, properties, parameters)
    ended = record.ended_at or run.ended_at if new.status.is_terminal else None
    started = new.started_at or run.started_at
    phases = [Phase(RunStatus.RUNNING, started)] if started is not None else []
    archived_at = run.archived_at or now if record.archived else run.archived_at
    changed = replace(
        run,
        status=new.status,
        display_name=new.display_name or run.display_name,
        description=new.description or run.description,
        tags=tags,
        properties=properties,
        parameters=parameters,
        logged_parameters=logged,
        started_at=started,
        ended_at=ended,
        timeline=[*phases, Phase(new.status, ended or started or run.created_at)],
        error=None if record.error is None else short_error(record.error),
        archived_at=archived_at,
    )
    return with_notes(changed, record.notes)


def _origin(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
