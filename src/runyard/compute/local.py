"""The ComputeBackend `local`: supervisors as processes of this machine, one spare always ready."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from runyard.compute.base import ComputeBackend, JobHandle, JobReport, JobRequest, JobState
from runyard.compute.spares import SparePool
from runyard.compute.virtual_nodes import MOST_NODES, virtual_nodes
from runyard.core.compute import LOCAL
from runyard.core.config.paths import run_folder
from runyard.core.config.settings import Settings
from runyard.core.errors import SubmitRejected
from runyard.core.formats.plain import to_plain
from runyard.core.machine.node_variables import node_variables, supervisor_command
from runyard.core.machine.whole_files import write_whole
from runyard.core.specs import JobSpec

logger = logging.getLogger(__name__)

UNCLAIMED_S = 3.0  # a told spare claims within milliseconds; after this long another one is started


class LocalBackend(ComputeBackend):
    """Job folders are below `settings.home`; what became of a job is read from its folder's locks alone."""

    def __init__(self, settings: Settings, options: Mapping[str, Any] | None = None) -> None:
        self._home = settings.home
        self._spares = SparePool(settings)
        self._node_variables = node_variables(os.environ)
        self._lock = threading.Lock()
        self._told: dict[JobHandle, float] = {}

    def plan(self, job: JobSpec) -> JobRequest:
        count = job.spec.distribution.node_count
        if count > MOST_NODES:
            raise SubmitRejected(
                f"Run `{job.run_id}` asks for {count} nodes on `{job.spec.target}`.",
                why=f"One machine stands for {MOST_NODES} nodes at most.",
                hint=f"Set node_count to {MOST_NODES} or less.",
            )
        folder = str(run_folder(self._home, job.run_id, job.attempt))
        mode = "--run" if job.interactive_pid is None else "--watch"
        argv = [*supervisor_command(), mode, folder]
        submitter = job.submitter if job.spec.target == LOCAL else self._node_variables
        placed = replace(job, node_count=count, nodes=virtual_nodes(count, job.devices), submitter=submitter)
        return JobRequest(job.run_id, job.attempt, job.spec.target, count, argv, folder, placed)

    def submit(self, request: JobRequest) -> JobHandle:
        handle = JobHandle(request.run_id, request.attempt)
        folder = Path(request.run_folder)
        _make_private(folder)
        if (folder / "claim").exists():
            self.adopt(handle)
        else:
            _write_job(folder, request.job)
            self._start(handle, request.argv[-2], folder)
        return handle

    def poll(self, handles: Sequence[JobHandle]) -> Mapping[JobHandle, JobReport]:
        self._spares.tend()
        return {handle: JobReport(self._state(handle)) for handle in handles}

    def adopt(self, handle: JobHandle) -> None:
        folder = self._folder(handle)
        if self._state(handle) is not JobState.ORPHANED:
            return
        mode = "--watch" if _is_watched(folder) else "--adopt"
        self._spares.start(mode, str(folder))

    def cancel(self, handle: JobHandle) -> None:
        folder = self._folder(handle)
        try:
            _write_json(folder / "control.json", {"desired": None, "at_ns": time.time_ns()})
            fd = os.open(folder / "wake", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:  # not there yet, or gone: its first or last word to the server tells
            return
        try:
            os.write(fd, b"\n")
        except OSError:
            pass
        finally:
            os.close(fd)

    def close(self) -> None:
        self._spares.close()

    def _start(self, handle: JobHandle, mode: str, folder: Path) -> None:
        with self._lock:
            self._told[handle] = time.monotonic()
        self._spares.start(mode, str(folder))

    def _state(self, handle: JobHandle) -> JobState:
        folder = self._folder(handle)
        if not (folder / "job.json").exists():
            return JobState.GONE
        if not (folder / "claim").exists():
            return self._unclaimed(handle, folder)
        with self._lock:
            self._told.pop(handle, None)
        if is_locked(folder / "claim") or is_locked(folder / "supervisor.lock"):
            return JobState.ALIVE
        # Whoever held the locks removes the folder as its last act: look again before calling it orphaned.
        return JobState.ORPHANED if (folder / "claim").exists() else JobState.GONE

    def _unclaimed(self, handle: JobHandle, folder: Path) -> JobState:
        """A job on disk that nobody took: the told spare died, or this server did before it told one."""
        now = time.monotonic()
        with self._lock:
            told = self._told.setdefault(handle, now)
        if now - told > UNCLAIMED_S:
            logger.warning("run %s: nobody took its job, starting another supervisor", handle.run_id)
            self._start(handle, "--watch" if _is_watched(folder) else "--run", folder)
        return JobState.WAITING

    def _folder(self, handle: JobHandle) -> Path:
        return run_folder(self._home, handle.run_id, handle.attempt)


def is_locked(path: Path) -> bool:
    """Whether a living process holds the file's lock."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def _is_watched(folder: Path) -> bool:
    try:
        job = json.loads((folder / "job.json").read_bytes())
    except (OSError, ValueError):
        return False
    return job.get("interactive_pid") is not None


def _make_private(folder: Path) -> None:
    for path in (folder.parent.parent, folder.parent, folder):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise PermissionError(f"{folder} is not a private folder of this user")


def _write_job(folder: Path, job: JobSpec) -> None:
    _write_json(folder / "job.json", to_plain(job), sync=True)


def _write_json(path: Path, value: object, *, sync: bool = False) -> None:
    write_whole(str(path), json.dumps(value, separators=(",", ":")).encode(), sync=sync)
