"""The package sets of curated environments: written so that they can be trusted, and resolved on today's index."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from runyard.core.provided_packages import package_name
from runyard.sdk.environments.registry import find_curated, list_curated, package_sets
from runyard.sdk.run_config.run_configuration import MpiConfiguration
from runyard.sdk.run_config.script_run_config import ScriptRunConfig
from runyard.sdk.submit.submission import plan_submission

SCRIPT = Path(__file__).parents[2] / "scripts" / "check_curated.py"
# Names that real notebooks and Microsoft's pages ask for.
ASKED_FOR = [
    "AzureML-Minimal", "AzureML-Tutorial", "AzureML-TensorFlow-1.13-GPU", "AzureML-TensorFlow-2.0-GPU",
    "AzureML-TensorFlow-2.1-GPU", "AzureML-TensorFlow-2.3-GPU", "AzureML-PyTorch-1.4-GPU", "AzureML-PyTorch-1.6-GPU",
    "AzureML-sklearn-1.5", "azureml-sklearn-1.5", "azureml-tensorflow-2.11-cuda11", "AzureML-tensorflow-2.16-cuda12",
    "azureml-acpt-pytorch-2.2-cuda12.1", "AzureML-sklearn-0.24.1-ubuntu18.04-py37-cpu-inference", "AzureML-BERT",
    "AzureML-pytorch-1.10-ubuntu18.04-py38-cuda11-gpu", "AzureML-sklearn-1.0-ubuntu20.04-py38-cpu",
    "AzureML-lightgbm-3.2-ubuntu18.04-py37-cpu",
]  # fmt: skip


@pytest.mark.parametrize("name", ASKED_FOR)
def test_every_name_that_notebooks_ask_for_is_there(name: str) -> None:
    found = find_curated(name)

    assert found is not None and found.name.lower() == name.lower()
    assert found.name in list_curated()


@pytest.mark.parametrize(
    ("name", "python", "packages"),
    [
        ("AzureML-sklearn-1.5", "3.10", ["scikit-learn==1.5.2", "numpy==1.22.4"]),
        ("AzureML-sklearn-0.24-ubuntu18.04-py37-cpu", "3.7", ["scikit-learn==0.24.*", "numpy<1.24"]),
        ("AzureML-Scikit-learn0.24-Cuda11-OpenMpi4.1.0-py36", "3.6", ["scikit-learn==0.24.*"]),
        ("AzureML-TensorFlow2.4-Cuda11-OpenMpi4.1.0-py36", "3.6", ["tensorflow==2.4.*", "protobuf<3.21"]),
        ("AzureML-tensorflow-2.21-cuda12", None, ["tensorflow==2.21.*", "tensorboard"]),
        ("azureml-pytorch-1.7-ubuntu18.04-py37-cuda11-gpu", "3.7", ["torch==1.7.*", "numpy<1.24"]),
        ("AzureML-ACPT-pytorch-1.13-py38-cuda11.7-gpu", "3.8", ["torch==1.13.*", "transformers"]),
        ("AzureML-acpt-pytorch-2.8-cuda12.6", None, ["torch==2.8.*"]),
        ("AzureML-xgboost-0.9-ubuntu18.04-py37-cpu-inference", "3.7", ["xgboost==0.9.*"]),
        ("azureml://registries/azureml/environments/sklearn-1.5/labels/latest", "3.10", ["scikit-learn==1.5.2"]),
        ("AzureML-minimal-ubuntu18.04-py37-cpu-inference", None, []),
    ],
)
def test_a_name_means_the_versions_that_are_in_it(name: str, python: str | None, packages: list[str]) -> None:
    found = find_curated(name)

    assert found is not None
    assert found.python.conda_dependencies._wanted_python == python
    assert set(packages) <= set(found.python.conda_dependencies.pip_packages)


def test_horovod_is_for_mpi_jobs_in_environments_that_have_it(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()

    def packages(name: str, *, mpi: bool) -> list[str]:
        job = MpiConfiguration(node_count=2) if mpi else None
        config = ScriptRunConfig(str(tmp_path), "train.py", environment=find_curated(name), distributed_job_config=job)
        return plan_submission(config).spec.environment.pip_packages

    assert packages("AzureML-TensorFlow-2.2-GPU", mpi=True)[-1] == "horovod"
    assert "horovod" not in packages("AzureML-TensorFlow-2.2-GPU", mpi=False)
    assert "horovod" not in packages("AzureML-sklearn-1.5", mpi=True)


def test_packages_are_written_once_and_in_order() -> None:
    for packages, names in package_sets().items():
        found = [package_name(line) for line in packages[1:]]
        assert found == sorted(set(found)), names


@pytest.mark.external
@pytest.mark.timeout(600)
def test_every_set_resolves_today() -> None:
    environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    result = subprocess.run(
        [sys.executable, str(SCRIPT)], env=environ, capture_output=True, text=True, timeout=500, check=False
    )

    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("ok  ") == len(package_sets())
