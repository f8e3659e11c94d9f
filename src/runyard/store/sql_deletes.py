"""SqlStore's part that deletes: runs with all that belongs to them, and empty experiments."""

from __future__ import annotations

from sqlalchemy import bindparam, delete, select

from runyard.store.changes import check_ended, has_experiments, has_runs
from runyard.store.database import Session
from runyard.store.schema import (
    CHUNKS_PER_SERIES,
    assets,
    experiments,
    metric_chunks,
    run_metrics,
    runs,
    series,
    workspaces,
)
from runyard.store.sql_rows import (
    SqlPart,
    find_experiment_row,
    get_run_row,
    get_workspace_id,
    no_experiment,
    run_of,
)
from runyard.store.statements import Statement

_CHILDREN = Statement(
    select(runs.c.serial, runs.c.id, runs.c.finished, runs.c.document)
    .where(runs.c.parent_serial == bindparam("row"))
    .order_by(runs.c.serial)
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

    def delete_experiment(self, workspace: str, name: str) -> None:
        def remove(session: Session) -> None:
            found = find_experiment_row(session, get_workspace_id(session, workspace), name, to_change=True)
            if found is None:
                raise no_experiment(workspace, name)
            if session.one(_ONE_RUN, row=found[0]) is not None:
                raise has_runs(name)
            session.run(_DELETE_EXPERIMENT, row=found[0])

        self._database.write(remove)

    def delete_workspace(self, name: str) -> None:
        def remove(session: Session) -> None:
            row = get_workspace_id(session, name)
            if session.one(_ONE_EXPERIMENT, row=row) is not None:
                raise has_experiments(name)
            session.run(_DELETE_ASSETS, row=row)
            session.run(_DELETE_WORKSPACE, row=row)

        self._database.write(remove)


def _delete_family(session: Session, run_id: str) -> list[str]:
    top = get_run_row(session, run_id, to_change=True)
    check_ended(top.run)
    family = [(top.serial, run_id)]
    for serial, _ in family:  # grows while it is walked: children of children follow
        for child, child_id, finished, document in session.all(_CHILDREN, row=serial):
            if not finished:
                check_ended(run_of(document))
            family.append((child, child_id))
    for serial, _ in reversed(family):  # a run must outlive its children's references to it
        _delete_run(session, serial)
    return [id for _, id in family]


def _delete_run(session: Session, serial: int) -> None:
    """Delete a run's row, which takes with it all that refers to it, and its points, which are found by number."""
    numbers = [int(row[0]) for row in session.all(_SERIES, row=serial)]
    spans = [{"first": id * CHUNKS_PER_SERIES, "end": (id + 1) * CHUNKS_PER_SERIES} for id in numbers]
    session.many(_DELETE_CHUNKS, spans)
    session.run(_DELETE_RUN, row=serial)
