"""Which run this process belongs to, and the one writer it shares for each run."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, Mapping, NamedTuple, Optional

from runyard.runtime.writer import JournalWriter, Translate, get_writer

__all__ = ["RunContext", "find_context", "get_writer"]


class RunContext(NamedTuple):
    """The run that started this process; docs/internals/run-folder.md lists the variables it is read from."""

    run_folder: str
    run_id: str
    attempt: int = 1
    rank: int = 0
    role: str = "worker"
    home: str = ""

    def read_job(self) -> Dict[str, Any]:
        """Return `job.json`: how to reach the server, the run's token, its experiment and workspace. Raises OSError."""
        with open(f"{self.run_folder}/job.json", encoding="utf-8") as file:
            job: Dict[str, Any] = json.load(file)
        return job

    def writer(self, *, translate: Optional[Translate] = None) -> JournalWriter:
        """Return this process's writer for the run."""
        return get_writer(
            self.run_folder,
            self.run_id,
            attempt=self.attempt,
            rank=self.rank,
            role=self.role,
            translate=translate,
        )


def find_context(environ: Optional[Mapping[str, str]] = None) -> Optional[RunContext]:
    """Return the run that this process belongs to, or None outside of one."""
    env = os.environ if environ is None else environ
    folder, run_id = env.get("RUNYARD_RUN_FOLDER", ""), env.get("RUNYARD_RUN_ID", "")
    if not folder or not run_id or not os.path.isdir(folder):
        return None
    return RunContext(
        run_folder=folder,
        run_id=run_id,
        attempt=_whole(env.get("RUNYARD_ATTEMPT"), 1),
        rank=_rank(env),
        role=env.get("RUNYARD_ROLE") or "worker",
        home=env.get("RUNYARD_HOME", ""),
    )


def _rank(env: Mapping[str, str]) -> int:
    """Return the rank that we gave the process, or that a launcher (torchrun, deepspeed, accelerate) below us gave it.

    Such a launcher sets these three. They are never inherited from the submitting process, and where we set them
    ourselves RANK is the rank that we gave.
    """
    given = _whole(env.get("RUNYARD_RANK"), 0)
    is_launched = all(env.get(name, "").isdigit() for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"))
    return int(env["RANK"]) if is_launched and int(env["RANK"]) < int(env["WORLD_SIZE"]) else given


def _whole(text: Optional[str], default: int) -> int:
    try:
        return int(text or default)
    except ValueError:
        return default
