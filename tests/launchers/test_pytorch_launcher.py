"""The launcher `pytorch`: every variable of every process."""

from __future__ import annotations

import pytest

from runyard.core.specs import DistributionSpec
from runyard.launchers.pytorch import PyTorchLauncher
from tests.launchers.jobs import VARIABLES, a_job, lay_out, nodes

FOUR = DistributionSpec("pytorch", 2, 2, {"world_size": 4, "per_node": False})
PER_NODE = DistributionSpec("pytorch", 2, 1, {"world_size": 4, "per_node": True})


def test_each_process_knows_its_rank_and_where_all_meet() -> None:
    processes = lay_out(a_job(FOUR, arguments=["--rank", "$RANK", "--init", "$AZ_BATCHAI_PYTORCH_INIT_METHOD"]))

    assert [process.rank for process in processes] == [0, 1, 2, 3]
    assert [process.node_rank for process in processes] == [0, 0, 1, 1]
    assert [process.log for process in processes] == [f"user_logs/std_log_process_0{rank}.txt" for rank in range(4)]
    assert processes[3].argv == [
        "/env/bin/python", "train.py", "--rank", "3", "--init", "file:///runs/1/work/.pytorch_init",
    ]  # fmt: skip
    assert processes[3].variables == {
        **VARIABLES,
        "PWD": "/runs/1/work",
        "RUNYARD_RANK": "3",
        "RUNYARD_ROLE": "worker",
        "RUNYARD_NODE_RANK": "1",
        "RUNYARD_NODE_NAME": "node-1",
        "RUNYARD_NODE_ADDRESS": "127.0.1.2",
        "RUNYARD_NODE_PORTS": "7100,7101,7102,7103,7104,7105,7106,7107",
        "HOSTNAME": "node-1",
        "MASTER_ADDR": "127.0.1.1",
        "MASTER_PORT": "7000",
        "NODE_RANK": "1",
        "WORLD_SIZE": "4",
        "RANK": "3",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "2",
        "AZUREML_NODE_COUNT": "2",
        "AZ_BATCHAI_PYTORCH_INIT_METHOD": "file:///runs/1/work/.pytorch_init",
        "AZ_BATCHAI_TASK_INDEX": "3",
        "AZ_BATCHAI_GPU_COUNT": "0",
        "AZ_BATCH_MASTER_NODE": "127.0.1.1:7000",
        "AZ_BATCHAI_MPI_MASTER_NODE": "127.0.1.1",
        "AZ_BATCH_HOST_LIST": "127.0.1.1,127.0.1.2",
        "GLOO_SOCKET_IFNAME": "lo",
        "NCCL_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "2",
    }


def test_one_process_per_node_has_a_rank_but_leaves_local_ranks_to_what_it_starts() -> None:
    processes = lay_out(a_job(PER_NODE, command="torchrun --node-rank $NODE_RANK train.py"))

    assert [process.argv for process in processes] == [
        ["/bin/sh", "-c", "torchrun --node-rank $NODE_RANK train.py"]
    ] * 2
    assert [process.variables["NODE_RANK"] for process in processes] == ["0", "1"]
    assert [process.variables["RANK"] for process in processes] == ["0", "1"]
    for process in processes:
        assert process.variables["WORLD_SIZE"] == "4"
        assert not {"LOCAL_RANK", "LOCAL_WORLD_SIZE", "OMP_NUM_THREADS"} & set(process.variables)


@pytest.mark.parametrize("name", ["GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "OMP_NUM_THREADS"])
def test_what_a_user_set_stays(name: str) -> None:
    processes = lay_out(a_job(FOUR), base_variables={**VARIABLES, name: "mine"})

    assert {process.variables[name] for process in processes} == {"mine"}


def test_real_nodes_choose_their_interfaces_themselves() -> None:
    job = a_job(FOUR)
    real = [type(node)(node.rank, f"10.0.0.{node.rank}", node.name) for node in job.nodes]

    assert not any("GLOO_SOCKET_IFNAME" in process.variables for process in lay_out(job, nodes=real))


def test_each_process_of_a_node_sees_all_its_gpus() -> None:
    processes = lay_out(a_job(FOUR), nodes=nodes(2, gpus=("2", "3")))

    assert {process.variables["CUDA_VISIBLE_DEVICES"] for process in processes} == {"2,3"}
    assert processes[0].variables["AZ_BATCHAI_GPU_COUNT"] == "2"


def test_a_machine_with_few_cores_gives_each_process_one_thread() -> None:
    assert {process.variables["OMP_NUM_THREADS"] for process in lay_out(a_job(FOUR), cores=2)} == {"1"}


def test_every_node_needs_a_port_and_azures_is_asked_for_first() -> None:
    assert PyTorchLauncher().count_ports(a_job(FOUR)) == [1, 1]
    assert PyTorchLauncher().show_ports(a_job(FOUR)) == [[6105, *range(20000, 20008)], list(range(20008, 20016))]
