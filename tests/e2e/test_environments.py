"""A run in an environment that is built for it, from the SDK's side."""

from __future__ import annotations

import io
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from azureml.core import Environment, Experiment, ScriptRunConfig, Workspace
from azureml.core.conda_dependencies import CondaDependencies
from azureml.exceptions import ActivityFailedException
from tests.environments.wheels import make_wheel


@pytest.fixture
def experiment(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Experiment:
    make_wheel(tmp_path / "wheels", "alpha", requires=("beta",))
    make_wheel(tmp_path / "wheels", "beta", "2.0")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    (tmp_path / "source").mkdir()
    (tmp_path / "source/train.py").write_text("import alpha, beta\nprint('found', alpha.version, beta.version)\n")
    return Experiment(Workspace.from_config(), "environments")


def a_config(tmp_path: Path, *packages: str) -> ScriptRunConfig:
    environment = Environment("train-env")
    environment.python.conda_dependencies = CondaDependencies.create(pip_packages=list(packages))
    return ScriptRunConfig(str(tmp_path / "source"), script="train.py", environment=environment)


def test_the_build_is_shown_before_the_script_and_the_packages_are_known(
    experiment: Experiment, tmp_path: Path
) -> None:
    run = experiment.submit(a_config(tmp_path, "alpha", "azureml-defaults"))
    with redirect_stdout(io.StringIO()) as out:
        run.wait_for_completion(show_output=True)
    text = out.getvalue()

    assert run.get_status() == "Completed"
    marks = [
        "Streaming azureml-logs/20_image_build_log.txt",
        "Provided by Runyard: azureml-defaults",
        "+ alpha==1.0",
        "is ready",
        "Streaming user_logs/std_log.txt",
        "found 1.0 2.0",
        "Execution Summary",
    ]
    assert [text.count(mark) for mark in marks] == [1] * len(marks)
    assert sorted(marks, key=text.index) == marks
    packages = run.get_environment().python.conda_dependencies.pip_packages
    assert list(packages) == ["alpha==1.0", "beta==2.0"]
    assert {"azureml-logs/20_image_build_log.txt", "system_logs/requirements.lock.txt"} <= set(run.get_file_names())


def test_a_failed_solve_raises_with_the_resolvers_words(experiment: Experiment, tmp_path: Path) -> None:
    run = experiment.submit(a_config(tmp_path, "alpha==7"))

    with pytest.raises(ActivityFailedException, match="there is no version of alpha==7"):
        run.wait_for_completion()
    assert "no version of alpha==7" in run.get_details_with_logs()["logFiles"]["azureml-logs/20_image_build_log.txt"]


@pytest.mark.long
def test_on_the_command_line_the_build_is_talk_and_the_scripts_output_is_data(
    experiment: Experiment, tmp_path: Path
) -> None:
    (tmp_path / "requirements.txt").write_text("alpha\n")
    command = [sys.executable, "-m", "runyard.cli", "submit", "--environment", str(tmp_path / "requirements.txt")]
    done = subprocess.run(
        [*command, "train.py"], cwd=tmp_path / "source", capture_output=True, text=True, check=False, timeout=60
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout == "found 1.0 2.0\n"
    assert "+ alpha==1.0" in done.stderr
