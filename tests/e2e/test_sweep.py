"""Sweeps as a user makes them, on `local`."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import pytest

from azureml.core import Environment, Experiment, Run, ScriptRunConfig, Workspace
from azureml.train.hyperdrive import (
    BanditPolicy,
    GridParameterSampling,
    HyperDriveConfig,
    HyperDriveRun,
    PrimaryMetricGoal,
    RandomParameterSampling,
    choice,
)

PLAIN = """
    import argparse
    from azureml.core import Run
    parser = argparse.ArgumentParser()
    parser.add_argument("--base"); parser.add_argument("--x", type=float); parser.add_argument("--resume-from")
    given = parser.parse_args()
    run = Run.get_context()
    run.log("loss", (given.x - 2) ** 2)
    if given.resume_from:
        run.log("resumed", open(given.resume_from + "/model.txt").read())
    with open("outputs/model.txt", "w") as file:
        file.write(str(given.x))
"""
IRIS = """
    import argparse
    from azureml.core import Run
    from sklearn.datasets import load_iris
    from sklearn.model_selection import train_test_split
    from sklearn.svm import SVC
    parser = argparse.ArgumentParser()
    parser.add_argument("--kernel"); parser.add_argument("--penalty", type=float)
    given = parser.parse_args()
    x, y = load_iris(return_X_y=True)
    x_train, x_test, y_train, y_test = train_test_split(x, y, random_state=0)
    Run.get_context().log("Accuracy", float(SVC(kernel=given.kernel, C=given.penalty).fit(x_train, y_train).score(x_test, y_test)))
"""  # noqa: E501  # a user's line
RIDGE = """
    import sys
    from azureml.core import Run
    from sklearn.datasets import load_diabetes
    from sklearn.linear_model import Ridge
    from sklearn.metrics import mean_squared_error
    from sklearn.model_selection import train_test_split
    x, y = load_diabetes(return_X_y=True)
    x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.2, random_state=0)
    model = Ridge(alpha=float(sys.argv[2])).fit(x_train, y_train)
    Run.get_context().log("mse", float(mean_squared_error(y_test, model.predict(x_test))))
"""


def source(project: Path, script: str, *arguments: Any) -> ScriptRunConfig:
    (project / "train.py").write_text(textwrap.dedent(script))
    environment = Environment("mine")
    environment.python.user_managed_dependencies = True
    return ScriptRunConfig(
        str(project), script="train.py", arguments=list(arguments), compute_target="local", environment=environment
    )


def test_a_sweep_finds_its_best_child_and_reads_back(
    experiment: Experiment, workspace: Workspace, project: Path
) -> None:
    config = HyperDriveConfig(
        hyperparameter_sampling=GridParameterSampling({"--x": choice(0.5, 1, 2.5)}),
        primary_metric_name="loss",
        primary_metric_goal=PrimaryMetricGoal.MINIMIZE,
        max_total_runs=10,
        max_concurrent_runs=2,
        policy=BanditPolicy(slack_amount=100),
        run_config=source(project, PLAIN, "--base", 7),
    )
    run = experiment.submit(config, tags={"mine": "yes"})
    assert type(run) is HyperDriveRun and run.id.startswith("HD_")
    run.wait_for_completion(show_output=True)
    best = run.get_best_run_by_primary_metric()

    assert run.get_status() == "Completed" and run.type == "hyperdrive"
    assert best.id == f"{run.id}_2" and best.get_metrics() == {"loss": 0.25}
    assert best.get_details()["runDefinition"]["arguments"] == ["--base", "7", "--x", "2.5"]
    assert {key: json.loads(value) for key, value in run.get_hyperparameters().items()} == {
        f"{run.id}_{number}": {"--x": x} for number, x in enumerate([0.5, 1, 2.5])
    }
    ordered = run.get_children_sorted_by_primary_metric(top=2)
    assert [child["best_primary_metric"] for child in ordered] == [0.25, 1.0]
    assert {child["status"] for child in ordered} == {"Completed"}
    assert run.get_metrics() == {f"{run.id}_{number}": {"loss": loss} for number, loss in enumerate([2.25, 1.0, 0.25])}
    tags = run.get_tags()
    assert tags["mine"] == "yes" and tags["max_total_jobs"] == tags["_aml_system_max_total_jobs"] == "10"
    assert json.loads(tags["generator_config"])["name"] == "GRID"
    again = Run.get(workspace, run.id)
    assert type(again) is HyperDriveRun and again.hyperdrive_config.primary_metric_name == "loss"
    assert isinstance(again.hyperdrive_config.policy, BanditPolicy)
    assert len(list(run.get_children())) == 3


def test_a_sweep_goes_on_from_earlier_ones(experiment: Experiment, project: Path) -> None:
    def sweep(**more: Any) -> HyperDriveConfig:
        sampling = RandomParameterSampling({"x": choice(1, 3)}, properties={"seed": 1})
        goal = PrimaryMetricGoal.MINIMIZE
        return HyperDriveConfig(sampling, "loss", goal, 1, run_config=source(project, PLAIN), **more)

    first = experiment.submit(sweep())
    first.wait_for_completion()
    child = next(iter(first.get_children()))
    second = experiment.submit(sweep(resume_from=first, resume_child_runs=[child]))
    second.wait_for_completion()
    resumed = next(iter(second.get_children()))

    value = json.loads(child.get_tags()["hyperparameters"])["x"]
    assert resumed.get_metrics() == {"loss": 1.0, "resumed": str(float(value))}
    assert second.get_best_run_by_primary_metric(include_resume_from_runs=True) is not None


@pytest.mark.external
def test_an_iris_sweep_finds_what_scikit_learn_alone_finds(experiment: Experiment, project: Path) -> None:
    from sklearn.datasets import load_iris
    from sklearn.model_selection import train_test_split
    from sklearn.svm import SVC

    kernels, penalties = ["linear", "rbf", "poly", "sigmoid"], [0.5, 1, 1.5]
    x, y = load_iris(return_X_y=True)
    x_train, x_test, y_train, y_test = train_test_split(x, y, random_state=0)
    scores = {
        (kernel, penalty): SVC(kernel=kernel, C=penalty).fit(x_train, y_train).score(x_test, y_test)
        for kernel in kernels
        for penalty in penalties
    }
    config = HyperDriveConfig(
        RandomParameterSampling({"--kernel": choice(*kernels), "--penalty": choice(penalties)}),
        "Accuracy",
        PrimaryMetricGoal.MAXIMIZE,
        max_total_runs=12,
        max_concurrent_runs=2,
        run_config=source(project, IRIS),
    )
    run = experiment.submit(config)
    run.wait_for_completion()
    found = {}
    for child, metrics in run.get_metrics().items():
        values = json.loads(run.get_hyperparameters()[child])
        found[values["--kernel"], values["--penalty"]] = metrics["Accuracy"]

    assert found == scores
    assert run.get_best_run_by_primary_metric().get_metrics()["Accuracy"] == max(scores.values())


@pytest.mark.external
def test_a_ridge_sweep_finds_what_scikit_learn_alone_finds(experiment: Experiment, project: Path) -> None:
    from sklearn.datasets import load_diabetes
    from sklearn.linear_model import Ridge
    from sklearn.metrics import mean_squared_error
    from sklearn.model_selection import train_test_split

    x, y = load_diabetes(return_X_y=True)
    x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.2, random_state=0)
    alphas = [0.01, 0.1, 0.3, 0.7, 1.0]
    errors = {
        alpha: mean_squared_error(y_test, Ridge(alpha=alpha).fit(x_train, y_train).predict(x_test)) for alpha in alphas
    }
    sampling, goal = GridParameterSampling({"alpha": choice(alphas)}), PrimaryMetricGoal.MINIMIZE
    config = HyperDriveConfig(sampling, "mse", goal, 10, 2, run_config=source(project, RIDGE))
    run = experiment.submit(config)
    run.wait_for_completion()
    best = run.get_best_run_by_primary_metric()
    alpha = json.loads(best.get_tags()["hyperparameters"])["alpha"]

    assert alpha == min(errors, key=lambda value: errors[value])
    assert best.get_metrics()["mse"] == pytest.approx(errors[alpha], rel=1e-12)
