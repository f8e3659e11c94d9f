"""SqlStore's part for workspaces and experiments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from sqlalchemy import bindparam, case, or_, select, update

from runyard.core.names import make_uuid, name_of_title
from runyard.core.records import Experiment, Workspace
from runyard.store.base import Workspaces
from runyard.store.record_limits import check_labels
from runyard.store.rules import change_experiment, recreate_experiment, title_is_taken
from runyard.store.sql.database import Database, Insert, Session, Statement, Upsert
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
_INSERT_EXPERIMENT = Insert(
    experiments, "workspace_id", "name", "archived", "last_number", "document", "public_id", "title"
)
_COLUMNS = (experiments.c.archived, experiments.c.name, experiments.c.document, experiments.c.purge_us)
_HERE = select(*_COLUMNS).where(experiments.c.workspace_id == bindparam("workspace"))
_EXPERIMENTS = Statement(_HERE.order_by(experiments.c.name))
_NAMED = Statement(_HERE.where(experiments.c.name == bindparam("experiment_name")))
_TITLED = Statement(_HERE.where(experiments.c.title == bindparam("experiment_name")))
_WITH_ID = Statement(_HERE.where(experiments.c.public_id == bindparam("public_id"), experiments.c.archived < DELETED))
_UPDATE_EXPERIMENT = Statement(
    update(experiments)
    .where(experiments.c.id == bindparam("row"))
    .values(archived=bindparam("new_archived"), document=bindparam("new_document"), title=bindparam("new_title"))
)
_DELETED = Statement(
    select(experiments.c.id, experiments.c.document)
    .where(
        experiments.c.workspace_id == bindparam("workspace"),
        or_(experiments.c.name == bindparam("experiment_name"), experiments.c.title == bindparam("experiment_name")),
        experiments.c.archived == DELETED,
    )
    .order_by(case((experiments.c.name == bindparam("experiment_name"), 0), else_=1))
    .with_for_update()
)
_VIEWS = {"ActiveOnly": (0,), "ArchivedOnly": (1,), "All": (0, 1), "DeletedOnly": (DELETED,)}


class SqlWorkspaces(SqlPart, Workspaces):
    """Workspaces and experiments: one row each, with the record as a document."""

    def __init__(self, database: Database, *, clock: Callable[[], datetime]) -> None:
        super().__init__(database, clock=clock)
        self._known: dict[str, tuple[int, Workspace]] = {}  # by name, with the version of the table they were read from

    def put_workspace(self, workspace: Workspace) -> Workspace:
        with self._database.reading() as session:
            row = find_workspace_row(session, workspace.name)
        if row is not None:
            return _workspace(row[1])
        return self._database.write(lambda session: _put_workspace(session, workspace))

    def get_workspace(self, name: str) -> Workspace:
        version = self._database.version(workspaces.name)  # before the row: a change in between makes it worthless
        known = self._known.get(name)
        if known is not None and known[0] == version:
            return known[1]
        with self._database.reading() as session:
            row = find_workspace_row(session, name)
        if row is None:
            raise no_workspace(name)
        found = _workspace(row[1])
        self._known[name] = version, found
        return found

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

    def create_experiment(
        self,
        workspace: str,
        title: str,
        *,
        owner: str | None = None,
        tags: Mapping[str, str | None] | None = None,
        artifact_location: str | None = None,
    ) -> Experiment:
        check_labels(f"The experiment `{title[:100]}`", tags or {})

        def make(session: Session) -> Experiment:
            workspace_id, now = get_workspace_id(session, workspace), self._clock()
            if _find_shown(session, workspace_id, title) is not None:
                raise title_is_taken(title)
            for row, document in session.all(_DELETED, workspace=workspace_id, experiment_name=clean(title)):
                if _experiment(document).shown_name == title:
                    made = recreate_experiment(_experiment(document), now=now, owner=owner)
                    made = replace(made, tags=dict(tags or {}), artifact_location=artifact_location)
                    _update(session, row, made)
                    return made
            name = _free_name(session, workspace_id, title)
            made = Experiment(
                make_uuid(),
                name,
                workspace,
                now,
                tags=dict(tags or {}),
                owner=owner,
                title=None if name == title else title,
                artifact_location=artifact_location,
            )
            _insert(session, workspace_id, made)
            return made

        return self._database.write(make)

    def find_experiment(self, workspace: str, *, id: str | None = None, title: str | None = None) -> Experiment | None:
        with self._database.reading() as session:
            workspace_id = get_workspace_id(session, workspace)
            if id is None:
                return None if title is None else _find_shown(session, workspace_id, title)
            row = session.one(_WITH_ID, workspace=workspace_id, public_id=clean(id))
        return None if row is None else _experiment(row[2])

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
            workspace_id, shown = get_workspace_id(session, workspace), _VIEWS.get(view, (0,))
            if name is None:
                return [_shown(row) for row in session.all(_EXPERIMENTS, workspace=workspace_id) if row[0] in shown]
            for statement in (_NAMED, _TITLED):
                rows = session.all(statement, workspace=workspace_id, experiment_name=clean(name))
                if rows and rows[0][0] in shown:
                    return [_shown(rows[0])]
        return []

    def update_experiment(
        self,
        workspace: str,
        name: str,
        *,
        archived: bool | None = None,
        tags_set: Mapping[str, str | None] | None = None,
        tags_remove: Sequence[str] = (),
        title: str | None = None,
    ) -> Experiment:
        def change(session: Session) -> Experiment:
            workspace_id = get_workspace_id(session, workspace)
            row = find_experiment_row(session, workspace_id, name, to_change=True)
            if row is None:
                raise no_experiment(workspace, name)
            old = _experiment(row[2])
            shown = None if title is None else _find_shown(session, workspace_id, title)
            if title is not None and shown is not None and shown.id != old.id:
                raise title_is_taken(title)
            if title is not None:
                _take_title_of_deleted(session, workspace_id, title)
            new = change_experiment(
                old, now=self._clock(), archived=archived, tags_set=tags_set, tags_remove=tags_remove, title=title
            )
            _update(session, row[0], new)
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
        _insert(session, workspace_id, Experiment(make_uuid(), name, workspace, now, owner=owner))
    row = find_experiment_row(session, workspace_id, name, to_change=True)
    assert row is not None
    return row


def _recreate(session: Session, workspace_id: int, name: str, *, owner: str | None, now: datetime) -> bool:
    """Bring a deleted experiment back as a new one, without its runs, which can still be restored into it."""
    row = session.one(_DELETED, workspace=workspace_id, experiment_name=clean(name))
    if row is None:
        return False
    new = recreate_experiment(_experiment(row[1]), now=now, owner=owner)
    _update(session, row[0], new)
    return True


def _find_shown(session: Session, workspace_id: int, title: str) -> Experiment | None:
    """Return the experiment that is shown by that title, archived or not."""
    for statement in (_TITLED, _NAMED):
        for row in session.all(statement, workspace=workspace_id, experiment_name=clean(title)):
            found = _experiment(row[2])
            if row[0] < DELETED and found.shown_name == title:
                return found
    return None


def _take_title_of_deleted(session: Session, workspace_id: int, title: str) -> None:
    """Leave a deleted experiment its name alone: were it restored, two would have the title."""
    for row, document in session.all(_DELETED, workspace=workspace_id, experiment_name=clean(title)):
        if _experiment(document).title == title:
            session.run(
                _UPDATE_EXPERIMENT,
                row=row,
                new_archived=DELETED,
                new_document=document_of(replace(_experiment(document), title=None)),
                new_title=None,
            )


def _free_name(session: Session, workspace_id: int, title: str) -> str:
    attempt = 0
    while session.all(_NAMED, workspace=workspace_id, experiment_name=name_of_title(title, attempt)):
        attempt += 1
    return name_of_title(title, attempt)


def _insert(session: Session, workspace_id: int, new: Experiment) -> None:
    session.run(
        _INSERT_EXPERIMENT,
        workspace_id=workspace_id,
        name=clean(new.name),
        archived=0,
        last_number=0,
        document=document_of(new),
        public_id=new.id,
        title=None if new.title is None else clean(new.title),
    )


def _update(session: Session, row: int, new: Experiment) -> None:
    session.run(
        _UPDATE_EXPERIMENT,
        row=row,
        new_archived=int(new.archived_at is not None),
        new_document=document_of(new),
        new_title=None if new.title is None else clean(new.title),
    )


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
