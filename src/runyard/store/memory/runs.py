"""The records of runs of the store in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from runyard.core.errors import Conflict, NotFound, RunyardError, UserError
from runyard.core.records import NewRun, Run, RunChange
from runyard.core.statuses import RunStatus
from runyard.core.users import RunAccess, run_access
from runyard.store.base import ImportedRecord, ImportResult, RunRecords
from runyard.store.imported import change_imported, create_imported, note_parent, with_notes
from runyard.store.memory.metrics import StoredMetrics
from runyard.store.memory.tables import MemoryPart
from runyard.store.rules import (
    apply_change,
    begin_attempt,
    check_ended,
    check_next_event,
    check_same_request,
    create,
    fence,
    is_hidden,
    report_status,
    set_desired,
    set_status,
)


class MemoryRunRecords(MemoryPart, RunRecords):
    """Runs by id; deleted ones stay in the same table until they are purged."""

    def create_run(self, new: NewRun) -> tuple[Run, bool]:
        with self._tables.lock:
            key = new.key or new.id
            if key in self._tables.keys:
                run = self._tables.runs[self._tables.keys[key]]
                if run.id in self._tables.hidden.runs:
                    raise is_hidden(run.id)
                name = self._tables.name_of(new.workspace, new.experiment)
                check_same_request(run, new, self._tables.experiments.get((new.workspace, name)))
                return run, False
            if new.id in self._tables.hidden.runs:
                raise is_hidden(new.id)
            if new.id in self._tables.runs:
                raise Conflict(f"The run id `{new.id}` is taken.")
            parent = None if new.parent_id is None else self._tables.get_run(new.parent_id)
            experiment = self._tables.put_experiment(new.workspace, new.experiment, new.owner)
            number = self._tables.last_numbers[experiment.id] = 1 + self._tables.last_numbers.get(experiment.id, 0)
            root = new.id if parent is None else parent.root_id
            run = create(new, number=number, experiment=experiment, root_id=root, now=self._tables.clock())
            self._tables.runs[run.id] = run
            self._tables.keys[key] = run.id
            self._tables.metrics[run.id] = StoredMetrics(run.id)
            self._tables.files[run.id] = {}
            return run, True

    def get_run(self, run_id: str) -> Run:
        with self._tables.lock:
            return self._tables.get_run(run_id)

    def find_run(self, run_id: str) -> Run | None:
        with self._tables.lock:
            return self._tables.find_run(run_id)

    def list_unfinished(self) -> list[Run]:
        with self._tables.lock:
            return [run for run in self._tables.runs.values() if not run.status.is_terminal]

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
        def change(run: Run) -> Run:
            return set_status(
                run,
                status,
                now=self._tables.clock(),
                attempt=attempt,
                expected=expected,
                error=error,
                waits_for=waits_for,
            )

        return self._change(run_id, change)

    def start_attempt(self, run_id: str, *, token_hash: str, waits_for: str = "") -> Run:
        with self._tables.lock:
            run = self._change(run_id, lambda run: begin_attempt(run, now=self._tables.clock(), waits_for=waits_for))
            self.add_token(token_hash, run_id=run_id, attempt=run.attempt)
            return run

    def fence_attempt(
        self, run_id: str, attempt: int, *, code: str = "", why: str = "", host: str = "", is_over: bool = False
    ) -> Run:
        def change(run: Run) -> Run:
            return fence(run, attempt, now=self._tables.clock(), code=code, why=why, host=host, is_over=is_over)

        return self._change(run_id, change)

    def set_desired(self, run_id: str, desired: str, error: Mapping[str, Any] | None = None) -> Run:
        return self._change(run_id, lambda run: set_desired(run, desired, error))

    def update_run(self, run_id: str, change: RunChange) -> Run:
        return self._change(run_id, lambda run: apply_change(run, change, now=self._tables.clock()))

    def report_status(self, run_id: str, status: RunStatus, *, ended_at: datetime | None = None) -> Run:
        return self._change(run_id, lambda run: report_status(run, status, now=self._tables.clock(), ended_at=ended_at))

    def import_runs(self, records: Sequence[ImportedRecord]) -> list[ImportResult | RunyardError]:
        with self._tables.lock:
            return [self._import(record) for record in records]

    def _import(self, record: ImportedRecord) -> ImportResult | RunyardError:
        try:
            run, is_new = self._put_imported(record)
            added, notes = self._tables.metrics[run.id].add_imported(record.parts)
            self._tables.runs[run.id] = run = with_notes(run, notes)
            return ImportResult(run, is_new, added, notes)
        except UserError as error:
            return error

    def _put_imported(self, record: ImportedRecord) -> tuple[Run, bool]:
        new, now = record.new, self._tables.clock()
        parent = None if new.parent_id in (None, new.id) else self._tables.find_run(str(new.parent_id))
        parent = parent if parent is not None and parent.workspace == new.workspace else None
        record = note_parent(record, parent)
        old = self._tables.runs.get(new.id)
        if old is not None:
            if old.id in self._tables.hidden.runs:
                raise is_hidden(old.id)
            self._tables.runs[old.id] = changed = change_imported(old, record, now=now)
            return changed, False
        experiment = self._tables.put_experiment(new.workspace, new.experiment, new.owner)
        number = 1 + self._tables.last_numbers.get(experiment.id, 0)
        run = create_imported(record, number=number, experiment=experiment, parent=parent, now=now)
        self._tables.last_numbers[experiment.id] = number
        self._tables.runs[run.id] = run
        self._tables.keys[f"import:{run.id}"] = run.id
        self._tables.metrics[run.id] = StoredMetrics(run.id)
        self._tables.files[run.id] = {}
        return run, True

    def append_events(self, run_id: str, events: Sequence[Mapping[str, Any]], *, after: int) -> int:
        with self._tables.lock:
            self._tables.get_run(run_id)
            journal = self._tables.events.setdefault(run_id, [])
            check_next_event(run_id, last=len(journal), after=after)
            journal += [dict(event) for event in events]
            return len(journal)

    def list_events(self, run_id: str, *, after: int = 0) -> list[dict[str, Any]]:
        with self._tables.lock:
            self._tables.get_run(run_id)
            return [dict(event) for event in self._tables.events.get(run_id, [])[after:]]

    def hide_run(self, run_id: str, *, until: datetime) -> list[str]:
        with self._tables.lock:
            return self._tables.hidden.hide([self._tables.get_run(run_id)], until)

    def restore_run(self, run_id: str) -> list[str]:
        with self._tables.lock:
            return self._tables.hidden.restore(run_id)

    def find_hidden(self, run_id: str) -> Run | None:
        with self._tables.lock:
            return self._tables.hidden.find(run_id)

    def list_family(self, run_id: str) -> list[str]:
        with self._tables.lock:
            return (
                [run.id for run in self._tables.hidden.below([self._tables.runs[run_id]])]
                if run_id in self._tables.runs
                else []
            )

    def find_next_purge(self) -> datetime | None:
        with self._tables.lock:
            return min([*self._tables.hidden.runs.values(), *self._tables.hidden.batches.values()], default=None)

    def list_purges(self, now: datetime) -> list[str]:
        with self._tables.lock:
            return [
                id for id in self._tables.runs if id in self._tables.hidden.runs and self._tables.hidden.runs[id] <= now
            ]

    def purge_run(self, run_id: str, now: datetime) -> list[str]:
        with self._tables.lock:
            family = self._tables.hidden.below([self._tables.runs[run_id]]) if run_id in self._tables.runs else []
            times = [self._tables.hidden.runs.get(run.id) for run in family]
            return self.delete_run(run_id) if family and all(at is not None and at <= now for at in times) else []

    def delete_run(self, run_id: str) -> list[str]:
        with self._tables.lock:
            if run_id not in self._tables.runs:
                raise NotFound(f"There is no run `{run_id}`.")
            family = self._tables.hidden.below([self._tables.runs[run_id]])
            for run in family:
                check_ended(run)
            ids = [run.id for run in family]
            for id in ids:
                del self._tables.runs[id], self._tables.metrics[id], self._tables.files[id]
                self._tables.hidden.runs.pop(id, None)
            self._tables.keys = {key: id for key, id in self._tables.keys.items() if id in self._tables.runs}
            self._tables.tokens = {key: of for key, of in self._tables.tokens.items() if of[0] in self._tables.runs}
            return ids

    def add_token(self, token_hash: str, *, run_id: str, attempt: int, external_writer: int = 0) -> None:
        with self._tables.lock:
            self._tables.get_run(run_id)
            self._tables.tokens.setdefault(token_hash, (run_id, attempt, external_writer))

    def find_token(self, token_hash: str) -> RunAccess | None:
        with self._tables.lock:
            run_id, attempt, external_writer = self._tables.tokens.get(token_hash, ("", 0, 0))
            run = self._tables.find_run(run_id)
            if run is None:
                return None
            user = self._tables.users.get(run.owning_user)
            role = None if user is None else user.role
            opened = (run_id, attempt, external_writer, run.workspace)
            return run_access(*opened, owner=run.owner, submitted_by=run.submitted_by, role=role)

    def list_owners(self, workspace: str, *, experiment: str | None = None) -> set[str]:
        with self._tables.lock:
            self._tables.get_workspace(workspace)
            if experiment is not None:
                experiment = self._tables.name_of(workspace, experiment)
            there = [run for run in self._tables.runs.values() if run.workspace == workspace]
            return {run.owning_user for run in there if experiment in (None, run.experiment)}

    def is_descendant(self, run_id: str, ancestor_id: str) -> bool:
        with self._tables.lock:
            self._tables.get_run(ancestor_id)
            run: Run | None = self._tables.get_run(run_id)
            while run is not None and run.id != ancestor_id:
                run = None if run.parent_id is None else self._tables.runs[run.parent_id]
            return run is not None

    def _change(self, run_id: str, change: Callable[[Run], Run]) -> Run:
        with self._tables.lock:
            run = self._tables.runs[run_id] = change(self._tables.get_run(run_id))
            return run
