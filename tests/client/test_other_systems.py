"""Clients on macOS and Windows: every module loads without what is missing there, and a team's server is used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from runyard.core.config.paths import token_file
from tests.server.private import start

ROOT = Path(__file__).parents[2]

IMPORTS = """
import importlib, pkgutil
failed = {}
for package in ("runyard.core", "runyard.client", "runyard.sdk", "runyard.snapshots", "runyard.data", "runyard.runtime",
                "runyard.cli", "azureml"):
    folder = importlib.import_module(package).__path__
    for module in pkgutil.walk_packages(folder, package + "."):
        # The first is a program's start; the second a program that nodes run by its path, never a client's; the last
        # are loaded by MLflow, which is not here.
        if module.name.endswith(".__main__") or module.name == "runyard.runtime.rank_shim":
            continue
        if module.name.startswith("runyard.mlflow."):
            continue
        try:
            importlib.import_module(module.name)
        except Exception as error:
            failed[module.name] = f"{type(error).__name__}: {error}"
print("; ".join(f"{name}: {why}" for name, why in failed.items()))
"""

SUBMIT = """
import logging, sys
from azureml.core import Environment, Experiment, ScriptRunConfig, Workspace
experiment = Experiment(Workspace.from_config(), "elsewhere")
run = experiment.submit(ScriptRunConfig(source_directory=sys.argv[1], script="train.py", arguments=["--rate", 0.5]))
run.wait_for_completion(show_output=True)
print(run.get_status(), run.get_metrics(), run.get_file_names())
run.download_file("outputs/model.txt", sys.argv[1] + "/model.txt")
run.upload_file("notes.txt", sys.argv[1] + "/data/words.txt")
print(run.get_file_names())
try:
    experiment.start_logging()
except Exception as error:
    print(error)
from runyard.cli import main
try:
    main(["doctor"])
except SystemExit as end:
    print("doctor", end.code)
"""

TRAIN = """
import sys
from azureml.core import Run
Run.get_context().log("rate", float(sys.argv[2]))
open("outputs/model.txt", "w").write(open("data/words.txt").read())
"""


def run_hidden(code: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run code in a Python without packages, and without what Windows and macOS lack."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "RUNYARD"))}
    return subprocess.run(
        [sys.executable, "-S", "-c", "import tests.client.other_system\n" + code, *arguments],
        env={**environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", **variables},
        capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip


def test_every_module_of_a_client_loads_without_what_other_systems_lack() -> None:
    done = run_hidden(IMPORTS)

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ""


def test_a_run_is_submitted_to_a_teams_server_from_another_system(home: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "data").mkdir(parents=True)
    (project / "outputs").mkdir()
    (project / "train.py").write_text(TRAIN)
    (project / "data/words.txt").write_text("words\n")
    (project / "data/left.bin").write_bytes(b"x")
    (project / ".amlignore").write_text("*.bin\n")
    url = start(home).server.info().url
    token = token_file(home).read_text().strip()
    done = run_hidden(
        SUBMIT, str(project), RUNYARD_URL=url, RUNYARD_TOKEN=token, RUNYARD_HOME=str(tmp_path / "home")
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert "Completed {'rate': 0.5}" in done.stdout
    assert "notes.txt" in done.stdout
    assert "doctor 0" in done.stdout, done.stdout
    assert "cannot log to a run from this system" in done.stdout
    assert (project / "model.txt").read_text() == "words\n"


def test_without_a_teams_server_another_system_says_what_to_do(tmp_path: Path) -> None:
    code = "from azureml.core import Workspace\nWorkspace.from_config().experiments"
    done = run_hidden(code, RUNYARD_HOME=str(tmp_path / "home"))

    assert done.returncode == 1
    assert "There is no private server on this system." in done.stderr and "runyard login URL" in done.stderr
