"""What of the store in memory is deleted and can still be restored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from runyard.core.records import Experiment, Run
from runyard.store.rules import check_ended, no_hidden_experiment, no_view, not_hidden, parent_is_hidden

Place = tuple[str, str]  # workspace and name of an experiment


class HiddenRecords:
    """Hides runs and experiments of the store's tables; the caller holds their lock."""

    def __init__(self, runs: Mapping[str, Run], experiments: Mapping[Place, Experiment]) -> None:
        self._all_runs = runs
        self._all_experiments = experiments
        self.runs: dict[str, datetime] = {}
        self.experiments: set[Place] = set()
        self.batches: dict[Place, datetime] = {}  # what was hidden with an experiment, which may be there again

    def in_view(self, view: str) -> list[Run]:
        """Return the runs of a view, in order of creation; InvalidArgument for an unknown view."""
        if view == "deleted":
            return [replace(run, undo_until=self.runs[id]) for id, run in self._all_runs.items() if id in self.runs]
        if view not in ("active", "archived", "all"):
            raise no_view(view)
        shown = [run for id, run in self._all_runs.items() if id not in self.runs]
        return [run for run in shown if view == "all" or (run.archived_at is not None) == (view == "archived")]

    def find(self, run_id: str) -> Run | None:
        """Return a hidden run with the time until which it can be restored."""
        return replace(self._all_runs[run_id], undo_until=self.runs[run_id]) if run_id in self.runs else None

    def find_experiment(self, place: Place) -> Experiment | None:
        """Return an experiment that is not hidden."""
        return self._all_experiments.get(place) if place not in self.experiments else None

    def hide(self, tops: list[Run], until: datetime) -> list[str]:
        """Hide these runs and their descendants until then, or raise Conflict; return their ids."""
        family = [run for run in self.below(tops) if run.id not in self.runs]
        for run in family:
            check_ended(run)
        self.runs.update((run.id, until) for run in family)
        return [run.id for run in family]

    def hide_experiment(self, place: Place, until: datetime) -> list[str]:
        """Hide an experiment and its runs until then, or raise Conflict; return the runs' ids."""
        hidden = self.hide([run for run in self._all_runs.values() if (run.workspace, run.experiment) == place], until)
        self.experiments.add(place)
        self.batches[place] = until
        return hidden

    def restore(self, run_id: str) -> list[str]:
        """Bring back a run and what was hidden with it; return the runs' ids."""
        if run_id not in self.runs:
            raise not_hidden(run_id)
        top = self._hidden_above(self._all_runs[run_id])
        if top is not None:
            raise parent_is_hidden(run_id, top)
        return self._show([self._all_runs[run_id]], self.runs[run_id])

    def restore_experiment(self, place: Place) -> list[str]:
        """Bring back an experiment and the runs that were hidden with it; return their ids."""
        until = self.batches.pop(place, None)
        if until is None:
            raise no_hidden_experiment(place[1])
        self.experiments.discard(place)
        members = [run for run in self._all_runs.values() if (run.workspace, run.experiment) == place]
        batch = [run for run in members if self.runs.get(run.id) == until]
        together = {run.id for run in batch}
        return self._show([run for run in batch if run.parent_id in together or not self._hidden_above(run)], until)

    def below(self, tops: list[Run]) -> list[Run]:
        """Return the runs and all below them, in the order of creation."""
        ids = {run.id for run in tops}
        for run in self._all_runs.values():  # a parent is made before its children
            if run.parent_id in ids:
                ids.add(run.id)
        return [run for run in self._all_runs.values() if run.id in ids]

    def _hidden_above(self, run: Run) -> str | None:
        top: str | None = None
        while run.parent_id is not None and run.parent_id in self.runs:
            top = run.parent_id
            run = self._all_runs[top]
        return top

    def _show(self, tops: list[Run], until: datetime) -> list[str]:
        family = [run for run in self.below(tops) if self.runs.get(run.id) == until]
        for run in family:
            del self.runs[run.id]
            self.experiments.discard((run.workspace, run.experiment))
        return [run.id for run in family]
