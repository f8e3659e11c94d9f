"""GPUs from submit to the script's own eyes, on a machine whose `nvidia-smi` shows two."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from azureml.core import Experiment, Run, ScriptRunConfig, Workspace
from azureml.core.compute import AmlCompute, ComputeTarget
from azureml.core.runconfig import PyTorchConfiguration
from runyard.core.machine.nvml import open_nvml
from tests.core.test_gpus import stand_in
from tests.e2e.conftest import log_of
from tests.waiting import wait_for

SCRIPT = """\
import os, time
from azureml.core import Run
seen = os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ.get("CUDA_DEVICE_ORDER")
print("sees", *seen, flush=True)
name = Run.get_context().id + "-" + os.environ.get("RANK", "0")
open(os.path.join(os.environ["SEEN"], name), "w").write(str(seen[0]))
while not os.path.exists(os.environ["STOP"]): time.sleep(0.01)
"""


class Machine:
    """Runs that hold their GPUs until `stop` is touched."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.stop = folder, folder / "stop"
        (folder / "project").mkdir()
        (folder / "project" / "train.py").write_text(SCRIPT)
        self.experiment = Experiment(Workspace.from_config(), "gpus")

    def submit(self, target: object = "local", nodes: int = 1, **variables: str) -> Run:
        distribution = PyTorchConfiguration("Gloo", node_count=nodes) if nodes > 1 else None
        config = ScriptRunConfig(
            str(self.folder / "project"), "train.py", compute_target=target, distributed_job_config=distribution
        )
        own = {"STOP": str(self.stop), "SEEN": str(self.folder)}
        config.run_config.environment_variables = {**own, **variables}
        return self.experiment.submit(config)

    def seen(self, run: Run, rank: int = 0) -> str:
        path = self.folder / f"{run.id}-{rank}"
        return str(wait_for(lambda: path.exists() and path.read_text()))

    def finish(self, *runs: Run) -> None:
        self.stop.touch()
        for run in runs:
            assert run.wait_for_completion()["status"] == "Completed"


@pytest.fixture
def machine(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    if open_nvml() is not None:
        pytest.skip("this machine has GPUs of its own, which a stand-in cannot hide")
    commands = tmp_path / "bin"
    commands.mkdir()
    stand_in(commands, 'for at in 0 1; do echo "$at, GPU-$at, Stand-in, 1000, 10, 50"; done')
    monkeypatch.setenv("PATH", str(commands), prepend=os.pathsep)
    monkeypatch.chdir(tmp_path)
    return Machine(tmp_path)


@pytest.mark.long
def test_two_runs_never_see_the_same_gpu_and_a_third_waits_for_one(machine: Machine) -> None:
    pool = ComputeTarget.create(
        machine.experiment.workspace, "gpu-cluster", AmlCompute.provisioning_configuration(max_nodes=4)
    )
    first, second = machine.submit(), machine.submit(pool)
    assert (machine.seen(first), machine.seen(second)) == ("0", "1")

    machine.experiment._client.server.stop()  # the next call starts another, which must know who has what
    third = machine.submit()
    without, beside = machine.submit(RUNYARD_GPUS="0"), machine.submit(CUDA_VISIBLE_DEVICES="1")

    assert (machine.seen(without), machine.seen(beside)) == ("-1", "1")
    waiting = machine.experiment._client.runs.get(third.id)
    assert "It waits for a free GPU: 2 of 2 taken by" in waiting.waits_for and third.get_status() == "Queued"

    machine.finish(first, second, third, without, beside)
    assert machine.seen(third) in ("0", "1")
    assert "sees 0 PCI_BUS_ID" in log_of(first) and "sees 1 None" in log_of(beside)


@pytest.mark.long
def test_virtual_nodes_of_a_pool_share_the_gpus_of_their_run(machine: Machine) -> None:
    config = AmlCompute.provisioning_configuration(max_nodes=2)
    ComputeTarget.create(machine.experiment.workspace, "pool", config)
    run = machine.submit("pool", nodes=2)

    assert [machine.seen(run, rank) for rank in (0, 1)] == ["0", "1"]
    machine.finish(run)
