"""The Launcher `pytorch`: processes that find each other by MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE (`env://`).

`options`: `world_size`, all processes of the job; `per_node`, when one process per node starts the others itself
(`torchrun`, Lightning). Such a process has a RANK of its own, for scripts that need no others, but no LOCAL_RANK: by
that name Lightning and others tell that somebody started their processes already.
"""

from __future__ import annotations

from typing import Dict, List

from runyard.core.specs import JobSpec
from runyard.launchers.base import Launcher, Placement, Process
from runyard.launchers.processes import job_variables, master_variables, process_argv, process_log, rank_variables

INIT_FILE = ".pytorch_init"


class PyTorchLauncher(Launcher):
    preferred_port = 6105

    def count_ports(self, job: JobSpec) -> List[int]:
        return [1] * job.spec.distribution.node_count

    def layout(self, job: JobSpec, placement: Placement) -> List[Process]:
        count = job.spec.distribution.processes_per_node
        return [_process(job, placement, local_rank) for local_rank in range(count)]


def _process(job: JobSpec, placement: Placement, local_rank: int) -> Process:
    per_node = job.spec.distribution.processes_per_node
    rank = placement.node_rank * per_node + local_rank
    variables = {
        **rank_variables(placement, rank=rank),
        **job_variables(placement, processes=_on_this_machine(job)),
        **master_variables(placement),
        **_torch_variables(job, placement, rank, local_rank),
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


def _torch_variables(job: JobSpec, placement: Placement, rank: int, local_rank: int) -> Dict[str, str]:
    distribution = job.spec.distribution
    per_node, started = distribution.processes_per_node, distribution.node_count * distribution.processes_per_node
    found = {
        "WORLD_SIZE": str(distribution.options.get("world_size") or started),
        "RANK": str(rank),
        "AZ_BATCHAI_PYTORCH_INIT_METHOD": _init_method(job, placement),
        "AZ_BATCHAI_TASK_INDEX": str(rank),
    }
    if not distribution.options.get("per_node"):
        found.update(LOCAL_RANK=str(local_rank), LOCAL_WORLD_SIZE=str(per_node))
    return found


def _init_method(job: JobSpec, placement: Placement) -> str:
    if job.is_gang and not placement.shared_folder:  # no file that all nodes see
        master = master_variables(placement)
        return f"tcp://{master['AZ_BATCH_MASTER_NODE']}"
    return f"file://{placement.shared_folder or placement.work_folder}/{INIT_FILE}"


def _on_this_machine(job: JobSpec) -> int:
    """How many processes share the machine. What `torchrun` starts is its own affair: it sets the threads itself."""
    distribution = job.spec.distribution
    return 0 if distribution.options.get("per_node") else max(1, len(job.nodes)) * distribution.processes_per_node
