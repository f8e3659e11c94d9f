"""The workspaces and experiments of the store in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from runyard.core.errors import NotFound
from runyard.core.names import make_uuid, name_of_title
from runyard.core.records import Experiment, Workspace
from runyard.store.base import Workspaces
from runyard.store.memory.tables import MemoryPart
from runyard.store.record_limits import check_labels
from runyard.store.rules import (
    change_experiment,
    has_experiments,
    has_runs,
    recreate_experiment,
    title_is_taken,
)


class MemoryWorkspaces(MemoryPart, Workspaces):
    """Workspaces by name, experiments by workspace and name."""

    def put_workspace(self, workspace: Workspace) -> Workspace:
        with self._tables.lock:
            return self._tables.workspaces.setdefault(workspace.name, workspace)

    def get_workspace(self, name: str) -> Workspace:
        with self._tables.lock:
            return self._tables.get_workspace(name)

    def list_workspaces(self) -> list[Workspace]:
        with self._tables.lock:
            return sorted(self._tables.workspaces.values(), key=lambda workspace: workspace.name)

    def delete_workspace(self, name: str) -> None:
        with self._tables.lock:
            self._tables.get_workspace(name)
            if any(workspace == name for workspace, _ in self._tables.experiments):
                raise has_experiments(name)
            self._tables.assets = {place: kept for place, kept in self._tables.assets.items() if place[0] != name}
            del self._tables.workspaces[name]

    def put_experiment(self, workspace: str, name: str, *, owner: str | None = None) -> Experiment:
        with self._tables.lock:
            return self._tables.put_experiment(workspace, name, owner)

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
        with self._tables.lock:
            self._tables.get_workspace(workspace)
            if self._tables.find_shown(workspace, title) is not None:
                raise title_is_taken(title)
            attempt, now = 0, self._tables.clock()
            deleted = self._tables.experiments.get((workspace, self._tables.name_of(workspace, title)))
            if deleted is not None and deleted.shown_name == title:
                made = recreate_experiment(deleted, now=now, owner=owner)
                self._tables.hidden.experiments.discard((workspace, made.name))
            else:
                while (workspace, name_of_title(title, attempt)) in self._tables.experiments:
                    attempt += 1
                name = name_of_title(title, attempt)
                made = Experiment(make_uuid(), name, workspace, now, owner=owner)
                made = replace(made, title=None if name == title else title)
            made = replace(made, tags=dict(tags or {}), artifact_location=artifact_location)
            self._tables.experiments[workspace, made.name] = made
            return made

    def find_experiment(self, workspace: str, *, id: str | None = None, title: str | None = None) -> Experiment | None:
        with self._tables.lock:
            self._tables.get_workspace(workspace)
            if id is None:
                return None if title is None else self._tables.find_shown(workspace, title)
            shown = self.list_experiments(workspace, view="All")
            return next((found for found in shown if found.id == id), None)

    def get_experiment(self, workspace: str, name: str) -> Experiment:
        with self._tables.lock:
            self._tables.get_workspace(workspace)
            experiment = self._tables.hidden.find_experiment((workspace, self._tables.name_of(workspace, name)))
            if experiment is None:
                raise NotFound(f"There is no experiment `{name}`.")
            return experiment

    def list_experiments(
        self, workspace: str, *, view: str = "ActiveOnly", name: str | None = None
    ) -> list[Experiment]:
        with self._tables.lock:
            self._tables.get_workspace(workspace)
            hidden = {item: self._tables.hidden.batches.get(item) for item in self._tables.hidden.experiments}
            in_view = [
                replace(item, undo_until=hidden.get(place))
                for place, item in sorted(self._tables.experiments.items())
                if place[0] == workspace and (place in hidden) == (view == "DeletedOnly")
            ]
            shown = {"ArchivedOnly": (True,), "All": (True, False), "DeletedOnly": (True, False)}.get(view, (False,))
            in_view = [item for item in in_view if (item.archived_at is not None) in shown]
            if name is None:
                return in_view
            named = [item for item in in_view if item.name == name]
            return named or [item for item in in_view if item.title == name]

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
        with self._tables.lock:
            old, now = self.get_experiment(workspace, name), self._tables.clock()
            shown = None if title is None else self._tables.find_shown(workspace, title)
            if title is not None and shown is not None and shown.id != old.id:
                raise title_is_taken(title)
            for place, item in self._tables.experiments.items():
                if title is not None and (place[0], item.title) == (workspace, title) and item.id != old.id:
                    self._tables.experiments[place] = replace(item, title=None)
            new = change_experiment(
                old, now=now, archived=archived, tags_set=tags_set, tags_remove=tags_remove, title=title
            )
            self._tables.experiments[workspace, old.name] = new
            return new

    def hide_experiment(self, workspace: str, name: str, *, until: datetime) -> list[str]:
        with self._tables.lock:
            found = self.get_experiment(workspace, name)
            return self._tables.hidden.hide_experiment((workspace, found.name), until)

    def restore_experiment(self, workspace: str, name: str) -> list[str]:
        with self._tables.lock:
            self._tables.get_workspace(workspace)
            return self._tables.hidden.restore_experiment((workspace, self._tables.name_of(workspace, name)))

    def delete_experiment(self, workspace: str, name: str) -> None:
        with self._tables.lock:
            self._tables.get_workspace(workspace)
            name = self._tables.name_of(workspace, name)
            if (workspace, name) not in self._tables.experiments:
                raise NotFound(f"There is no experiment `{name}`.")
            if any((run.workspace, run.experiment) == (workspace, name) for run in self._tables.runs.values()):
                raise has_runs(name)
            del self._tables.experiments[workspace, name]
            self._tables.hidden.experiments.discard((workspace, name))
            self._tables.hidden.batches.pop((workspace, name), None)

    def purge_experiments(self, now: datetime) -> None:
        with self._tables.lock:
            for place in [place for place, at in self._tables.hidden.batches.items() if at <= now]:
                if place not in self._tables.hidden.experiments:
                    del self._tables.hidden.batches[place]
                elif all((run.workspace, run.experiment) != place for run in self._tables.runs.values()):
                    self.delete_experiment(*place)
