"""What the README and the examples show works as it stands there."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from runyard.cli import main
from tests.environments.wheels import make_wheel
from tests.waiting import wait_for

ROOT = Path(__file__).parent.parent
UV_LOCK = """\
version = 1
requires-python = ">=3.8"
[[package]]
name = "mine"
version = "1"
source = { editable = "." }
dependencies = [{ name = "joblib" }]
[package.optional-dependencies]
gpu = [{ name = "joblib" }]
[package.dev-dependencies]
dev = [{ name = "joblib" }]
train = [{ name = "joblib" }]
[[package]]
name = "joblib"
version = "1.5"
source = { path = "wheels/joblib-1.5-py3-none-any.whl" }
wheels = [{ filename = "joblib-1.5-py3-none-any.whl" }]
"""


def run_python(script: Path, *, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(script)],
        cwd=cwd,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=110,
        check=False,
    )


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.long
def test_the_first_run_example_trains_and_shows_its_results(home: Path, tmp_path: Path) -> None:
    result = run_python(ROOT / "examples/first_run/submit.py", cwd=tmp_path)

    assert result.returncode == 0, result.stderr + result.stdout
    assert "353 patients to learn from, 89 to test on" in result.stdout
    assert re.search(r"^mse    21 values, from \d+\.\d to \d+\.\d$", result.stdout, re.MULTILINE)
    assert re.search(r"^r2     0\.\d{3} with alpha 0\.5$", result.stdout, re.MULTILINE)
    assert "outputs/model.pkl" in result.stdout
    assert re.search(r"^page   http://127\.0\.0\.1:\d+/", result.stdout, re.MULTILINE)


@pytest.mark.long
def test_the_serving_example_works_word_for_word(home: Path, tmp_path: Path) -> None:
    project = tmp_path / "serving"
    shutil.copytree(ROOT / "examples/serving", project, ignore=shutil.ignore_patterns("__pycache__"))
    said = {}
    for line in blocks("examples/serving/README.md", "sh")[0].splitlines():
        command, _, expected = line.partition("#")
        words = [sys.executable, "-m", "runyard.cli", *shlex.split(command)[1:]]
        done = subprocess.run(words, cwd=project, capture_output=True, text=True, timeout=110, check=False)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        if expected.strip().startswith("["):
            assert done.stdout.strip() == expected.strip(), command
        said[command.strip()] = done

    assert said["runyard deploy iris --entry score.py"].stdout.startswith("http://")
    assert said["runyard services rollback iris"].stderr.count("is Healthy, revision 1.") == 1
    assert json.loads(said["runyard services test iris -d '{\"flowers\": [5.1, 3.5, 1.4, 0.2]}'"].stdout) == "setosa"
    wait_for(lambda: not live_runs(), timeout_s=60)


def live_runs() -> list[str]:
    words = [sys.executable, "-m", "runyard.cli", "runs", "list", "--experiment", "webservices", "--json"]
    found = json.loads(subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout)
    return [run["id"] for run in found if run["status"] not in ("Completed", "Failed", "Canceled")]


def test_the_demo_ends_with_commands_that_find_its_run() -> None:
    """The demo's run is in a home of its own: `runyard runs list` alone used to answer that there are no runs."""
    recipe = subprocess.run(
        ["make", "-s", "-n", "-o", ".venv/ready-demo", "demo"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    submit = next(line for line in recipe.stdout.splitlines() if line.endswith("examples/first_run/submit.py"))
    told = re.findall(r"^echo '  (RUNYARD_HOME.*)'$", recipe.stdout, re.MULTILINE)
    readme = [line.partition("#")[0].strip() for line in blocks("README.md", "sh")[0].splitlines()[1:2]]

    assert [shlex.split(line)[2:] for line in told] == [["runs", "list"], ["studio"]]
    for line in told:
        assert shlex.split(line)[:2] == [shlex.split(submit)[0], ".venv/bin/runyard"]
    assert readme == [line.replace(str(ROOT), "$PWD") for line in told[1:]]


@pytest.mark.long
def test_the_readme_runs_work_word_for_word(home: Path, tmp_path: Path) -> None:
    native, submit, script = blocks("README.md", "python")
    (tmp_path / "my_project").mkdir()
    (tmp_path / "my_project" / "train.py").write_text(script)
    (tmp_path / "submit.py").write_text(submit)

    result = run_python(tmp_path / "submit.py", cwd=tmp_path)

    assert result.returncode == 0, result.stderr + result.stdout
    assert result.stdout.rstrip().splitlines()[-1].startswith("{'loss': 0.25} [")

    own = re.findall(r"runyard\.log\(.*\)", native)
    (tmp_path / "my_project" / "train.py").write_text(f"import runyard\nloss, epoch = 0.5, 3\n{own[0]}\n")
    (tmp_path / "submit.py").write_text(native)
    result = run_python(tmp_path / "submit.py", cwd=tmp_path)

    assert result.returncode == 0, result.stderr + result.stdout
    assert result.stdout.startswith("0.5 http://127.0.0.1:")


@pytest.mark.long
def test_the_guide_to_environments_works_word_for_word(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_wheel(tmp_path / "wheels", "joblib", "1.5")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    (tmp_path / "my_project").mkdir()
    (tmp_path / "my_project" / "train.py").write_text("import joblib, os; print(os.environ['MESSAGE'], joblib.version)")
    (tmp_path / "requirements.txt").write_text("joblib\n")
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "mine"\nversion = "1"\ndependencies = ["joblib"]\n')
    (tmp_path / "uv.lock").write_text(UV_LOCK)
    (tmp_path / "environment.yml").write_text("dependencies:\n- pip:\n  - joblib\n")
    (tmp_path / "submit.py").write_text("\n".join(blocks("docs/guides/environments.md", "python")))

    result = run_python(tmp_path / "submit.py", cwd=tmp_path)

    assert result.returncode == 0, result.stderr + result.stdout
    assert "hello 1.5" in result.stdout and "{'joblib': '1.5'}" in result.stdout
    assert result.stdout.rstrip().splitlines()[-1] == "1 Succeeded"
    assert "joblib==1.5" in (tmp_path / "requirements.lock.txt").read_text()
    assert (tmp_path / "used-environment" / "azureml_environment.json").is_file()


def test_every_command_in_the_pages_exists(capsys: pytest.CaptureFixture[str]) -> None:
    lines = {
        line.split("#")[0].strip()
        for page in ("README.md", "docs/guides/first-run.md", "docs/guides/environments.md")
        for block in blocks(page, "sh")
        for line in block.splitlines()
        if line.startswith("runyard ")
    }

    assert len(lines) >= 6
    for line in lines:
        words = shlex.split(line.split(" -- ")[0].split(" | ")[0])[1:]
        depth = 1 if words[0] == "submit" else 2
        options = [word for word in words[depth:] if word.startswith("-")]
        with pytest.raises(SystemExit) as caught:
            main([*words[:depth], "--help"])
        page = capsys.readouterr().out
        assert caught.value.code == 0, line
        assert all(option in page for option in options), line
