"""RunStore in memory: for tests, and to read what a store must do. Nothing survives the process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any, TypeVar

from runyard.core.errors import Conflict, NotFound
from runyard.core.formats.filters import Field
from runyard.core.names import make_uuid
from runyard.core.records import Asset, Experiment, Mark, MetricInfo, NewRun, Run, RunFile, Workspace
from runyard.core.statuses import RunStatus
from runyard.core.users import Access, RunAccess, User, run_access
from runyard.store.base import (
    STEP,
    Chart,
    Column,
    Groups,
    MetricSummary,
    References,
    RunPage,
    RunQuery,
    RunStore,
    RunTable,
    SegmentPart,
    Series,
    Tally,
)
from runyard.store.memory.metrics import MemoryMetrics
from runyard.store.memory.query import count_by_experiment, find_page, group_runs, list_columns, read_table
from runyard.store.memory.users import MemoryHidden, MemoryUsers
from runyard.store.metrics.charts import Window, chart_of_series
from runyard.store.rules import (
    begin_attempt,
    changed_asset,
    changed_experiment,
    check_ended,
    check_next_event,
    check_same_request,
    checked_file,
    chunks_of,
    create,
    fence,
    has_experiments,
    has_runs,
    is_hidden,
    made_again,
    made_asset,
    no_asset,
    reported_by,
    set_status,
    shelved,
    updated,
    wished,
    without_chunks,
)

K = TypeVar("K")
V = TypeVar("V")


def open_memory(_place: str = "") -> MemoryRunStore:
    return MemoryRunStore()


class MemoryRunStore(RunStore):
    """Dictionaries under one lock."""

    def __init__(self, *, clock: Callable[[], datetime] = lambda: datetime.now(timezone.utc)) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._values: dict[str, str] = {}
        self._users = MemoryUsers(clock)
        self._workspaces: dict[str, Workspace] = {}
        self._experiments: dict[tuple[str, str], Experiment] = {}
        self._assets: dict[tuple[str, str, str], list[Asset]] = {}
        self._last_versions: dict[tuple[str, str, str], int] = {}
        self._events: dict[str, list[dict[str, Any]]] = {}
        self._runs: dict[str, Run] = {}  # in order of creation
        self._hidden = MemoryHidden(self._runs, self._experiments)
        self._keys: dict[str, str] = {}
        self._last_numbers: dict[str, int] = {}  # by experiment id
        self._metrics: dict[str, MemoryMetrics] = {}
        self._tokens: dict[str, tuple[str, int]] = {}
        self._files: dict[str, dict[str, RunFile]] = {}
        self._snapshots: dict[str, str] = {}
        self._chunks: dict[str, tuple[str, int, int, int, str]] = {}
        self._packs: dict[str, None] = {}

    def close(self) -> None:
        pass

    def find_value(self, key: str) -> str | None:
        return self._values.get(key)

    def set_value(self, key: str, value: str) -> None:
        self._values[key] = value

    def add_user(self, name: str, *, role: str, label: str, token_hash: str) -> User:
        return self._users.add(name, role=role, label=label, token_hash=token_hash)

    def get_user(self, name: str) -> User:
        return self._users.get(name)

    def list_users(self) -> list[User]:
        return self._users.list_users()

    def set_user_role(self, name: str, role: str) -> User:
        return self._users.set_role(name, role)

    def remove_user(self, name: str) -> None:
        self._users.remove(name)

    def add_user_token(self, name: str, *, label: str, token_hash: str) -> User:
        return self._users.add_token(name, label=label, token_hash=token_hash)

    def replace_user_tokens(self, name: str, *, label: str, token_hash: str) -> User:
        return self._users.replace_tokens(name, label=label, token_hash=token_hash)

    def remove_user_token(self, name: str, label: str) -> User:
        return self._users.remove_token(name, label)

    def find_access(self, token_hash: str) -> Access | None:
        return self._users.find(lambda _, found: found == token_hash)

    def find_access_by_id(self, token_id: int) -> Access | None:
        return self._users.find(lambda id, _: id == token_id)

    def note_token_seen(self, token_id: int) -> None:
        self._users.note_seen(token_id)

    def put_workspace(self, workspace: Workspace) -> Workspace:
        with self._lock:
            return self._workspaces.setdefault(workspace.name, workspace)

    def get_workspace(self, name: str) -> Workspace:
        return _get(self._workspaces, name, f"There is no workspace `{name}`.")

    def list_workspaces(self) -> list[Workspace]:
        with self._lock:
            return sorted(self._workspaces.values(), key=lambda workspace: workspace.name)

    def put_experiment(self, workspace: str, name: str, *, owner: str | None = None) -> Experiment:
        with self._lock:
            self.get_workspace(workspace)
            place, now = (workspace, name), self._clock()
            if place in self._hidden.experiments:
                self._hidden.experiments.remove(place)
                self._experiments[place] = made_again(self._experiments[place], now=now, owner=owner)
            return self._experiments.setdefault(place, Experiment(make_uuid(), name, workspace, now, owner=owner))

    def get_experiment(self, workspace: str, name: str) -> Experiment:
        with self._lock:
            self.get_workspace(workspace)
            found = self._hidden.find_experiment((workspace, name))
            if found is None:
                raise NotFound(f"There is no experiment `{name}`.")
            return found

    def list_experiments(
        self, workspace: str, *, view: str = "ActiveOnly", name: str | None = None
    ) -> list[Experiment]:
        with self._lock:
            self.get_workspace(workspace)
            hidden = {item: self._hidden.batches.get(item) for item in self._hidden.experiments}
            found = [
                replace(item, undo_until=hidden.get(place))
                for place, item in sorted(self._experiments.items())
                if place[0] == workspace and (place in hidden) == (view == "DeletedOnly")
            ]
        shown = {"ArchivedOnly": (True,), "All": (True, False), "DeletedOnly": (True, False)}.get(view, (False,))
        return [item for item in found if (item.archived_at is not None) in shown and name in (None, item.name)]

    def update_experiment(
        self,
        workspace: str,
        name: str,
        *,
        archived: bool | None = None,
        tags_set: Mapping[str, str | None] | None = None,
        tags_remove: Sequence[str] = (),
    ) -> Experiment:
        with self._lock:
            old = self.get_experiment(workspace, name)
            new = changed_experiment(
                old, now=self._clock(), archived=archived, tags_set=tags_set, tags_remove=tags_remove
            )
            self._experiments[workspace, name] = new
            return new

    def hide_experiment(self, workspace: str, name: str, *, until: datetime) -> list[str]:
        with self._lock:
            self.get_experiment(workspace, name)
            return self._hidden.hide_experiment((workspace, name), until)

    def restore_experiment(self, workspace: str, name: str) -> list[str]:
        with self._lock:
            self.get_workspace(workspace)
            return self._hidden.restore_experiment((workspace, name))

    def delete_experiment(self, workspace: str, name: str) -> None:
        with self._lock:
            self.get_workspace(workspace)
            found = _get(self._experiments, (workspace, name), f"There is no experiment `{name}`.")
            if any(run.experiment_id == found.id for run in self._runs.values()):
                raise has_runs(name)
            del self._experiments[workspace, name]
            self._hidden.experiments.discard((workspace, name))
            self._hidden.batches.pop((workspace, name), None)

    def delete_workspace(self, name: str) -> None:
        with self._lock:
            self.get_workspace(name)
            if any(workspace == name for workspace, _ in self._experiments):
                raise has_experiments(name)
            self._assets = {place: found for place, found in self._assets.items() if place[0] != name}
            del self._workspaces[name]

    def put_asset(
        self,
        workspace: str,
        kind: str,
        name: str,
        document: Mapping[str, Any],
        *,
        key: str = "",
        owner: str | None = None,
    ) -> tuple[Asset, bool]:
        with self._lock:
            self.get_workspace(workspace)
            place = (workspace, kind, name)
            versions = self._assets.setdefault(place, [])
            if key and versions and versions[-1].key == key:
                return versions[-1], False
            version = self._last_versions[place] = self._last_versions.get(place, 0) + 1
            versions.append(made_asset(*place, document, version=version, key=key, owner=owner, now=self._clock()))
            return versions[-1], True

    def get_asset(self, workspace: str, kind: str, name: str, *, version: int | None = None) -> Asset:
        found = [asset for asset in self.list_assets(workspace, kind, name=name) if version in (None, asset.version)]
        if not found:
            raise no_asset(kind, name, version)
        return found[-1]

    def list_assets(self, workspace: str, kind: str, *, name: str | None = None) -> list[Asset]:
        with self._lock:
            self.get_workspace(workspace)
            if name is not None:
                return list(self._assets.get((workspace, kind, name), ()))
            places = sorted(place for place in self._assets if place[:2] == (workspace, kind))
            return [self._assets[place][-1] for place in places if self._assets[place]]

    def update_asset(self, workspace: str, kind: str, name: str, *, version: int, document: Mapping[str, Any]) -> Asset:
        with self._lock:
            old = self.get_asset(workspace, kind, name, version=version)
            new = changed_asset(old, document, now=self._clock())
            versions = self._assets[workspace, kind, name]
            versions[versions.index(old)] = new
            return new

    def delete_asset(self, workspace: str, kind: str, name: str, *, version: int | None = None) -> None:
        with self._lock:
            self.get_workspace(workspace)
            versions = self._assets.pop((workspace, kind, name), [])
            kept = [asset for asset in versions if version is not None and asset.version != version]
            if kept:
                self._assets[workspace, kind, name] = kept

    def append_events(self, run_id: str, events: Sequence[Mapping[str, Any]], *, after: int) -> int:
        with self._lock:
            self.get_run(run_id)
            journal = self._events.setdefault(run_id, [])
            check_next_event(run_id, last=len(journal), after=after)
            journal += [dict(event) for event in events]
            return len(journal)

    def list_events(self, run_id: str, *, after: int = 0) -> list[dict[str, Any]]:
        with self._lock:
            self.get_run(run_id)
            return [dict(event) for event in self._events.get(run_id, [])[after:]]

    def create_run(self, new: NewRun) -> tuple[Run, bool]:
        with self._lock:
            key = new.key or new.id
            if key in self._keys:
                run = self._runs[self._keys[key]]
                if run.id in self._hidden.runs:
                    raise is_hidden(run.id)
                check_same_request(run, new)
                return run, False
            if new.id in self._hidden.runs:
                raise is_hidden(new.id)
            if new.id in self._runs:
                raise Conflict(f"The run id `{new.id}` is taken.")
            parent = None if new.parent_id is None else self.get_run(new.parent_id)
            experiment = self.put_experiment(new.workspace, new.experiment, owner=new.owner)
            number = self._last_numbers[experiment.id] = 1 + self._last_numbers.get(experiment.id, 0)
            root = new.id if parent is None else parent.root_id
            run = create(new, number=number, experiment_id=experiment.id, root_id=root, now=self._clock())
            self._runs[run.id] = run
            self._keys[key] = run.id
            self._metrics[run.id] = MemoryMetrics(run.id)
            self._files[run.id] = {}
            return run, True

    def get_run(self, run_id: str) -> Run:
        found = self.find_run(run_id)
        if found is None:
            raise NotFound(f"There is no run `{run_id}`.")
        return found

    def find_run(self, run_id: str) -> Run | None:
        return self._runs.get(run_id) if run_id not in self._hidden.runs else None

    def list_runs(self, query: RunQuery) -> RunPage:
        with self._lock:
            self.get_workspace(query.workspace)
            return find_page(self._hidden.in_view(query.view), self._metrics, query, self._clock())

    def read_table(self, query: RunQuery, *, columns: Sequence[Field] = (), offset: int = 0) -> RunTable:
        with self._lock:
            return read_table(*self._in_view(query), columns, offset, self._clock())

    def list_columns(self, query: RunQuery) -> tuple[list[Column], int]:
        with self._lock:
            return list_columns(*self._in_view(query), self._clock())

    def group_runs(self, query: RunQuery, by: Field, *, limit: int = 1000) -> Groups:
        with self._lock:
            return group_runs(*self._in_view(query), by, limit, self._clock())

    def count_by_experiment(self, query: RunQuery) -> list[Tally]:
        with self._lock:
            return count_by_experiment(*self._in_view(query), self._clock())

    def _in_view(self, query: RunQuery) -> tuple[list[Run], dict[str, MemoryMetrics], RunQuery]:
        self.get_workspace(query.workspace)
        return self._hidden.in_view(query.view), self._metrics, query

    def list_unfinished(self) -> list[Run]:
        with self._lock:
            return [run for run in self._runs.values() if not run.status.is_terminal]

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
                now=self._clock(),
                attempt=attempt,
                expected=expected,
                error=error,
                waits_for=waits_for,
            )

        return self._change(run_id, change)

    def start_attempt(self, run_id: str, *, token_hash: str, waits_for: str = "") -> Run:
        with self._lock:
            run = self._change(run_id, lambda run: begin_attempt(run, now=self._clock(), waits_for=waits_for))
            self.add_token(token_hash, run_id=run_id, attempt=run.attempt)
            return run

    def fence_attempt(
        self, run_id: str, attempt: int, *, code: str = "", why: str = "", host: str = "", is_over: bool = False
    ) -> Run:
        def change(run: Run) -> Run:
            return fence(run, attempt, now=self._clock(), code=code, why=why, host=host, is_over=is_over)

        return self._change(run_id, change)

    def set_desired(self, run_id: str, desired: str, error: Mapping[str, Any] | None = None) -> Run:
        return self._change(run_id, lambda run: wished(run, desired, error))

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
            return shelved(new, archived, self._clock())

        return self._change(run_id, change)

    def hide_run(self, run_id: str, *, until: datetime) -> list[str]:
        with self._lock:
            return self._hidden.hide([self.get_run(run_id)], until)

    def restore_run(self, run_id: str) -> list[str]:
        with self._lock:
            return self._hidden.restore(run_id)

    def find_hidden(self, run_id: str) -> Run | None:
        with self._lock:
            return self._hidden.find(run_id)

    def list_family(self, run_id: str) -> list[str]:
        with self._lock:
            return [run.id for run in self._hidden.below([self._runs[run_id]])] if run_id in self._runs else []

    def find_next_purge(self) -> datetime | None:
        with self._lock:
            return min([*self._hidden.runs.values(), *self._hidden.batches.values()], default=None)

    def list_purges(self, now: datetime) -> list[str]:
        with self._lock:
            return [id for id in self._runs if id in self._hidden.runs and self._hidden.runs[id] <= now]

    def purge_run(self, run_id: str, now: datetime) -> list[str]:
        with self._lock:
            family = self._hidden.below([self._runs[run_id]]) if run_id in self._runs else []
            times = [self._hidden.runs.get(run.id) for run in family]
            return self.delete_run(run_id) if family and all(at is not None and at <= now for at in times) else []

    def purge_experiments(self, now: datetime) -> None:
        with self._lock:
            for place in [place for place, at in self._hidden.batches.items() if at <= now]:
                if place not in self._hidden.experiments:
                    del self._hidden.batches[place]
                elif all((run.workspace, run.experiment) != place for run in self._runs.values()):
                    self.delete_experiment(*place)

    def delete_run(self, run_id: str) -> list[str]:
        with self._lock:
            top = _get(self._runs, run_id, f"There is no run `{run_id}`.")
            family = self._hidden.below([top])
            for run in family:
                check_ended(run)
            ids = [run.id for run in family]
            for id in ids:
                del self._runs[id], self._metrics[id], self._files[id]
                self._hidden.runs.pop(id, None)
            self._keys = {key: id for key, id in self._keys.items() if id in self._runs}
            self._tokens = {key: of for key, of in self._tokens.items() if of[0] in self._runs}
            return ids

    def add_token(self, token_hash: str, *, run_id: str, attempt: int) -> None:
        with self._lock:
            self.get_run(run_id)
            self._tokens.setdefault(token_hash, (run_id, attempt))

    def find_token(self, token_hash: str) -> RunAccess | None:
        with self._lock:
            found = self._tokens.get(token_hash)
            if found is None or found[0] in self._hidden.runs:
                return None
            run = self._runs[found[0]]
            role = self._users.find_role(run.owning_user)
            return run_access(*found, run.workspace, owner=run.owner, submitted_by=run.submitted_by, role=role)

    def list_owners(self, workspace: str, *, experiment: str | None = None) -> set[str]:
        with self._lock:
            self.get_workspace(workspace)
            there = [run for run in self._runs.values() if run.workspace == workspace]
            return {run.owning_user for run in there if experiment in (None, run.experiment)}

    def is_descendant(self, run_id: str, ancestor_id: str) -> bool:
        with self._lock:
            self.get_run(ancestor_id)
            run: Run | None = self.get_run(run_id)
            while run is not None and run.id != ancestor_id:
                run = None if run.parent_id is None else self._runs[run.parent_id]
            return run is not None

    def list_marks(self, run_id: str, attempt: int) -> list[Mark]:
        with self._lock:
            self.get_run(run_id)
            marks = self._metrics[run_id].marks.get(attempt, {})
            return [Mark(writer, segment, offset) for (writer, segment), offset in sorted(marks.items())]

    def find_mark(self, run_id: str, attempt: int, writer: str, segment: int) -> int | None:
        with self._lock:
            self.get_run(run_id)
            return self._metrics[run_id].marks.get(attempt, {}).get((writer, segment))

    def list_names(self, run_id: str, attempt: int, writer: str, segment: int) -> dict[int, str]:
        with self._lock:
            self.get_run(run_id)
            return dict(self._metrics[run_id].names.get((attempt, writer, segment), {}))

    def ingest(self, run_id: str, attempt: int, parts: Sequence[SegmentPart]) -> list[Mark]:
        with self._lock:
            run = self.get_run(run_id)
            marks, accepted, warnings = self._metrics[run_id].ingest(attempt, parts)
            self._runs[run_id] = reported_by(run, accepted, warnings)
            return marks

    def list_metrics(self, run_id: str, *, name: str | None = None) -> list[MetricInfo]:
        with self._lock:
            self.get_run(run_id)
            return self._metrics[run_id].list_metrics(name)

    def summarize_metrics(
        self, run_ids: Sequence[str], *, names: Sequence[str] | None = None
    ) -> dict[str, dict[str, MetricSummary]]:
        with self._lock:
            found = {run_id: self._metrics[run_id].summarize(names) for run_id in run_ids if self.find_run(run_id)}
        return {run_id: summaries for run_id, summaries in found.items() if summaries}

    def read_series(self, run_id: str, metric: str, *, column: str = "", rank: int | None = None) -> Series:
        with self._lock:
            self.get_run(run_id)
            return self._metrics[run_id].read_series(metric, column, rank)

    def chart(
        self,
        run_id: str,
        metric: str,
        *,
        column: str = "",
        rank: int | None = None,
        width: int = 1000,
        x: str = STEP,
        first: int | None = None,
        last: int | None = None,
    ) -> Chart:
        with self._lock:
            self.get_run(run_id)
            series = self._metrics[run_id].read_series(metric, column, rank, fill_gaps=False)
        return chart_of_series(series, Window(x, first, last), width=width)

    def put_file(self, run_id: str, file: RunFile, *, replace: bool = True) -> RunFile:
        with self._lock:
            self.get_run(run_id)
            old = self._files[run_id].get(file.name)
            new = checked_file(run_id, old, file, replace_it=replace, now=self._clock())
            self._files[run_id][file.name] = new
            return new

    def find_file(self, run_id: str, name: str) -> RunFile | None:
        with self._lock:
            self.get_run(run_id)
            return self._files[run_id].get(name)

    def list_files(self, run_id: str, *, with_chunks: bool = True) -> list[RunFile]:
        with self._lock:
            self.get_run(run_id)
            found = [file for _, file in sorted(self._files[run_id].items())]
        return found if with_chunks else [without_chunks(file) for file in found]

    def sum_file_sizes(self, *, run_id: str | None = None, submitted_by: str | None = None) -> int:
        with self._lock:
            return sum(
                file.size
                for id, files in self._files.items()
                if id == run_id or (submitted_by is not None and self._runs[id].submitted_by == submitted_by)
                for file in files.values()
            )

    def put_snapshot(self, snapshot_id: str, root: str, *, files: int, size_bytes: int) -> None:
        self._snapshots.setdefault(snapshot_id, root)

    def find_snapshot(self, snapshot_id: str) -> str | None:
        return self._snapshots.get(snapshot_id)

    def list_snapshots(self) -> dict[str, str]:
        with self._lock:
            return dict(self._snapshots)

    def delete_snapshots(self, ids: Collection[str]) -> None:
        with self._lock:
            for id in ids:
                self._snapshots.pop(id, None)

    def read_references(self) -> References:
        with self._lock:
            roots = {run.snapshot_root for run in self._runs.values() if run.snapshot_root is not None}
            files = (file for found in self._files.values() for file in found.values() if file.kind == "blob")
            chunks = {chunk for file in files for chunk in file.chunks}
            kept = (asset for versions in self._assets.values() for asset in versions)
            return References(roots, chunks.union(*(chunks_of(asset) for asset in kept)))

    def find_chunks(self, ids: Sequence[str]) -> dict[str, tuple[str, int, int, int, str]]:
        with self._lock:
            return {id: self._chunks[id] for id in ids if id in self._chunks}

    def add_chunks(self, pack: str, places: Mapping[str, tuple[int, int, int, str]]) -> None:
        with self._lock:
            self._packs.setdefault(pack)
            for id, (start, stored, plain, codec) in places.items():
                self._chunks.setdefault(id, (pack, start, stored, plain, codec))

    def iter_packs(self) -> Iterator[str]:
        with self._lock:
            return iter(list(self._packs))

    def iter_chunk_places(self) -> Iterator[tuple[str, str, int, int, int, str]]:
        with self._lock:
            return iter([(id, *place) for id, place in self._chunks.items()])

    def remove_chunks(self, ids: Collection[str]) -> None:
        with self._lock:
            for id in ids:
                self._chunks.pop(id, None)

    def replace_pack(self, old: str, new: str | None, places: Mapping[str, tuple[int, int, int, str]]) -> None:
        with self._lock:
            if new is not None:
                self._packs.setdefault(new)
                self._chunks.update({id: (new, *place) for id, place in places.items()})
            self._packs.pop(old, None)

    def _change(self, run_id: str, change: Callable[[Run], Run]) -> Run:
        with self._lock:
            run = self._runs[run_id] = change(self.get_run(run_id))
            return run


def _get(table: Mapping[K, V], key: K, what: str) -> V:
    found = table.get(key)
    if found is None:
        raise NotFound(what)
    return found
