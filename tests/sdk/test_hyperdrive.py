"""The classes of `azureml.train.hyperdrive`: what they take, refuse and say about themselves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from azureml.core import ScriptRunConfig
from azureml.train.estimator import Estimator
from azureml.train.hyperdrive import (
    BanditPolicy,
    BayesianParameterSampling,
    GridParameterSampling,
    HyperDriveConfig,
    HyperDriveRunConfig,
    MedianStoppingPolicy,
    NoTerminationPolicy,
    PrimaryMetricGoal,
    RandomParameterSampling,
    TruncationSelectionPolicy,
    choice,
    lognormal,
    loguniform,
    normal,
    qlognormal,
    qloguniform,
    qnormal,
    quniform,
    randint,
    uniform,
)
from azureml.train.hyperdrive.exceptions import (
    HyperDriveConfigException,
    HyperDriveRehydrateException,
    HyperDriveScenarioNotSupportedException,
)
from runyard.core.specs import RunSpec
from runyard.sdk.submit.submission import plan_submission
from runyard.sdk.sweeps.config import plan_sweep, sweep_run_id, sweep_tags
from runyard.sdk.sweeps.run import rebuild_config

SPACE = {"--lr": uniform(0, 1)}


def config(**changes: Any) -> HyperDriveConfig:
    given: dict[str, Any] = {
        "hyperparameter_sampling": RandomParameterSampling(SPACE),
        "primary_metric_name": "accuracy",
        "primary_metric_goal": PrimaryMetricGoal.MAXIMIZE,
        "max_total_runs": 4,
        "run_config": ScriptRunConfig(".", script="train.py"),
    }
    return HyperDriveConfig(**{**given, **changes})


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (choice(1, 2), ["choice", [[1, 2]]]),
        (choice([1, 2]), ["choice", [[1, 2]]]),
        (choice(range(3)), ["choice", [[0, 1, 2]]]),
        (choice("a"), ["choice", [["a"]]]),
        (randint(5), ["randint", [5]]),
        (uniform(0, 1.5), ["uniform", [0, 1.5]]),
        (quniform(1, 9, 2), ["quniform", [1, 9, 2]]),
        (loguniform(-6, -6), ["loguniform", [-6, -6]]),
        (qloguniform(0, 3, 1), ["qloguniform", [0, 3, 1]]),
        (normal(0, 0), ["normal", [0, 0]]),
        (qnormal(5, 1, 2), ["qnormal", [5, 1, 2]]),
        (lognormal(0, 1), ["lognormal", [0, 1]]),
        (qlognormal(0, 1, 3), ["qlognormal", [0, 1, 3]]),
    ],
    ids=lambda value: str(value)[:30],
)
def test_an_expression_is_its_name_and_arguments(made: list[Any], expected: list[Any]) -> None:
    assert made == expected


@pytest.mark.parametrize(
    "make",
    [
        choice,
        lambda: choice([]),
        lambda: choice([1], 2),
        lambda: randint(0),
        lambda: randint(1.5),  # type: ignore[arg-type]  # the point
        lambda: uniform(1, 1),
        lambda: uniform("a", 1),  # type: ignore[arg-type]  # the point
        lambda: quniform(0, 1, 0.5),  # type: ignore[arg-type]  # the point
        lambda: loguniform(1, 0),
        lambda: normal(0, -1),
        lambda: RandomParameterSampling({}),
        lambda: RandomParameterSampling({"--lr": 0.5}),
        lambda: RandomParameterSampling({"--lr": ["magic", [1]]}),
        lambda: GridParameterSampling(SPACE),
        lambda: BayesianParameterSampling({"--lr": loguniform(0, 1)}),
        lambda: BayesianParameterSampling({"--lr": choice(1, "a")}),
        lambda: BayesianParameterSampling({"--n": quniform(0, 200_001, 1)}),
        BanditPolicy,
        lambda: BanditPolicy(slack_factor=0.1, slack_amount=0.1),
        lambda: BanditPolicy(slack_factor=-0.1),
        lambda: BanditPolicy(evaluation_interval=1.5, slack_factor=0.1),  # type: ignore[arg-type]  # the point
        lambda: MedianStoppingPolicy(delay_evaluation=-1),
        lambda: TruncationSelectionPolicy(100),
        lambda: TruncationSelectionPolicy(0),
        lambda: config(max_total_runs=0),
        lambda: config(max_total_runs=1001),
        lambda: config(max_concurrent_runs=101),
        lambda: config(max_duration_minutes=0),
        lambda: config(primary_metric_name=""),
        lambda: config(primary_metric_goal="best"),
        lambda: config(policy="Bandit"),
        lambda: config(hyperparameter_sampling=SPACE),
        lambda: config(run_config=None),
        lambda: config(estimator=object()),
        lambda: config(run_config="train.py"),
        lambda: config(resume_from=["x"]),
        lambda: config(hyperparameter_sampling=BayesianParameterSampling(SPACE), policy=MedianStoppingPolicy()),
    ],
)
def test_what_azure_refuses_is_refused_when_it_is_written(make: Any) -> None:
    with pytest.raises(HyperDriveConfigException):
        make()


def test_a_sweep_over_a_pipeline_is_not_supported() -> None:
    with pytest.raises(HyperDriveScenarioNotSupportedException, match="pipeline"):
        config(pipeline=object())


def test_samplings_and_policies_tell_themselves_as_json() -> None:
    assert RandomParameterSampling(SPACE).to_json() == {"name": "RANDOM", "parameter_space": SPACE}
    seeded = RandomParameterSampling(SPACE, properties={"seed": 3})
    assert seeded.to_json()["properties"] == {"seed": 3} and seeded.seed == 3
    assert GridParameterSampling({"x": choice(1)}).to_json()["name"] == "GRID"
    assert BayesianParameterSampling(SPACE).to_json()["name"] == "BayesianOptimization"
    bandit = BanditPolicy(evaluation_interval=2, slack_factor=0.1, delay_evaluation=5)
    properties = {"evaluation_interval": 2, "delay_evaluation": 5, "slack_factor": 0.1}
    assert bandit.to_json() == {"name": "Bandit", "properties": properties}
    assert MedianStoppingPolicy().to_json()["name"] == "MedianStopping"
    assert TruncationSelectionPolicy(20).to_json()["properties"]["exclude_finished_jobs"] is False
    assert NoTerminationPolicy().to_json()["name"] == "Default"


def test_without_a_number_all_children_run_at_once_up_to_a_hundred() -> None:
    assert config(max_total_runs=4).max_concurrent_runs == 4
    assert config(max_total_runs=400).max_concurrent_runs == 100
    assert isinstance(config().policy, NoTerminationPolicy)
    assert config(resume_child_runs=[]).resume_child_runs == []


def test_a_week_is_the_most_a_sweep_may_take(caplog: pytest.LogCaptureFixture) -> None:
    assert config(max_duration_minutes=20000).max_duration_minutes == 10080
    assert "cut to 10,080" in caplog.text


def test_bayesian_sampling_warns_of_too_few_trials(caplog: pytest.LogCaptureFixture) -> None:
    config(hyperparameter_sampling=BayesianParameterSampling(SPACE), max_total_runs=10)

    assert "20 or more is better" in caplog.text


def test_the_name_of_2018_takes_the_estimator_first() -> None:
    estimator = object()
    made = HyperDriveRunConfig(
        estimator,
        hyperparameter_sampling=RandomParameterSampling(SPACE),
        primary_metric_name="m",
        primary_metric_goal=PrimaryMetricGoal.MINIMIZE,
        max_total_runs=2,
    )

    assert made.estimator is estimator and made.source is estimator


def test_a_configuration_is_planned_and_made_again_from_its_plan() -> None:
    sampling = RandomParameterSampling({"--lr": uniform(0, 1), "batch": choice(16, 32)}, properties={"seed": 11})
    policy = TruncationSelectionPolicy(25, evaluation_interval=2, delay_evaluation=3)
    made = config(hyperparameter_sampling=sampling, policy=policy, max_concurrent_runs=2, max_duration_minutes=90)
    spec = plan_sweep(made)

    assert (spec.sampling, spec.seed, list(spec.space), spec.max_duration_s) == (
        "RANDOM",
        11,
        ["--lr", "batch"],
        5400.0,
    )
    again = rebuild_config(spec)
    assert again.hyperparameter_sampling.to_json() == sampling.to_json()
    assert again.policy.to_json() == policy.to_json()
    assert (again.primary_metric_name, again.primary_metric_goal) == ("accuracy", PrimaryMetricGoal.MAXIMIZE)
    assert (again.max_total_runs, again.max_concurrent_runs, again.max_duration_minutes) == (4, 2, 90)
    with pytest.raises(HyperDriveRehydrateException, match="MAGIC"):
        rebuild_config(replace(spec, sampling="MAGIC"))


def test_a_seed_is_made_when_none_is_given_and_an_id_can_be_asked_for() -> None:
    assert plan_sweep(config()).seed != plan_sweep(config()).seed
    assert sweep_run_id(config()).startswith("HD_") and sweep_run_id(config(custom_run_id="mine")) == "mine"


def test_the_tags_say_everything_twice_as_azures_do() -> None:
    tags = sweep_tags(config(policy=BanditPolicy(slack_amount=1)), RunSpec(script="train.py"))

    names = ["generator_config", "primary_metric_config", "max_total_jobs", "max_concurrent_jobs",
             "max_duration_minutes", "policy_config", "platform_config"]  # fmt: skip
    assert sorted(tags) == sorted([*names, *(f"_aml_system_{name}" for name in names)])
    assert tags["primary_metric_config"] == '{"name": "accuracy", "goal": "maximize"}'
    assert tags["max_duration_minutes"] == "10080" and tags["max_total_jobs"] == "4"


def test_what_a_sweep_varies_is_left_out_of_an_estimators_parameters(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "train.py").write_text("")
    estimator = Estimator(
        str(tmp_path),
        compute_target="local",
        entry_script="train.py",
        script_params={"--lr": 0.5, "--epochs": 3, "--batch": 16},
        user_managed=True,
    )
    sampling = RandomParameterSampling({"--lr": uniform(0, 1), "batch": choice(16, 32)})
    plan = plan_submission(config(estimator=estimator, run_config=None, hyperparameter_sampling=sampling))

    assert plan.spec.arguments == ["--epochs", "3"] and plan.type == "hyperdrive"
    assert "--batch, --lr" in caplog.text
    beside = ScriptRunConfig(str(tmp_path), script="train.py", arguments=["--lr", 0.5])
    assert plan_submission(config(run_config=beside)).spec.arguments == ["--lr", "0.5"]
