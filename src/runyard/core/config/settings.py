"""Settings of a process: read once at its edge and passed down. docs/reference/settings.md describes each."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Mapping, Optional, Sequence

from runyard.core.errors import InvalidArgument
from runyard.core.lazy_dataclass import dataclass

_FALLBACKS = ("RUNYARD_CONDA_FALLBACK", ("auto", "never"))
_PYTHON_FALLBACKS = ("RUNYARD_PYTHON_FALLBACK", ("auto", "never"))


@dataclass(frozen=True)
class Settings:
    home: Path  # RUNYARD_HOME: database, artifacts, run folders of the private server
    url: Optional[str] = None  # RUNYARD_URL: a team's server instead of the private one
    token: Optional[str] = None  # RUNYARD_TOKEN: goes with the url
    idle_stop_s: float = 3600.0  # RUNYARD_IDLE_STOP: the private server leaves after this long without work
    port: int = 0  # RUNYARD_PORT: the private server's loopback port; 0: pick one and keep it
    local_runs: int = 0  # RUNYARD_LOCAL_RUNS: most runs at once on `local`; 0: no limit
    amlcompute_engine: str = ""  # RUNYARD_AMLCOMPUTE_ENGINE: where the server puts new pools: slurm, ray:HOST:PORT …
    gpu_devices: str = ""  # RUNYARD_GPU_DEVICES: the GPUs that runs may have, `0,1` or `none`; empty: all
    grace_s: float = 30.0  # RUNYARD_GRACE: seconds between TERM and KILL
    keep_run_folders: bool = False  # RUNYARD_KEEP_RUN_FOLDERS: leave work folders after the end
    work_folder: str = "shared"  # RUNYARD_WORK_FOLDER: per-node: each node of a run has a copy of its own
    python_downloads: bool = False  # RUNYARD_PYTHON_DOWNLOADS: a build may fetch a Python that is not installed
    conda_fallback: str = "auto"  # RUNYARD_CONDA_FALLBACK: never: conda packages come from conda channels or not at all
    python_fallback: str = "auto"  # RUNYARD_PYTHON_FALLBACK: never: no other Python or version than those asked for
    container_engine: Optional[str] = None  # RUNYARD_CONTAINER_ENGINE: podman, docker, apptainer, or a path
    container_arguments: str = ""  # RUNYARD_CONTAINER_ARGUMENTS: more arguments for the container runtime
    undo_s: float = 86400.0  # RUNYARD_UNDO: a deleted run can be restored for so long; 0: it cannot
    log_level: str = "INFO"  # RUNYARD_LOG_LEVEL
    hang_after_s: float = 600.0  # RUNYARD_HANG_AFTER: a run silent for so long is looked at; 0: never
    hang_fails: bool = False  # RUNYARD_HANG_FAILS: a run that hangs is ended
    sample_every_s: float = 10.0  # RUNYARD_SAMPLE_EVERY: between two readings of CPU, memory, GPUs …; 0: none


def read_settings(environ: Optional[Mapping[str, str]] = None) -> Settings:
    """Return the settings of this process from its `RUNYARD_…` variables."""
    env = os.environ if environ is None else environ
    home = env.get("RUNYARD_HOME") or os.path.join(
        env.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share"), "runyard"
    )
    return Settings(
        home=Path(os.path.abspath(os.path.expanduser(home))),
        url=env.get("RUNYARD_URL") or None,
        token=env.get("RUNYARD_TOKEN") or None,
        idle_stop_s=_number(env, "RUNYARD_IDLE_STOP", Settings.idle_stop_s),
        port=int(_number(env, "RUNYARD_PORT", Settings.port)),
        local_runs=int(_number(env, "RUNYARD_LOCAL_RUNS", Settings.local_runs)),
        amlcompute_engine=env.get("RUNYARD_AMLCOMPUTE_ENGINE", "").strip(),
        gpu_devices=_devices(env, "RUNYARD_GPU_DEVICES"),
        grace_s=_number(env, "RUNYARD_GRACE", Settings.grace_s),
        keep_run_folders=env.get("RUNYARD_KEEP_RUN_FOLDERS", "") in ("1", "true", "yes"),
        work_folder=_choice(env, "RUNYARD_WORK_FOLDER", ("shared", "per-node")),
        python_downloads=env.get("RUNYARD_PYTHON_DOWNLOADS", "") in ("1", "true", "yes"),
        conda_fallback=_choice(env, *_FALLBACKS),
        python_fallback=_choice(env, *_PYTHON_FALLBACKS),
        container_engine=env.get("RUNYARD_CONTAINER_ENGINE") or None,
        container_arguments=env.get("RUNYARD_CONTAINER_ARGUMENTS", ""),
        undo_s=_number(env, "RUNYARD_UNDO", Settings.undo_s),
        log_level=env.get("RUNYARD_LOG_LEVEL") or "INFO",
        hang_after_s=_number(env, "RUNYARD_HANG_AFTER", Settings.hang_after_s),
        hang_fails=env.get("RUNYARD_HANG_FAILS", "") in ("1", "true", "yes"),
        sample_every_s=_number(env, "RUNYARD_SAMPLE_EVERY", Settings.sample_every_s),
    )


def settings_of_run(settings: Settings, variables: Mapping[str, str]) -> Settings:
    """Return the settings with what a run's own variables say about it: how it is watched, where it works.

    Raises:
        InvalidArgument: one of them holds what it cannot.
    """
    return replace(
        settings,
        hang_after_s=_number(variables, "RUNYARD_HANG_AFTER", settings.hang_after_s),
        hang_fails=variables.get("RUNYARD_HANG_FAILS", str(int(settings.hang_fails))) in ("1", "true", "yes"),
        sample_every_s=_number(variables, "RUNYARD_SAMPLE_EVERY", settings.sample_every_s),
        work_folder=_choice(variables, "RUNYARD_WORK_FOLDER", ("shared", "per-node")),
        python_downloads=variables.get("RUNYARD_PYTHON_DOWNLOADS", str(int(settings.python_downloads)))
        in ("1", "true", "yes"),
        conda_fallback=_choice({"RUNYARD_CONDA_FALLBACK": settings.conda_fallback, **variables}, *_FALLBACKS),
        python_fallback=_choice({"RUNYARD_PYTHON_FALLBACK": settings.python_fallback, **variables}, *_PYTHON_FALLBACKS),
        container_engine=variables.get("RUNYARD_CONTAINER_ENGINE") or settings.container_engine,
        container_arguments=variables.get("RUNYARD_CONTAINER_ARGUMENTS", settings.container_arguments),
    )


def _number(env: Mapping[str, str], name: str, default: float) -> float:
    text = env.get(name, "")
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if value < 0 or value != value:
        raise InvalidArgument(
            f"The variable {name} holds {text!r}.",
            why="It must be a number, zero or more.",
            hint=f"export {name}={default:g}",
        )
    return value


def _choice(env: Mapping[str, str], name: str, known: Sequence[str]) -> str:
    """Return one of the known words, the first when the variable is not set."""
    text = env.get(name) or known[0]
    if text not in known:
        raise InvalidArgument(
            f"The variable {name} holds {text!r}.", why=f"It must be one of: {', '.join(known)}.", hint=f"unset {name}"
        )
    return text


def _devices(env: Mapping[str, str], name: str) -> str:
    text = env.get(name, "").strip().lower()
    if text in ("", "none") or all(part.strip().isdecimal() for part in text.split(",")):
        return text
    raise InvalidArgument(
        f"The variable {name} holds {text!r}.",
        why="It lists the GPUs that runs may have, by their numbers.",
        hint=f"export {name}=0,1 for two of them, {name}=none for none; unset it for all.",
    )
