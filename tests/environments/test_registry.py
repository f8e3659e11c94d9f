"""Builds from the package index that pip is configured for."""

from __future__ import annotations

import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from runyard.core.specs import EnvironmentSpec
from tests.environments.wheels import uv_builder

pytestmark = [pytest.mark.external, pytest.mark.timeout(300)]


def test_scikit_learn_is_built_and_its_lock_satisfies_pip(tmp_path: Path) -> None:
    builder = uv_builder(tmp_path / "home")
    spec = EnvironmentSpec(name="sklearn", kind="uv", pip_packages=["scikit-learn", "joblib>=1.3", "azureml-defaults"])
    built = builder.build(spec, say=print)
    packages = builder.describe(built)["packages"]
    lock = builder.lock(spec, built)

    assert isinstance(packages, dict)
    assert {"scikit-learn", "numpy", "scipy", "joblib", "threadpoolctl"} <= set(packages)
    code = "from sklearn.linear_model import LinearRegression as L; print(L().fit([[0], [1]], [1, 3]).coef_[0])"
    answer = subprocess.run([built.interpreter, "-c", code], capture_output=True, text=True, check=True).stdout
    assert round(float(answer), 6) == 2.0
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)", lock, re.M))
    assert pinned == {name.lower(): version for name, version in packages.items()}
    assert "://" not in lock
    assert satisfies_pip(tmp_path, lock) == set(pinned)


def satisfies_pip(tmp_path: Path, lock: str) -> set[str]:
    """Return what pip itself would install from the lock, every hash checked."""
    (tmp_path / "requirements.lock.txt").write_text(lock)
    venv.create(tmp_path / "pip", with_pip=True)
    command = ["-m", "pip", "install", "--dry-run", "--require-hashes", "-r", str(tmp_path / "requirements.lock.txt")]
    done = subprocess.run([str(tmp_path / "pip/bin/python"), *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    [line] = [line for line in done.stdout.splitlines() if line.startswith("Would install")]
    return {word.rpartition("-")[0].lower() for word in line.split()[2:]}


def test_a_package_that_does_not_exist_is_told_by_name(tmp_path: Path) -> None:
    spec = EnvironmentSpec(name="e", kind="uv", pip_packages=["runyard-no-such-package-xyz"])

    with pytest.raises(Exception, match="runyard-no-such-package-xyz") as caught:
        uv_builder(tmp_path / "home").build(spec, say=print)
    assert "pip config list" in caught.value.hint  # type: ignore[attr-defined]


def test_a_version_of_python_with_its_own_wheels(tmp_path: Path) -> None:
    other = "3.12" if sys.version_info[:2] != (3, 12) else "3.11"
    builder = uv_builder(tmp_path / "home")
    built = builder.build(EnvironmentSpec(kind="uv", pip_packages=["numpy"], python_version=other), say=print)

    assert str(builder.describe(built)["python"]).startswith(other)
    assert subprocess.run([built.interpreter, "-c", "import numpy"], check=False).returncode == 0
