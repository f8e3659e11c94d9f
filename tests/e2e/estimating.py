"""What the tests of estimators share: a pool, a run's end, and what Horovod needs of the machine."""

from __future__ import annotations

import json
import os
import shutil
import textwrap
from pathlib import Path
from typing import Any

from azureml.core import Experiment, Workspace
from azureml.core.compute import AmlCompute, ComputeTarget
from azureml.core.compute_target import ComputeTargetException
from tests import debian

PROGRAMS = {"mpirun": "openmpi-bin", "mpicxx": "libopenmpi-dev", "g++": "g++", "make": "make"}


def get_pool(workspace: Workspace) -> ComputeTarget:
    """As notebooks do it: the cluster that is there, else a new one."""
    try:
        return ComputeTarget(workspace=workspace, name="gpu-cluster")
    except ComputeTargetException:
        configuration = AmlCompute.provisioning_configuration(max_nodes=4)
        target = ComputeTarget.create(workspace, "gpu-cluster", configuration)
        target.wait_for_completion(show_output=True)
        return target


def finish(experiment: Experiment, estimator: Any) -> Any:
    run = experiment.submit(estimator)
    details = run.wait_for_completion(raise_on_error=False)
    assert details["status"] == "Completed", f"{json.dumps(details.get('error'), indent=1)}\n{_logs(run)}"
    return run


def _logs(run: Any) -> str:
    """Return the ends of all logs, for the message of a test that failed."""
    logs = run.get_details_with_logs()["logFiles"]
    return "\n".join(f"--- {name}\n{text[-2000:]}" for name, text in logs.items())


def write(project: Path, script: str) -> str:
    (project / "train.py").write_text(textwrap.dedent(script))
    return str(project)


def keep_horovod(home: Path) -> None:
    """Install what a build of Horovod needs; let its wheels outlive the home: they are built once per machine."""
    _install_missing()
    kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "runyard-tests" / "horovod"
    kept.mkdir(parents=True, exist_ok=True)
    cache = home / "cache"
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not (cache / "horovod").exists():
        (cache / "horovod").symlink_to(kept)


def _install_missing() -> None:
    missing = [package for program, package in PROGRAMS.items() if shutil.which(program) is None]
    if missing:
        debian.install(*missing)
