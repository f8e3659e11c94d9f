"""A sweep whose server is killed again and again: no child runs twice, none is forgotten, decisions hold."""

from __future__ import annotations

import collections
import threading
from pathlib import Path
from typing import Any

import pytest

from azureml.core import Experiment, ScriptRunConfig
from azureml.train.hyperdrive import BanditPolicy, HyperDriveConfig, PrimaryMetricGoal, RandomParameterSampling, choice
from runyard.core.config.paths import server_folder
from runyard.engine.sweeps.journal import recompute
from runyard.store.sqlite import SqliteStore
from runyard.tuning import get_policy, get_sampler
from tests.faults.yard import Yard, open_yard, say

SCRIPT = """
import os, sys, time
from azureml.core import Run
run = Run.get_context()
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
os.write(fd, (run.id + "\\n").encode())
for step in range(4):
    run.log("acc", float(sys.argv[3]) + step)
    time.sleep(0.1)
"""
SEED = 11


def play(yard: Yard, *, trials: int, kills: int) -> dict[str, Any]:
    """Run a sweep under kills; return which children started how often, and what the journal says."""
    project, starts = yard.project("sweep", SCRIPT), yard.folder / "starts"
    starts.write_text("")
    source = ScriptRunConfig(source_directory=str(project), script="train.py", arguments=[str(starts)])
    sampling = RandomParameterSampling({"x": choice(list(range(trials)))}, properties={"seed": SEED})
    config = HyperDriveConfig(
        sampling,
        "acc",
        PrimaryMetricGoal.MAXIMIZE,
        max_total_runs=trials,
        max_concurrent_runs=2,
        policy=BanditPolicy(slack_amount=trials / 2),
        run_config=source,
    )
    run = Experiment(yard.workspace, "sweep").submit(config)
    waiting = threading.Thread(target=run.wait_for_completion, kwargs={"raise_on_error": False})
    waiting.start()
    yard.kill_at_random({"server": kills}, gap_s=(0.05, 0.8), going=waiting.is_alive)
    waiting.join()
    return {"run": run, "starts": collections.Counter(starts.read_text().split())}


def check(yard: Yard, played: dict[str, Any], *, trials: int) -> None:
    run = played["run"]
    children = {f"{run.id}_{number}" for number in range(trials)}
    assert run.get_status() == "Completed"
    assert dict(played["starts"]) == dict.fromkeys(children, 1)
    assert {child.id for child in run.get_children()} == children
    yard.kill("server")
    store = SqliteStore(server_folder(yard.home) / "runyard.db")
    try:
        spec, events = store.get_run(run.id).spec.sweep, store.list_events(run.id)
    finally:
        store.close()
    assert spec is not None
    sampled = [get_sampler(spec).sample(index, []) for index in range(trials)]
    assert [event["parameters"] for event in events if event["kind"] == "planned"] == sampled
    decided = [dict(event, at=None) for event in events if event["kind"] == "decided"]
    assert decided == [dict(event, at=None) for event in recompute(spec, get_policy(spec), events)]
    yard.workspace.experiments  # noqa: B018  # a call: the server is there again, to be stopped


@pytest.mark.long
def test_a_sweep_survives_the_death_of_its_server(tmp_path: Path) -> None:
    with open_yard(tmp_path, seed=1) as yard:
        played = play(yard, trials=5, kills=3)

        assert yard.kills["server"] > 0
        check(yard, played, trials=5)


@pytest.mark.soak
def test_a_hundred_deaths_of_the_server_change_nothing(tmp_path: Path) -> None:
    kills = 0
    for seed in range(100):
        folder = tmp_path / str(seed)
        folder.mkdir()
        with open_yard(folder, seed=seed) as yard:
            check(yard, play(yard, trials=8, kills=12), trials=8)
            kills += yard.kills["server"] - 1
        if kills >= 100:
            break

    say(f"sweeps: {kills} kills of the server in {seed + 1} sweeps of 8 trials: no child twice, none forgotten")
    assert kills >= 100
