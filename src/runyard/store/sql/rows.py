"""Runs, experiments and workspaces as rows: the document holds the record, the columns beside it are for searching."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import bindparam, delete, select, update

from runyard.core.errors import NotFound
from runyard.core.formats.filters import find_number
from runyard.core.formats.plain import from_plain, to_plain
from runyard.core.formats.run_inputs import DatasetInput, datasets_of
from runyard.core.records import Run
from runyard.store.sql.database import Database, Insert, Session, Statement, Upsert
from runyard.store.sql.schema import experiments, run_labels, runs, workspaces
from runyard.store.text import DamagedBytes, clean, dump, indexed, load, to_microseconds

T = TypeVar("T")
DATASET = "dataset"  # begins the kinds of labels that are made of a run's properties
LABELS = {"tag": "tags", "property": "properties", "parameter": "parameters"}  # kind → field of Run

_RUN_COLUMNS = (runs.c.serial, runs.c.workspace_id, runs.c.experiment_id, runs.c.child, runs.c.document)
_NAMED = (runs.c.id == bindparam("run_id"), runs.c.purge_us.is_(None))  # a deleted run is as if gone
# Locks the row until the end of the transaction where the database has row locks.
_FIND_TO_CHANGE = Statement(select(*_RUN_COLUMNS).where(*_NAMED).with_for_update())
_FIND = Statement(select(*_RUN_COLUMNS).where(*_NAMED))
_SERIAL = Statement(select(runs.c.serial).where(*_NAMED))
_UPDATE = Statement(
    update(runs)
    .where(runs.c.serial == bindparam("row"))
    .values(
        status=bindparam("new_status"),
        finished=bindparam("new_finished"),
        name=bindparam("new_name"),
        archived=bindparam("new_archived"),
        started_us=bindparam("new_started"),
        ended_us=bindparam("new_ended"),
        document=bindparam("new_document"),
    )
)
_WORKSPACE = Statement(
    select(workspaces.c.id, workspaces.c.document).where(workspaces.c.name == bindparam("workspace_name"))
)
_EXPERIMENTS = select(experiments.c.id, experiments.c.last_number, experiments.c.document).where(
    experiments.c.workspace_id == bindparam("workspace")
)
_NAMED_SO = _EXPERIMENTS.where(experiments.c.name == bindparam("experiment_name"))
_TITLED_SO = _EXPERIMENTS.where(experiments.c.title == bindparam("experiment_name"))
_EXPERIMENT_ID = (Statement(_NAMED_SO), Statement(_TITLED_SO))
DELETED = 2  # the column `archived` of an experiment
_IS_SHOWN = experiments.c.archived < DELETED
_EXPERIMENT = (Statement(_NAMED_SO.where(_IS_SHOWN)), Statement(_TITLED_SO.where(_IS_SHOWN)))
_EXPERIMENT_TO_CHANGE = (
    Statement(_NAMED_SO.where(_IS_SHOWN).with_for_update()),
    Statement(_TITLED_SO.where(_IS_SHOWN).with_for_update()),
)
INSERT_LABELS = Upsert(
    run_labels,
    "run_serial",
    "kind",
    "key",
    "value",
    "number",
    keys=("run_serial", "kind", "key"),
    change=("value", "number"),
)
_DELETE_LABEL = Statement(
    delete(run_labels).where(
        run_labels.c.run_serial == bindparam("row"),
        run_labels.c.kind == bindparam("label_kind"),
        run_labels.c.key == bindparam("label_key"),
    )
)
INSERT_RUN = Insert(
    runs,
    "id",
    "key",
    "workspace_id",
    "experiment_id",
    "parent_serial",
    "child",
    "status",
    "finished",
    "type",
    "document",
    "name",
    "target",
    "created_us",
    "number",
    "submitted_by",
    "owner",
    "started_us",
    "ended_us",
)


class RunRow(NamedTuple):
    """A run's row: its keys and the document."""

    serial: int
    workspace_id: int
    experiment_id: int
    child: int
    document: str

    @property
    def run(self) -> Run:
        """The record, parsed anew on each use."""
        return run_of(self.document)


class SqlPart:
    """What the parts of SqlStore share: the database and the clock."""

    def __init__(self, database: Database, *, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock


_MOST_KEPT = 8192  # characters of a document whose record `shared_run_of` keeps


def shared_run_of(document: str) -> Run:
    """Return the run of a document for reading only: the same one again for a run that is written to all the time."""
    return _kept_run(document) if len(document) <= _MOST_KEPT else run_of(document)


@lru_cache(maxsize=64)
def _kept_run(document: str) -> Run:
    return run_of(document)


def run_of(document: str) -> Run:
    """Return the run of a document. Raises DamagedBytes."""
    return record_of(Run, document)


def record_of(cls: type[T], document: str) -> T:
    """Return the record of a document; DamagedBytes where it is not what was stored."""
    try:
        return from_plain(cls, load(document))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DamagedBytes(f"a {cls.__name__} document ({error})") from error


def document_of(record: Any) -> str:
    """Return a record as the JSON text that is stored."""
    return dump(to_plain(record))


def find_run_row(session: Session, run_id: str) -> RunRow | None:
    """Return the row of a run that is not hidden; None for an unknown one."""
    row = session.one(_FIND, run_id=clean(run_id))
    return None if row is None else RunRow(*row)


def get_run_row(session: Session, run_id: str, *, to_change: bool = False) -> RunRow:
    """Return the row of a run that is not hidden, or raise NotFound; `to_change` locks it until the commit."""
    row = session.one(_FIND_TO_CHANGE if to_change else _FIND, run_id=clean(run_id))
    if row is None:
        raise no_run(run_id)
    return RunRow(*row)


def get_serial(session: Session, run_id: str) -> int:
    """Return the serial of a run that is not hidden, or raise NotFound."""
    row = session.one(_SERIAL, run_id=clean(run_id))
    if row is None:
        raise no_run(run_id)
    return int(row[0])


def change_run(session: Session, run_id: str, change: Callable[[Run], Run]) -> Run:
    """Store what `change` makes of a run, and return it."""
    row = get_run_row(session, run_id, to_change=True)
    old = row.run
    new = change(old)
    if new is not old:
        save_run(session, row.serial, old, new)
    return new


def save_run(session: Session, serial: int, old: Run, new: Run) -> None:
    """Write a changed run: its document, its search columns, and the labels that differ. In a write transaction."""
    session.run(
        _UPDATE,
        row=serial,
        new_status=new.status.value,
        new_finished=int(new.status.is_terminal),
        new_name=indexed(new.display_name),
        new_archived=int(new.archived_at is not None),
        new_started=microseconds(new.started_at),
        new_ended=microseconds(new.ended_at),
        new_document=document_of(new),
    )
    for kind, field in LABELS.items():
        _save_labels(session, serial, kind, getattr(old, field), getattr(new, field))
    if old.properties != new.properties:
        before = dataset_labels(old)
        for kind, labels in dataset_labels(new).items():
            _save_labels(session, serial, kind, before[kind], labels)


def dataset_labels(run: Run) -> dict[str, dict[str, str | None]]:
    """Return the labels by which the datasets that a run read are searched, by kind."""
    datasets = datasets_of(run.properties)
    found: dict[str, dict[str, str | None]] = {
        f"{DATASET}_{fact}": {value: value for dataset in datasets if (value := getattr(dataset, fact)) is not None}
        for fact in ("name", "digest", "context")
    }
    found[DATASET] = {dataset_label(dataset): "" for dataset in datasets}
    return found


def dataset_label(dataset: DatasetInput) -> str:
    """Return the text by which datasets of the same name, digest and context are one."""
    return dump([dataset.name, dataset.digest, dataset.context])


def microseconds(at: datetime | None) -> int | None:
    """Return a time as it is stored, None for none."""
    return None if at is None else to_microseconds(at)


def label_rows(serial: int, kind: str, labels: Mapping[str, str | None]) -> list[dict[str, object]]:
    """Return the rows by which a run's tags, properties or parameters are searched."""
    return [
        {
            "run_serial": serial,
            "kind": kind,
            "key": indexed(key),
            "value": indexed(str("" if value is None else value)),
            "number": find_number(value),
        }
        for key, value in labels.items()
    ]


def find_workspace_row(session: Session, name: str) -> tuple[int, str] | None:
    """Return a workspace's id and document; None for an unknown one."""
    row = session.one(_WORKSPACE, workspace_name=clean(name))
    return None if row is None else (int(row[0]), str(row[1]))


def get_workspace_id(session: Session, name: str) -> int:
    """Return the id of a workspace's row, or raise NotFound."""
    row = find_workspace_row(session, name)
    if row is None:
        raise no_workspace(name)
    return row[0]


def find_experiment_row(
    session: Session, workspace_id: int, name: str, *, to_change: bool = False
) -> tuple[int, int, str] | None:
    """Return the id of the experiment of that name or title, the number of its last run, and its document."""
    row = _named(session, _EXPERIMENT_TO_CHANGE if to_change else _EXPERIMENT, workspace_id, name)
    return None if row is None else (int(row[0]), int(row[1]), str(row[2]))


def find_experiment_id(session: Session, workspace_id: int, name: str) -> int | None:
    """Return its row's id, of a deleted one too: its runs can be listed by its name."""
    row = _named(session, _EXPERIMENT_ID, workspace_id, name)
    return None if row is None else int(row[0])


def _named(session: Session, statements: tuple[Statement, Statement], workspace_id: int, name: str) -> Any:
    """Return the row with that name, else the one with that title."""
    for statement in statements:
        row = session.one(statement, workspace=workspace_id, experiment_name=clean(name))
        if row is not None:
            return row
    return None


def no_run(run_id: str) -> NotFound:
    """Return the error for an unknown run."""
    return NotFound(f"There is no run `{run_id}`.", hint="List the runs with `runyard runs list`.")


def no_workspace(name: str) -> NotFound:
    """Return the error for an unknown workspace."""
    return NotFound(
        f"There is no workspace `{name}`.", hint="It is made by the first `Workspace.from_config()` that names it."
    )


def no_experiment(workspace: str, name: str) -> NotFound:
    """Return the error for an unknown experiment."""
    return NotFound(
        f"There is no experiment `{name}` in workspace `{workspace}`.",
        hint="It is made by the first `Experiment(workspace, name)` that names it.",
    )


def _save_labels(
    session: Session, serial: int, kind: str, old: Mapping[str, str | None], new: Mapping[str, str | None]
) -> None:
    if old == new:
        return
    for key in old:
        if key not in new:
            session.run(_DELETE_LABEL, row=serial, label_kind=kind, label_key=indexed(key))
    changed = {key: value for key, value in new.items() if key not in old or old[key] != value}
    session.many(INSERT_LABELS, label_rows(serial, kind, changed))
