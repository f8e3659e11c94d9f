"""SqlStore's part for workspaces and experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from sqlalchemy import bindparam, select, update

from runyard.core.names import make_uuid
from runyard.core.records import Experiment, Workspace
from runyard.store.base import Workspaces
from runyard.store.rules import change_experiment, recreate_experiment
from runyard.store.sql.database import Insert, Session, Statement, Upsert
from runyard.store.sql.deletes import (
    delete_experiment,
    delete_workspace,
    hide_experiment,
    purge_experiments,
    restore_experiment,
)
from runyard.store.sql.rows import (
    DELETED,
    SqlPart,
    document_of,
    find_experiment_row,
    find_workspace_row,
    get_workspace_id,
    no_experiment,
    no_workspace,
    record_of,
)
from runyard.store.sql.schema import experiments, workspaces
from runyard.store.text import clean, from_microseconds

_INSERT_WORKSPACE = Upsert(workspaces, "name", "document", keys=("name",))
_WORKSPACES = Statement(select(workspaces.c.document).order_by(workspaces.c.name))
_INSERT_EXPERIMENT = Insert(experiments, "workspace_id", "name", "archived", "last_number", "document")
_EXPERIMENTS = Statement(
    select(experiments.c.archived, experiments.c.name, experiments.c.document, experiments.c.purge_us)
    .where(experiments.c.workspace_id == bindparam("workspace"))
    .order_by(experiments.c.name)
)
_UPDATE_EXPERIMENT = Statement(
    update(experiments)
    .where(experiments.c.id == bindparam("row"))
    .values(archived=bindparam("new_archived"), document=bindparam("new_document"))
)
_DELETED = Statement(
    select(experiments.c.id, experiments.c.document)
    .where(
        experiments.c.workspace_id == bindparam("workspace"),
        experiments.c.name == bindparam("experiment_name"),
        experiments.c.archived == DELETED,
    )
    .with_for_update()
)
_VIEWS = {"ActiveOnly": (0,), "ArchivedOnly": (1,), "All": (0, 1), "DeletedOnly": (DELETED,)}


class SqlWorkspaces(SqlPart, Workspaces):
    """Workspaces and experiments: one row each, with the record as a document."""

    def put_workspace(self, workspace: Workspace) -> Workspace:
        with self._database.reading() as session:
            row = find_workspace_row(session, workspace.name)
        if row is not None:
            return _workspace(row[1])
        return self._database.write(lambda session: _put_workspace(session, workspace))

    def get_workspace(self, name: str) -> Workspace:
        with self._database.reading() as session:
            row = find_workspace_row(session, name)
        if row is None:
            raise no_workspace(name)
        return _workspace(row[1])

    def list_workspaces(self) -> list[Workspace]:
        with self._database.reading() as session:
            return [_workspace(row[0]) for row in session.all(_WORKSPACES)]

    def put_experiment(self, workspace: str, name: str, *, owner: str | None = None) -> Experiment:
        with self._database.reading() as session:
            row = find_experiment_row(session, get_workspace_id(session, workspace), name)
        if row is not None:
            return _experiment(row[2])
        return self._database.write(
            lambda session: _experiment(put_experiment_row(session, workspace, name, owner=owner, now=self._clock())[2])
        )

    def get_experiment(self, workspace: str, name: str) -> Experiment:
        with self._database.reading() as session:
            row = find_experiment_row(session, get_workspace_id(session, workspace), name)
        if row is None:
            raise no_experiment(workspace, name)
        return _experiment(row[2])

    def list_experiments(
        self, workspace: str, *, view: str = "ActiveOnly", name: str | None = None
    ) -> list[Experiment]:
        with self._database.reading() as session:
            rows = session.all(_EXPERIMENTS, workspace=get_workspace_id(session, workspace))
        shown = _VIEWS.get(view, (0,))
        return [_shown(row) for row in rows if row[0] in shown and name in (None, row[1])]

    def update_experiment(
        self,
        workspace: str,
        name: str,
        *,
        archived: bool | None = None,
        tags_set: Mapping[str, str | None] | None = None,
        tags_remove: Sequence[str] = (),
    ) -> Experiment:
        def change(session: Session) -> Experiment:
            row = find_experiment_row(session, get_workspace_id(session, workspace), name, to_change=True)
            if row is None:
                raise no_experiment(workspace, name)
            new = change_experiment(
                _experiment(row[2]), now=self._clock(), archived=archived, tags_set=tags_set, tags_remove=tags_remove
            )
            is_archived = int(new.archived_at is not None)
            session.run(_UPDATE_EXPERIMENT, row=row[0], new_archived=is_archived, new_document=document_of(new))
            return new

        return self._database.write(change)

    def hide_experiment(self, workspace: str, name: str, *, until: datetime) -> list[str]:
        return self._database.write(lambda session: hide_experiment(session, workspace, name, until))

    def restore_experiment(self, workspace: str, name: str) -> list[str]:
        return self._database.write(lambda session: restore_experiment(session, workspace, name))

    def delete_experiment(self, workspace: str, name: str) -> None:
        self._database.write(lambda session: delete_experiment(session, workspace, name))

    def purge_experiments(self, now: datetime) -> None:
        self._database.write(lambda session: purge_experiments(session, now))

    def delete_workspace(self, name: str) -> None:
        self._database.write(lambda session: delete_workspace(session, name))


def put_experiment_row(
    session: Session, workspace: str, name: str, *, owner: str | None, now: datetime
) -> tuple[int, int, str]:
    """Return the experiment's row, as find_experiment_row; create it when there is none. In a write transaction."""
    workspace_id = get_workspace_id(session, workspace)
    row = find_experiment_row(session, workspace_id, name, to_change=True)
    if row is not None:
        return row
    if not _recreate(session, workspace_id, name, owner=owner, now=now):
        session.run(
            _INSERT_EXPERIMENT,
            workspace_id=workspace_id,
            name=clean(name),
            archived=0,
            last_number=0,
            document=document_of(Experiment(make_uuid(), name, workspace, now, owner=owner)),
        )
    row = find_experiment_row(session, workspace_id, name, to_change=True)
    assert row is not None
    return row


def _recreate(session: Session, workspace_id: int, name: str, *, owner: str | None, now: datetime) -> bool:
    """Bring a deleted experiment back as a new one, without its runs, which can still be restored into it."""
    row = session.one(_DELETED, workspace=workspace_id, experiment_name=clean(name))
    if row is None:
        return False
    new = recreate_experiment(_experiment(row[1]), now=now, owner=owner)
    session.run(_UPDATE_EXPERIMENT, row=row[0], new_archived=0, new_document=document_of(new))
    return True


def _put_workspace(session: Session, workspace: Workspace) -> Workspace:
    session.run(_INSERT_WORKSPACE, name=clean(workspace.name), document=document_of(workspace))
    row = find_workspace_row(session, workspace.name)
    assert row is not None
    return _workspace(row[1])


def _workspace(document: str) -> Workspace:
    return record_of(Workspace, document)


def _experiment(document: str) -> Experiment:
    return record_of(Experiment, document)


def _shown(row: tuple[int, str, str, int | None]) -> Experiment:
    archived, _, document, purge_us = row
    until = from_microseconds(purge_us) if archived == DELETED and purge_us is not None else None
    return replace(_experiment(document), undo_until=until)
