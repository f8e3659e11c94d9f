"""The Launcher `tensorflow`: workers and parameter servers that find each other by `TF_CONFIG`.

Tasks are dealt to the nodes in the order of their ranks, workers first, then servers: task t runs on node t mod n. So
worker 0 is on node 0, and with as many workers as nodes, which is Azure's usual job, each node has one worker and
the servers begin at node 0 again. Every task has a port of its own, also where nodes have addresses of their own:
TensorFlow listens on all addresses of a machine.
"""

from __future__ import annotations

import json
from typing import Dict, List, Tuple

from runyard.core.lazy_dataclass import dataclass
from runyard.core.specs import JobSpec
from runyard.launchers.base import Launcher, Placement, Process
from runyard.launchers.processes import (
    gpu_variables,
    host_and_port,
    job_variables,
    no_gpu,
    ports_of,
    process_argv,
    rank_variables,
)

WORKER, SERVER = "worker", "ps"


@dataclass(frozen=True)
class Task:
    rank: int
    role: str
    index: int  # among those of its role
    node_rank: int
    place: int  # among the tasks of its node
    same: int  # among those of its role and node


class TensorflowLauncher(Launcher):
    preferred_port = 2222

    def count_ports(self, job: JobSpec) -> List[int]:
        ports = [0] * job.spec.distribution.node_count
        for task in deal_tasks(job):
            ports[task.node_rank] += 1
        return ports

    def layout(self, job: JobSpec, placement: Placement) -> List[Process]:
        tasks = deal_tasks(job)
        return [_process(job, placement, task, tasks) for task in tasks if task.node_rank == placement.node_rank]


def deal_tasks(job: JobSpec) -> List[Task]:
    """Return all tasks of the job in the order of their ranks."""
    options, nodes = job.spec.distribution.options, job.spec.distribution.node_count
    workers = [(WORKER, index) for index in range(int(options.get("worker_count", 1)))]
    servers = [(SERVER, index) for index in range(int(options.get("parameter_server_count", 0)))]
    tasks: List[Task] = []
    known: Dict[Tuple[int, str], int] = {}
    for rank, (role, index) in enumerate([*workers, *servers]):
        node = rank % nodes
        same = known.get((node, role), 0)
        known[node, role] = same + 1
        tasks.append(Task(rank, role, index, node, rank // nodes, same))
    return tasks


def _process(job: JobSpec, placement: Placement, task: Task, tasks: List[Task]) -> Process:
    variables = {
        **rank_variables(placement, rank=task.rank, role=task.role),
        **job_variables(placement, processes=_on_this_machine(job, tasks)),
        **_gpus_of(placement, task, tasks),
        "TF_CONFIG": json.dumps(_tf_config(placement, task, tasks)),
        "AZ_BATCHAI_TASK_TYPE": task.role,
        "AZ_BATCHAI_TASK_INDEX": str(task.index),
    }
    return Process(
        rank=task.rank,
        argv=process_argv(job.spec, placement.interpreter, variables),
        variables=variables,
        cwd=placement.work_folder,
        log=_log_of(task),
        role=task.role,
        local_rank=task.place,
        counts=task.role == WORKER,
        node_rank=task.node_rank,
    )


def _on_this_machine(job: JobSpec, tasks: List[Task]) -> int:
    here = {node.rank for node in job.nodes} if job.is_gang else {task.node_rank for task in tasks}
    return sum(task.node_rank in here for task in tasks)


def _tf_config(placement: Placement, task: Task, tasks: List[Task]) -> Dict[str, object]:
    cluster: Dict[str, List[str]] = {}
    for one in tasks:
        node = placement.nodes[one.node_rank]
        cluster.setdefault(one.role, []).append(host_and_port(node.address, ports_of(placement, node)[one.place]))
    return {"cluster": cluster, "task": {"type": task.role, "index": task.index}, "environment": "cloud"}


def _gpus_of(placement: Placement, task: Task, tasks: List[Task]) -> Dict[str, str]:
    """Share a node's GPUs out among its workers: TensorFlow takes all the memory of every GPU that it sees."""
    gpus = placement.node.gpus
    if not gpus:
        return {}
    if task.role == SERVER:
        return no_gpu()
    workers = sum(one.role == WORKER and one.node_rank == task.node_rank for one in tasks)
    return gpu_variables(gpus[task.same :: workers] or [gpus[task.same % len(gpus)]])


def _log_of(task: Task) -> str:
    again = f"_{task.same}" if task.same else ""
    return f"user_logs/std_log_node_{task.node_rank:02d}_{task.role}{again}.txt"
