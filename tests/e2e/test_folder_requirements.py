"""Requirements whose text stays while their meaning changes: `.`, `-e .`, and a branch of git."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from azureml.core import Environment, Experiment, Run, ScriptRunConfig
from azureml.core.conda_dependencies import CondaDependencies
from tests.e2e.conftest import finish, log_of
from tests.snapshots.folders import write

# Packs src/lib into a wheel, or a path to it; it needs no package index.
BACKEND = """
import os, zipfile
NAME, INFO = "lib-1.0-py3-none-any.whl", "lib-1.0.dist-info"

def pack(folder, files):
    with zipfile.ZipFile(os.path.join(folder, NAME), "w") as wheel:
        files[INFO + "/METADATA"] = "Metadata-Version: 2.1\\nName: lib\\nVersion: 1.0\\n"
        files[INFO + "/WHEEL"] = "Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
        files[INFO + "/entry_points.txt"] = "[console_scripts]\\nlib-tool = lib:main\\n"
        files[INFO + "/RECORD"] = "".join(name + ",,\\n" for name in files)
        for name, text in files.items():
            wheel.writestr(name, text)
    return NAME

def build_wheel(folder, config_settings=None, metadata_directory=None):
    open("src/lib/_version.py", "w").write("as tools do that take it from git")
    return pack(folder, {"lib/__init__.py": open("src/lib/__init__.py").read()})

def build_editable(folder, config_settings=None, metadata_directory=None):
    return pack(folder, {"_lib.pth": os.path.abspath("src") + "\\n"})
"""
PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "lib"
version = "1.0"
"""
LIB = "VALUE = {}\ndef main():\n    print('tool', VALUE)\n"
PROBE = "import lib, sys\nprint('value', lib.VALUE, 'prefix', sys.prefix, 'file', lib.__file__)\n"


def make_project(folder: Path, value: int) -> None:
    write(folder, {"pyproject.toml": PROJECT, "backend.py": BACKEND, "src/lib/__init__.py": LIB.format(value)})


def go(experiment: Experiment, project: Path, *packages: str, **config: object) -> tuple[Run, dict[str, str]]:
    """Submit train.py in an environment of these packages; return the run and what it printed, by word."""
    environment = Environment("built")
    environment.python.conda_dependencies = CondaDependencies.create(pip_packages=list(packages))
    source = {"script": "train.py"} if "command" not in config else config
    run = experiment.submit(ScriptRunConfig(source_directory=str(project), environment=environment, **source))
    assert finish(run)["status"] == "Completed", run.get_details()["error"]
    words = log_of(run).split()
    return run, dict(zip(words[::2], words[1::2]))


@pytest.fixture
def own_project(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    make_project(project, 42)
    write(project, {"train.py": PROBE})
    return project


def test_a_folder_is_installed_from_the_snapshot_and_built_again_when_its_content_changed(
    experiment: Experiment, own_project: Path
) -> None:
    _, first = go(experiment, own_project, ".")
    _, same = go(experiment, own_project, ".")
    write(own_project, {"src/lib/__init__.py": LIB.format(43)})
    _, changed = go(experiment, own_project, ".")

    assert (first["value"], same["value"], changed["value"]) == ("42", "42", "43")
    assert first["prefix"] == same["prefix"] != changed["prefix"]
    assert first["file"].startswith(first["prefix"])


def test_an_editable_folder_is_the_snapshots_code_in_one_environment(experiment: Experiment, own_project: Path) -> None:
    requirements = own_project / "requirements.txt"
    requirements.write_text("-e .\n")
    environment = Environment.from_pip_requirements("built", str(requirements))
    packages = environment.python.conda_dependencies
    _, first = go(experiment, own_project, *packages.pip_packages, *packages.pip_options)
    write(own_project, {"src/lib/__init__.py": LIB.format(43)})
    run, changed = go(experiment, own_project, "-e .")
    _, said = go(experiment, own_project, "-e .", command="lib-tool")

    assert (first["value"], changed["value"], said["tool"]) == ("42", "43", "43")
    assert first["prefix"] == changed["prefix"], "its code is no part of the environment"
    assert changed["file"].endswith("src/lib/__init__.py") and run.id in changed["file"]


def test_a_moved_branch_is_another_environment_and_its_commit_is_recorded(
    experiment: Experiment, own_project: Path, tmp_path: Path
) -> None:
    write(own_project, {"train.py": PROBE})
    repository = tmp_path / "repository"
    make_project(repository, 1)

    def commit(value: int) -> str:
        write(repository, {"src/lib/__init__.py": LIB.format(value)})
        who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        subprocess.run(["git", "add", "."], cwd=repository, check=True)
        subprocess.run(["git", *who, "commit", "-q", "-m", str(value)], cwd=repository, check=True)
        done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=repository, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    subprocess.run(["git", "init", "-q", "-b", "trunk", repository], check=True)
    old = commit(1)
    requirement = f"lib @ git+file://{repository}@trunk"
    first_run, first = go(experiment, own_project, requirement)
    new = commit(2)
    second_run, second = go(experiment, own_project, requirement)
    _, pinned = go(experiment, own_project, f"lib @ git+file://{repository}@{old}")

    assert (first["value"], second["value"], pinned["value"]) == ("1", "2", "1")
    assert first["prefix"] == pinned["prefix"] != second["prefix"]
    recorded = [run.get_environment()._used["commits"] for run in (first_run, second_run)]
    assert recorded == [{requirement: old}, {requirement: new}]
