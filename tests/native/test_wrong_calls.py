"""A wrong call is raised once, in at most eight lines that say what is wrong and what to type."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

AZURE = "from azureml.core import Workspace, Experiment, ScriptRunConfig\nws = Workspace.from_config()\n"
MISTAKES = {
    "runyard.run('trian.py')": "There is no script `trian.py`.",
    "runyard.run('train.py', target='gpux')": "There is no compute target `gpux`",
    "runyard.run('train.py', experimnt='x')": "Did you mean `experiment`?",
    "runyard.get('nowhere').wait()": "There is no run `nowhere`.",
    AZURE + "Experiment(ws, 'e').submit(ScriptRunConfig('.', 'trian.py'))": "Did you mean `train.py`",
    AZURE + "Experiment(ws, 'e').submit(ScriptRunConfig('.', 'train.py', compute_target='gpux'))": "target `gpux`",
    AZURE + "ScriptRunConfig('.', 'train.py', compute_taget='x')": "Did you mean `compute_target`?",
}


@pytest.mark.parametrize("line", MISTAKES)
def test_a_wrong_call_is_raised_once_in_at_most_eight_lines(folder: Path, line: str) -> None:
    (folder / "train.py").write_text("pass")
    (folder / "main.py").write_text(f"import runyard\n{line}\n")
    done = subprocess.run([sys.executable, "main.py"], capture_output=True, text=True, check=False)
    lines = [one for one in done.stderr.splitlines() if not one.startswith("runyard: ")]

    assert done.returncode == 1 and MISTAKES[line] in done.stderr
    assert len(lines) <= 8 and done.stderr.count("Traceback") == 1, done.stderr
