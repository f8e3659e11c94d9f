"""Runs a run's processes in containers: wraps the plan's processes, and removes the containers at the end."""

from __future__ import annotations

import logging
import os
import subprocess
from typing import TYPE_CHECKING, Dict, Iterable, List, Mapping

from runyard.core.errors import SubmitRejected
from runyard.core.specs import JobSpec
from runyard.environments.base import Inside, Wrapper
from runyard.launchers.base import BY_REAPER
from runyard.supervisor.run_folder import RunFolder

if TYPE_CHECKING:
    from runyard.core.formats.run_files import LaunchPlan, PlannedProcess, RemoveCommand

logger = logging.getLogger(__name__)

REMOVE_S = 60.0


def contain(
    plan: LaunchPlan,
    wrapper: Wrapper,
    folder: RunFolder,
    job: JobSpec,
    *,
    injection: str,
    data: Iterable[str] = (),
) -> LaunchPlan:
    """Return the plan with a container around each process; `remove` lists the commands to execute at the end.

    Raises:
        SubmitRejected: the job cannot run in containers.
    """
    processes = plan["processes"]
    if any(process.get("started_by", BY_REAPER) != BY_REAPER for process in processes):
        raise SubmitRejected(
            "A run in containers cannot be started by mpirun.",
            why="mpirun starts processes of this machine, not of the image.",
            hint="Use PyTorchConfiguration or TensorflowConfiguration, or run without a container: use_docker=False.",
        )
    places = _Places(folder, job, injection, data)
    wrapped: List[PlannedProcess] = []
    remove: List[RemoveCommand] = []
    for process in processes:
        inside = places.inside(process, has_peers=len(processes) > 1 or job.is_gang)
        outside = wrapper.wrap(inside)
        wrapped.append({**process, "argv": outside.argv, "variables": outside.variables, "contained": True})
        if outside.remove is not None:
            remove.append({"argv": outside.remove, "variables": outside.variables})
    return {**plan, "processes": wrapped, "remove": remove}


def remove_containers(plan: LaunchPlan) -> List[str]:
    """Remove what is left of the run's containers; return what could not be removed. May be repeated."""
    problems = []
    for order in plan.get("remove") or ():
        problem = _remove(order["argv"], _without_cookie(order["variables"]))
        if problem:
            logger.warning("%s: %s", " ".join(order["argv"]), problem)
            problems.append(f"{order['argv'][-1]}: {problem}")
    return problems


class _Places:
    """The paths of this machine that are visible in the containers: run folder, our code, the server's socket, data."""

    def __init__(self, folder: RunFolder, job: JobSpec, injection: str, data: Iterable[str]) -> None:
        self._job = job
        outside = {os.path.realpath(path) for path in data}
        self._writable = [folder.path, *sorted(path for path in outside if not path.startswith(folder.path + os.sep))]
        self._readable = [injection]
        if job.server.get("kind") == "unix" and job.server.get("path"):
            self._readable.append(os.path.dirname(str(job.server["path"])))

    def inside(self, process: PlannedProcess, *, has_peers: bool) -> Inside:
        """Return the process as the container runtime must start it."""
        job = self._job
        return Inside(
            name=f"runyard-{job.run_id}-{job.attempt}-{process['rank']}-{job.cookie[:8]}",
            argv=list(process["argv"]),
            variables=dict(process["variables"]),
            work_folder=str(process["cwd"]),
            writable=self._writable,
            readable=self._readable,
            has_peers=has_peers,
        )


def _remove(argv: List[str], variables: Dict[str, str]) -> str:
    try:
        done = subprocess.run(
            argv, env=variables, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, timeout=REMOVE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    said = done.stderr.decode("utf-8", "replace").strip()
    is_gone = "no such container" in said.lower() or "no container with name" in said.lower()
    return "" if done.returncode == 0 or is_gone else said.rpartition("\n")[2] or f"exit code {done.returncode}"


def _without_cookie(variables: Mapping[str, str]) -> Dict[str, str]:
    """Return the variables without the cookie, so that the command is not killed as a process of the run."""
    return {name: value for name, value in variables.items() if name != "RUNYARD_COOKIE"}
