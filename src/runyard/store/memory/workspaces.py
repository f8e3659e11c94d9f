"""The workspaces and experiments of the store in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from runyard.core.errors import NotFound
from runyard.core.records import Experiment, Workspace
from runyard.store.base import Workspaces
from runyard.store.memory.tables import MemoryPart
from runyard.store.rules import change_experiment, has_experiments, has_runs


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

    def get_experiment(self, workspace: str, name: str) -> Experiment:
        with self._tables.lock:
            self._tables.get_workspace(workspace)
            experiment = self._tables.hidden.find_experiment((workspace, name))
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
        return [item for item in in_view if (item.archived_at is not None) in shown and name in (None, item.name)]

    def update_experiment(
        self,
        workspace: str,
        name: str,
        *,
        archived: bool | None = None,
        tags_set: Mapping[str, str | None] | None = None,
        tags_remove: Sequence[str] = (),
    ) -> Experiment:
        with self._tables.lock:
            old = self.get_experiment(workspace, name)
            new = change_experiment(
                old, now=self._tables.clock(), archived=archived, tags_set=tags_set, tags_remove=tags_remove
            )
            self._tables.experiments[workspace, name] = new
            return new

    def hide_experiment(self, workspace: str, name: str, *, until: datetime) -> list[str]:
        with self._tables.lock:
            self.get_experiment(workspace, name)
            return self._tables.hidden.hide_experiment((workspace, name), until)

    def restore_experiment(self, workspace: str, name: str) -> list[str]:
        with self._tables.lock:
            self._tables.get_workspace(workspace)
            return self._tables.hidden.restore_experiment((workspace, name))

    def delete_experiment(self, workspace: str, name: str) -> None:
        with self._tables.lock:
            self._tables.get_workspace(workspace)
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
