"""Deletes of SqlStore: `purge_us` hides a row until then, NULL shows it again, and a purge deletes it for good.

Every function runs inside the transaction of `session`, which the caller opened: a write transaction for what changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, delete, func, null, select, update

from runyard.core.records import Experiment, Run
from runyard.store.rules import (
    check_ended,
    has_experiments,
    has_runs,
    no_hidden_experiment,
    not_hidden,
    parent_is_hidden,
)
from runyard.store.sql.database import Session, Statement
from runyard.store.sql.query import shown_run
from runyard.store.sql.rows import (
    DELETED,
    find_experiment_id,
    find_experiment_row,
    get_run_row,
    get_workspace_id,
    no_experiment,
    no_run,
    record_of,
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
from runyard.store.text import clean, from_microseconds, to_microseconds

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
MOST_PURGES = 1000
_HIDDEN_UNTIL = runs.c.purge_us + 0 == bindparam("until")  # its index holds all that went with one experiment
_MEMBER = (runs.c.serial, runs.c.id, runs.c.experiment_id)
_SHOWN_CHILDREN = Statement(
    select(*_MEMBER, runs.c.finished)
    .where(runs.c.parent_serial == bindparam("row"), runs.c.purge_us.is_(None))
    .order_by(runs.c.serial)
)
_SHOWN_OF_EXPERIMENT = Statement(
    select(*_MEMBER, runs.c.finished)
    .where(runs.c.experiment_id == bindparam("row"), runs.c.purge_us.is_(None))
    .order_by(runs.c.serial)
)
_HIDDEN_CHILDREN = Statement(
    select(*_MEMBER).where(runs.c.parent_serial == bindparam("row"), _HIDDEN_UNTIL).order_by(runs.c.serial)
)
_HIDDEN_OF_EXPERIMENT = Statement(
    select(*_MEMBER, runs.c.parent_serial)
    .where(runs.c.experiment_id == bindparam("row"), _HIDDEN_UNTIL)
    .order_by(runs.c.serial)
)
_ANY = Statement(select(runs.c.serial, runs.c.id).where(runs.c.id == bindparam("run_id")))
_ANY_CHILDREN = Statement(
    select(runs.c.serial, runs.c.id).where(runs.c.parent_serial == bindparam("row")).order_by(runs.c.serial)
)
_HIDDEN = Statement(
    select(*_MEMBER, runs.c.parent_serial, runs.c.purge_us, runs.c.document).where(
        runs.c.id == bindparam("run_id"), runs.c.purge_us.is_not(None)
    )
)
_HIDDEN_PARENT = Statement(
    select(runs.c.id, runs.c.parent_serial).where(runs.c.serial == bindparam("row"), runs.c.purge_us.is_not(None))
)
_SET_PURGE = Statement(update(runs).where(runs.c.serial == bindparam("row")).values(purge_us=bindparam("until")))
_EXPERIMENT = Statement(
    select(experiments.c.archived, experiments.c.purge_us, experiments.c.document).where(
        experiments.c.id == bindparam("row")
    )
)
_SET_EXPERIMENT = Statement(
    update(experiments)
    .where(experiments.c.id == bindparam("row"))
    .values(archived=bindparam("new_archived"), purge_us=bindparam("until"))
)
_NEXT_RUN = Statement(select(func.min(runs.c.purge_us)).where(runs.c.purge_us.is_not(None)))
_NEXT_EXPERIMENT = Statement(select(func.min(experiments.c.purge_us)))
_DUE = Statement(
    select(runs.c.id)
    .where(runs.c.purge_us.is_not(None), runs.c.purge_us <= bindparam("now"))
    .order_by(runs.c.purge_us, runs.c.serial)
    .limit(MOST_PURGES)
)


def purge_experiments(session: Session, now: datetime) -> None:
    """Delete hidden experiments without runs whose time has come. See RunStore.purge_experiments."""
    session.run(_FREE_EXPERIMENTS, now=to_microseconds(now))
    session.run(_PURGE_EXPERIMENTS, now=to_microseconds(now))


def delete_experiment(session: Session, workspace: str, name: str) -> None:
    """Delete an experiment that has no runs. See RunStore.delete_experiment."""
    row = find_experiment_id(session, get_workspace_id(session, workspace), name)
    if row is None:
        raise no_experiment(workspace, name)
    if session.one(_ONE_RUN, row=row) is not None:
        raise has_runs(name)
    session.run(_DELETE_EXPERIMENT, row=row)


def delete_workspace(session: Session, name: str) -> None:
    """Delete a workspace that has no experiments. See RunStore.delete_workspace."""
    row = get_workspace_id(session, name)
    if session.one(_ONE_EXPERIMENT, row=row) is not None:
        raise has_experiments(name)
    session.run(_DELETE_ASSETS, row=row)
    session.run(_DELETE_WORKSPACE, row=row)


def delete_family(session: Session, run_id: str, *, due: int | None = None) -> list[str]:
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


def hide_run(session: Session, run_id: str, until: datetime) -> list[str]:
    """Hide a finished run and its descendants; return their ids. See RunStore.hide_run."""
    top = get_run_row(session, run_id, to_change=True)
    check_ended(top.run)
    return _hide(session, [(top.serial, run_id, top.experiment_id, 1)], to_microseconds(until))


def restore_run(session: Session, run_id: str) -> list[str]:
    """Bring back a hidden run and what was hidden with it; return the ids. See RunStore.restore_run."""
    row = session.one(_HIDDEN, run_id=clean(run_id))
    if row is None:
        raise not_hidden(run_id)
    serial, _, experiment, parent, until, _ = row
    top = _find_hidden_above(session, parent)
    if top is not None:
        raise parent_is_hidden(run_id, top)
    return _show(session, [(serial, run_id, experiment)], until)


def hide_experiment(session: Session, workspace: str, name: str, until: datetime) -> list[str]:
    """Hide an experiment and its runs; return the runs' ids. See RunStore.hide_experiment."""
    row = find_experiment_row(session, get_workspace_id(session, workspace), name, to_change=True)
    if row is None:
        raise no_experiment(workspace, name)
    until_us = to_microseconds(until)
    hidden = _hide(session, session.all(_SHOWN_OF_EXPERIMENT, row=row[0]), until_us)
    session.run(_SET_EXPERIMENT, row=row[0], new_archived=DELETED, until=until_us)
    return hidden


def restore_experiment(session: Session, workspace: str, name: str) -> list[str]:
    """Bring back an experiment and what was hidden with it; return the runs' ids. See RunStore.restore_experiment."""
    workspace_id = get_workspace_id(session, workspace)
    row = find_experiment_id(session, workspace_id, name)
    until = None if row is None else session.one(_EXPERIMENT, row=row)[1]
    if row is None or until is None:
        raise no_hidden_experiment(name)
    restored = _restore_runs_of(session, row, until)
    _show_experiments(session, [row])
    archived = session.one(_EXPERIMENT, row=row)[0]
    session.run(_SET_EXPERIMENT, row=row, new_archived=archived, until=None)
    return restored


def find_hidden_run(session: Session, run_id: str) -> Run | None:
    """Return a hidden run with the time until which it can be restored."""
    row = session.one(_HIDDEN, run_id=clean(run_id))
    return None if row is None else shown_run(row[5], row[4])


def list_family(session: Session, run_id: str) -> list[str]:
    """Return the ids of a run and its descendants, hidden or not."""
    family = session.all(_ANY, run_id=clean(run_id))
    for serial, _ in family:  # grows while it is walked
        family += session.all(_ANY_CHILDREN, row=serial)
    return [str(row[1]) for row in family]


def find_next_purge(session: Session) -> datetime | None:
    """Return when the first of what is hidden is to be deleted."""
    times = [session.one(_NEXT_RUN)[0], session.one(_NEXT_EXPERIMENT)[0]]
    return min((from_microseconds(at) for at in times if at is not None), default=None)


def list_purges(session: Session, now: datetime) -> list[str]:
    """Return the ids of hidden runs whose time has come, at most MOST_PURGES."""
    return [str(row[0]) for row in session.all(_DUE, now=to_microseconds(now))]


def _hide(session: Session, tops: list[Any], until: int) -> list[str]:
    """Hide these runs (serial, id, experiment, finished) and all below them; return the ids."""
    family, known = [], {row[0] for row in tops}
    family += tops
    for serial, run_id, _, finished in family:  # grows while it is walked: children of children follow
        if not finished:
            check_ended(get_run_row(session, run_id).run)
        below = [row for row in session.all(_SHOWN_CHILDREN, row=serial) if row[0] not in known]
        known.update(row[0] for row in below)
        family += below
    session.many(_SET_PURGE, [{"row": row[0], "until": until} for row in family])
    return [row[1] for row in family]


def _restore_runs_of(session: Session, experiment: int, until: int) -> list[str]:
    """Bring back what was hidden with the experiment, but for runs below one that was deleted by itself."""
    found = session.all(_HIDDEN_OF_EXPERIMENT, row=experiment, until=until)
    together = {row[0] for row in found}
    kept = [row[:3] for row in found if row[3] in together or _find_hidden_above(session, row[3]) is None]
    return _show(session, kept, until)


def _find_hidden_above(session: Session, serial: int | None) -> str | None:
    """Return the topmost of the hidden runs from here upwards: those above a shown run are shown."""
    top: str | None = None
    while serial is not None:
        row = session.one(_HIDDEN_PARENT, row=serial)
        if row is None:
            break
        top, serial = row
    return top


def _show(session: Session, tops: list[Any], until: int) -> list[str]:
    """Show these runs (serial, id, experiment) and what was hidden with them below them; return the ids."""
    family, known = [], {row[0] for row in tops}
    family += tops
    for serial, _, _ in family:
        below = [row for row in session.all(_HIDDEN_CHILDREN, row=serial, until=until) if row[0] not in known]
        known.update(row[0] for row in below)
        family += below
    session.many(_SET_PURGE, [{"row": row[0], "until": None} for row in family])
    _show_experiments(session, {row[2] for row in family})
    return [row[1] for row in family]


def _show_experiments(session: Session, rows: Iterable[int]) -> None:
    for row in rows:
        archived, until, document = session.one(_EXPERIMENT, row=row)
        if archived == DELETED:
            was_archived = record_of(Experiment, document).archived_at is not None
            session.run(_SET_EXPERIMENT, row=row, new_archived=int(was_archived), until=until)
