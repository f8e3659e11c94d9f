"""Whether this version takes over the home of an older one: `python scripts/check_upgrade.py v0.1.0`.

The older version is unpacked from git and runs with the packages of this Python. It submits a run in a home of its
own; then this version opens that home, must find the run with its metrics, log and files, and runs another one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

TRAIN = """
from azureml.core import Run
run = Run.get_context()
for value in (3, 2, 1):
    run.log("loss", value)
print("trained")
open("outputs/model.txt", "w").write("weights")
"""

SUBMIT = """
from azureml.core import Environment, Experiment, ScriptRunConfig, Workspace
env = Environment("user-managed-env")
env.python.user_managed_dependencies = True
config = ScriptRunConfig(source_directory="project", script="train.py", environment=env)
run = Experiment(Workspace.from_config(), "upgrade").submit(config)
run.wait_for_completion()
print(run.id)
"""

LOOK = """
import sys
from azureml.core import Experiment, Workspace
runs = list(Experiment(Workspace.from_config(), "upgrade").get_runs())
assert {run.id for run in runs} == set(sys.argv[1:]), runs
for run in runs:
    assert run.get_status() == "Completed", run.get_details()
    assert run.get_metrics() == {"loss": [3, 2, 1]}, run.get_metrics()
    run.download_file("outputs/model.txt", "model.txt")
    assert open("model.txt").read() == "weights"
    assert "trained" in run.get_details_with_logs()["logFiles"]["user_logs/std_log.txt"]
"""


def main(reference: str) -> None:
    with tempfile.TemporaryDirectory(prefix="upgrade-") as name:
        folder = Path(name)
        archive = subprocess.run(["git", "archive", reference, "src"], cwd=ROOT, stdout=subprocess.PIPE, check=True)
        (folder / "old").mkdir()
        subprocess.run(["tar", "-x", "-C", str(folder / "old")], input=archive.stdout, check=True)
        (folder / "project").mkdir()
        (folder / "project/train.py").write_text(TRAIN)
        old, new = folder / "old/src", ROOT / "src"
        try:
            first = run(SUBMIT, old, folder).split()[-1]
            print(run("import runyard; print('from', runyard.__version__)", old, folder).strip())
            run(LOOK, new, folder, first)
            second = run(SUBMIT, new, folder).split()[-1]
            run(LOOK, new, folder, first, second)
            print(run("import runyard; print('to  ', runyard.__version__, 'all there')", new, folder).strip())
        finally:
            subprocess.run(
                [sys.executable, "-m", "runyard.cli", "server", "stop"], env=variables(new, folder), check=False
            )


def run(code: str, source: Path, folder: Path, *words: str) -> str:
    """Return what the code prints, with the packages of `source`."""
    command = [sys.executable, "-c", code, *words]
    return subprocess.run(
        command, cwd=folder, env=variables(source, folder), stdout=subprocess.PIPE, text=True, check=True
    ).stdout


def variables(source: Path, folder: Path) -> dict[str, str]:
    ours = {"PYTHONPATH": str(source), "RUNYARD_HOME": str(folder / "home"), "XDG_RUNTIME_DIR": str(folder)}
    return {**{name: value for name, value in os.environ.items() if not name.startswith("RUNYARD_")}, **ours}


if __name__ == "__main__":
    main(*sys.argv[1:])
