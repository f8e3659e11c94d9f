"""The tables of the store in memory, which its parts share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime
from typing import Any

from runyard.core.errors import NotFound
from runyard.core.names import make_uuid
from runyard.core.records import Asset, Experiment, Run, RunFile, Workspace
from runyard.core.users import User
from runyard.store.memory.hidden import HiddenRecords
from runyard.store.memory.metrics import StoredMetrics
from runyard.store.rules import recreate_experiment


class MemoryTables:
    """Dictionaries under one lock, which every caller of a method or reader of a field holds."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self.clock = clock
        self.lock = threading.RLock()
        self.values: dict[str, str] = {}
        self.users: dict[str, User] = {}  # without their tokens
        self.workspaces: dict[str, Workspace] = {}
        self.experiments: dict[tuple[str, str], Experiment] = {}
        self.assets: dict[tuple[str, str, str], list[Asset]] = {}
        self.last_versions: dict[tuple[str, str, str], int] = {}
        self.events: dict[str, list[dict[str, Any]]] = {}
        self.runs: dict[str, Run] = {}  # in order of creation
        self.hidden = HiddenRecords(self.runs, self.experiments)
        self.keys: dict[str, str] = {}
        self.last_numbers: dict[str, int] = {}  # by experiment id
        self.metrics: dict[str, StoredMetrics] = {}
        self.tokens: dict[str, tuple[str, int, int]] = {}  # run, attempt, external writer
        self.files: dict[str, dict[str, RunFile]] = {}
        self.snapshots: dict[str, str] = {}
        self.chunks: dict[str, tuple[str, int, int, int, str]] = {}
        self.packs: dict[str, None] = {}

    def get_workspace(self, name: str) -> Workspace:
        """Return the workspace of that name, or raise NotFound."""
        if name not in self.workspaces:
            raise NotFound(f"There is no workspace `{name}`.")
        return self.workspaces[name]

    def put_experiment(self, workspace: str, name: str, owner: str | None) -> Experiment:
        """Return the experiment of that name or title; create it, or create it again, when there is none."""
        self.get_workspace(workspace)
        place, now = (workspace, self.name_of(workspace, name)), self.clock()
        if place in self.hidden.experiments:
            self.hidden.experiments.remove(place)
            self.experiments[place] = recreate_experiment(self.experiments[place], now=now, owner=owner)
        return self.experiments.setdefault(place, Experiment(make_uuid(), name, workspace, now, owner=owner))

    def name_of(self, workspace: str, text: str) -> str:
        """Return the name of the experiment of that name or title, one that is not hidden first; else the text."""
        here = [found for place, found in self.experiments.items() if place[0] == workspace]
        shown = [found for found in here if (workspace, found.name) not in self.hidden.experiments]
        for known in (shown, here):
            for found in (*(one for one in known if one.name == text), *(one for one in known if one.title == text)):
                return found.name
        return text

    def find_shown(self, workspace: str, title: str) -> Experiment | None:
        """Return the experiment that is shown by that title."""
        shown = (found for place, found in self.experiments.items() if place[0] == workspace)
        return next(
            (
                found
                for found in shown
                if found.shown_name == title and (workspace, found.name) not in self.hidden.experiments
            ),
            None,
        )

    def get_run(self, run_id: str) -> Run:
        """Return a run that is not hidden, or raise NotFound."""
        run = self.find_run(run_id)
        if run is None:
            raise NotFound(f"There is no run `{run_id}`.")
        return run

    def find_run(self, run_id: str) -> Run | None:
        """Return a run that is not hidden; None for an unknown one."""
        return self.runs.get(run_id) if run_id not in self.hidden.runs else None


class MemoryPart:
    """What the parts of MemoryRunStore share: its tables."""

    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables
