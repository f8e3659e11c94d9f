"""What a submit would do: the target's request and the launcher's processes. Nothing is stored or started."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import runyard
from runyard.compute.base import JobRequest
from runyard.core.config.paths import cache_folder
from runyard.core.errors import SubmitRejected
from runyard.core.records import NewRun, Run
from runyard.core.specs import JobSpec, NodeSpec, RunSpec
from runyard.core.tickets import VARIABLE
from runyard.engine.context import EngineContext, is_launched
from runyard.engine.runs.dispatch import draft_entry, job_spec_of
from runyard.engine.runs.requirements import would_get
from runyard.engine.runs.submit import check
from runyard.engine.sanitize import HIDDEN, redact, redact_arguments, redact_command, redact_variables
from runyard.engine.state.spool import Spooled
from runyard.launchers import get_launcher
from runyard.launchers.base import Placement, Process, nodes_of
from runyard.launchers.variables import base_variables

_TICKET = re.compile(rf"({VARIABLE}=)\S+")  # never in a script; a backend that is not ours could


@dataclass(frozen=True)
class RunPlan:
    """As it may be shown: secrets are hidden. `argv` is the supervisor's, once per node.

    Of a target on other machines, `script` and `resources` are what its cluster is given; the processes are
    laid out on its nodes.
    """

    run_id: str
    target: str
    node_count: int
    nodes: list[NodeSpec]
    argv: list[str]
    run_folder: str
    spec: RunSpec
    processes: list[Process]
    script: str = ""
    resources: dict[str, Any] = field(default_factory=dict)


def plan_run(context: EngineContext, new: NewRun, *, submitter: Mapping[str, str] | None = None) -> RunPlan:
    """Return what `submit` would start.

    Raises:
        SubmitRejected, InvalidArgument, NotFound: it could not become a run, as `submit` would say.
    """
    prepared = check(context, new)
    if not (prepared.spec.script or prepared.spec.command):
        raise SubmitRejected(f"Run `{new.id}` names neither a script nor a command.", why="There is nothing to run.")
    job = replace(
        draft_entry(context, prepared, submitter or {}), devices=would_get(context, prepared, submitter or {})
    )
    return _plan(context, job)


def plan_of(context: EngineContext, run: Run) -> RunPlan:
    """Return what the run's present attempt was handed over as: a plan follows from the run and its target alone.

    Raises:
        SubmitRejected: its target is gone, or nothing was to be started for it.
    """
    if not is_launched(run):
        raise SubmitRejected(f"Run `{run.id}` was not started by this server.", why="There is nothing to hand over.")
    return _plan(context, job_spec_of(context, run, "", Spooled()))


def _plan(context: EngineContext, job: JobSpec) -> RunPlan:
    target = context.compute.targets.get(job.workspace, job.spec.target)
    request = context.compute.backends.of(target).plan(job)
    return RunPlan(
        run_id=request.run_id,
        target=request.target,
        node_count=request.node_count,
        nodes=request.job.nodes,
        argv=redact_arguments(request.argv),
        run_folder=request.run_folder,
        spec=redact(job.spec),
        processes=[_shown(process) for process in _processes(request)] if target.is_local else [],
        script=_TICKET.sub(rf"\1{HIDDEN}", request.script),
        resources=request.resources,
    )


def _processes(request: JobRequest) -> list[Process]:
    job = request.job
    interpreter = job.spec.environment.interpreter or "python"
    injection = str(cache_folder(Path(job.home)) / "injection" / runyard.__version__)
    variables = base_variables(job, run_folder=request.run_folder, injection=injection, interpreter=interpreter)
    launcher = get_launcher(job.spec.distribution.kind)
    placement = Placement(
        f"{request.run_folder}/work",
        interpreter,
        variables,
        nodes=nodes_of(job),
        ports=launcher.show_ports(job),
        run_folder=request.run_folder,
        injection=injection,
        cores=len(os.sched_getaffinity(0)),
    )
    found = [launcher.layout(job, replace(placement, node_rank=node.rank)) for node in nodes_of(job)]
    return sorted((process for of_node in found for process in of_node), key=lambda process: process.rank)


def _shown(process: Process) -> Process:
    shell = process.argv[:2] == ["/bin/sh", "-c"]
    argv = [*process.argv[:2], *map(redact_command, process.argv[2:])] if shell else redact_arguments(process.argv)
    return replace(process, argv=argv, variables=redact_variables(process.variables))
