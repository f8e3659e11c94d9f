"""The documents' own example of conda packages, on a machine without conda."""

from __future__ import annotations

from pathlib import Path

import pytest

from azureml.core import Environment, Experiment, ScriptRunConfig
from azureml.core.conda_dependencies import CondaDependencies
from tests.e2e.conftest import finish, log_of

pytestmark = [pytest.mark.external, pytest.mark.timeout(300)]


def test_scikit_learn_as_a_conda_package_runs_and_the_run_says_where_it_came_from(
    experiment: Experiment, project: Path
) -> None:
    (project / "train.py").write_text("import os, joblib, sklearn\nprint(sklearn.__name__, os.environ['MESSAGE'])\n")
    env = Environment("train-env")
    env.python.conda_dependencies = CondaDependencies.create(
        conda_packages=["scikit-learn"], pip_packages=["joblib>=1.3"]
    )
    env.environment_variables = {"MESSAGE": "hello"}
    run = experiment.submit(ScriptRunConfig(source_directory=str(project), script="train.py", environment=env))
    details = finish(run)

    assert details["status"] == "Completed", details.get("error")
    assert log_of(run).split() == ["sklearn", "hello"]
    assert "scikit-learn" in run.get_environment().packages
    warnings = [one["message"] for one in details["warnings"]]
    assert sum("taken from PyPI (scikit-learn)" in text for text in warnings) == 1
