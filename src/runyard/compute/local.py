"""The ComputeBackend `local`: supervisors as processes of this machine.

Its fork server has already imported the supervisor, so that runs start in milliseconds, by the hundred.
`virtual_nodes` makes several nodes of one machine: each has a loopback address, a name, and its share of the GPUs.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from runyard.compute.base import ComputeBackend, EndCause, JobHandle, JobReport, JobRequest, JobState
from runyard.compute.fork_server import ForkServer
from runyard.core.compute import LOCAL
from runyard.core.config.paths import run_folder
from runyard.core.config.settings import Settings
from runyard.core.errors import SubmitRejected
from runyard.core.formats.plain import to_plain
from runyard.core.machine.facts import node_variables, supervisor_command
from runyard.core.machine.files import write_whole
from runyard.core.specs import JobSpec, NodeSpec

logger = logging.getLogger(__name__)

MOST_NODES = 250  # addresses 127.0.1.1 to 127.0.1.250
UNCLAIMED_S = 3.0  # supervisors claim their run within milliseconds; after this long another one is started
MOST_STARTS = 5  # each waits twice as long for its successor: the job is given up after a minute and a half
START_LOG = "start.log"  # in the run folder: what supervisors printed that were started because no other one came


def virtual_nodes(count: int, devices: Sequence[str] = ()) -> list[NodeSpec]:
    """Return `count` nodes. A single one is this machine itself, with its usual address."""
    if count == 1:
        return [NodeSpec(0, "127.0.0.1", node_name(0), list(devices))]
    shares = spread(devices, count)
    return [NodeSpec(rank, f"127.0.1.{rank + 1}", node_name(rank), shares[rank]) for rank in range(count)]


def node_name(rank: int) -> str:
    """Return the name of a virtual node."""
    return f"node-{rank}"


def spread(devices: Sequence[str], count: int) -> list[list[str]]:
    """Return each node's devices: equal parts in order; nodes share devices when there are fewer than nodes."""
    if len(devices) < count:
        return [[devices[rank % len(devices)]] if devices else [] for rank in range(count)]
    least, rest = divmod(len(devices), count)
    ends = [least * (rank + 1) + min(rank + 1, rest) for rank in range(count)]
    return [list(devices[start:end]) for start, end in zip([0, *ends], ends, strict=False)]


@dataclass
class _Starts:
    """How often a supervisor was started for a job that none has claimed."""

    last_at: float
    count: int = 1
    fault: str = ""


class LocalBackend(ComputeBackend):
    """Starts supervisors on the server's machine. The state of a job is read from the locks in its run folder.

    `_lock` guards `_starts`: the supervisors that were started for jobs that none has claimed yet.
    """

    def __init__(self, settings: Settings, options: Mapping[str, Any] | None = None) -> None:
        self._home = settings.home
        self._forks = ForkServer(settings)
        self._node_variables = node_variables(os.environ)
        self._lock = threading.Lock()
        self._starts: dict[JobHandle, _Starts] = {}

    def plan(self, job: JobSpec) -> JobRequest:
        """Return the job placed on virtual nodes of this machine; see ComputeBackend."""
        count = job.spec.distribution.node_count
        if count > MOST_NODES:
            raise SubmitRejected(
                f"Run `{job.run_id}` asks for {count} nodes on `{job.spec.target}`.",
                why=f"One machine stands for {MOST_NODES} nodes at most.",
                hint=f"Set node_count to {MOST_NODES} or less.",
            )
        folder = str(run_folder(self._home, job.run_id, job.attempt, job.external_writer))
        mode = "--run" if job.interactive_pid is None else "--watch"
        argv = [*supervisor_command(), mode, folder]
        submitter = job.submitter if job.spec.target == LOCAL else self._node_variables
        placed = replace(job, node_count=count, nodes=virtual_nodes(count, job.devices), submitter=submitter)
        return JobRequest(job.run_id, job.attempt, job.spec.target, count, argv, folder, placed)

    def submit(self, request: JobRequest) -> JobHandle:
        """Write the run folder's `job.json` and start its supervisor; an attempt with a claim is adopted instead."""
        handle = JobHandle(request.run_id, request.attempt, request.job.external_writer)
        folder = Path(request.run_folder)
        _make_private(folder)
        if (folder / "claim").exists():
            self.adopt(handle)
        else:
            _write_job(folder, request.job)
            self._start(handle, request.argv[-2], folder)
        return handle

    def poll(self, handles: Sequence[JobHandle]) -> Mapping[JobHandle, JobReport]:
        """Return the states from the run folders; also replaces a fork server that died."""
        self._forks.tend()
        return {handle: self._report(handle) for handle in handles}

    def adopt(self, handle: JobHandle) -> None:
        """Start an adopter if the job is orphaned."""
        folder = self._folder(handle)
        if self._report(handle).state is not JobState.ORPHANED:
            return
        mode = "--watch" if _is_watched(folder) else "--adopt"
        self._forks.start(mode, str(folder))

    def cancel(self, handle: JobHandle) -> None:
        """Write `control.json` and wake the supervisor, which then asks the server for the desired state."""
        folder = self._folder(handle)
        try:
            _write_json(folder / "control.json", {"desired": None, "at_ns": time.time_ns()})
            fd = os.open(folder / "wake", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:  # not there yet, or gone: the supervisor's next request brings the desired state
            return
        try:
            os.write(fd, b"\n")
        except OSError:
            pass
        finally:
            os.close(fd)

    def close(self) -> None:
        """End the fork server. Supervisors of runs go on."""
        self._forks.close()

    def _start(self, handle: JobHandle, mode: str, folder: Path) -> None:
        with self._lock:
            self._starts[handle] = _Starts(time.monotonic())
        self._forks.start(mode, str(folder))

    def _report(self, handle: JobHandle) -> JobReport:
        folder = self._folder(handle)
        if not (folder / "job.json").exists():
            return JobReport(JobState.GONE)
        if not (folder / "claim").exists():
            return self._unclaimed(handle, folder)
        with self._lock:
            self._starts.pop(handle, None)
        if is_locked(folder / "claim") or is_locked(folder / "supervisor.lock"):
            return JobReport(JobState.ALIVE)
        # The holder of the locks removes the folder as its last act: look again before calling it orphaned.
        return JobReport(JobState.ORPHANED if (folder / "claim").exists() else JobState.GONE)

    def _unclaimed(self, handle: JobHandle, folder: Path) -> JobReport:
        """Start another supervisor for a job that none took: this server died before it asked for one, or no supervisor
        can start at all. The last is found after some tries, and the job is reported gone.
        """
        now = time.monotonic()
        with self._lock:
            starts = self._starts.setdefault(handle, _Starts(now))
            is_overdue = now - starts.last_at > UNCLAIMED_S * 2 ** (starts.count - 1)
            is_given_up = is_overdue and starts.count == MOST_STARTS
            if is_overdue and not is_given_up:
                starts.count, starts.last_at = starts.count + 1, now
        if is_overdue and not is_given_up:
            logger.warning("run %s: no supervisor took its job, starting another", handle.run_id)
            mode = "--watch" if _is_watched(folder) else "--run"
            try:
                self._forks.start_logged(mode, str(folder), str(folder / START_LOG))
            except OSError as error:
                starts.fault = f"{supervisor_command()[0]}: {error.strerror}."
        if starts.count == 1:
            return JobReport(JobState.WAITING)
        fault = starts.fault or _last_line(folder / START_LOG) or "it ended or hangs without a word."
        why = f"A supervisor was started {starts.count} times and never took the job: {fault}"
        return JobReport(JobState.GONE, why, EndCause.ENDED) if is_given_up else JobReport(JobState.WAITING, why)

    def _folder(self, handle: JobHandle) -> Path:
        return run_folder(self._home, handle.run_id, handle.attempt, handle.external_writer)


def is_locked(path: Path) -> bool:
    """Return whether a living process holds the file's lock."""
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


def _last_line(path: Path) -> str:
    try:
        lines = path.read_text("utf-8", "replace").split("\n")
    except OSError:
        return ""
    return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "")


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
