"""A real Slurm: its controller and three nodes on the test machines."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from azureml.core.compute import ComputeTarget
from azureml.core.runconfig import PyTorchConfiguration
from runyard import SlurmCompute
from runyard.compute.slurm.backend import SlurmBackend
from runyard.core.config.settings import Settings
from runyard.testing.compute_backend import ComputeBackendSuite
from tests.cluster.bench import ClusterBench
from tests.cluster.ground import Ground
from tests.cluster.scenarios import (
    PATIENCE_S,
    RESUMES,
    UNTIL,
    RunsOnAClusterSuite,
    Yard,
    finish,
    given_up,
    lost_and_retried,
    many_queued,
    steps_of,
    tell,
)
from tests.cluster.services import answered_elsewhere
from tests.cluster.slurm_cluster import SlurmCluster, open_slurm
from tests.cluster.team import Team
from tests.waiting import wait_for

pytestmark = [pytest.mark.external, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def slurm(ground: Ground, session_folder: Path) -> Iterator[SlurmCluster]:
    with open_slurm(ground, session_folder / "slurm") as cluster:
        yield cluster


class TestSlurmBackend(ComputeBackendSuite):
    @pytest.fixture
    def bench(self, slurm: SlurmCluster, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ClusterBench]:
        monkeypatch.setenv("PATH", f"{slurm.commands}:{os.environ['PATH']}")
        backend = SlurmBackend(Settings(home=home), {"python": sys.executable})
        wait_for(lambda: backend.check() == "slurm-wlm 22.05.8, the cluster: 3 of 3 nodes can be used")
        bench = ClusterBench(home, backend)
        yield bench
        slurm.end_all_jobs()
        bench.close()


@pytest.fixture
def yard(slurm: SlurmCluster, team: Team, tmp_path: Path) -> Iterator[Yard]:
    (tmp_path / "project").mkdir()
    yield attach(team, "gpu-cluster", tmp_path / "project", partition="main")
    slurm.end_all_jobs()


def attach(team: Team, name: str, project: Path, **options: Any) -> Yard:
    config = SlurmCompute.attach_configuration(**{"python": sys.executable, **options})
    ComputeTarget.attach(team.workspace(), name, config)
    return Yard(team, name, project, experiment="slurm")


class TestRunsOnSlurm(RunsOnAClusterSuite): ...


def test_nodes_whose_daemons_die_are_named_and_their_runs_go_on_elsewhere_from_their_outputs(
    yard: Yard, slurm: SlurmCluster, team: Team, ground: Ground
) -> None:
    """One node dies with all its processes; on the other only slurmd does, and the first attempt must be ended."""
    alone = attach(team, "alone", yard.project, partition="main", extra=["--exclusive"])
    lost: list[str] = []

    def kill_node(host: str) -> None:
        lost.append(host)
        ground.kill_node(host)

    def kill_daemon(host: str) -> None:
        lost.append(host)
        slurm.kill_daemon(host)

    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda lose: lost_and_retried(alone, lose), (kill_node, kill_daemon)))

    assert len(set(lost)) == 2
    for host in lost:
        slurm.start_node(host)
    wait_for(lambda: set(slurm.states().values()) == {"idle"}, timeout_s=90)


def test_a_service_answers_from_another_node_when_its_own_is_lost(
    yard: Yard, slurm: SlurmCluster, ground: Ground
) -> None:
    lost: list[str] = []

    def lose(node: str) -> None:
        lost.append(node)
        ground.kill_node(node)

    answered_elsewhere(yard, lose)
    slurm.start_node(lost[0])
    wait_for(lambda: set(slurm.states().values()) == {"idle"}, timeout_s=90)


def test_fifty_runs_wait_their_turn(yard: Yard) -> None:
    many_queued(yard, 50)


def test_a_run_that_waits_says_what_for_and_leaves_the_queue_when_it_is_cancelled(
    yard: Yard, slurm: SlurmCluster, team: Team
) -> None:
    run = attach(team, "closed", yard.project, partition="closed").submit("print(1)\n")
    wait_for(lambda: "its partition is down (PartitionDown)" in str(run.get_detailed_status()["details"]), timeout_s=90)
    assert slurm.tell("squeue", "-h", "--format=%j").strip() == f"runyard-{run.id}-1"
    plan = team.cli("runs", "show", run.id, "--plan")
    assert f"sbatch --parsable --job-name=runyard-{run.id}-1" in plan and "--partition=closed" in plan, plan
    run.cancel()

    assert finish(run)["status"] == "Canceled", tell(run)
    wait_for(lambda: slurm.tell("squeue", "-h") == "", timeout_s=90)


def test_a_preempted_run_comes_back_as_its_next_attempt(yard: Yard, slurm: SlurmCluster, team: Team) -> None:
    run = attach(team, "low", yard.project, partition="low").submit(RESUMES, max_attempts=2)
    wait_for(lambda: "outputs/steps.txt" in run.get_file_names() and run.get_metrics(), timeout_s=PATIENCE_S)
    slurm.tell("sbatch", "--nodes=3", "--exclusive", "--output=/dev/null", "--wrap=sleep 3")
    (lost,) = wait_for(lambda: given_up(yard, run), timeout_s=PATIENCE_S)

    assert (lost.number, lost.code) == (1, "Preempted"), lost
    assert finish(run)["status"] == "Completed", tell(run)
    assert run.get_metrics()["steps"] == [1, 2]


def test_a_refusal_of_slurm_is_the_error_of_the_run(yard: Yard, team: Team) -> None:
    run = attach(team, "picky", yard.project, constraint="no-such-feature").submit("print(1)\n")

    error = str(finish(run)["error"])
    assert "Slurm refused the job: Batch job submission failed: Invalid feature specification" in error
    assert "Partitions here: main, low, closed." in error


def test_a_controller_that_is_away_ends_nothing_and_what_was_submitted_meanwhile_starts(
    yard: Yard, slurm: SlurmCluster
) -> None:
    stop = yard.folder / "stop"
    before = yard.submit(UNTIL, str(stop))
    wait_for(lambda: steps_of(before), timeout_s=PATIENCE_S)
    slurm.stop_controller()
    meanwhile = yard.submit("print('started')\n")
    is_away = re.compile("Slurm (does|did) not answer")
    wait_for(lambda: is_away.search(str(meanwhile.get_detailed_status()["details"])), timeout_s=PATIENCE_S)
    assert before.get_status() == "Running"
    slurm.start_controller()
    stop.touch()

    assert finish(before)["status"] == "Completed", tell(before)
    assert finish(meanwhile)["status"] == "Completed", tell(meanwhile)


def test_a_node_that_cannot_take_part_ends_the_run_with_its_words(yard: Yard, team: Team, ground: Ground) -> None:
    """The Python is on one node only; the other one must not be waited for."""
    (ground.disk("node2") / "python").symlink_to(sys.executable)
    half = attach(
        team, "half", yard.project, partition="main", extra=["--nodelist=node[2-3]"], python="/var/tmp/python"
    )
    run = half.submit("print(1)\n", distributed_job_config=PyTorchConfiguration("Gloo", process_count=2, node_count=2))

    details = finish(run)
    assert details["status"] == "Failed", tell(run)
    error = str(details["error"])
    assert "/var/tmp/python: No such file or directory" in error
    assert "node3: task 1: Exited with exit code 127" in error
