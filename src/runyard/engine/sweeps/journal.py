"""A sweep's journal and what it means: every decision is a function of the events before it.

Events, in the order they were committed (`at` is for people, nothing is decided by it):

    inherited  run, parameters, values, best         a trial of an earlier sweep
    planned    run, index, parameters, arguments     a child that will be made, once
    observed   run, values                           more of its loggings of the primary metric
    decided    run, interval, reason, bound, found   the policy stops it
    ended      run, status, best                     nothing more comes from it
    closed     reason, stops                         no more children; with `stops` (time over) live ones end too
    finished   status, reason                        the sweep's own end
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict, cast

from runyard.core.specs import Decision, SweepSpec, Trial
from runyard.core.statuses import RunStatus
from runyard.tuning.base import StoppingPolicy
from runyard.tuning.policies import best_of, is_better


class SweepEvent(TypedDict, total=False):
    """An event of a sweep's journal. `kind` says which of the other keys it has."""

    kind: str  # inherited, planned, observed, decided, ended, closed, finished
    at: str
    run: str  # the child's id; inherited: the earlier sweep's
    index: int  # planned
    parameters: dict[str, Any]  # inherited, planned: by name
    arguments: list[str]  # planned
    values: list[float | str]  # inherited, observed: of the primary metric, as JSON can hold them
    final: bool  # observed: after the child's end, so that no policy judged them
    interval: int  # decided
    bound: float | str | None
    found: float | str | None
    reason: str  # decided, closed, finished
    status: str  # ended, finished
    best: float | str | None  # ended
    stops: bool  # closed: the time is over, also for children that still run


@dataclass
class Child:
    """One child of a sweep, as the journal tells."""

    run_id: str
    index: int
    parameters: dict[str, Any]
    arguments: list[str] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    status: RunStatus | None = None
    best: float | None = None
    best_at: str | None = None  # when that was noticed
    stopped: SweepEvent | None = None
    ended_by_cap: bool = False  # it ended after the sweep's time was over

    @property
    def is_live(self) -> bool:
        """Whether the journal has not noted its end."""
        return self.status is None

    @property
    def trial(self) -> Trial:
        """The child as samplers and policies see it."""
        known = self.values or ([] if self.best is None else [self.best])
        return Trial(self.run_id, parameters=self.parameters, values=known, is_finished=not self.is_live)


class SweepState:
    """The state that follows from a sweep's journal. Not thread-safe: the loop alone changes live ones."""

    def __init__(self, spec: SweepSpec, events: Iterable[Mapping[str, Any]] = ()) -> None:
        self.spec = spec
        self.count = 0
        self.children: dict[str, Child] = {}
        self.inherited: list[Trial] = []
        self.closed: str | None = None
        self.stops = False  # the time is over, also for children that still run
        self.finished: SweepEvent | None = None
        self.best: tuple[str, float] | None = None
        self.bests: list[tuple[str, float]] = []  # each time there was a better one
        self.bests_at: list[str | None] = []  # and when
        self.shown_events = self.shown_bytes = self.shown_rows = self.shown_children = 0  # of them in the run itself
        for event in events:
            self.apply(event)

    @property
    def live(self) -> list[Child]:
        """The children that have not ended."""
        return [child for child in self.children.values() if child.is_live]

    @property
    def trials(self) -> list[Trial]:
        """The trials of earlier sweeps that this one continues, then its own."""
        return [*self.inherited, *(child.trial for child in self.children.values())]

    def apply(self, event: Mapping[str, Any]) -> None:
        """Take in the next event. Unknown kinds, of a newer server, are only counted."""
        self.count += 1
        getattr(self, f"_{event['kind']}", _ignore)(event)

    def _inherited(self, event: Mapping[str, Any]) -> None:
        values = [float(value) for value in event["values"]]
        self.inherited.append(Trial(event["run"], dict(event["parameters"]), values, is_finished=True))

    def _planned(self, event: Mapping[str, Any]) -> None:
        run_id = event["run"]
        arguments = list(event.get("arguments", ()))
        self.children[run_id] = Child(run_id, event["index"], dict(event["parameters"]), arguments)

    def _observed(self, event: Mapping[str, Any]) -> None:
        child = self.children[event["run"]]
        child.values += [float(value) for value in event["values"]]
        self._note_best(child, best_of(child.values, self.spec.goal), at=event.get("at"))

    def _decided(self, event: Mapping[str, Any]) -> None:
        self.children[event["run"]].stopped = cast("SweepEvent", {**event})

    def _ended(self, event: Mapping[str, Any]) -> None:
        child = self.children[event["run"]]
        child.status = RunStatus(event["status"])
        child.ended_by_cap = self.stops
        self._note_best(child, None if event["best"] is None else float(event["best"]), at=event.get("at"))

    def _closed(self, event: Mapping[str, Any]) -> None:
        self.closed = event["reason"]
        self.stops = bool(event.get("stops"))

    def _finished(self, event: Mapping[str, Any]) -> None:
        self.finished = cast("SweepEvent", {**event})

    def _note_best(self, child: Child, value: float | None, *, at: str | None) -> None:
        if value is None or math.isnan(value):
            return
        goal = self.spec.goal
        if child.best is None or is_better(value, child.best, goal):
            child.best, child.best_at = value, at
        if self.best is None or is_better(value, self.best[1], goal):
            self.best = (child.run_id, value)
            self.bests.append(self.best)
            self.bests_at.append(at)


def plain_values(values: Sequence[float]) -> list[float | str]:
    """Return values as JSON can hold them: what is not finite becomes its name."""
    return [value if math.isfinite(value) else str(value) for value in values]


def judge(state: SweepState, policy: StoppingPolicy, run_id: str, values: Sequence[float]) -> SweepEvent | None:
    """Return the decision to stop a child once it has logged `values` beyond those known; None: it goes on."""
    child = state.children[run_id]
    if child.stopped is not None:
        return None
    trial = replace(child.trial, values=[*child.values, *values])
    trials = [trial if other.id == run_id else other for other in state.trials]
    for interval in range(len(child.values) + 1, len(trial.values) + 1):
        if policy.is_due(interval):
            decision = policy.decide(trial, interval, trials)
            if decision.stop:
                return _decided(run_id, interval, decision)
    return None


def _decided(run_id: str, interval: int, decision: Decision) -> SweepEvent:
    bound, found = (None if value is None else plain_values([value])[0] for value in (decision.bound, decision.found))
    return {
        "kind": "decided",
        "run": run_id,
        "interval": interval,
        "reason": decision.reason,
        "bound": bound,
        "found": found,
    }


def recompute(spec: SweepSpec, policy: StoppingPolicy, events: Sequence[Mapping[str, Any]]) -> list[SweepEvent]:
    """Return the decisions that follow from the observations alone; a sound journal holds exactly these."""
    state = SweepState(spec)
    found: list[SweepEvent] = []
    for event in events:
        if event["kind"] == "decided":
            state.count += 1
            continue
        if event["kind"] == "observed" and not event.get("final"):
            stop = judge(state, policy, event["run"], [float(value) for value in event["values"]])
            found += [stop] if stop is not None else []
            state.children[event["run"]].stopped = stop or state.children[event["run"]].stopped
        state.apply(event)
    return found


def describe(event: Mapping[str, Any]) -> str:
    """Return the event as a line of the sweep's log."""
    text = {
        "inherited": "trial {run} of an earlier sweep: {parameters}",
        "planned": "{run}: {parameters}",
        "observed": "{run}: logged {values}",
        "decided": "{run} is stopped: {reason}",
        "ended": "{run} ended as {status}, best {best}",
        "closed": "No more children: {reason}",
        "finished": "The sweep ended as {status}: {reason}",
    }.get(event["kind"], "{kind}")
    return f"{event.get('at', '')} {text.format(**event)}"


def _ignore(event: Mapping[str, Any]) -> None:
    """An event of a newer server."""
