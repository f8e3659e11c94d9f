"""Distributed jobs through a real server, with plain Python where a framework would be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from azureml.core import Run, ScriptRunConfig, Workspace
from azureml.core.runconfig import MpiConfiguration, PyTorchConfiguration, TensorflowConfiguration
from runyard.sdk.submit.dry_run import plan_run
from tests.e2e.conftest import Submit, finish

RANKS = """
    import os, time
    from pathlib import Path
    from azureml.core import Run
    run, rank = Run.get_context(), int(os.environ["RANK"])
    for step in range(3):
        run.log("loss", 10 * rank + step)
    if rank > 1:
        run.log("late", rank)
    Path(f"outputs/rank_{rank}").touch()
    while len(list(Path("outputs").iterdir())) < 4:
        time.sleep(0.01)
    print("rank", rank, "of", os.environ["WORLD_SIZE"], "in", run.id == os.environ["AZUREML_RUN_ID"])
"""

TASKS = """
    import json, os, time
    from azureml.core import Run
    task = json.loads(os.environ["TF_CONFIG"])["task"]
    run = Run.get_context()
    if task["type"] == "ps":
        run.log("loss", -1)
        run.log("served", 7)
        run.flush()
        open("outputs/served", "w").close()
        while True:
            time.sleep(0.1)
    while not os.path.exists("outputs/served"):
        time.sleep(0.01)
    if task["index"] == 1:
        run.log("loss", 11)
    print(os.environ["TF_CONFIG"])
"""


def series(run: Run, name: str, rank: int | None = None) -> list[Any]:
    found = run.experiment._client.runs.metric_series(run.id, name, rank=rank)
    return list(found.values)


LAUNCHER = """
    import os, subprocess, sys
    if "RANK" in os.environ:
        from azureml.core import Run
        Run.get_context().log("loss", 10 * int(os.environ["RANK"]))
        sys.exit(0)
    for rank in range(2):  # as deepspeed does it
        told = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
        subprocess.run([sys.executable, *sys.argv], env={**os.environ, **told}, check=True)
"""


def test_processes_of_a_launcher_inside_of_a_run_are_ranks(submit: Submit) -> None:
    run = submit(LAUNCHER)
    run.wait_for_completion()

    assert run.get_metrics() == {"loss": [0, 10]}
    assert run.get_metrics(rank=1) == {"loss": 10} and run.get_metrics(rank="lowest") == {"loss": 0}


def test_four_pytorch_ranks_on_two_nodes_log_to_one_run(submit: Submit, capsys: pytest.CaptureFixture[str]) -> None:
    run = submit(RANKS, distributed_job_config=PyTorchConfiguration("Gloo", process_count=4, node_count=2))
    run.wait_for_completion(show_output=True)

    shown = capsys.readouterr().out
    assert "Streaming user_logs/std_log_process_00.txt" in shown and "rank 0 of 4 in True" in shown
    assert "rank 1 of 4" not in shown
    details = run.get_details_with_logs()
    assert details["status"] == "Completed"
    logs = {name: text for name, text in details["logFiles"].items() if name.startswith("user_logs/")}
    assert logs == {f"user_logs/std_log_process_0{rank}.txt": f"rank {rank} of 4 in True\n" for rank in range(4)}
    metrics = run.get_metrics()
    assert sorted(metrics["loss"]) == [10 * rank + step for rank in range(4) for step in range(3)]
    assert sorted(metrics["late"]) == [2, 3]
    assert [value for value in metrics["loss"] if value >= 30] == [30, 31, 32]
    assert run.get_metrics(rank="lowest") == {"loss": [0, 1, 2], "late": 2}
    assert run.get_metrics(rank=3) == {"loss": [30, 31, 32], "late": 3}
    assert run.get_metrics("late", rank=0) == {}
    assert [series(run, "loss", rank) for rank in range(4)] == [
        [10 * rank + step for step in range(3)] for rank in range(4)
    ]
    assert series(run, "late", 3) == [3]
    assert sorted(name for name in run.get_file_names() if name.startswith("outputs/")) == [
        f"outputs/rank_{rank}" for rank in range(4)
    ]
    assert details["runDefinition"]["nodeCount"] == 2


def test_a_tensorflow_job_completes_while_its_server_still_waits(submit: Submit) -> None:
    run = submit(TASKS, distributed_job_config=TensorflowConfiguration(worker_count=2, parameter_server_count=1))

    assert finish(run)["status"] == "Completed"
    logs = run.get_details_with_logs()["logFiles"]
    config = json.loads(logs["user_logs/std_log_node_01_worker.txt"])
    assert config["task"] == {"type": "worker", "index": 1} and config["environment"] == "cloud"
    assert {role: len(tasks) for role, tasks in config["cluster"].items()} == {"worker": 2, "ps": 1}
    assert run.get_metrics() == {"loss": [-1, 11], "served": 7}
    assert run.get_metrics(rank="lowest") == {"loss": 11, "served": 7}
    assert series(run, "loss", 2) == [-1]


def test_a_dry_run_shows_every_process_of_every_node(workspace: Workspace, project: Path) -> None:
    (project / "train.py").write_text("")
    config = ScriptRunConfig(
        source_directory=str(project),
        script="train.py",
        arguments=["--rank", "$RANK"],
        distributed_job_config=MpiConfiguration(process_count_per_node=2, node_count=2),
    )
    plan = plan_run(workspace, "planned", config)

    processes = {process["rank"]: process for process in plan["processes"]}
    assert sorted(processes) == [-3, -2, -1, 0, 1, 2, 3]
    assert processes[-1]["argv"][:5] == ["mpirun", "--host", "127.0.1.1:2,127.0.1.2:2", "-n", "4"]
    assert processes[3]["argv"][-2:] == ["--rank", "3"]
    assert processes[3]["variables"]["MASTER_ADDR"] == "127.0.1.1"
    assert processes[3]["log"] == "user_logs/std_log_process_03.txt"
