"""A run under the oldest and the newest interpreter there is; what is injected needs nothing installed there."""

from __future__ import annotations

from pathlib import Path

import pytest

from azureml.core import Environment, Experiment, ScriptRunConfig
from tests.e2e.conftest import finish, log_of
from tests.interpreters import pythons

SCRIPT = """
import subprocess, sys
from azureml.core import Run
run = Run.get_context()
run.log("minor", sys.version_info[1])
run.log_row("row", a=1, b="x")
run.tag("python", sys.version.split()[0])
run.upload_file("given/script.py", __file__)
run.flush()
installed = [name for name in sys.modules if "site-packages" in (getattr(sys.modules[name], "__file__", "") or "")]
bare = subprocess.check_output([sys.executable, "-I", "-c", "import sys; print(*sys.modules)"]).decode().split()
print("installed ones:", sorted(set(installed) - set(bare)))
"""


@pytest.mark.parametrize("version", pythons())
def test_a_run_under_another_python(experiment: Experiment, project: Path, version: str) -> None:
    (project / "train.py").write_text(SCRIPT)
    environment = Environment("other-python")
    environment.python.user_managed_dependencies = True
    environment.python.interpreter_path = pythons()[version]

    run = experiment.submit(ScriptRunConfig(source_directory=str(project), script="train.py", environment=environment))
    details = finish(run)

    assert details["status"] == "Completed", log_of(run)
    assert run.get_metrics() == {"minor": int(version[2:]), "row": {"a": 1, "b": "x"}}
    assert run.get_tags()["python"].startswith(version)
    assert "given/script.py" in run.get_file_names()
    assert "installed ones: []" in log_of(run)
