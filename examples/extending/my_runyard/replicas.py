"""The Launcher `replicas`: independent copies of a script, each told which one it is."""

from __future__ import annotations

from typing import List

from runyard.core.specs import JobSpec
from runyard.launchers.base import Launcher, Placement, Process
from runyard.launchers.processes import process_argv, process_log, rank_variables


class ReplicasLauncher(Launcher):
    """Starts `processes_per_node` copies on each node. They need no ports: they do not talk to each other."""

    def layout(self, job: JobSpec, placement: Placement) -> List[Process]:
        count = job.spec.distribution.processes_per_node
        return [_process(job, placement, local_rank) for local_rank in range(count)]


def _process(job: JobSpec, placement: Placement, local_rank: int) -> Process:
    distribution = job.spec.distribution
    rank = placement.node_rank * distribution.processes_per_node + local_rank
    variables = {
        **rank_variables(placement, rank=rank),
        "REPLICA": str(rank),
        "REPLICAS": str(distribution.node_count * distribution.processes_per_node),
    }
    return Process(
        rank=rank,
        argv=process_argv(job.spec, placement.interpreter, variables),
        variables=variables,
        cwd=placement.work_folder,
        log=process_log(rank),
        local_rank=local_rank,
        node_rank=placement.node_rank,
    )
