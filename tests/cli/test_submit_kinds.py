"""`runyard submit` of all that people have: commands, modules, notebooks, shell scripts, job files; and sweeps."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path

import pytest

from tests.cli.command_line import runyard
from tests.environments.wheels import make_wheel

pytestmark = pytest.mark.usefixtures("shared_home")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(
        "import os, sys\nfrom azureml.core import Run\n"
        "print(sys.argv[1:], os.environ.get('COLOUR'))\n"
        "Run.get_context().log('loss', float(sys.argv[2]) if len(sys.argv) > 2 else 0.5)\n"
    )
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg/__init__.py").touch()
    (tmp_path / "pkg/mod.py").write_text("import os, sys\nprint(__name__, sys.argv[1:], os.environ['RANK'])\n")
    (tmp_path / "go.sh").write_text('echo "$0" "$@"\n')
    return tmp_path


def submit(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return runyard("submit", *arguments, cwd=project)


@pytest.mark.long
def test_a_command_a_module_and_a_shell_script(project: Path) -> None:
    command = submit(project, "--", "python", "-c", "import sys; print(sys.argv)", "a b", "$AZUREML_ARM_PROJECT_NAME")
    module = submit(project, "--processes", "2", "-m", "pkg.mod", "--", "--beta", "1")
    script = submit(project, "--experiment", "shell", "go.sh", "a b")

    assert command.stdout == "['-c', 'a b', 'python']\n", command.stderr
    assert module.stdout == "__main__ ['--beta', '1'] 0\n", module.stderr
    assert script.stdout == "go.sh a b\n", script.stderr


def test_a_notebook_is_executed_and_kept(project: Path) -> None:
    sources = [
        "from azureml.core import Run",
        "run = Run.get_context()\nrun.log('alpha', alpha)\nprint('alpha is', alpha)",
        "1 / 0",
    ]
    code: dict[str, object] = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    cells = [{**code, "source": source} for source in sources]
    whole = {"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": cells}
    (project / "nb.ipynb").write_text(json.dumps(whole))
    result = submit(project, "--json", "nb.ipynb", "--", "--alpha", "0.7")

    assert result.returncode == 1
    found = json.loads(result.stdout)
    assert [metric["name"] for metric in found["metrics"]] == ["alpha"]
    assert "outputs/nb.ipynb" in [file["name"] for file in found["files"]]
    assert "Cell 3 of nb.ipynb raised ZeroDivisionError" in found["run"]["error"]["message"]
    assert "alpha is 0.7" in result.stderr


def test_json_is_one_object_and_errors_are_json_too(project: Path) -> None:
    ended = submit(project, "--json", "--display-name", "mine", "train.py")
    wrong = submit(project, "--json", "trian.py")
    usage = submit(project, "--json", "--jsno", "train.py")
    absent = runyard("runs", "show", "nope", "--json")

    found = json.loads(ended.stdout)
    assert (found["run"]["status"], found["run"]["display_name"]) == ("Completed", "mine")
    assert "[] None" in ended.stderr
    assert wrong.returncode == 1 and json.loads(wrong.stdout)["error"]["message"] == "There is no script `trian.py`."
    assert absent.returncode == 1 and "nope" in json.loads(absent.stdout)["error"]["message"]
    assert usage.returncode == 2 and "--json" in json.loads(usage.stdout)["error"]["message"]


def test_secrets_of_an_env_file_reach_the_run_and_are_hidden(project: Path) -> None:
    (project / "my.env").write_text("export COLOUR='dark blue'\nAPI_TOKEN=abc-123-secret\n")
    result = submit(project, "--env-file", "my.env", "--json", "train.py")

    assert "[] dark blue" in result.stderr
    variables = json.loads(result.stdout)["run"]["spec"]["variables"]
    assert (variables["COLOUR"], variables["API_TOKEN"]) == ("dark blue", "********")
    assert "abc-123-secret" not in result.stdout


def test_a_job_file_and_options_that_override_it(project: Path) -> None:
    (project / "job.yml").write_text(
        "script: train.py\narguments: {lr: 0.1}\nexperiment: filed\nvariables: {COLOUR: red}\n"
    )
    plain = submit(project, "job.yml")
    other = submit(project, "--env-var", "COLOUR=green", "job.yml", "--", "--lr", "0.2")

    assert plain.stdout == "['--lr', '0.1'] red\n", plain.stderr
    assert other.stdout == "['--lr', '0.2'] green\n"
    assert "Run filed_" in plain.stderr


def test_a_sweep_from_the_shell_shows_the_best(project: Path) -> None:
    (project / "sweep.yml").write_text(
        "script: train.py\nsweep:\n  sampling: grid\n  parameters: {lr: [0.3, 0.1]}\n  metric: loss\n  goal: minimize\n"
    )
    result = runyard("sweep", "sweep.yml", "--concurrency", "2", cwd=project)

    assert result.returncode == 0, result.stderr
    assert "2 of 2 ended. Best loss: 0.1 (--lr 0.1)." in result.stderr
    rows = [line.split() for line in result.stdout.splitlines() if line.startswith("HD_")]
    assert [row[1:] for row in rows[1:]] == [["Completed", "0.1", "0.1"], ["Completed", "0.3", "0.3"]]


def test_a_script_s_header_and_a_lock_file_are_built(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheels = project / "wheels"
    make_wheel(wheels, "alpha", "1.0")
    make_wheel(wheels, "alpha", "2.0")
    digest = hashlib.sha256((wheels / "alpha-1.0-py3-none-any.whl").read_bytes()).hexdigest()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    (project / "headed.py").write_text(
        "# /// script\n# requires-python = '>=3.8'\n# dependencies = ['alpha']\n# ///\n"
        "import alpha\nprint('alpha', alpha.version)\n"
    )
    (project / "uv.lock").write_text(
        'version = 1\nrequires-python = ">=3.8"\n'
        '[[package]]\nname = "p"\nsource = { virtual = "." }\ndependencies = [{ name = "alpha" }]\n'
        '[[package]]\nname = "alpha"\nversion = "1.0"\nsource = { registry = "wheels" }\n'
        f'wheels = [{{ path = "alpha-1.0-py3-none-any.whl", hash = "sha256:{digest}" }}]\n'
    )
    headed = submit(project, "headed.py")
    locked = submit(project, "--environment", "uv.lock", "headed.py")

    assert headed.stdout == "alpha 2.0\n", headed.stderr
    assert "note: The environment is that of the header of headed.py: alpha." in headed.stderr
    assert locked.stdout == "alpha 1.0\n", locked.stderr
