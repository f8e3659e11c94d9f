"""Sweeps: children are planned in a journal first, then submitted; a killed server's successor goes on from it."""

from __future__ import annotations

import json
import logging
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from runyard.core.errors import Conflict, InvalidArgument, InvalidTransition, NotFound, UserError
from runyard.core.formats.documents import RunError
from runyard.core.formats.plain import from_plain
from runyard.core.records import NewRun, Run, RunChange
from runyard.core.specs import (
    MAX_CONCURRENT_RUNS,
    MAX_TOTAL_RUNS,
    MAXIMIZE,
    SWEEP_TYPE,
    DataReferenceSpec,
    RunSpec,
    SweepSpec,
)
from runyard.core.statuses import RunStatus
from runyard.engine.context import EngineContext
from runyard.engine.runs import control
from runyard.engine.runs.dispatch import spooled_of
from runyard.engine.runs.streams import close_streams, register_stream, stream_key
from runyard.engine.runs.submit import Submitted, accept, check, create, submit
from runyard.engine.state.spool import Spooled
from runyard.engine.sweeps.journal import Child, SweepEvent, SweepState, describe, judge, plain_values
from runyard.store.base import Rows, RunRecords, RunStore, SegmentPart
from runyard.tuning import get_policy, get_sampler

LOG = "azureml-logs/hyperdrive.txt"
MOST_OBSERVED = 100_000  # values of one child: they are read anew each time there are more, and kept in the journal
BEST_TABLE = "best_child_by_primary_metric"


def child_id(parent_id: str, index: int) -> str:
    """Return the run id of a sweep's child."""
    return f"{parent_id}_{index}"


def check_free_id(store: RunRecords, run_id: str) -> None:
    """Raise unless a run that is no sweep's child may have this id.

    Raises:
        InvalidArgument: it is one that a sweep gives, or will give, to a child of its own.
    """
    sweep_id, _, index = run_id.rpartition("_")
    sweep = store.find_run(sweep_id) if sweep_id and index.isdecimal() else None
    if sweep is not None and sweep.spec.sweep is not None:
        raise InvalidArgument(
            f"A run cannot have the id `{run_id}`.",
            why=f"Ids that begin with `{sweep_id}_` are for the children that this sweep makes.",
            hint="Choose another id, or leave it out.",
        )


def child_request(parent: Run, spec: RunSpec, child: Child) -> NewRun:
    """Return the request for `child`; `spec` is the sweep's own with secrets in place. The same child, the same key."""
    words = [*sampled_arguments(child.parameters), *child.arguments]
    arguments = [*spec.arguments, *words]
    command = None if spec.command is None else " ".join([spec.command, *map(shlex.quote, words)])
    definition = {**spec.definition, "arguments": arguments, "command": command or ""}
    return NewRun(
        key=f"sweep:{child.run_id}",
        id=child.run_id,
        workspace=parent.workspace,
        experiment=parent.experiment,
        spec=replace(
            spec,
            data_references={**spec.data_references, **_resumed_data(parent, child)},
            arguments=arguments if command is None else spec.arguments,
            command=command,
            definition=definition,
            sweep=None,
        ),
        parent_id=parent.id,
        snapshot_id=parent.snapshot_id,
        tags={"hyperparameters": hyperparameters(child.parameters)},
        properties=dict(parent.properties),
        submitted_by=parent.submitted_by,
        owner=parent.owner,
    )


def _resumed_data(parent: Run, child: Child) -> dict[str, DataReferenceSpec]:
    """Return the data that only this child gets: the outputs of the one whose values it tries again."""
    assert parent.spec.sweep is not None
    first = parent.spec.sweep.first_trials[child.index : child.index + 1]
    given: Mapping[str, Any] = first[0].get("data_references", {}) if first else {}
    return {name: from_plain(DataReferenceSpec, dict(plain)) for name, plain in given.items()}


def sampled_arguments(parameters: Mapping[str, Any]) -> list[str]:
    """Return `--name value` for each; a name that begins with `-` is used as it is."""
    words: list[str] = []
    for name, value in parameters.items():
        words += [name if name.startswith("-") else f"--{name}", argument_text(value)]
    return words


def argument_text(value: Any) -> str:
    """Return a sampled value as a command-line argument."""
    return json.dumps(value) if isinstance(value, (list, dict)) else str(value)


def hyperparameters(parameters: Mapping[str, Any]) -> str:
    """Return sampled values as the JSON text that Azure keeps in tags."""
    return json.dumps(dict(parameters))


def parent_tags(children: Sequence[Child]) -> dict[str, str | None]:
    """Return the tags by which the sweep's own run names its children's values."""
    found: dict[str, str | None] = {}
    for child in children:
        text = hyperparameters(child.parameters)
        found.update({child.run_id: text, f"_aml_system_{child.run_id}": text})
    return found


logger = logging.getLogger(__name__)


def start_sweep(context: EngineContext, new: NewRun, *, submitter: Mapping[str, str] | None = None) -> Submitted:
    """Create a sweep: a run without processes of its own, whose children the loop submits one after another.

    Called by request threads. The same key again returns the same sweep.

    Raises:
        SubmitRejected, InvalidArgument, NotFound, MissingExtra: the request cannot become a sweep; nothing was stored.
    """
    prepared = check(context, new)
    spec = prepared.spec.sweep
    assert spec is not None
    _check_limits(spec)
    get_policy(spec)
    get_sampler(spec).sample(0, [])
    accepted, spooled = accept(context, prepared, submitter or {})
    run, is_new = create(context, replace(accepted, type=SWEEP_TYPE, status=RunStatus.RUNNING), spooled)
    if not run.status.is_terminal:
        context.sweeps.setdefault(run.id, None)
    context.events.wake.set()
    return Submitted(run, is_new)


def recover_sweeps(context: EngineContext) -> set[str]:
    """Take up the sweeps that have not ended. Return their ids. Called once, at the start."""
    live = {run.id for run in context.store.list_unfinished() if run.spec.sweep is not None}
    for run_id in live:
        context.sweeps.setdefault(run_id, None)
    if live:
        context.events.wake.set()
    return live


def advance_sweeps(context: EngineContext) -> None:
    """Advance every live sweep: note what its children did, stop some, submit some, end it when all is done.

    Called by the loop, without a lock. What is decided is committed to the journal before it is done, so a killed
    server repeats a step without effect.
    """
    for run_id in list(context.sweeps):
        try:
            _Sweep(context, run_id).advance()
        except Conflict:
            context.sweeps[run_id] = None  # the journal went on without us: read it again
        except NotFound:
            context.sweeps.pop(run_id, None)
        except Exception:
            # One sweep that cannot go on now must not stop the others; the store may be full or locked.
            logger.exception("sweep %s could not be moved on", run_id)


def read_sweep(store: RunStore, run_id: str) -> SweepState:
    """Return what the sweep's journal says now."""
    run = store.get_run(run_id)
    if run.spec.sweep is None:
        raise InvalidArgument(
            f"Run `{run_id}` is no sweep.", hint="A sweep is what experiment.submit(HyperDriveConfig(...)) returns."
        )
    return SweepState(run.spec.sweep, store.list_events(run_id))


class _Sweep:
    """One round of one sweep. Events are committed before what they say is done."""

    def __init__(self, context: EngineContext, run_id: str) -> None:
        self._context = context
        self._run = context.store.get_run(run_id)
        assert self._run.spec.sweep is not None
        self._spec = self._run.spec.sweep
        known = context.sweeps.get(run_id)
        self._state: SweepState = (
            known if known is not None else SweepState(self._spec, context.store.list_events(run_id))
        )
        context.sweeps[run_id] = self._state
        self._runs = {child.run_id: _find(context.store, child.run_id) for child in self._state.live}

    def advance(self) -> None:
        if self._run.status.is_terminal:
            self._context.sweeps.pop(self._run.id, None)
            return
        self._inherit()
        self._observe()
        self._close_when_over()
        self._stop_children()
        self._make_children()
        self._finish_when_done()

    def _commit(self, events: Sequence[SweepEvent]) -> None:
        at = self._context.clock.now().isoformat(timespec="milliseconds")
        stamped = [{"at": at, **event} for event in events]
        if not stamped:
            return
        self._context.store.append_events(self._run.id, stamped, after=self._state.count)
        for event in stamped:
            self._state.apply(event)
            logger.info("sweep %s: %s", self._run.id, describe(event))

    def _inherit(self) -> None:
        """Take over the trials of earlier sweeps, before the first child."""
        if self._state.count or not self._spec.resume_from:
            return
        events: list[SweepEvent] = []
        for earlier in self._spec.resume_from:
            for trial in read_sweep(self._context.store, earlier).trials:
                values = plain_values(trial.values)
                events.append({"kind": "inherited", "run": trial.id, "parameters": trial.parameters, "values": values})
        self._commit(events)

    def _observe(self) -> None:
        for child in self._state.live:
            run = self._runs[child.run_id]
            if run is None:
                continue
            if self._spec.policy != "Default":
                self._observe_values(child.run_id, is_final=run.status.is_terminal)
            if run.status.is_terminal:
                best = self._best_of(child.run_id)
                ended: SweepEvent = {"kind": "ended", "run": child.run_id, "status": run.status.value, "best": best}
                self._commit([ended])

    def _observe_values(self, run_id: str, *, is_final: bool) -> None:
        known = len(self._state.children[run_id].values)
        values = self._values_beyond(run_id, known)
        if not values:
            return
        event: SweepEvent = {"kind": "observed", "run": run_id, "values": plain_values(values)}
        if is_final:
            self._commit([{**event, "final": True}])
            return
        stop = judge(self._state, get_policy(self._spec), run_id, values)
        self._commit([event] if stop is None else [event, stop])  # one transaction: no observation without its verdict

    def _values_beyond(self, run_id: str, known: int) -> list[float]:
        name = self._spec.primary_metric
        found = self._context.store.list_metrics(run_id, name=name)
        if not found or found[0].kind != "scalar" or found[0].count <= known or known >= MOST_OBSERVED:
            return []
        series = self._context.store.read_series(run_id, name)
        if series.kind == "json":
            return []
        if len(series.values) >= MOST_OBSERVED:
            self._warn_of_many(run_id)
        return [float(value) for value in series.values[known:MOST_OBSERVED]]

    def _warn_of_many(self, run_id: str) -> None:
        message = (
            f"Run `{run_id}` logged its primary metric {MOST_OBSERVED:,} times or more. The policy judges the first "
            f"{MOST_OBSERVED:,}; the best value is that of all."
        )
        self._context.store.update_run(self._run.id, RunChange(warnings_add=[{"source": "sweep", "message": message}]))

    def _best_of(self, run_id: str) -> float | None:
        found = self._context.store.list_metrics(run_id, name=self._spec.primary_metric)
        if not found or found[0].kind != "scalar":
            return None
        return found[0].maximum if self._spec.goal == MAXIMIZE else found[0].minimum

    def _close_when_over(self) -> None:
        state = self._state
        age_s = (self._context.clock.now() - self._run.created_at).total_seconds()
        if state.closed is None and self._run.desired is not None:
            self._commit([{"kind": "closed", "reason": f"it was asked to {self._run.desired}"}])
        elif age_s >= self._spec.max_duration_s and not state.stops and (state.live or state.closed is None):
            limit = f"{self._spec.max_duration_s / 60:g} minutes"
            self._commit([{"kind": "closed", "reason": f"max_duration_minutes is over ({limit})", "stops": True}])

    def _stop_children(self) -> None:
        over = self._run.desired is not None or self._state.stops
        for child in self._state.live:
            run = self._runs[child.run_id]
            if run is not None and run.desired is None and (over or child.stopped is not None):
                try:
                    control.cancel(self._context, child.run_id)
                except InvalidTransition:
                    logger.debug("run %s ended before its sweep stopped it", child.run_id)

    def _make_children(self) -> None:
        for child in self._state.live:
            if self._run.desired is None and self._runs[child.run_id] is None:
                self._make(child.run_id)  # planned before somebody killed the server
        while self._state.closed is None and len(self._state.live) < self._spec.max_concurrent_runs:
            index = len(self._state.children)
            planned = self._plan(index) if index < self._spec.max_total_runs else None
            if planned is None:
                whole = index >= self._spec.max_total_runs
                reason = f"all {index} were made" if whole else f"the space is used up after {index}"
                self._commit([{"kind": "closed", "reason": reason}])
                return
            self._commit([planned])
            if not self._make(planned["run"]):
                return

    def _plan(self, index: int) -> SweepEvent | None:
        first = self._spec.first_trials[index : index + 1]
        if first:
            parameters, arguments = dict(first[0]["parameters"]), list(first[0].get("arguments", ()))
        else:
            sampler, arguments = get_sampler(self._spec), []
            drawn = sampler.sample(index - len(self._spec.first_trials), self._state.trials)
            if drawn is None:
                return None
            parameters = drawn
        run_id = child_id(self._run.id, index)
        return {"kind": "planned", "run": run_id, "index": index, "parameters": parameters, "arguments": arguments}

    def _make(self, run_id: str) -> bool:
        """Create the child's run; a target that refuses it ends it, and the sweep makes no more."""
        try:
            spooled = self._spooled
            spec = from_plain(RunSpec, dict(spooled.spec)) if spooled.spec else self._run.spec
            request = child_request(self._run, spec, self._state.children[run_id])
            submit(self._context, request, submitter=spooled.submitter)
        except UserError as error:
            logger.warning("sweep %s: %s refused: %s", self._run.id, run_id, error)
            failed: SweepEvent = {"kind": "ended", "run": run_id, "status": RunStatus.FAILED.value, "best": None}
            self._commit([failed, {"kind": "closed", "reason": f"a child was refused: {error}"}])
            return False
        return True

    def _finish_when_done(self) -> None:
        self._show()
        if self._state.closed is None or self._state.live:
            return
        if self._state.finished is None:
            status, reason = self._end()
            self._commit([{"kind": "finished", "status": status.value, "reason": reason}])
        finished = self._state.finished
        assert finished is not None
        self._show()
        self._set_status(RunStatus(finished["status"]), finished["reason"])
        self._context.sweeps.pop(self._run.id, None)

    def _end(self) -> tuple[RunStatus, str]:
        children = list(self._state.children.values())
        if self._run.desired == "cancel":
            return RunStatus.CANCELED, f"cancelled with {len(children)} children"
        if self._run.desired == "fail":
            return RunStatus.FAILED, "it was marked as failed"
        if children and all(child.status is RunStatus.FAILED for child in children):
            return RunStatus.FAILED, f"all {len(children)} children failed"
        if self._state.best is None:
            return RunStatus.COMPLETED, f"{len(children)} children, no child logged `{self._spec.primary_metric}`"
        run_id, value = self._state.best
        return RunStatus.COMPLETED, f"{len(children)} children, best {value:.6g} by {run_id}"

    def _set_status(self, status: RunStatus, reason: str) -> None:
        error = None
        if status is RunStatus.FAILED:
            error = self._run.desired_error or self._children_error(reason)
        with self._context.locks.of_run(self._run.id):
            close_streams(self._context.store, self._context.artifacts, self._run)
            ended = self._context.store.set_status(self._run.id, status, error=error)
        logger.info("sweep %s: %s", self._run.id, ended.status)
        self._context.ended(ended)

    def _children_error(self, reason: str) -> RunError:
        first = next(iter(self._state.children.values()), None)
        run = self._context.store.find_run(first.run_id) if first is not None else None
        text = str((run.error or {}).get("message", "")) if run is not None else self._state.closed or ""
        name = f"The first, `{run.id}`: " if run is not None else ""
        return {"code": "UserError", "message": f"The sweep failed: {reason}.\n{name}{text}", "details": {}}

    def _show(self) -> None:
        """Bring the run's tags, log and table of best children up to the journal; they are functions of it.

        After a restart all is written again from the start: bytes and rows that are there are skipped.
        """
        state = self._state
        children = list(state.children.values())[state.shown_children :]
        if children:
            self._context.store.update_run(self._run.id, RunChange(tags_set=parent_tags(children)))
            state.shown_children += len(children)
        if state.shown_events < state.count:
            events = self._context.store.list_events(self._run.id, after=state.shown_events)
            text = "".join(describe(event) + "\n" for event in events if event["kind"] != "observed").encode()
            key = stream_key(self._run.id, self._run.attempt, LOG)
            self._context.artifacts.append(key, state.shown_bytes, text)
            register_stream(self._context.store, self._run, self._run.attempt, LOG)
            state.shown_events, state.shown_bytes = state.shown_events + len(events), state.shown_bytes + len(text)
        rows = [(*best, False) for best in state.bests]
        if state.finished is not None and rows:
            rows.append((*rows[-1][:2], True))
        parts = [_row(number, *row) for number, row in enumerate(rows) if number >= state.shown_rows]
        if parts:
            self._context.store.ingest(self._run.id, self._run.attempt, parts)
            state.shown_rows = len(rows)

    @cached_property
    def _spooled(self) -> Spooled:
        return spooled_of(self._context.spool, self._context.compute.targets, self._run)


def _find(store: RunStore, run_id: str) -> Run | None:
    """Return a child's run, also one that somebody deleted right after its end."""
    return store.find_run(run_id) or store.find_hidden(run_id)


def _row(number: int, run_id: str, value: float, is_final: bool) -> SegmentPart:
    columns: dict[str, list[Any]] = {"run_id": [run_id], "metric_value": [value], "final": [is_final]}
    rows = Rows(BEST_TABLE, columns, times=[number])
    return SegmentPart(writer="sweep", segment=0, start=number, end=number + 1, content=[rows])


def _check_limits(spec: SweepSpec) -> None:
    for name, value, most in (
        ("max_total_runs", spec.max_total_runs, MAX_TOTAL_RUNS),
        ("max_concurrent_runs", spec.max_concurrent_runs, MAX_CONCURRENT_RUNS),
    ):
        if not 1 <= value <= most:
            raise InvalidArgument(f"{name} is {value}.", why=f"A sweep may have 1 to {most}.")
    if not spec.primary_metric or spec.max_duration_s <= 0 or not spec.space:
        raise InvalidArgument(
            "The sweep names no primary metric, no parameter or no time.",
            hint="HyperDriveConfig(hyperparameter_sampling=…, primary_metric_name='accuracy', …)",
        )
