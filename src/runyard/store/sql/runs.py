"""SqlStore's part for runs: creating, changing, tokens and kinship. Searching is in `query.py`.

SqlStore's part for the server's own values, workspaces and experiments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import bindparam, func, or_, select, update

from runyard.core.errors import Conflict
from runyard.core.names import make_uuid
from runyard.core.records import Experiment, NewRun, Run, Workspace
from runyard.core.statuses import RunStatus
from runyard.core.users import RunAccess, run_access
from runyard.store.rules import (
    begin_attempt,
    changed_experiment,
    check_same_request,
    create,
    fence,
    is_hidden,
    made_again,
    set_status,
    shelved,
    updated,
    wished,
)
from runyard.store.sql.database import Insert, Session, Statement, Upsert
from runyard.store.sql.rows import (
    DELETED,
    INSERT_LABELS,
    INSERT_RUN,
    LABELS,
    RunRow,
    SqlPart,
    change_run,
    document_of,
    find_experiment_id,
    find_experiment_row,
    find_run_row,
    find_workspace_row,
    get_run_row,
    get_serial,
    get_workspace_id,
    label_rows,
    microseconds,
    no_experiment,
    no_workspace,
    record_of,
    run_of,
)
from runyard.store.sql.schema import experiments, runs, server_values, tokens, users, workspaces
from runyard.store.text import clean, from_microseconds, indexed, to_microseconds

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


_TAKEN = Statement(
    select(runs.c.key, runs.c.document, runs.c.purge_us).where(
        or_(runs.c.key == bindparam("run_key"), runs.c.id == bindparam("run_id"))
    )
)
_COUNT_UP = Statement(
    update(experiments).where(experiments.c.id == bindparam("row")).values(last_number=bindparam("number"))
)
_UNFINISHED = Statement(select(runs.c.document).where(runs.c.finished == 0).order_by(runs.c.serial))
_PARENT = Statement(select(runs.c.parent_serial).where(runs.c.serial == bindparam("row")))
_PUT_TOKEN = Upsert(tokens, "token_hash", "run_serial", "attempt", keys=("token_hash",))
_OWNER = func.coalesce(runs.c.owner, runs.c.submitted_by, "")
_TOKEN = Statement(
    select(runs.c.id, tokens.c.attempt, workspaces.c.name, runs.c.owner, runs.c.submitted_by, users.c.role)
    .join_from(tokens, runs, runs.c.serial == tokens.c.run_serial)
    .join(workspaces, workspaces.c.id == runs.c.workspace_id)
    .outerjoin(users, users.c.name == _OWNER)
    .where(tokens.c.token_hash == bindparam("hash"), runs.c.purge_us.is_(None))
)
_OWNERS_HERE = select(_OWNER).where(runs.c.workspace_id == bindparam("workspace")).distinct()
_OWNERS = Statement(_OWNERS_HERE)
_OWNERS_OF_EXPERIMENT = Statement(_OWNERS_HERE.where(runs.c.experiment_id == bindparam("experiment")))


class SqlRuns(SqlWorkspaces):
    def create_run(self, new: NewRun) -> tuple[Run, bool]:
        return self._database.write(lambda session: self._create(session, new))

    def get_run(self, run_id: str) -> Run:
        with self._database.reading() as session:
            return get_run_row(session, run_id).run

    def find_run(self, run_id: str) -> Run | None:
        with self._database.reading() as session:
            row = find_run_row(session, run_id)
        return None if row is None else row.run

    def list_unfinished(self) -> list[Run]:
        with self._database.reading() as session:
            return [run_of(row[0]) for row in session.all(_UNFINISHED)]

    def set_status(
        self,
        run_id: str,
        status: RunStatus,
        *,
        attempt: int | None = None,
        expected: Sequence[RunStatus] | None = None,
        error: Mapping[str, Any] | None = None,
        waits_for: str | None = None,
    ) -> Run:
        now = self._clock()

        def change(run: Run) -> Run:
            return set_status(
                run, status, now=now, attempt=attempt, expected=expected, error=error, waits_for=waits_for
            )

        return self._database.write(lambda session: change_run(session, run_id, change))

    def start_attempt(self, run_id: str, *, token_hash: str, waits_for: str = "") -> Run:
        now = self._clock()

        def start(session: Session) -> Run:
            run = change_run(session, run_id, lambda run: begin_attempt(run, now=now, waits_for=waits_for))
            _put_token(session, token_hash, run_id, run.attempt)
            return run

        return self._database.write(start)

    def fence_attempt(
        self, run_id: str, attempt: int, *, code: str = "", why: str = "", host: str = "", is_over: bool = False
    ) -> Run:
        now = self._clock()

        def change(run: Run) -> Run:
            return fence(run, attempt, now=now, code=code, why=why, host=host, is_over=is_over)

        return self._database.write(lambda session: change_run(session, run_id, change))

    def set_desired(self, run_id: str, desired: str, error: Mapping[str, Any] | None = None) -> Run:
        return self._database.write(
            lambda session: change_run(session, run_id, lambda run: wished(run, desired, error))
        )

    def update_run(
        self,
        run_id: str,
        *,
        tags_set: Mapping[str, str | None] | None = None,
        tags_remove: Sequence[str] = (),
        properties_add: Mapping[str, str] | None = None,
        display_name: str | None = None,
        description: str | None = None,
        warnings_add: Sequence[Mapping[str, Any]] = (),
        environment: Mapping[str, Any] | None = None,
        snapshot: tuple[str, str] | None = None,
        archived: bool | None = None,
    ) -> Run:
        now = self._clock()

        def change(run: Run) -> Run:
            new = updated(
                run,
                tags_set=tags_set,
                tags_remove=tags_remove,
                properties_add=properties_add,
                display_name=display_name,
                description=description,
                warnings_add=warnings_add,
                environment=environment,
                snapshot=snapshot,
            )
            return shelved(new, archived, now)

        return self._database.write(lambda session: change_run(session, run_id, change))

    def add_token(self, token_hash: str, *, run_id: str, attempt: int) -> None:
        self._database.write(lambda session: _put_token(session, token_hash, run_id, attempt))

    def find_token(self, token_hash: str) -> RunAccess | None:
        with self._database.reading() as session:
            row = session.one(_TOKEN, hash=clean(token_hash))
        if row is None:
            return None
        run_id, attempt, workspace, owner, submitted_by, role = row
        return run_access(run_id, attempt, workspace, owner=owner, submitted_by=submitted_by or "", role=role)

    def list_owners(self, workspace: str, *, experiment: str | None = None) -> set[str]:
        with self._database.reading() as session:
            workspace_id = get_workspace_id(session, workspace)
            if experiment is None:
                return {row[0] for row in session.all(_OWNERS, workspace=workspace_id)}
            row = find_experiment_id(session, workspace_id, experiment)
            found = [] if row is None else session.all(_OWNERS_OF_EXPERIMENT, workspace=workspace_id, experiment=row)
            return {owner[0] for owner in found}

    def is_descendant(self, run_id: str, ancestor_id: str) -> bool:
        with self._database.reading() as session:
            serial: int | None = get_serial(session, run_id)
            ancestor = get_serial(session, ancestor_id)
            # A parent is made before its children, so its serial is smaller.
            while serial is not None and serial > ancestor:
                serial = session.one(_PARENT, row=serial)[0]
        return serial == ancestor

    def _create(self, session: Session, new: NewRun) -> tuple[Run, bool]:
        key = clean(new.key or new.id)
        taken = session.all(_TAKEN, run_key=key, run_id=clean(new.id))
        for found_key, document, purge_us in sorted(taken, key=lambda row: row[0] != key):
            run = run_of(document)
            if purge_us is not None:
                raise is_hidden(run.id)
            if found_key != key:
                raise Conflict(f"The run id `{new.id}` is taken.", hint="Submit again: a new id is made.")
            check_same_request(run, new)
            return run, False
        experiment_id, number, document = self._put_experiment(session, new.workspace, new.experiment, owner=new.owner)
        parent = None if new.parent_id is None else get_run_row(session, new.parent_id)
        run = create(
            new,
            number=number + 1,
            experiment_id=record_of(Experiment, document).id,
            root_id=new.id if parent is None else parent.run.root_id,
            now=self._clock(),
        )
        session.run(_COUNT_UP, row=experiment_id, number=number + 1)
        _insert_run(session, run, key, experiment_id, parent)
        return run, True


def _insert_run(session: Session, run: Run, key: str, experiment_id: int, parent: RunRow | None) -> None:
    workspace_id = session.one(_WORKSPACE_OF, row=experiment_id)[0]
    session.run(
        INSERT_RUN,
        id=clean(run.id),
        key=key,
        workspace_id=workspace_id,
        experiment_id=experiment_id,
        parent_serial=None if parent is None else parent.serial,
        child=int(parent is not None),
        status=run.status.value,
        finished=int(run.status.is_terminal),
        type=None if run.type is None else indexed(run.type),
        document=document_of(run),
        name=indexed(run.display_name),
        target=indexed(run.spec.target),
        created_us=to_microseconds(run.created_at),
        number=run.number,
        submitted_by=indexed(run.submitted_by),
        owner=run.owner,
        started_us=microseconds(run.started_at),
        ended_us=microseconds(run.ended_at),
    )
    serial = get_serial(session, run.id)
    for kind, field in LABELS.items():
        session.many(INSERT_LABELS, label_rows(serial, kind, getattr(run, field)))


_WORKSPACE_OF = Statement(select(experiments.c.workspace_id).where(experiments.c.id == bindparam("row")))


def _put_token(session: Session, token_hash: str, run_id: str, attempt: int) -> None:
    session.run(_PUT_TOKEN, token_hash=clean(token_hash), run_serial=get_serial(session, run_id), attempt=attempt)
