"""Tools that know nothing of Runyard, unmodified, in submitted runs: each logs from its own processes and threads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from azureml.core import Experiment, Run
from runyard.supervisor.proc import list_processes
from tests.e2e.frameworks import interpreter_with, submit_to

pytestmark = [pytest.mark.external, pytest.mark.timeout(600)]

TOOLS = (
    "hydra-core==1.3.8",
    "optuna==5.0.0",
    "papermill==2.7.0",
    "ipykernel",
    "typer",
    "joblib",
    "ray[tune]==2.60.0",
)

HYDRA = """
import os
import hydra
from azureml.core import Run
from omegaconf import DictConfig

@hydra.main(version_base="1.1", config_path=None)
def main(config: DictConfig) -> None:
    Run.get_context().log("lr", config.lr)
    open("trace.txt", "w").write(os.environ["HYDRA_FULL_ERROR"])  # in outputs/DATE/TIME, where Hydra 1.1 goes

main()
"""

OPTUNA = """
import optuna
from azureml.core import Run
run = Run.get_context()

def objective(trial):
    x = trial.suggest_int("x", 0, 9)
    with run.child_run(name=f"trial {trial.number}") as child:
        child.log("x", x)
    run.log("loss", (x - 3) ** 2)
    return (x - 3) ** 2

study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
study.optimize(objective, n_trials=6, n_jobs=3)
run.log("trials", len(study.trials))
"""

TYPER = """
import argparse, click, typer
from azureml.core import Run
run = Run.get_context()
parser = argparse.ArgumentParser()
parser.add_argument("--alpha", type=float)
run.log("argparse", parser.parse_args().alpha)

@click.command()
@click.option("--alpha", type=float)
def clicked(alpha):
    run.log("click", alpha)

clicked(standalone_mode=False)

def main(alpha: float):
    run.log("typer", alpha)

typer.run(main)
"""

WORKERS = """
import asyncio, multiprocessing, os, signal, threading
from azureml.core import Run
from joblib import Parallel, delayed

def work(name, value):
    Run.get_context().log(name, value)

def end():
    os.kill(os.getpid(), signal.SIGKILL)

async def many():
    await asyncio.gather(*(asyncio.to_thread(work, "asyncio", value) for value in range(4)))

if __name__ == "__main__":
    Parallel(n_jobs=2)(delayed(work)("loky", value) for value in range(4))
    Parallel(n_jobs=2, backend="threading")(delayed(work)("threads", value) for value in range(4))
    for kind in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(kind)
        with context.Pool(2) as pool:
            pool.starmap(work, [(kind, value) for value in range(4)])
            pool.close()
            pool.join()
    killed = multiprocessing.get_context("fork").Process(target=end)
    killed.start()
    killed.join()
    work("killed", killed.exitcode)
    asyncio.run(many())
"""

RAY_TUNE = """
import ray
from azureml.core import Run
from ray import tune

def trial(config):
    Run.get_context().log("width", config["width"])
    tune.report({"loss": config["width"] / 2})

ray.init(num_cpus=2, include_dashboard=False, _system_config={"enable_metrics_collection": False})
space = {"width": tune.grid_search([2, 4])}
results = tune.Tuner(trial, param_space=space, tune_config=tune.TuneConfig(max_concurrent_trials=1)).fit()
Run.get_context().log("best", results.get_best_result("loss", "min").metrics["loss"])
"""


@pytest.fixture(scope="module")
def tools() -> str:
    return interpreter_with(TOOLS)


def finish(run: Run) -> dict[str, object]:
    run.wait_for_completion(raise_on_error=False)
    assert run.get_status() == "Completed", run.get_details()
    found: dict[str, object] = run.get_metrics()
    return {name: sorted(value) if isinstance(value, list) else value for name, value in found.items()}


def test_hydras_overrides_are_parameters_and_its_folder_is_kept(
    experiment: Experiment, project: Path, tools: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    run = submit_to(experiment, project, tools, HYDRA, arguments=["+lr=0.5"])

    assert finish(run) == {"lr": 0.5}
    assert run._client.runs.get(run.id).parameters == {"lr": "0.5"}
    (trace,) = (name for name in run.get_file_names() if name.endswith("trace.txt"))
    assert trace.startswith("outputs/2")
    run.download_file(trace, str(project / "trace"))
    assert (project / "trace").read_text() == "1"


def test_optunas_parallel_trials_are_child_runs(experiment: Experiment, project: Path, tools: str) -> None:
    run = submit_to(experiment, project, tools, OPTUNA)
    metrics = finish(run)
    children = {child.display_name: child.get_metrics()["x"] for child in run.get_children()}

    assert metrics["trials"] == 6
    assert metrics["loss"] == sorted((x - 3) ** 2 for x in children.values())
    assert sorted(children) == [f"trial {number}" for number in range(6)]


def test_parsers_of_arguments(experiment: Experiment, project: Path, tools: str) -> None:
    """Typer's own form has a value without a name; argparse's and click's are given beside it."""
    script = TYPER.replace("def main(alpha: float)", 'def main(alpha: float = typer.Option(0.0, "--alpha"))')
    run = submit_to(experiment, project, tools, script, arguments=["--alpha", 0.25])

    assert finish(run) == {"argparse": 0.25, "click": 0.25, "typer": 0.25}


def test_what_worker_processes_and_threads_log_is_all_there(experiment: Experiment, project: Path, tools: str) -> None:
    run = submit_to(experiment, project, tools, WORKERS)
    names = ("loky", "threads", "fork", "spawn", "forkserver", "asyncio")

    assert finish(run) == {**{name: [0, 1, 2, 3] for name in names}, "killed": -9}


def test_ray_tunes_trials_log_and_leave_no_process(experiment: Experiment, project: Path, tools: str) -> None:
    run = submit_to(experiment, project, tools, RAY_TUNE)
    metrics = finish(run)
    left = [entry.pid for entry in list_processes() if b"RUNYARD_RUN_ID=" + run.id.encode() in environ_of(entry.pid)]

    assert metrics["width"] == [2, 4] and metrics["best"] == 1.0
    assert left == []


@pytest.mark.parametrize("program", [["papermill"], ["python", "-m", "papermill"]], ids=["console script", "module"])
def test_papermill_as_the_command(experiment: Experiment, project: Path, tools: str, program: list[str]) -> None:
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    sources = [
        ("alpha = 0.1", ["parameters"]),
        ("from azureml.core import Run\nRun.get_context().log('alpha', alpha)\n!echo shell", []),
    ]
    cells = [{**cell, "source": source, "metadata": {"tags": tags}} for source, tags in sources]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python", "language": "python"}}
    whole = {"nbformat": 4, "nbformat_minor": 4, "metadata": kernel, "cells": cells}
    (project / "nb.ipynb").write_text(json.dumps(whole))
    words = [*program, "nb.ipynb", "outputs/done.ipynb", "-p", "alpha", "0.7"]
    run = submit_to(experiment, project, tools, "", command=words)

    assert finish(run) == {"alpha": 0.7}
    run.download_file("outputs/done.ipynb", str(project / "done.ipynb"))
    (printed,) = json.loads((project / "done.ipynb").read_text())["cells"][-1]["outputs"]
    assert "".join(printed["text"]).split() == ["shell"]


def environ_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""
