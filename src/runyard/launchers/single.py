"""The Launcher `single`: one process on one node, a script or a shell command."""

from __future__ import annotations

from typing import List

from runyard.core.errors import SubmitRejected
from runyard.core.specs import JobSpec
from runyard.launchers.base import Launcher, Placement, Process
from runyard.launchers.processes import process_argv, rank_variables


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
