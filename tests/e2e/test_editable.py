"""A run is its snapshot, also where its project is installed as editable and changed after the submit."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from azureml.core import Environment, Experiment, Run, ScriptRunConfig
from runyard.environments.uv_program import find_uv
from tests.e2e.conftest import finish, log_of
from tests.snapshots.folders import write

SCRIPT = """
import os, sys, time
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
import lib
print("value", lib.VALUE)
"""
BACKENDS = {
    "setuptools": ('requires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"', "src/lib"),
    "setuptools flat": ('requires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"', "lib"),
    "hatch": ('requires = ["hatchling"]\nbuild-backend = "hatchling.build"', "src/lib"),
    "poetry": ('requires = ["poetry-core"]\nbuild-backend = "poetry.core.masonry.api"', "src/lib"),
    "flit": ('requires = ["flit_core"]\nbuild-backend = "flit_core.buildapi"', "lib"),
    "uv": ('requires = ["uv_build"]\nbuild-backend = "uv_build"', "src/lib"),
}


def submit_and_change(experiment: Experiment, project: Path, package: str, python: Path) -> Run:
    """Submit a script that imports the package after it was changed in the user's own folder."""
    go = project.parent / "go"
    environment = Environment("own")
    environment.python.user_managed_dependencies = True
    environment.python.interpreter_path = str(python)
    run = experiment.submit(
        ScriptRunConfig(
            source_directory=str(project), script="steps/train.py", environment=environment, arguments=[str(go)]
        )
    )
    deadline = time.monotonic() + 60
    while run.get_status() not in ("Running", "Failed", "Completed") and time.monotonic() < deadline:
        time.sleep(0.05)
    write(project, {f"{package}/__init__.py": "VALUE = 'changed later'\n"})
    go.touch()
    return run


def test_a_run_imports_its_snapshot_and_not_the_folder_that_was_changed_since(
    experiment: Experiment, project: Path, tmp_path: Path
) -> None:
    write(project, {"steps/train.py": SCRIPT, "src/lib/__init__.py": "VALUE = 'submitted'\n"})
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", project / ".venv"], check=True)
    [site] = (project / ".venv" / "lib").glob("python3*/site-packages")
    write(site, {"_lib.pth": f"{project / 'src'}\n"})
    run = submit_and_change(experiment, project, "src/lib", project / ".venv" / "bin" / "python")

    assert finish(run)["status"] == "Completed", log_of(run)
    assert "value submitted" in log_of(run)


@pytest.mark.external
@pytest.mark.parametrize("backend", BACKENDS)
def test_every_build_backend_of_editable_installs(
    experiment: Experiment, project: Path, tmp_path: Path, backend: str
) -> None:
    lines, package = BACKENDS[backend]
    text = f'[build-system]\n{lines}\n[project]\nname = "lib"\nversion = "1.0"\ndescription = "a package"\n'
    write(project, {"pyproject.toml": text, f"{package}/__init__.py": "VALUE = 'submitted'\n"})
    uv = find_uv(os.environ)
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, tmp_path / "env"], check=True)
    python = tmp_path / "env" / "bin" / "python"
    subprocess.run([uv, "pip", "install", "-q", "--python", python, "-e", project], check=True)
    write(project, {"steps/train.py": SCRIPT})
    run = submit_and_change(experiment, project, package, python)

    assert finish(run)["status"] == "Completed", log_of(run)
    assert "value submitted" in log_of(run)
