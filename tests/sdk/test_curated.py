"""The package sets of curated environments: written so that they can be trusted, and resolved on today's index."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from runyard.core.provided_packages import package_name
from runyard.sdk.environments.registry import FILE, find_curated, list_curated, package_sets

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


def test_packages_are_written_once_and_in_order() -> None:
    entries = json.loads(Path(FILE).read_text())["environments"]

    for name, entry in entries.items():
        names = [package_name(line) for line in entry["pip"]]
        assert names == sorted(set(names)), name
        assert set(entry) <= {"pip", "said", "as_named"}, name


@pytest.mark.external
@pytest.mark.timeout(600)
def test_every_set_resolves_today() -> None:
    environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    result = subprocess.run(
        [sys.executable, str(SCRIPT)], env=environ, capture_output=True, text=True, timeout=500, check=False
    )

    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("ok  ") == len(package_sets())
