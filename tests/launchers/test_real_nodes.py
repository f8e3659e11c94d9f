"""Nodes that are machines of their own: real addresses, one supervisor each, nothing that only virtual nodes need."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from runyard.core.specs import DistributionSpec, JobSpec, NodeSpec
from runyard.launchers.base import Process
from tests.launchers.jobs import VARIABLES, a_job, lay_out

NODES = [NodeSpec(rank, f"10.0.0.{rank + 1}", f"host-{rank}") for rank in range(2)]
LOOPBACK = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "OMPI_MCA_oob_tcp_if_include", "OMPI_MCA_btl", "PMIX_MCA_gds")


def on_node(distribution: DistributionSpec, rank: int = 1, **changes: Any) -> tuple[JobSpec, list[Process]]:
    """Return what the supervisor of one node has, and lays out."""
    job = replace(a_job(distribution), node_rank=rank, nodes=[NODES[rank]])
    ports = [[7000 + 100 * node + place for place in range(8)] for node in range(2)]
    processes = lay_out(job, nodes=NODES, ports=ports, **changes)
    return job, [process for process in processes if process.node_rank == rank]


@pytest.mark.parametrize("kind", ["pytorch", "mpi", "tensorflow"])
def test_nothing_keeps_them_on_the_loopback(kind: str) -> None:
    options = {"worker_count": 2, "parameter_server_count": 0} if kind == "tensorflow" else {}
    for process in on_node(DistributionSpec(kind, 2, 2, options))[1]:
        assert not {name for name in process.variables if name in LOOPBACK}
        assert process.hostname == ""


def test_threads_are_shared_out_among_the_processes_of_the_machine_alone() -> None:
    tasks = DistributionSpec("tensorflow", 2, 2, {"worker_count": 4, "parameter_server_count": 0})
    for distribution in (DistributionSpec("pytorch", 2, 2), DistributionSpec("mpi", 2, 2), tasks):
        ranks = [process for process in on_node(distribution, cores=8)[1] if process.rank >= 0]
        assert {process.variables["OMP_NUM_THREADS"] for process in ranks} == {"4"}


def test_gloo_and_open_mpi_use_the_interface_of_the_node_s_address() -> None:
    _, ranks = on_node(DistributionSpec("pytorch", 2, 1), interface="eth7")
    assert ranks[0].variables["GLOO_SOCKET_IFNAME"] == "eth7"
    assert "NCCL_SOCKET_IFNAME" not in ranks[0].variables

    _, processes = on_node(DistributionSpec("mpi", 2, 1), rank=0, interface="eth7")
    found = {process.role: process.variables.get("OMPI_MCA_btl_tcp_if_include") for process in processes}
    assert found == {"mpirun": None, "daemon": None, "worker": "eth7"}

    own = {**VARIABLES, "OMPI_MCA_btl_tcp_if_exclude": "docker0", "GLOO_SOCKET_IFNAME": "ib0"}
    _, processes = on_node(DistributionSpec("mpi", 2, 1), interface="eth7", base_variables=own)
    assert "OMPI_MCA_btl_tcp_if_include" not in processes[-1].variables
    assert processes[-1].variables["GLOO_SOCKET_IFNAME"] == "ib0"


def test_mpirun_starts_a_word_that_every_node_has_in_a_folder_that_every_node_has() -> None:
    _, processes = on_node(DistributionSpec("mpi", 2, 2), rank=0)
    mpirun = processes[0]

    assert mpirun.argv[1:3] == ["--host", "10.0.0.1:2,10.0.0.2:2"]
    assert mpirun.argv[-1] == "runyard-rank" and mpirun.cwd == "/"
    assert not any("/runs/1" in word for word in mpirun.argv)


def test_nodes_without_a_common_folder_meet_by_tcp() -> None:
    distribution = DistributionSpec("pytorch", 2, 1)
    method = "AZ_BATCHAI_PYTORCH_INIT_METHOD"

    assert on_node(distribution)[1][0].variables[method] == "tcp://10.0.0.1:7000"
    shared = on_node(distribution, shared_folder="/nfs/run")[1][0].variables[method]
    assert shared == "file:///nfs/run/.pytorch_init"


def test_ipv6_addresses_stand_in_brackets_before_a_port() -> None:
    six = [replace(node, address=f"fd00::{node.rank + 1}") for node in NODES]
    job = replace(a_job(DistributionSpec("tensorflow", 2, 1, {"worker_count": 2})), nodes=six[:1])
    process = lay_out(job, nodes=six, ports=[[7000] * 8, [7100] * 8])[0]

    assert json.loads(process.variables["TF_CONFIG"])["cluster"]["worker"] == ["[fd00::1]:7000", "[fd00::2]:7100"]
