"""What must work on every cluster: the same journeys through the real SDK, whatever engine runs the machines.

    class TestRunsOnMars(RunsOnAClusterSuite):      # with a fixture `yard`: Yard(team, "boxes", tmp_path / "project")

Each journey submits, waits and checks values. The nodes see this machine's file system, so any interpreter of it works.
"""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from azureml.core import Environment, Experiment, Run, ScriptRunConfig
from azureml.core.runconfig import MpiConfiguration, PyTorchConfiguration, TensorflowConfiguration
from runyard.core.records import Attempt
from tests.cluster.ground import Ground
from tests.cluster.team import Team
from tests.conftest import environ_of, live_pids
from tests.e2e.frameworks import MPI4PY, TORCH, ensure_debian_open_mpi, interpreter_with, logs_of
from tests.e2e.test_mpi import ALLREDUCE
from tests.e2e.test_pytorch import TRAIN
from tests.waiting import wait_for

PATIENCE_S = 120.0

HELLO = """
    import os, socket
    from azureml.core import Run
    run = Run.get_context()
    run.log("answer", 42)
    os.makedirs("outputs", exist_ok=True)
    open("outputs/where.txt", "w").write(socket.gethostname())
    print("hello from", socket.gethostname())
"""
# Workers push a number each to the parameter server and read the sum; the server never ends by itself.
PARAMETER_SERVER = """
    import json, os, socket, time
    from azureml.core import Run
    config = json.loads(os.environ["TF_CONFIG"])
    kind, index, cluster = config["task"]["type"], config["task"]["index"], config["cluster"]
    host, port = cluster["ps"][0].rsplit(":", 1)
    workers = sum(len(cluster.get(name, ())) for name in ("worker", "chief", "master"))
    if kind == "ps":
        with socket.create_server(("0.0.0.0", int(port))) as listener:
            links = [listener.accept()[0] for _ in range(workers)]
            total = sum(int(link.recv(10)) for link in links)
            for link in links:
                link.sendall(str(total).encode())
            time.sleep(600)
    for _ in range(600):
        try:
            link = socket.create_connection((host, int(port)), timeout=60)
            break
        except OSError:
            time.sleep(0.1)
    link.sendall(str(index + 1).encode())
    print(kind, index, link.recv(10).decode(), socket.gethostname())
"""
WAITS = """
    import time
    print("here", flush=True)
    time.sleep(600)
"""
# Counts on in a file below ./outputs; attempt 1 goes on until it is lost, attempt 2 ends.
RESUMES = """
    import os, socket, sys, time
    from azureml.core import Run
    run = Run.get_context()
    os.makedirs("outputs", exist_ok=True)
    found = open("outputs/steps.txt").read() if os.path.exists("outputs/steps.txt") else ""
    with open("outputs/steps.txt", "a") as file:
        file.write(socket.gethostname() + "\\n")
    run.upload_file("checkpoint.txt", "outputs/steps.txt")
    run.log("steps", len(found.split()) + 1)
    print("step", len(found.split()) + 1, flush=True)
    while not found:
        time.sleep(0.1)
"""
ONCE = """
    import os, sys, time
    print("once", flush=True)
    for _ in range(6000):
        if os.path.exists(sys.argv[1]):
            break
        time.sleep(0.1)
"""
UNTIL = """
    import os, sys, time
    from azureml.core import Run
    run = Run.get_context()
    print("before", flush=True)
    step = 0
    while not os.path.exists(sys.argv[1]):
        step += 1
        run.log("step", step)
        time.sleep(0.2)
    print("after", flush=True)
"""


@dataclass(frozen=True)
class Yard:
    """A compute target of the team server's default workspace, and the folder of its runs' source."""

    team: Team
    target: str
    project: Path
    experiment: str = "cluster"

    @property
    def ground(self) -> Ground:
        return self.team.ground

    @property
    def folder(self) -> Path:
        return self.project.parent

    def submit(self, script: str, *arguments: Any, interpreter: str = sys.executable, **config: Any) -> Run:
        """Write `script` as train.py and submit it; `config` are arguments of ScriptRunConfig."""
        (self.project / "train.py").write_text(textwrap.dedent(script))
        environment = Environment("of-this-machine")
        environment.python.user_managed_dependencies = True
        environment.python.interpreter_path = interpreter
        source = ScriptRunConfig(
            source_directory=str(self.project),
            script="train.py",
            arguments=list(arguments),
            compute_target=self.target,
            environment=environment,
            **config,
        )
        return Experiment(self.team.workspace(), self.experiment).submit(source)


class RunsOnAClusterSuite:
    """Subclass it with a fixture `yard`. What an engine must be told in its own way stands below as functions:
    `lost_and_retried`, `many_queued`.
    """

    def test_a_single_script(self, yard: Yard) -> None:
        single_script(yard)

    def test_mpi_over_two_nodes_with_two_processes_each(self, yard: Yard) -> None:
        mpi_over_two_nodes(yard)

    def test_a_parameter_server_job(self, yard: Yard) -> None:
        parameter_server(yard)

    def test_data_parallel_training_over_two_nodes_has_the_loss_of_one_process(self, yard: Yard) -> None:
        ddp_over_two_nodes(yard)

    def test_a_cancel_ends_all_nodes(self, yard: Yard) -> None:
        canceled(yard)

    def test_a_time_limit_ends_the_run(self, yard: Yard) -> None:
        time_limit(yard)

    def test_a_killed_and_restarted_server_loses_nothing(self, yard: Yard) -> None:
        server_killed(yard)


def single_script(yard: Yard) -> None:
    run = yard.submit(HELLO)

    assert finish(run)["status"] == "Completed", tell(run)
    host = log_of(run).split()[-1]
    assert host in yard.ground.nodes
    assert run.get_metrics() == {"answer": 42}
    run.download_file("outputs/where.txt", str(yard.folder / "where.txt"))
    assert (yard.folder / "where.txt").read_text() == host
    assert processes_of(run) == []


def mpi_over_two_nodes(yard: Yard) -> None:
    ensure_debian_open_mpi()
    job = MpiConfiguration(process_count_per_node=2, node_count=2)
    run = yard.submit(ALLREDUCE, "x", interpreter=interpreter_with(MPI4PY), distributed_job_config=job)

    assert finish(run)["status"] == "Completed", tell(run)
    assert {name: text.split()[:3] for name, text in logs_of(run).items()} == {
        "process_00": ["10", "0", "0"],
        "process_01": ["10", "0", "1"],
        "process_02": ["10", "1", "0"],
        "process_03": ["10", "1", "1"],
    }
    assert run.get_metrics() == {"total": [10] * 4}
    assert processes_of(run) == []


def parameter_server(yard: Yard) -> None:
    """Two workers and a parameter server on two nodes; it ends with the workers, though the server never would."""
    job = TensorflowConfiguration(worker_count=2, parameter_server_count=1)
    run = yard.submit(PARAMETER_SERVER, distributed_job_config=job)

    assert finish(run)["status"] == "Completed", tell(run)
    said = sorted(text.split() for text in logs_of(run).values() if text.startswith("worker"))
    assert [words[:3] for words in said] == [["worker", "0", "3"], ["worker", "1", "3"]]
    assert len({words[3] for words in said}) == 2
    assert processes_of(run) == []


def ddp_over_two_nodes(yard: Yard) -> None:
    python = interpreter_with(TORCH)
    alone = yard.submit(TRAIN, interpreter=python)
    together = yard.submit(
        TRAIN, interpreter=python, distributed_job_config=PyTorchConfiguration("Gloo", process_count=2, node_count=2)
    )

    assert finish(alone)["status"] == "Completed", tell(alone)
    assert finish(together)["status"] == "Completed", tell(together)
    assert together.get_metrics(rank=0)["loss"] == pytest.approx(alone.get_metrics()["loss"], rel=1e-4)
    assert {name: text.split()[-4:] for name, text in logs_of(together).items()} == {
        "process_00": ["0", "2", "0", "0"],
        "process_01": ["1", "2", "0", "1"],
    }


def canceled(yard: Yard) -> None:
    """A run over two nodes is canceled: both of them end, and soon."""
    job = PyTorchConfiguration("Gloo", process_count=2, node_count=2)
    run = yard.submit(WAITS, distributed_job_config=job)
    wait_for(lambda: list(logs_of(run).values()) == ["here\n"] * 2, timeout_s=PATIENCE_S, what="both ranks run")
    assert len(processes_of(run)) >= 2
    run.cancel()

    assert finish(run)["status"] == "Canceled", tell(run)
    wait_for(lambda: processes_of(run) == [], what="its processes are gone")


def time_limit(yard: Yard) -> None:
    run = yard.submit(WAITS, max_run_duration_seconds=2)
    details = finish(run)

    assert details["status"] == "Failed" or details["status"] == "Canceled", tell(run)
    assert "time limit of 2 s" in str(details["error"]), details
    assert processes_of(run) == []


def lost_and_retried(yard: Yard, lose: Callable[[str], None], *, within_s: float = 60.0) -> None:
    """`lose(host)` ends the engine's hold on a node: it is named, and attempt 2 resumes from ./outputs."""
    run = yard.submit(RESUMES, max_attempts=2)
    wait_for(lambda: "steps" in run.get_metrics(), timeout_s=PATIENCE_S, what="it runs and has stored a checkpoint")
    wait_for(lambda: "outputs/steps.txt" in run.get_file_names(), timeout_s=PATIENCE_S, what="its file is stored")
    host = host_of(yard, run)
    lose(host)
    (lost,) = wait_for(lambda: given_up(yard, run), timeout_s=within_s, what="the loss is told")

    assert (lost.number, lost.code) == (1, "NodeLost") and host in lost.host, lost
    assert finish(run)["status"] == "Completed", tell(run)
    assert run.get_metrics()["steps"] == [1, 2] and log_of(run) == "step 2\n"
    assert yard.team.client().runs.get(run.id).attempt == 2
    assert processes_of(run) == []


def server_killed(yard: Yard, *, away_s: float = 1.0) -> None:
    """The server is killed in mid-run and started again: every number and line is there."""
    stop = yard.folder / "stop"
    run = yard.submit(UNTIL, str(stop))
    wait_for(lambda: len(steps_of(run)) >= 3, timeout_s=PATIENCE_S, what="it logs")
    yard.team.kill()
    time.sleep(away_s)
    yard.team.start()
    before = len(steps_of(run))
    wait_for(lambda: len(steps_of(run)) > before, timeout_s=PATIENCE_S, what="it goes on logging")
    stop.touch()

    assert finish(run)["status"] == "Completed", tell(run)
    steps = steps_of(run)
    assert steps == list(range(1, len(steps) + 1))
    assert log_of(run).split() == ["before", "after"]
    assert run.get_details()["status"] == "Completed"


def many_queued(yard: Yard, count: int, *, timeout_s: float = 180.0) -> None:
    """More runs than the target has room for: all of them run, each once."""
    gate = yard.folder / "gate"
    runs = [yard.submit(ONCE, str(gate)) for _ in range(count)]
    wait_for(lambda: any(run.get_status() == "Running" for run in runs), timeout_s=timeout_s, what="the first to run")
    assert any(run.get_status() == "Queued" for run in runs), "the target took all of them at once"
    gate.touch()
    for run in runs:
        assert finish(run, timeout_s=timeout_s)["status"] == "Completed", tell(run)
        assert log_of(run) == "once\n"


def finish(run: Run, *, timeout_s: float = PATIENCE_S) -> dict[str, Any]:
    wait_for(
        lambda: run.get_status() in ("Completed", "Failed", "Canceled"),
        timeout_s=timeout_s,
        what=f"the end of {run.id}",
    )
    return run.get_details()


def steps_of(run: Run) -> list[float]:
    found = run.get_metrics().get("step", [])
    return found if isinstance(found, list) else [found]


def host_of(yard: Yard, run: Run) -> str:
    """Return the node on which the run's processes are, as they say themselves."""
    for node in yard.ground.nodes:
        if any(environ_of(pid, "RUNYARD_RUN_ID") == run.id for pid in yard.ground.processes(node)):
            return node
    raise AssertionError(f"no node has processes of {run.id}")


def given_up(yard: Yard, run: Run) -> list[Attempt]:
    """Return the attempts of the run that were given up, each with its reason and host."""
    return list(yard.team.client().runs.get(run.id).attempts)


def log_of(run: Run) -> str:
    return str(run.get_details_with_logs()["logFiles"]["user_logs/std_log.txt"])


def processes_of(run: Run) -> list[int]:
    """Return the living processes of this whole machine that carry the run's variables."""
    return [pid for pid in live_pids() if environ_of(pid, "RUNYARD_RUN_ID") == run.id]


def tell(run: Run) -> str:
    """Return all that is known about a run, for a failed assertion."""
    details = run.get_details_with_logs()
    logs = "\n".join(f"--- {name}\n{text}" for name, text in details.pop("logFiles", {}).items())
    return f"{details}\n{logs}"
