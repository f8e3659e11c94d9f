"""Estimators submitted to a real private server, without a framework to install."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runyard.sdk.estimators.estimator import Estimator, PyTorch
from runyard.sdk.workspaces.experiment import Experiment
from runyard.sdk.workspaces.workspace import Workspace

SCRIPT = """
import json, os, sys
from azureml.core import Run
Run.get_context().log('seen', json.dumps([sys.argv[1:], os.environ['A']]))
"""


@pytest.fixture
def project(workspace: Workspace, tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(SCRIPT)
    return tmp_path


def test_an_estimator_is_submitted_with_its_arguments_and_data(
    workspace: Workspace, experiment: Experiment, project: Path
) -> None:
    ds = workspace.get_default_datastore()
    estimator = Estimator(
        source_directory=str(project),
        compute_target="local",
        entry_script="train.py",
        script_params={"--data": ds, "--rate": 0.1, "--verbose": ""},
        environment_variables={"A": "b"},
    )
    runs = [experiment.submit(estimator), experiment.submit(estimator, script_params={"--rate": 0.2})]
    seen = []
    for run in runs:
        assert run.wait_for_completion(raise_on_error=True)["status"] == "Completed"
        seen.append(run.get_metrics()["seen"])

    assert seen == [f'[["--data", "{ds.container_name}", "--rate", "{rate}", "--verbose"], "b"]' for rate in (0.1, 0.2)]
    assert runs[0].get_details()["runDefinition"]["framework"] == "Python"


def test_horovod_that_cannot_be_built_is_told_before_anything_is_installed(
    experiment: Experiment, project: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    estimator = PyTorch(
        source_directory=str(project),
        compute_target="local",
        entry_script="train.py",
        distributed_backend="mpi",
        environment_variables={"PATH": str(tmp_path / "empty"), "A": "b"},
    )
    details: dict[str, Any] = experiment.submit(estimator).wait_for_completion(raise_on_error=False)
    message = details["error"]["error"]["message"]

    assert details["status"] == "Failed"
    assert "Horovod 0.28.1 cannot be built on this node." in message
    assert "libopenmpi-dev" in message and "making the environment `pytorch-2" in message
