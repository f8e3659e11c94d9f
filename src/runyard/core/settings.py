"""Settings: read once at a process edge and passed down. Each is described in docs/reference/settings.md."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Mapping, Optional

from runyard.core.errors import InvalidArgument


@dataclass(frozen=True)
class Settings:
    home: Path  # RUNYARD_HOME: database, artifacts, run folders of the private server
    url: Optional[str] = None  # RUNYARD_URL: a team's server instead of the private one
    token: Optional[str] = None  # RUNYARD_TOKEN: goes with the url
    idle_stop_s: float = 3600.0  # RUNYARD_IDLE_STOP: the private server leaves after this long without work
    port: int = 0  # RUNYARD_PORT: the private server's loopback port; 0: pick one and keep it
    local_runs: int = 0  # RUNYARD_LOCAL_RUNS: most runs at once on `local`; 0: no limit
    grace_s: float = 30.0  # RUNYARD_GRACE: seconds between TERM and KILL
    keep_run_folders: bool = False  # RUNYARD_KEEP_RUN_FOLDERS: leave work folders after the end
    log_level: str = "INFO"  # RUNYARD_LOG_LEVEL


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
        idle_stop_s=_number(env, "RUNYARD_IDLE_STOP", 3600.0),
        port=int(_number(env, "RUNYARD_PORT", 0)),
        local_runs=int(_number(env, "RUNYARD_LOCAL_RUNS", 0)),
        grace_s=_number(env, "RUNYARD_GRACE", 30.0),
        keep_run_folders=env.get("RUNYARD_KEEP_RUN_FOLDERS", "") in ("1", "true", "yes"),
        log_level=env.get("RUNYARD_LOG_LEVEL") or "INFO",
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
