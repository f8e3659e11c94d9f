"""SqlStore's part for the records of runs: creation, changes, events, tokens, kinship. Searches are in table.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, func, or_, select, update

from runyard.core.errors import Conflict, RunyardError, UserError
from runyard.core.records import Experiment, NewRun, Run, RunChange
from runyard.core.statuses import RunStatus
from runyard.core.users import RunAccess, run_access
from runyard.store.base import ImportedRecord, ImportResult, RunRecords
from runyard.store.imported import change_imported, create_imported, note_parent, with_notes
from runyard.store.rules import (
    apply_change,
    begin_attempt,
    check_next_event,
    check_same_request,
    create,
    fence,
    is_hidden,
    report_status,
    set_desired,
    set_status,
)
from runyard.store.sql.database import Insert, Session, Statement, Upsert
from runyard.store.sql.deletes import (
    delete_family,
    find_hidden_run,
    find_next_purge,
    hide_run,
    list_family,
    list_purges,
    restore_run,
)
from runyard.store.sql.rows import (
    INSERT_LABELS,
    INSERT_RUN,
    LABELS,
    RunRow,
    SqlPart,
    change_run,
    dataset_labels,
    document_of,
    find_experiment_id,
    find_experiment_row,
    find_run_row,
    get_run_row,
    get_serial,
    get_workspace_id,
    label_rows,
    microseconds,
    record_of,
    run_of,
    save_run,
)
from runyard.store.sql.schema import experiments, run_events, runs, tokens, users, workspaces
from runyard.store.sql.workspaces import put_experiment_row
from runyard.store.text import clean, dump, indexed, load, to_microseconds

_TAKEN = Statement(
    select(runs.c.key, runs.c.document, runs.c.purge_us).where(
        or_(runs.c.key == bindparam("run_key"), runs.c.id == bindparam("run_id"))
    )
)
_TAKEN_ID = Statement(
    select(runs.c.serial, runs.c.document, runs.c.purge_us).where(runs.c.id == bindparam("run_id")).with_for_update()
)


_COUNT_UP = Statement(
    update(experiments).where(experiments.c.id == bindparam("row")).values(last_number=bindparam("number"))
)
_UNFINISHED = Statement(select(runs.c.document).where(runs.c.finished == 0).order_by(runs.c.serial))
_PARENT = Statement(select(runs.c.parent_serial).where(runs.c.serial == bindparam("row")))
_PUT_TOKEN = Upsert(tokens, "token_hash", "run_serial", "attempt", "external_writer", keys=("token_hash",))
_OWNER = func.coalesce(runs.c.owner, runs.c.submitted_by, "")
_TOKEN = Statement(
    select(
        runs.c.id,
        tokens.c.attempt,
        tokens.c.external_writer,
        workspaces.c.name,
        runs.c.owner,
        runs.c.submitted_by,
        users.c.role,
    )
    .join_from(tokens, runs, runs.c.serial == tokens.c.run_serial)
    .join(workspaces, workspaces.c.id == runs.c.workspace_id)
    .outerjoin(users, users.c.name == _OWNER)
    .where(tokens.c.token_hash == bindparam("hash"), runs.c.purge_us.is_(None))
)
_OWNERS_HERE = select(_OWNER).where(runs.c.workspace_id == bindparam("workspace")).distinct()
_OWNERS = Statement(_OWNERS_HERE)
_OWNERS_OF_EXPERIMENT = Statement(_OWNERS_HERE.where(runs.c.experiment_id == bindparam("experiment")))


_LAST_EVENT = Statement(select(func.max(run_events.c.number)).where(run_events.c.run_serial == bindparam("row")))
_INSERT_EVENT = Insert(run_events, "run_serial", "number", "document")
_EVENTS = Statement(
    select(run_events.c.document)
    .where(run_events.c.run_serial == bindparam("row"), run_events.c.number > bindparam("after"))
    .order_by(run_events.c.number)
)
_WORKSPACE_OF = Statement(select(experiments.c.workspace_id).where(experiments.c.id == bindparam("row")))


class SqlRunRecords(SqlPart, RunRecords):
    """Runs: a row each, with the record as a document and columns to search by. A write is one transaction."""

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
            lambda session: change_run(session, run_id, lambda run: set_desired(run, desired, error))
        )

    def update_run(self, run_id: str, change: RunChange) -> Run:
        now = self._clock()
        return self._database.write(
            lambda session: change_run(session, run_id, lambda run: apply_change(run, change, now=now))
        )

    def report_status(self, run_id: str, status: RunStatus, *, ended_at: datetime | None = None) -> Run:
        now = self._clock()

        def change(run: Run) -> Run:
            return report_status(run, status, now=now, ended_at=ended_at)

        return self._database.write(lambda session: change_run(session, run_id, change))

    def import_runs(self, records: Sequence[ImportedRecord]) -> list[ImportResult | RunyardError]:
        now = self._clock()
        return self._database.write(lambda session: [_import(session, record, now) for record in records])

    def append_events(self, run_id: str, events: Sequence[Mapping[str, Any]], *, after: int) -> int:
        def append(session: Session) -> int:
            row = get_run_row(session, run_id, to_change=True).serial
            last = int(session.one(_LAST_EVENT, row=row)[0] or 0)
            check_next_event(run_id, last=last, after=after)
            for number, event in enumerate(events, start=last + 1):
                session.run(_INSERT_EVENT, run_serial=row, number=number, document=dump(dict(event)))
            return last + len(events)

        return self._database.write(append)

    def list_events(self, run_id: str, *, after: int = 0) -> list[dict[str, Any]]:
        with self._database.reading() as session:
            row = get_run_row(session, run_id).serial
            return [dict(load(event[0])) for event in session.all(_EVENTS, row=row, after=after)]

    def hide_run(self, run_id: str, *, until: datetime) -> list[str]:
        return self._database.write(lambda session: hide_run(session, run_id, until))

    def restore_run(self, run_id: str) -> list[str]:
        return self._database.write(lambda session: restore_run(session, run_id))

    def find_hidden(self, run_id: str) -> Run | None:
        with self._database.reading() as session:
            return find_hidden_run(session, run_id)

    def list_family(self, run_id: str) -> list[str]:
        with self._database.reading() as session:
            return list_family(session, run_id)

    def find_next_purge(self) -> datetime | None:
        with self._database.reading() as session:
            return find_next_purge(session)

    def list_purges(self, now: datetime) -> list[str]:
        with self._database.reading() as session:
            return list_purges(session, now)

    def purge_run(self, run_id: str, now: datetime) -> list[str]:
        due = to_microseconds(now)
        return self._database.write(lambda session: delete_family(session, run_id, due=due))

    def delete_run(self, run_id: str) -> list[str]:
        return self._database.write(lambda session: delete_family(session, run_id))

    def add_token(self, token_hash: str, *, run_id: str, attempt: int, external_writer: int = 0) -> None:
        self._database.write(lambda session: _put_token(session, token_hash, run_id, attempt, external_writer))

    def find_token(self, token_hash: str) -> RunAccess | None:
        with self._database.reading() as session:
            row = session.one(_TOKEN, hash=clean(token_hash))
        if row is None:
            return None
        *opened, owner, submitted_by, role = row
        return run_access(*opened, owner=owner, submitted_by=submitted_by or "", role=role)

    def list_owners(self, workspace: str, *, experiment: str | None = None) -> set[str]:
        with self._database.reading() as session:
            workspace_id = get_workspace_id(session, workspace)
            if experiment is None:
                return {row[0] for row in session.all(_OWNERS, workspace=workspace_id)}
            row = find_experiment_id(session, workspace_id, experiment)
            owners = [] if row is None else session.all(_OWNERS_OF_EXPERIMENT, workspace=workspace_id, experiment=row)
            return {owner[0] for owner in owners}

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
            row = find_experiment_row(session, get_workspace_id(session, new.workspace), new.experiment)
            check_same_request(run, new, None if row is None else record_of(Experiment, row[2]))
            return run, False
        now = self._clock()
        experiment_id, number, document = put_experiment_row(
            session, new.workspace, new.experiment, owner=new.owner, now=now
        )
        parent = None if new.parent_id is None else get_run_row(session, new.parent_id)
        run = create(
            new,
            number=number + 1,
            experiment=record_of(Experiment, document),
            root_id=new.id if parent is None else parent.run.root_id,
            now=now,
        )
        session.run(_COUNT_UP, row=experiment_id, number=number + 1)
        _insert_run(session, run, key, experiment_id, parent)
        return run, True


def _insert_run(session: Session, run: Run, key: str, experiment_id: int, parent: RunRow | None) -> None:
    """Write the row of a new run, and the labels that it is searched by. In a write transaction."""
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
    of_kinds = {kind: getattr(run, field) for kind, field in LABELS.items()}
    for kind, labels in {**of_kinds, **dataset_labels(run)}.items():
        session.many(INSERT_LABELS, label_rows(serial, kind, labels))


def _put_token(session: Session, token_hash: str, run_id: str, attempt: int, external_writer: int = 0) -> None:
    session.run(
        _PUT_TOKEN,
        token_hash=clean(token_hash),
        run_serial=get_serial(session, run_id),
        attempt=attempt,
        external_writer=external_writer,
    )


def _import(session: Session, record: ImportedRecord, now: datetime) -> ImportResult | RunyardError:
    """Store one run. What can be refused is refused before anything of the run is written."""
    parent = _find_parent(session, record)
    record = note_parent(record, None if parent is None else parent.run)
    try:
        run, is_new = _put_run(session, record, parent, now)
        if not record.parts:
            return ImportResult(run, is_new, 0)
        from runyard.store.sql.ingest import import_points  # loads numpy

        added, notes = import_points(session, run.id, record.parts)
        run = change_run(session, run.id, lambda found: with_notes(found, notes)) if notes else run
        return ImportResult(run, is_new, added, notes)
    except UserError as error:
        return error


def _put_run(session: Session, record: ImportedRecord, parent: RunRow | None, now: datetime) -> tuple[Run, bool]:
    new = record.new
    taken = session.one(_TAKEN_ID, run_id=clean(new.id))
    if taken is not None:
        serial, document, purge_us = taken
        if purge_us is not None:
            raise is_hidden(new.id)
        old = run_of(document)
        changed = change_imported(old, record, now=now)
        if changed != old:
            save_run(session, serial, old, changed)
        return changed, False
    experiment_id, number, document = put_experiment_row(
        session, new.workspace, new.experiment, owner=new.owner, now=now
    )
    run = create_imported(
        record,
        number=number + 1,
        experiment=record_of(Experiment, document),
        parent=None if parent is None else parent.run,
        now=now,
    )
    session.run(_COUNT_UP, row=experiment_id, number=number + 1)
    _insert_run(session, run, f"import:{clean(new.id)}", experiment_id, parent)
    if run.archived_at is not None:
        save_run(session, get_serial(session, run.id), run, run)
    return run, True


def _find_parent(session: Session, record: ImportedRecord) -> RunRow | None:
    parent_id = record.new.parent_id
    found = None if parent_id is None or parent_id == record.new.id else find_run_row(session, parent_id)
    return found if found is not None and found.run.workspace == record.new.workspace else None
