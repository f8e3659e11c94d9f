"""Real PyTorch: gradients averaged over two nodes give what one process gets from the whole batch."""

from __future__ import annotations

from pathlib import Path

import pytest

from azureml.core import Experiment
from azureml.core.runconfig import PyTorchConfiguration
from tests.e2e.conftest import finish
from tests.e2e.frameworks import TORCH, interpreter_with, logs_of, submit_to

pytestmark = [pytest.mark.external, pytest.mark.timeout(900)]

# Before the end the model must go: gloo's threads abort the interpreter otherwise, in one run of four.
TRAIN = """
    import gc, os, sys
    import torch
    from torch import distributed, nn
    from azureml.core import Run

    size = int(os.environ.get("WORLD_SIZE", 1))
    if size > 1:
        method = {"init_method": sys.argv[1], "rank": int(sys.argv[2]), "world_size": size} if len(sys.argv) > 1 else {}
        distributed.init_process_group("gloo", **method)
    rank = distributed.get_rank() if size > 1 else 0
    torch.manual_seed(0)
    x = torch.randn(64, 8)
    y = x @ torch.arange(8.0)[:, None] + 1
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    trained = nn.parallel.DistributedDataParallel(model) if size > 1 else model
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.01)
    for step in range(20):
        optimizer.zero_grad()
        loss = ((trained(x[rank::size]) - y[rank::size]) ** 2).mean()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        whole = float(((model(x) - y) ** 2).mean())
    Run.get_context().log("loss", whole)
    # In one piece: torchrun's processes share the log.
    sys.stdout.write(f"{rank} {size} {os.environ.get('LOCAL_RANK')} {os.environ.get('NODE_RANK')}\\n")
    del trained, model, optimizer, loss
    gc.collect()
    if size > 1:
        distributed.destroy_process_group()
"""
TORCHRUN = (
    "python -m torch.distributed.run --nnodes $AZUREML_NODE_COUNT --nproc-per-node 2 --node-rank $NODE_RANK "
    "--master-addr $MASTER_ADDR --master-port $MASTER_PORT train.py"
)


@pytest.fixture(scope="session")
def torch() -> str:
    return interpreter_with(TORCH)


def test_two_nodes_with_two_processes_reach_the_loss_of_one_process_on_the_whole_batch(
    experiment: Experiment, project: Path, torch: str
) -> None:
    alone = submit_to(experiment, project, torch, TRAIN)
    assert finish(alone)["status"] == "Completed", alone.get_details_with_logs()["logFiles"]
    together = submit_to(
        experiment,
        project,
        torch,
        TRAIN,
        distributed_job_config=PyTorchConfiguration("Gloo", process_count=4, node_count=2),
    )

    assert finish(together)["status"] == "Completed", logs_of(together)
    assert together.get_metrics(rank=0)["loss"] == pytest.approx(alone.get_metrics()["loss"], rel=1e-4)
    assert {name: text.split() for name, text in logs_of(together).items()} == {
        "process_00": ["0", "4", "0", "0"],
        "process_01": ["1", "4", "1", "0"],
        "process_02": ["2", "4", "0", "1"],
        "process_03": ["3", "4", "1", "1"],
    }


def test_a_command_per_node_lets_torchrun_start_the_processes(
    experiment: Experiment, project: Path, torch: str
) -> None:
    job = PyTorchConfiguration("Gloo", node_count=2)
    run = submit_to(experiment, project, torch, TRAIN, command=TORCHRUN, distributed_job_config=job)

    assert finish(run)["status"] == "Completed", logs_of(run)
    lines = sorted(line for text in logs_of(run).values() for line in text.splitlines() if line[:1].isdigit())
    assert lines == ["0 4 0 0", "1 4 1 0", "2 4 0 1", "3 4 1 1"]
    assert len(set(run.get_metrics()["loss"])) == 1 and len(run.get_metrics()["loss"]) == 4


def test_the_older_way_meets_in_a_shared_file(experiment: Experiment, project: Path, torch: str) -> None:
    run = submit_to(
        experiment,
        project,
        torch,
        TRAIN,
        arguments=["$AZ_BATCHAI_PYTORCH_INIT_METHOD", "$AZ_BATCHAI_TASK_INDEX"],
        distributed_job_config=PyTorchConfiguration("Gloo", process_count=2, node_count=2),
    )

    assert finish(run)["status"] == "Completed", logs_of(run)
    assert [text.split()[:2] for text in logs_of(run).values()] == [["0", "2"], ["1", "2"]]
