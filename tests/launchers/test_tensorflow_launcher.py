"""The launcher `tensorflow`: TF_CONFIG to the letter, and which task runs where."""

from __future__ import annotations

import json

import pytest

from runyard.core.specs import DistributionSpec
from runyard.launchers.base import Process
from runyard.launchers.tensorflow import TensorflowLauncher, deal_tasks
from tests.launchers.jobs import a_job, lay_out, nodes


def distribution(workers: int, servers: int, node_count: int) -> DistributionSpec:
    return DistributionSpec("tensorflow", node_count, 1, {"worker_count": workers, "parameter_server_count": servers})


def by_rank(processes: list[Process]) -> list[Process]:
    return sorted(processes, key=lambda process: process.rank)


def test_two_workers_and_a_server_on_two_nodes() -> None:
    processes = by_rank(lay_out(a_job(distribution(2, 1, 2))))

    cluster = {"worker": ["127.0.1.1:7000", "127.0.1.2:7100"], "ps": ["127.0.1.1:7001"]}
    assert [json.loads(process.variables["TF_CONFIG"]) for process in processes] == [
        {"cluster": cluster, "task": {"type": "worker", "index": 0}, "environment": "cloud"},
        {"cluster": cluster, "task": {"type": "worker", "index": 1}, "environment": "cloud"},
        {"cluster": cluster, "task": {"type": "ps", "index": 0}, "environment": "cloud"},
    ]
    assert [process.role for process in processes] == ["worker", "worker", "ps"]
    assert [process.counts for process in processes] == [True, True, False]
    assert [process.node_rank for process in processes] == [0, 1, 0]
    assert [process.log for process in processes] == [
        "user_logs/std_log_node_00_worker.txt",
        "user_logs/std_log_node_01_worker.txt",
        "user_logs/std_log_node_00_ps.txt",
    ]
    names = ("AZ_BATCHAI_TASK_TYPE", "AZ_BATCHAI_TASK_INDEX", "RUNYARD_RANK", "RUNYARD_ROLE", "AZUREML_NODE_COUNT")
    assert [[process.variables[name] for name in names] for process in processes] == [
        ["worker", "0", "0", "worker", "2"],
        ["worker", "1", "1", "worker", "2"],
        ["ps", "0", "2", "ps", "2"],
    ]
    assert not {"MASTER_ADDR", "RANK", "WORLD_SIZE"} & set(processes[0].variables)


@pytest.mark.parametrize(
    ("workers", "servers", "node_count", "places"),
    [(2, 1, 2, [0, 1, 0]), (2, 1, 3, [0, 1, 2]), (3, 2, 2, [0, 1, 0, 1, 0]), (2, 0, 1, [0, 0]), (1, 1, 1, [0, 0])],
)
def test_tasks_are_dealt_to_the_nodes_workers_first(
    workers: int, servers: int, node_count: int, places: list[int]
) -> None:
    job = a_job(distribution(workers, servers, node_count))

    assert [task.node_rank for task in deal_tasks(job)] == places
    assert TensorflowLauncher().count_ports(job) == [places.count(rank) for rank in range(node_count)]


def test_all_ports_and_logs_of_a_job_differ() -> None:
    processes = lay_out(a_job(distribution(5, 3, 2)))
    cluster = json.loads(processes[0].variables["TF_CONFIG"])["cluster"]

    addresses = cluster["worker"] + cluster["ps"]
    assert len({address.split(":")[1] for address in addresses}) == 8
    assert len({process.log for process in processes}) == 8
    assert "user_logs/std_log_node_00_worker_1.txt" in {process.log for process in processes}


def test_without_servers_the_cluster_has_workers_only() -> None:
    [process] = lay_out(a_job(distribution(1, 0, 1)))

    assert list(json.loads(process.variables["TF_CONFIG"])["cluster"]) == ["worker"]


def test_workers_of_a_node_share_its_gpus_and_servers_get_none() -> None:
    processes = by_rank(lay_out(a_job(distribution(2, 1, 1)), nodes=nodes(1, gpus=("0", "1", "2"))))
    assert [process.variables["CUDA_VISIBLE_DEVICES"] for process in processes] == ["0,2", "1", "-1"]

    processes = by_rank(lay_out(a_job(distribution(2, 1, 1)), nodes=nodes(1, gpus=("5",))))
    assert [process.variables["CUDA_VISIBLE_DEVICES"] for process in processes] == ["5", "5", "-1"]


def test_without_gpus_nothing_is_said_about_them() -> None:
    assert "CUDA_VISIBLE_DEVICES" not in lay_out(a_job(distribution(1, 1, 1)))[0].variables


def test_dealing_costs_no_more_for_each_task() -> None:
    """Each task used to be compared with all before it."""
    tasks = deal_tasks(a_job(distribution(20_000, 20_000, 40)))

    assert len(tasks) == 40_000
    assert (tasks[-1].node_rank, tasks[-1].place, tasks[-1].same) == (39, 999, 499)
