"""A sweep as users ask for it: its children with their values, results and ends, and why each was stopped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Optional, Union

from runyard.core.formats.documents import RunError
from runyard.core.records import Run
from runyard.core.specs import MAX_TOTAL_RUNS, MAXIMIZE, SweepSpec
from runyard.core.statuses import RunStatus
from runyard.engine.sweeps.journal import Child, SweepState, plain_values
from runyard.engine.sweeps.sweeps import read_sweep
from runyard.store.base import MetricSummary, RunQuery, RunStore
from runyard.tuning.policies import best_of

Reached = Union[float, str, None]  # of the primary metric; a text such as "nan" where it is not finite


@dataclass(frozen=True)
class TrialFacts:
    """A trial of an earlier sweep that this one continues."""

    run_id: str
    parameters: Mapping[str, Any]  # by name
    best: Reached


@dataclass(frozen=True)
class StopFacts:
    """Why the policy stopped a child."""

    interval: int
    reason: str


@dataclass(frozen=True)
class CutShort:
    """Why a child did not run to its end. `kind` is crash, policy, cap or cancel."""

    kind: str
    reason: str


@dataclass(frozen=True)
class ChildFacts(TrialFacts):
    index: int
    status: str
    best_at: Optional[str]
    stopped: Optional[StopFacts]
    cut_short: Optional[CutShort]
    started_at: Optional[str]
    ended_at: Optional[str]


@dataclass(frozen=True)
class SweepBest:
    run_id: str
    value: Reached


@dataclass(frozen=True)
class BetterFound(SweepBest):
    at: Optional[str]


@dataclass(frozen=True)
class SweepFacts:
    """A sweep as `GET /runs/{id}/sweep` shows it."""

    run_id: str
    spec: SweepSpec
    children: list[ChildFacts]
    inherited: list[TrialFacts]
    best: Optional[SweepBest]
    bests: list[BetterFound]  # each time there was a better one
    closed: Optional[str]  # why there are no more children
    finished: Optional[Mapping[str, Any]]  # the last event of the sweep's journal: status and reason


def show_sweep(store: RunStore, run_id: str) -> SweepFacts:
    """Return what `GET /runs/{id}/sweep` answers.

    Raises:
        InvalidArgument: the run is no sweep.
    """
    state = read_sweep(store, run_id)
    goal = state.spec.goal
    inherited = [
        TrialFacts(trial.id, trial.parameters, _plain(best_of(trial.values, goal))) for trial in state.inherited
    ]
    bests = zip(state.bests, state.bests_at)
    return SweepFacts(
        run_id,
        state.spec,
        _children(store, run_id, state),
        inherited,
        best=None if state.best is None else SweepBest(state.best[0], _plain(state.best[1])),
        bests=[BetterFound(child, _plain(value), at) for (child, value), at in bests],
        closed=state.closed,
        finished=None if state.finished is None else dict(state.finished),
    )


def _children(store: RunStore, run_id: str, state: SweepState) -> list[ChildFacts]:
    sweep, metric = store.get_run(run_id), state.spec.primary_metric
    # The journal hears of values by the policy or at the end: what those that still run reached is read here.
    live = store.summarize_metrics([child.run_id for child in state.live], names=[metric])
    asked = RunQuery(sweep.workspace, parent_id=run_id, view="all", limit=2 * MAX_TOTAL_RUNS)
    runs = {run.id: run for run in store.list_runs(asked).runs}
    found = []
    for child in state.children.values():
        shown = _child(child, runs.get(child.run_id), sweep, state)
        if child.best is None:
            for summary in live.get(child.run_id, {}).values():
                shown = replace(shown, best=_plain(_best(summary, state.spec.goal)))
        found.append(shown)
    return found


def _best(summary: MetricSummary, goal: str) -> float | None:
    return summary.maximum if goal == MAXIMIZE else summary.minimum


def _child(child: Child, run: Run | None, sweep: Run, state: SweepState) -> ChildFacts:
    status = child.status or (run.status if run is not None else None)
    stop = child.stopped
    return ChildFacts(
        child.run_id,
        child.parameters,
        _plain(child.best),
        index=child.index,
        status="NotStarted" if status is None else status.value,
        best_at=child.best_at,
        stopped=None if stop is None else StopFacts(stop["interval"], stop["reason"]),
        cut_short=_cut_short(child, run, sweep, state),
        started_at=None if run is None or run.started_at is None else run.started_at.isoformat(),
        ended_at=None if run is None or run.ended_at is None else run.ended_at.isoformat(),
    )


def _cut_short(child: Child, run: Run | None, sweep: Run, state: SweepState) -> CutShort | None:
    """Return why the child did not run to its end: the policy, the sweep's time, a crash, or somebody."""
    status = child.status or (run.status if run is not None else None)
    if status is RunStatus.FAILED:
        return CutShort("crash", _error(run.error if run is not None else None) or state.closed or "")
    if child.stopped is not None and status is not RunStatus.COMPLETED:
        return CutShort("policy", str(child.stopped["reason"]))
    if status is not RunStatus.CANCELED:
        return None
    if child.ended_by_cap or (child.is_live and state.stops):
        return CutShort("cap", state.closed or "")
    who = "The sweep was cancelled." if sweep.desired == "cancel" else "It was cancelled."
    return CutShort("cancel", who)


def _error(error: RunError | None) -> str:
    """Return the error's code and the first line of its message."""
    if not error:
        return ""
    lines = str(error.get("message", "")).strip().splitlines()
    return ": ".join(text for text in (str(error.get("code", "")), lines[0] if lines else "") if text)


def _plain(value: float | None) -> float | str | None:
    return None if value is None else plain_values([value])[0]
