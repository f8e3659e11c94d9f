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

from tests.waiting import wait_for

ROOT = Path(__file__).parent.parent


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
    assert (
        json.loads(said["runyard services test iris --data '{\"flowers\": [5.1, 3.5, 1.4, 0.2]}'"].stdout) == "setosa"
    )
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
