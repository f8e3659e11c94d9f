"""A sweep as people ask for it: its children with their values, results and ends, and why each was stopped."""

from __future__ import annotations

from typing import Any

from runyard.core.plain import to_plain
from runyard.engine.sweep_journal import Child, plain_values
from runyard.engine.sweeps import read_sweep
from runyard.engine.yard import Yard
from runyard.tuning.goals import best_of


def show_sweep(yard: Yard, run_id: str) -> dict[str, Any]:
    """Return what `GET /runs/{id}/sweep` answers.

    Raises:
        InvalidArgument: the run is no sweep.
    """
    state = read_sweep(yard, run_id)
    goal = state.spec.goal
    inherited = [
        {"run_id": trial.id, "parameters": trial.parameters, "best": _plain(best_of(trial.values, goal))}
        for trial in state.inherited
    ]
    return {
        "run_id": run_id,
        "spec": to_plain(state.spec),
        "children": [_child(yard, child) for child in state.children.values()],
        "inherited": inherited,
        "best": None if state.best is None else {"run_id": state.best[0], "value": _plain(state.best[1])},
        "bests": [{"run_id": child, "value": _plain(value)} for child, value in state.bests],
        "closed": state.closed,
        "finished": state.finished,
    }


def _child(yard: Yard, child: Child) -> dict[str, Any]:
    run = yard.store.find_run(child.run_id)
    status = child.status or (run.status if run is not None else None)
    stopped = None if child.stopped is None else {key: child.stopped[key] for key in ("interval", "reason")}
    return {
        "run_id": child.run_id,
        "index": child.index,
        "parameters": child.parameters,
        "status": "NotStarted" if status is None else status.value,
        "best": _plain(child.best),
        "stopped": stopped,
        "started_at": None if run is None or run.started_at is None else run.started_at.isoformat(),
        "ended_at": None if run is None or run.ended_at is None else run.ended_at.isoformat(),
    }


def _plain(value: float | None) -> float | str | None:
    return None if value is None else plain_values([value])[0]
