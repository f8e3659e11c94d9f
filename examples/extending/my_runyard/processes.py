"""The ComputeBackend `processes`: one supervisor process of this machine for each run."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from runyard.compute.base import ComputeBackend, JobHandle, JobReport, JobRequest, JobState
from runyard.core.config.settings import Settings
from runyard.core.errors import SubmitRejected
from runyard.core.formats.plain import to_plain
from runyard.core.specs import JobSpec, NodeSpec

MOST_NODES = 100
START_AGAIN_AFTER_S = 5.0  # a supervisor claims its job within this time, unless it was killed before


class ProcessBackend(ComputeBackend):
    """Keeps nothing in memory: the locks of a run folder tell how its job stands, also after a restart."""

    def __init__(self, settings: Settings, options: Mapping[str, Any]) -> None:
        self._home = settings.home

    def plan(self, job: JobSpec) -> JobRequest:
        count = job.spec.distribution.node_count
        if count > MOST_NODES:
            raise SubmitRejected(f"The run asks for {count} nodes.", hint=f"Use {MOST_NODES} or fewer.")
        first = NodeSpec(0, "127.0.0.1", "node-0")
        several = [NodeSpec(rank, f"127.0.1.{rank + 1}", f"node-{rank}") for rank in range(count)]
        placed = replace(job, node_count=count, nodes=several if count > 1 else [first])
        folder = self._folder(JobHandle(job.run_id, job.attempt))
        argv = supervisor_argv("--run", folder)
        return JobRequest(job.run_id, job.attempt, job.spec.target, count, argv, str(folder), placed)

    def submit(self, request: JobRequest) -> JobHandle:
        handle = JobHandle(request.run_id, request.attempt)
        folder = self._folder(handle)
        for path in (folder.parent.parent, folder.parent, folder):
            path.mkdir(mode=0o700, exist_ok=True)
        if not (folder / "claim").exists():  # else its code has started already
            write_whole(folder / "job.json", to_plain(request.job))
            self._start("--run", folder)
        return handle

    def poll(self, handles: Sequence[JobHandle]) -> Mapping[JobHandle, JobReport]:
        return {handle: JobReport(self._state(handle)) for handle in handles}

    def adopt(self, handle: JobHandle) -> None:
        if self._state(handle) is JobState.ORPHANED:
            self._start("--adopt", self._folder(handle))

    def cancel(self, handle: JobHandle) -> None:
        folder = self._folder(handle)
        try:
            write_whole(folder / "control.json", {"desired": None})  # "ask the server what it wants"
            wake = os.open(folder / "wake", os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            return  # it has not started yet or has ended; a supervisor also asks the server by itself
        with open(wake, "wb") as file:
            file.write(b"\n")

    def close(self) -> None:
        """Nothing to let go of: supervisors are not children of this process."""

    def _state(self, handle: JobHandle) -> JobState:
        folder = self._folder(handle)
        if not (folder / "job.json").exists():
            return JobState.GONE
        if not (folder / "claim").exists():
            return self._start_again(folder)
        if is_locked(folder / "claim") or is_locked(folder / "supervisor.lock"):
            return JobState.ALIVE
        # A supervisor removes its folder as its last act.
        return JobState.ORPHANED if (folder / "claim").exists() else JobState.GONE

    def _start_again(self, folder: Path) -> JobState:
        job = folder / "job.json"
        try:
            is_overdue = time.time() - job.stat().st_mtime > START_AGAIN_AFTER_S
            if is_overdue:
                os.utime(job)
        except FileNotFoundError:  # it has ended
            return JobState.GONE
        if is_overdue:
            self._start("--run", folder)
        return JobState.WAITING

    def _start(self, mode: str, folder: Path) -> None:
        # The shell leaves at once, so the supervisor outlives this process and is nobody's zombie.
        shell = ["/bin/sh", "-c", '"$@" </dev/null >/dev/null 2>&1 &', "sh", *supervisor_argv(mode, folder)]
        subprocess.run(shell, check=True, env={**os.environ, "RUNYARD_HOME": str(self._home)})

    def _folder(self, handle: JobHandle) -> Path:
        return self._home / "runs" / handle.run_id / str(handle.attempt)


def supervisor_argv(mode: str, folder: Path) -> list[str]:
    return [sys.executable, "-I", "-m", "runyard.supervisor", mode, str(folder)]


def is_locked(path: Path) -> bool:
    """Whether a living process holds the lock of the file."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def write_whole(path: Path, value: object) -> None:
    """Write JSON that a reader finds whole or not at all, and that only this user can read: it holds a token."""
    beside = path.with_name(f"{path.name}.{os.urandom(4).hex()}.new")
    with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    beside.rename(path)
