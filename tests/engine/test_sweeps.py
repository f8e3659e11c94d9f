"""Sweeps: which children are made, which are stopped, how it ends; a kill at any instant changes none of it."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runyard.core.errors import InvalidArgument, NotFound, SubmitRejected
from runyard.core.records import Run
from runyard.core.specs import MINIMIZE, RunSpec, SweepSpec
from runyard.core.statuses import RunStatus
from runyard.engine.sweeps import sweeps
from runyard.engine.sweeps.journal import recompute
from runyard.engine.sweeps.sweeps import read_sweep
from runyard.store.base import Points, SegmentPart
from runyard.tuning import get_policy
from tests.engine.bench import Bench

SPACE: dict[str, list[Any]] = {"--kernel": ["choice", [["linear", "rbf"]]], "penalty": ["choice", [[0.5, 1.0]]]}
BANDIT: dict[str, Any] = {"policy": "Bandit", "policy_properties": {"slack_amount": 0.1}}


def spec_of(**changes: Any) -> RunSpec:
    sweep = SweepSpec("GRID", SPACE, "accuracy", max_total_runs=10, max_concurrent_runs=2)
    return RunSpec(script="train.py", arguments=["--epochs", "3"], sweep=replace(sweep, **changes))


def start(bench: Bench, **changes: Any) -> Run:
    run = bench.submit("HD_1", spec=spec_of(**changes))
    bench.engine.loop.tick()
    return run


def log(bench: Bench, run_id: str, *values: float) -> None:
    marks = {mark.writer: mark.offset for mark in bench.store.list_marks(run_id, 1)}
    begin = marks.get("w", 0)
    times = np.arange(begin, begin + len(values), dtype=np.int64)
    points = Points("accuracy", "f8", np.array(values, dtype=np.float64), times)
    part = SegmentPart(writer="w", segment=0, start=begin, end=begin + len(values), content=[points])
    bench.store.ingest(run_id, 1, [part])


def end(bench: Bench, run_id: str, *values: float, status: RunStatus = RunStatus.COMPLETED) -> None:
    if values:
        log(bench, run_id, *values)
    bench.report(RunStatus.RUNNING, run_id)
    error = {"code": "UserError", "message": "boom", "details": {}} if status is RunStatus.FAILED else None
    bench.report(status, run_id, error=error)
    bench.engine.loop.tick()


def children(bench: Bench) -> list[str]:
    return [request.run_id for request in bench.backend.submitted]


def test_children_are_made_two_at_a_time_with_the_sampled_values_last(bench: Bench) -> None:
    run = start(bench)

    assert (run.status, run.type, run.attempt) == (RunStatus.RUNNING, "hyperdrive", 0)
    assert children(bench) == ["HD_1_0", "HD_1_1"]
    child = bench.run("HD_1_0")
    assert child.spec.arguments == ["--epochs", "3", "--kernel", "linear", "--penalty", "0.5"]
    assert child.parent_id == "HD_1" and child.spec.sweep is None
    assert child.parameters == {"epochs": "3", "kernel": "linear", "penalty": "0.5"}
    assert json.loads(str(child.tags["hyperparameters"])) == {"--kernel": "linear", "penalty": 0.5}


def test_a_grid_ends_completed_when_it_is_used_up_and_names_the_best(bench: Bench) -> None:
    start(bench)
    for number, accuracy in enumerate([0.7, 0.9, 0.8, 0.9]):
        end(bench, f"HD_1_{number}", accuracy)
    run = bench.run("HD_1")

    assert children(bench) == [f"HD_1_{number}" for number in range(4)]
    assert run.status is RunStatus.COMPLETED
    assert read_sweep(bench.engine.context.store, "HD_1").best == ("HD_1_1", 0.9)
    assert json.loads(str(run.tags["HD_1_3"])) == {"--kernel": "rbf", "penalty": 1.0}
    assert run.tags["_aml_system_HD_1_3"] == run.tags["HD_1_3"]
    table = {column: bench.store.read_series("HD_1", "best_child_by_primary_metric", column=column).values
             for column in ("run_id", "metric_value", "final")}  # fmt: skip
    assert list(table["run_id"]) == ["HD_1_0", "HD_1_1", "HD_1_1"]
    assert list(table["metric_value"]) == [0.7, 0.9, 0.9] and list(table["final"]) == [False, False, True]


def test_the_log_of_a_sweep_tells_its_story(bench: Bench) -> None:
    start(bench, max_total_runs=1, max_concurrent_runs=1)
    end(bench, "HD_1_0", 0.5)
    name = "azureml-logs/hyperdrive.txt"
    file = bench.store.find_file("HD_1", name)
    assert file is not None and file.complete
    text = bench.artifacts.read_stream(file.chunks[0]).decode()

    assert "HD_1_0: {'--kernel': 'linear', 'penalty': 0.5}" in text
    assert "HD_1_0 ended as Completed, best 0.5" in text
    assert text.splitlines()[-1].endswith("The sweep ended as Completed: 1 children, best 0.5 by HD_1_0")
    assert file.size == len(text.encode())


def test_a_child_behind_the_best_is_stopped_with_the_reason(bench: Bench) -> None:
    start(bench, **BANDIT)
    log(bench, "HD_1_0", 0.9)
    log(bench, "HD_1_1", 0.3)
    bench.engine.loop.tick()

    assert bench.run("HD_1_1").desired == "cancel" and bench.run("HD_1_0").desired is None
    stopped = read_sweep(bench.engine.context.store, "HD_1").children["HD_1_1"].stopped
    assert stopped is not None and stopped["interval"] == 1 and stopped["bound"] == pytest.approx(0.8)
    assert "its best was 0.3, worse than 0.8" in stopped["reason"]
    end(bench, "HD_1_1", status=RunStatus.CANCELED)
    assert children(bench)[-1] == "HD_1_2"


def test_a_policy_waits_for_its_interval_and_delay(bench: Bench) -> None:
    properties = {"slack_amount": 0.1, "evaluation_interval": 2, "delay_evaluation": 3}
    start(bench, policy="Bandit", policy_properties=properties)
    log(bench, "HD_1_0", 0.9, 0.9, 0.9, 0.9)
    log(bench, "HD_1_1", 0.1, 0.1, 0.1)
    bench.engine.loop.tick()

    assert bench.run("HD_1_1").desired is None
    log(bench, "HD_1_1", 0.1)
    bench.engine.loop.tick()
    assert bench.run("HD_1_1").desired == "cancel"


def test_children_that_fail_or_log_nothing_break_nothing(bench: Bench) -> None:
    start(bench, goal=MINIMIZE, **BANDIT)
    end(bench, "HD_1_0", status=RunStatus.FAILED)
    end(bench, "HD_1_1")
    end(bench, "HD_1_2", float("nan"), 0.4)
    end(bench, "HD_1_3", 0.2, float("nan"))

    assert bench.run("HD_1").status is RunStatus.COMPLETED
    assert read_sweep(bench.engine.context.store, "HD_1").best == ("HD_1_3", 0.2)


def test_a_sweep_whose_children_all_fail_has_failed_and_says_why(bench: Bench) -> None:
    start(bench)
    for number in range(4):
        end(bench, f"HD_1_{number}", status=RunStatus.FAILED)
    run = bench.run("HD_1")

    assert run.status is RunStatus.FAILED and run.error is not None
    assert "all 4 children failed" in run.error["message"] and "boom" in run.error["message"]


def test_cancelling_a_sweep_stops_its_children_and_then_itself(bench: Bench) -> None:
    start(bench)
    bench.engine.cancel("HD_1")
    bench.engine.loop.tick()

    assert bench.run("HD_1").status is RunStatus.CANCEL_REQUESTED
    assert {bench.run(child).desired for child in ("HD_1_0", "HD_1_1")} == {"cancel"}
    for child in ("HD_1_0", "HD_1_1"):
        end(bench, child, status=RunStatus.CANCELED)
    assert bench.run("HD_1").status is RunStatus.CANCELED and len(children(bench)) == 2


def test_at_its_time_limit_a_sweep_stops_its_children_and_completes(bench: Bench) -> None:
    start(bench)
    end(bench, "HD_1_0", 0.5)
    created = bench.run("HD_1").created_at
    bench.clock.seconds += (created - bench.clock.now()).total_seconds() + 604801
    bench.engine.loop.tick()

    assert {bench.run(child).desired for child in ("HD_1_1", "HD_1_2")} == {"cancel"}
    for child in ("HD_1_1", "HD_1_2"):
        end(bench, child, status=RunStatus.CANCELED)
    assert bench.run("HD_1").status is RunStatus.COMPLETED and len(children(bench)) == 3


def test_the_time_limit_holds_for_children_after_the_last_was_made(bench: Bench) -> None:
    start(bench, max_total_runs=2)
    end(bench, "HD_1_0", 0.5)
    assert read_sweep(bench.engine.context.store, "HD_1").closed == "all 2 were made"
    bench.clock.seconds += (bench.run("HD_1").created_at - bench.clock.now()).total_seconds() + 604801
    bench.engine.loop.tick()

    assert bench.run("HD_1_1").desired == "cancel"
    end(bench, "HD_1_1", status=RunStatus.CANCELED)
    assert bench.run("HD_1").status is RunStatus.COMPLETED


def test_earlier_trials_and_first_trials_come_before_the_sampler(bench: Bench) -> None:
    start(bench, max_total_runs=1)
    end(bench, "HD_1_0", 0.7)
    first = {"parameters": {"--kernel": "rbf", "penalty": 1.0}, "arguments": ["--resume-from", "/models"]}
    bench.submit("HD_2", spec=spec_of(resume_from=["HD_1"], first_trials=[first], max_total_runs=2))
    bench.engine.loop.tick()
    state = read_sweep(bench.engine.context.store, "HD_2")

    assert [(trial.id, trial.values) for trial in state.inherited] == [("HD_1_0", [0.7])]
    assert bench.run("HD_2_0").spec.arguments[-6:] == [
        "--kernel",
        "rbf",
        "--penalty",
        "1.0",
        "--resume-from",
        "/models",
    ]
    assert state.children["HD_2_1"].parameters == {"--kernel": "linear", "penalty": 0.5}


def test_values_are_words_of_a_command_too(bench: Bench) -> None:
    spec = replace(spec_of(), script=None, command="python train.py", sweep=replace(
        SweepSpec("GRID", {"text": ["choice", [["a b"]]]}, "m")))  # fmt: skip
    bench.submit("HD_1", spec=spec)
    bench.engine.loop.tick()

    assert bench.run("HD_1_0").spec.command == "python train.py --text 'a b'"


def test_secrets_and_the_submitters_variables_reach_the_children_and_no_record(bench: Bench) -> None:
    spec = replace(spec_of(), arguments=["--password", "hush-hush"])
    bench.engine.submit(bench.new("HD_1", spec=spec), submitter={"HOME": "/home/me"})
    bench.engine.loop.tick()
    bench.restart()
    end(bench, "HD_1_0", 0.1)
    job = bench.backend.jobs_of("HD_1_2")[0]

    assert job.spec.arguments[:2] == ["--password", "hush-hush"] and job.submitter == {"HOME": "/home/me"}
    assert "hush-hush" not in str(bench.run("HD_1")) + str(bench.run("HD_1_2"))
    for number in (1, 2, 3):
        end(bench, f"HD_1_{number}", 0.1)
    assert bench.engine.context.spool.list_runs() == []


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"max_total_runs": 1001}, InvalidArgument),
        ({"max_concurrent_runs": 0}, InvalidArgument),
        ({"sampling": "MAGIC"}, NotFound),
        ({"policy": "MAGIC"}, NotFound),
        ({"space": {"x": ["uniform", [0, 1]]}}, InvalidArgument),
        ({"space": {}}, InvalidArgument),
    ],
)
def test_what_cannot_be_a_sweep_is_refused_and_leaves_nothing(
    bench: Bench, changes: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        start(bench, **changes)
    assert bench.store.find_run("HD_1") is None and bench.engine.context.spool.list_runs() == []


def test_a_target_that_refuses_the_children_ends_the_sweep_with_its_words(bench: Bench) -> None:
    bench.submit("HD_1", spec=spec_of())
    bench.backend.refusal = SubmitRejected("No room for anybody.")
    bench.engine.loop.tick()
    run = bench.run("HD_1")

    assert run.status is RunStatus.FAILED and run.error is not None and "No room" in run.error["message"]


class Killed(BaseException):
    """The server was killed here: no handler of ours may see it."""


class Fragile:
    """A store that dies before or after the n-th write."""

    WRITES = frozenset({"append_events", "create_run", "start_attempt", "update_run", "set_status", "set_desired",
                        "ingest", "put_file"})  # fmt: skip

    def __init__(self, store: Any) -> None:
        self.store = store
        self.left = -1
        self.after = False

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.store, name)
        if name not in self.WRITES or self.left < 0:
            return found

        def call(*args: Any, **more: Any) -> Any:
            self.left -= 1
            if self.left >= 0:
                return found(*args, **more)
            if self.after:
                found(*args, **more)
            raise Killed

        return call


def story(bench: Bench, fragile: Fragile | None, seed: int) -> int:
    """Play a whole sweep; with `fragile` the server dies at random writes. Return how often it did."""
    chance = random.Random(seed)
    kills = 0

    def play(act: Any, *args: Any) -> None:
        nonlocal kills
        while True:
            if fragile is not None:
                fragile.left, fragile.after = chance.randrange(6), chance.random() < 0.5
            try:
                act(*args)
                return
            except Killed:
                kills += 1
                if fragile is not None:
                    fragile.left = -1
                bench.restart()
            finally:
                if fragile is not None:
                    fragile.left = -1

    bench.submit("HD_1", spec=spec_of(sampling="RANDOM", seed=seed, **BANDIT))
    for _ in range(60):
        play(bench.engine.loop.tick)
        live = [run for run in bench.store.list_unfinished() if run.id in children(bench)]
        for run in live:
            quality = sum(map(ord, str(run.spec.arguments))) % 7 / 10
            if run.desired == "cancel":
                play(lambda run=run: end(bench, run.id, status=RunStatus.CANCELED))
            elif read_sweep(bench.engine.context.store, "HD_1").children[run.id].values == [] and not values_of(
                bench, run.id
            ):
                log(bench, run.id, quality)
            else:
                play(lambda run=run: end(bench, run.id))
        if bench.run("HD_1").status.is_terminal:
            return kills
    raise AssertionError("the sweep did not end")


def values_of(bench: Bench, run_id: str) -> list[float]:
    found = bench.store.list_metrics(run_id, name="accuracy")
    return list(bench.store.read_series(run_id, "accuracy").values) if found else []


@pytest.mark.parametrize("seed", range(40))
def test_a_server_killed_at_random_writes_makes_the_same_children_and_none_twice(tmp_path: Path, seed: int) -> None:
    calm, stormy = Bench(tmp_path / "calm"), Bench(tmp_path / "stormy")
    story(calm, None, seed)
    fragile = Fragile(stormy.store)
    stormy.store = fragile  # type: ignore[assignment]  # behaves as the store it wraps
    stormy.restart()
    kills = story(stormy, fragile, seed)
    expected, found = (read_sweep(bench.engine.context.store, "HD_1") for bench in (calm, stormy))

    assert kills > 0
    assert {child: state.parameters for child, state in found.children.items()} == {
        child: state.parameters for child, state in expected.children.items()
    }
    starts = {(request.run_id, request.attempt) for request in stormy.backend.submitted}
    assert starts == {(child, 1) for child in found.children}
    assert stormy.run("HD_1").status is RunStatus.COMPLETED
    assert set(found.children) < set(stormy.run("HD_1").tags)
    events = stormy.store.list_events("HD_1")
    sweep = stormy.run("HD_1").spec.sweep
    assert sweep is not None
    decided = [{key: value for key, value in event.items() if key != "at"} for event in events
               if event["kind"] == "decided"]  # fmt: skip
    assert decided == recompute(sweep, get_policy(sweep), events)


def test_a_policy_looks_at_so_many_values_and_the_sweep_says_so(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each time there are more, all are read: a child that logs millions of them would keep the loop busy."""
    monkeypatch.setattr(sweeps, "MOST_OBSERVED", 5)
    start(bench, **BANDIT)
    for _ in range(3):
        log(bench, "HD_1_0", *[0.5] * 4)
        bench.engine.loop.tick()
    end(bench, "HD_1_0", 0.9)

    observed = [event["values"] for event in bench.store.list_events("HD_1") if event["kind"] == "observed"]
    assert observed == [[0.5] * 4, [0.5]]
    [warning] = bench.run("HD_1").warnings
    assert "HD_1_0" in warning["message"] and "5 times or more" in warning["message"]
    assert [event["best"] for event in bench.store.list_events("HD_1") if event["kind"] == "ended"] == [0.9]
