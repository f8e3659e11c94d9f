"""SqlStore's part for the server's own values, workspaces and experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlalchemy import bindparam, select, update

from runyard.core.names import make_uuid
from runyard.core.records import Experiment, Workspace
from runyard.store.rules import changed_experiment, made_again
from runyard.store.sql.database import Session
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
from runyard.store.sql.schema import experiments, server_values, workspaces
from runyard.store.sql.statements import Insert, Statement, Upsert
from runyard.store.text import clean, from_microseconds

_VALUE = Statement(select(server_values.c.value).where(server_values.c.key == bindparam("value_key")))
_SET_VALUE = Upsert(server_values, "key", "value", keys=("key",), change=("value",))
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


class SqlWorkspaces(SqlPart):
    def find_value(self, key: str) -> str | None:
        with self._database.reading() as session:
            row = session.one(_VALUE, value_key=key)
        return None if row is None else str(row[0])

    def set_value(self, key: str, value: str) -> None:
        self._database.write(lambda session: session.run(_SET_VALUE, key=key, value=clean(value)))

    def put_workspace(self, workspace: Workspace) -> Workspace:
        with self._database.reading() as session:
            found = find_workspace_row(session, workspace.name)
        if found is not None:
            return _workspace(found[1])
        return self._database.write(lambda session: _put_workspace(session, workspace))

    def get_workspace(self, name: str) -> Workspace:
        with self._database.reading() as session:
            found = find_workspace_row(session, name)
        if found is None:
            raise no_workspace(name)
        return _workspace(found[1])

    def list_workspaces(self) -> list[Workspace]:
        with self._database.reading() as session:
            return [_workspace(row[0]) for row in session.all(_WORKSPACES)]

    def put_experiment(self, workspace: str, name: str, *, owner: str | None = None) -> Experiment:
        with self._database.reading() as session:
            found = find_experiment_row(session, get_workspace_id(session, workspace), name)
        if found is not None:
            return _experiment(found[2])
        return self._database.write(
            lambda session: _experiment(self._put_experiment(session, workspace, name, owner=owner)[2])
        )

    def get_experiment(self, workspace: str, name: str) -> Experiment:
        with self._database.reading() as session:
            found = find_experiment_row(session, get_workspace_id(session, workspace), name)
        if found is None:
            raise no_experiment(workspace, name)
        return _experiment(found[2])

    def list_experiments(
        self, workspace: str, *, view: str = "ActiveOnly", name: str | None = None
    ) -> list[Experiment]:
        with self._database.reading() as session:
            rows = session.all(_EXPERIMENTS, workspace=get_workspace_id(session, workspace))
        shown = _VIEWS.get(view, (0,))
        wanted = [row for row in rows if row[0] in shown and name in (None, row[1])]
        return [_shown(row) for row in wanted]

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
            found = find_experiment_row(session, get_workspace_id(session, workspace), name, to_change=True)
            if found is None:
                raise no_experiment(workspace, name)
            new = changed_experiment(
                _experiment(found[2]), now=self._clock(), archived=archived, tags_set=tags_set, tags_remove=tags_remove
            )
            is_archived = int(new.archived_at is not None)
            session.run(_UPDATE_EXPERIMENT, row=found[0], new_archived=is_archived, new_document=document_of(new))
            return new

        return self._database.write(change)

    def _put_experiment(
        self, session: Session, workspace: str, name: str, *, owner: str | None
    ) -> tuple[int, int, str]:
        """Return the experiment's row, made now when there is none."""
        workspace_id = get_workspace_id(session, workspace)
        found = find_experiment_row(session, workspace_id, name, to_change=True)
        if found is None and self._make_again(session, workspace_id, name, owner):
            found = find_experiment_row(session, workspace_id, name, to_change=True)
        if found is None:
            document = document_of(Experiment(make_uuid(), name, workspace, self._clock(), owner=owner))
            session.run(
                _INSERT_EXPERIMENT,
                workspace_id=workspace_id,
                name=clean(name),
                archived=0,
                last_number=0,
                document=document,
            )
            found = find_experiment_row(session, workspace_id, name, to_change=True)
        assert found is not None
        return found

    def _make_again(self, session: Session, workspace_id: int, name: str, owner: str | None) -> bool:
        """Bring a deleted experiment back as a new one, without its runs, which can still be restored into it."""
        found = session.one(_DELETED, workspace=workspace_id, experiment_name=clean(name))
        if found is None:
            return False
        new = made_again(_experiment(found[1]), now=self._clock(), owner=owner)
        session.run(_UPDATE_EXPERIMENT, row=found[0], new_archived=0, new_document=document_of(new))
        return True


def _put_workspace(session: Session, workspace: Workspace) -> Workspace:
    session.run(_INSERT_WORKSPACE, name=clean(workspace.name), document=document_of(workspace))
    found = find_workspace_row(session, workspace.name)
    assert found is not None
    return _workspace(found[1])


def _workspace(document: str) -> Workspace:
    return record_of(Workspace, document)


def _experiment(document: str) -> Experiment:
    return record_of(Experiment, document)


def _shown(row: tuple[int, str, str, int | None]) -> Experiment:
    archived, _, document, purge_us = row
    until = from_microseconds(purge_us) if archived == DELETED and purge_us is not None else None
    return replace(_experiment(document), undo_until=until)
