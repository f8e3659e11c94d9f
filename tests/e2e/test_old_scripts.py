"""Old entry scripts and the pickles of another scikit-learn, with the real packages."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import wait_for

pytestmark = [pytest.mark.external, pytest.mark.timeout(600)]
EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "serving"


def runyard(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "runyard.cli", *words]
    done = subprocess.run(
        command, cwd=cwd, env=dict(os.environ), capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture
def project(home: Path, tmp_path: Path) -> Path:
    """The example with a script of 2018, and a model that scikit-learn 1.5.2 made."""
    folder = tmp_path / "project"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("score.py", "train.py"):
        text = (folder / name).read_text()
        assert "\nimport joblib\n" in text
        (folder / name).write_text(text.replace("\nimport joblib\n", "\nfrom sklearn.externals import joblib\n"))
    (folder / "train.txt").write_text("scikit-learn==1.5.2\nnumpy==1.26.4\n")
    (folder / "open.txt").write_text("azureml-defaults\nscikit-learn\n")
    runyard("submit", "--environment", "train.txt", "train.py", "--", "--depth", "5", cwd=folder)
    return folder


def test_an_open_environment_gets_the_scikit_learn_of_the_model(project: Path) -> None:
    deployed = runyard("deploy", "iris", "--entry", "score.py", "--environment", "open.txt", cwd=project)

    assert "scikit-learn 1.5.2, with which `iris:1` was made" in deployed.stderr
    answer = runyard("services", "test", "iris", "--data", "@request.json", cwd=project)
    assert json.loads(answer.stdout) == ["setosa", "virginica"]
    log = log_with("`sklearn.externals.joblib` is gone", project)
    assert log.count("`sklearn.externals.joblib` is gone") == 1
    assert "InconsistentVersionWarning" not in log and "was made by scikit-learn" not in log

    # The tests' own Python has a newer one: it answers, and says so.
    runyard("services", "update", "iris", "--python", sys.executable, cwd=project)
    assert log_with("(DecisionTreeClassifier) was made by scikit-learn 1.5.2; here is ", project)
    runyard("services", "delete", "iris", "--yes", cwd=project)
    wait_for(lambda: not live_runs(project), timeout_s=60)


def log_with(text: str, project: Path) -> str:
    """Return the log once it has the text: what a script prints is there a moment later."""

    def found() -> str:
        log = runyard("services", "logs", "iris", cwd=project).stdout
        return log if text in log else ""

    return wait_for(found, what=text)


def live_runs(project: Path) -> list[str]:
    found = json.loads(runyard("runs", "list", "--experiment", "webservices", "--json", cwd=project).stdout)
    return [run["id"] for run in found if run["status"] not in ("Completed", "Failed", "Canceled")]
