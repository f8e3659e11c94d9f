"""SqlStore's part that deletes for good: runs with all that belongs to them, and empty experiments."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import bindparam, delete, null, select, update

from runyard.store.rules import check_ended, has_experiments, has_runs
from runyard.store.sql.database import Session
from runyard.store.sql.rows import (
    DELETED,
    SqlPart,
    find_experiment_id,
    get_workspace_id,
    no_experiment,
    no_run,
    run_of,
)
from runyard.store.sql.schema import (
    CHUNKS_PER_SERIES,
    assets,
    experiments,
    metric_chunks,
    run_metrics,
    runs,
    series,
    workspaces,
)
from runyard.store.sql.statements import Statement
from runyard.store.text import clean, to_microseconds

_COLUMNS = (runs.c.serial, runs.c.id, runs.c.purge_us, runs.c.finished, runs.c.document)
_TOP = Statement(select(*_COLUMNS).where(runs.c.id == bindparam("run_id")).with_for_update())
_CHILDREN = Statement(select(*_COLUMNS).where(runs.c.parent_serial == bindparam("row")).order_by(runs.c.serial))
_FREE_EXPERIMENTS = Statement(
    update(experiments)
    .where(experiments.c.purge_us <= bindparam("now"), experiments.c.archived != DELETED)
    .values(purge_us=null())
)
_PURGE_EXPERIMENTS = Statement(
    delete(experiments).where(
        experiments.c.purge_us <= bindparam("now"),
        experiments.c.archived == DELETED,
        experiments.c.id.not_in(select(runs.c.experiment_id)),
    )
)
_SERIES = Statement(
    select(series.c.id)
    .join_from(series, run_metrics, run_metrics.c.id == series.c.metric_id)
    .where(run_metrics.c.run_serial == bindparam("row"))
)
_DELETE_CHUNKS = Statement(
    delete(metric_chunks).where(metric_chunks.c.id >= bindparam("first"), metric_chunks.c.id < bindparam("end"))
)
_DELETE_RUN = Statement(delete(runs).where(runs.c.serial == bindparam("row")))
_ONE_RUN = Statement(select(runs.c.serial).where(runs.c.experiment_id == bindparam("row")).limit(1))
_ONE_EXPERIMENT = Statement(select(experiments.c.id).where(experiments.c.workspace_id == bindparam("row")).limit(1))
_DELETE_ASSETS = Statement(delete(assets).where(assets.c.workspace_id == bindparam("row")))
_DELETE_WORKSPACE = Statement(delete(workspaces).where(workspaces.c.id == bindparam("row")))
_DELETE_EXPERIMENT = Statement(delete(experiments).where(experiments.c.id == bindparam("row")))


class SqlDeletes(SqlPart):
    def delete_run(self, run_id: str) -> list[str]:
        return self._database.write(lambda session: _delete_family(session, run_id))

    def purge_run(self, run_id: str, now: datetime) -> list[str]:
        due = to_microseconds(now)
        return self._database.write(lambda session: _delete_family(session, run_id, due=due))

    def purge_experiments(self, now: datetime) -> None:
        def purge(session: Session) -> None:
            session.run(_FREE_EXPERIMENTS, now=to_microseconds(now))
            session.run(_PURGE_EXPERIMENTS, now=to_microseconds(now))

        self._database.write(purge)

    def delete_experiment(self, workspace: str, name: str) -> None:
        def remove(session: Session) -> None:
            row = find_experiment_id(session, get_workspace_id(session, workspace), name)
            if row is None:
                raise no_experiment(workspace, name)
            if session.one(_ONE_RUN, row=row) is not None:
                raise has_runs(name)
            session.run(_DELETE_EXPERIMENT, row=row)

        self._database.write(remove)

    def delete_workspace(self, name: str) -> None:
        def remove(session: Session) -> None:
            row = get_workspace_id(session, name)
            if session.one(_ONE_EXPERIMENT, row=row) is not None:
                raise has_experiments(name)
            session.run(_DELETE_ASSETS, row=row)
            session.run(_DELETE_WORKSPACE, row=row)

        self._database.write(remove)


def _delete_family(session: Session, run_id: str, *, due: int | None = None) -> list[str]:
    """Delete a run and all below it; with `due` only if all of them are hidden until then at the latest."""
    family = session.all(_TOP, run_id=clean(run_id))
    if not family and due is None:
        raise no_run(run_id)
    for row in family:  # grows while it is walked: children of children follow
        family += session.all(_CHILDREN, row=row[0])
    for _, _, purge_us, finished, document in family:
        if due is not None and (purge_us is None or purge_us > due):
            return []
        if not finished:
            check_ended(run_of(document))
    for row in reversed(family):  # a run must outlive its children's references to it
        _delete_run(session, row[0])
    return [row[1] for row in family]


def _delete_run(session: Session, serial: int) -> None:
    """Delete a run's row, which takes with it all that refers to it, and its points, which are found by number."""
    numbers = [int(row[0]) for row in session.all(_SERIES, row=serial)]
    spans = [{"first": id * CHUNKS_PER_SERIES, "end": (id + 1) * CHUNKS_PER_SERIES} for id in numbers]
    session.many(_DELETE_CHUNKS, spans)
    session.run(_DELETE_RUN, row=serial)
