"""The Launcher `single`: one process on one node, a script or a shell command."""

from __future__ import annotations

import re
from typing import Dict, List, Mapping

from runyard.core.errors import SubmitRejected
from runyard.core.specs import JobSpec, RunSpec
from runyard.launchers.base import Launcher, Placement, Process

_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})", re.ASCII)


class SingleLauncher(Launcher):
    def layout(self, job: JobSpec, placement: Placement) -> List[Process]:
        distribution = job.spec.distribution
        if distribution.node_count * distribution.processes_per_node != 1:
            raise SubmitRejected(
                f"Run `{job.run_id}` asks for {distribution.node_count} nodes with {distribution.processes_per_node} "
                "processes each.",
                why="Without a distributed configuration a run is one process.",
                hint="Set node_count to 1, or give ScriptRunConfig a distributed_job_config.",
            )
        variables = rank_variables(placement, rank=0)
        argv = process_argv(job.spec, placement.interpreter, variables)
        return [Process(rank=0, argv=argv, variables=variables, cwd=placement.work_folder)]


def rank_variables(placement: Placement, *, rank: int, role: str = "worker") -> Dict[str, str]:
    """Return the variables of one process."""
    own = {"RUNYARD_RANK": str(rank), "RUNYARD_ROLE": role, "PWD": placement.work_folder}
    return {**placement.base_variables, **own}


def process_argv(spec: RunSpec, interpreter: str, variables: Mapping[str, str]) -> List[str]:
    """Return what is executed: `sh -c` for a command, which expands its own variables, or the script with arguments."""
    if spec.command is not None:
        return ["/bin/sh", "-c", spec.command]
    if not spec.script:
        raise SubmitRejected(
            "The run has neither a script nor a command.",
            hint="Give ScriptRunConfig a `script`, a file of its source_directory, or a `command`.",
        )
    return [interpreter, spec.script, *(expand(argument, variables) for argument in spec.arguments)]


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace `$NAME` and `${NAME}` by the process's own variables; an unknown name stays as it is."""
    return _VARIABLE.sub(lambda match: variables.get(match.group(1) or match.group(2), match.group(0)), text)
