"""A real Ray cluster of four machines."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from azureml.core.compute import ComputeTarget
from azureml.exceptions import ComputeTargetException
from runyard import RayCompute
from runyard.compute.base import EndCause, JobState
from runyard.compute.ray.backend import RayBackend
from runyard.core.config.settings import Settings
from runyard.core.errors import UserError
from runyard.core.specs import DistributionSpec, JobSpec
from runyard.testing.compute_backend import ComputeBackendSuite
from tests.cluster.bench import ClusterBench
from tests.cluster.ground import Ground
from tests.cluster.ray_cluster import CLIENT_PORT, HEAD, WORKERS, RayCluster, open_ray
from tests.cluster.scenarios import (
    HELLO,
    PATIENCE_S,
    UNTIL,
    RunsOnAClusterSuite,
    Yard,
    finish,
    log_of,
    lost_and_retried,
    many_queued,
    single_script,
    steps_of,
    tell,
)
from tests.cluster.services import answered_elsewhere
from tests.cluster.team import Team
from tests.conftest import environ_of, live_pids, read_proc
from tests.waiting import wait_for

pytestmark = [pytest.mark.external, pytest.mark.timeout(600)]

FREE = "print(ray.available_resources()['CPU'], len(ray.util.list_named_actors()))"
# Prints when the Ray worker above it was started, in seconds since the machine was.
WORKER_START = """
    import os
    pid = os.getpid()
    while not open(f"/proc/{pid}/comm").read().startswith("ray::"):
        pid = int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
    print(int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK"))
"""


@pytest.fixture(scope="module")
def ray(ground: Ground, session_folder: Path) -> Iterator[RayCluster]:
    with open_ray(ground, session_folder / "ray") as cluster:
        yield cluster


@pytest.fixture
def bench(ray: RayCluster, home: Path) -> Iterator[ClusterBench]:
    bench = ClusterBench(home, RayBackend(Settings(home=home), {**ray.options, "python": ray.python_from_here}))
    yield bench
    bench.close()


class TestRayBackend(ComputeBackendSuite): ...


class TestRunsOnRay(RunsOnAClusterSuite):
    @pytest.fixture
    def yard(self, ray: RayCluster, team: Team, tmp_path: Path) -> Yard:
        (tmp_path / "project").mkdir()
        configuration = RayCompute.attach_configuration(**ray.options)
        target = ComputeTarget.attach(team.workspace(), "ray-pool", configuration)
        assert ray.token not in str(target.serialize()), "secrets are shown to nobody"
        return Yard(team, "ray-pool", tmp_path / "project")

    def test_a_node_whose_raylet_is_killed_is_named_and_the_run_resumes_elsewhere(
        self, yard: Yard, ray: RayCluster
    ) -> None:
        lost: list[str] = []

        def lose(host: str) -> None:
            lost.append(host)
            ray.kill_raylet(host)

        lost_and_retried(yard, lose)
        ray.restart_workers(*lost)

    def test_a_service_answers_from_another_node_when_its_own_is_lost(self, yard: Yard, ray: RayCluster) -> None:
        lost: list[str] = []

        def lose(host: str) -> None:
            lost.append(host)
            ray.kill_raylet(host)

        answered_elsewhere(yard, lose)
        ray.restart_workers(*lost)

    def test_runs_sent_to_machines_that_had_just_died_start_elsewhere_and_machines_that_come_back_get_a_worker(
        self, yard: Yard, ray: RayCluster
    ) -> None:
        died = WORKERS[:2]
        for node in died:
            ray.kill_raylet(node)
        runs = [yard.submit(HELLO) for _ in range(4)]

        assert [finish(run)["status"] for run in runs] == ["Completed"] * 4, "\n".join(map(tell, runs))
        assert {log_of(run).split()[-1] for run in runs} == {WORKERS[2]}
        ray.restart_workers(*died)
        stop = yard.folder / "stop"
        run = yard.submit(UNTIL, str(stop))  # one machine at most gets a worker because of it
        wait_for(lambda: ray.has_ready_workers(died), timeout_s=PATIENCE_S)
        stop.touch()

        assert finish(run)["status"] == "Completed", tell(run)

    def test_a_control_process_that_dies_and_comes_back_costs_no_run(self, yard: Yard, ray: RayCluster) -> None:
        stop = yard.folder / "stop"
        run = yard.submit(UNTIL, str(stop))
        wait_for(lambda: len(steps_of(run)) >= 3, timeout_s=PATIENCE_S)
        with ray.without_gcs():
            before = len(steps_of(run))
            wait_for(lambda: len(steps_of(run)) > before)
            assert run.get_status() == "Running"
        single_script(yard)
        stop.touch()

        assert finish(run)["status"] == "Completed", tell(run)

    def test_a_run_gets_a_worker_that_waited_for_it(self, yard: Yard, ray: RayCluster) -> None:
        single_script(yard)  # over before anybody looked at it
        wait_for(lambda: ray.has_ready_workers(WORKERS), timeout_s=PATIENCE_S)
        before = time.clock_gettime(time.CLOCK_BOOTTIME)
        run = yard.submit(WORKER_START)

        assert finish(run)["status"] == "Completed", tell(run)
        assert float(log_of(run)) < before

    def test_fifty_queued_runs_all_end(self, yard: Yard) -> None:
        many_queued(yard, 50)


def test_rays_client_server_is_as_good(ray: RayCluster, ground: Ground, home: Path) -> None:
    options = {**ray.options, "python": ray.python_from_here, "address": f"ray://{ground.address(HEAD)}:{CLIENT_PORT}"}
    backend = RayBackend(Settings(home=home), options)
    wait_for(lambda: can_be_used(backend), timeout_s=120)  # its server on the head is not always quick enough
    bench = ClusterBench(home, backend)
    job = bench.job("print(1)\n", distribution=DistributionSpec(kind="pytorch", node_count=2))
    handle = bench.backend.submit(bench.backend.plan(job))
    wait_for(lambda: bench.status(job.run_id) == "Completed", timeout_s=PATIENCE_S)
    wait_for(lambda: bench.backend.poll([handle])[handle].state is JobState.GONE)
    bench.backend.end(handle)
    bench.close()


def test_a_job_waits_for_what_the_cluster_lacks_and_leaves_the_queue_when_canceled(
    ray: RayCluster, bench: ClusterBench
) -> None:
    backend = bench.backend
    gpu = with_gpus(bench.job("print(1)\n"), 3)
    wide = bench.job("print(1)\n", distribution=DistributionSpec(kind="pytorch", node_count=4))
    handles = [backend.submit(backend.plan(job)) for job in (gpu, wide)]
    expected = [
        "needs 1 CPU, 3 GPU on one node; the most that one has is 2 GPU",
        "needs 4 nodes with 1 CPU each; the cluster has 3 such",
    ]
    wait_for(lambda: [backend.poll(handles)[one].why for one in handles] == expected)
    for handle in handles:
        backend.cancel(handle)

    wait_for(lambda: all(one.cause is EndCause.CANCELED for one in backend.poll(handles).values()))
    wait_for(lambda: ray.ask(FREE) == "12.0 0")


def test_a_job_sees_the_gpus_that_ray_gave_it_and_no_others(bench: ClusterBench, tmp_path: Path) -> None:
    script = "import os, socket\nopen({!r}, 'w').write(os.environ['CUDA_VISIBLE_DEVICES'] + socket.gethostname())\n"
    jobs = [with_gpus(bench.job(script.format(str(tmp_path / str(count)))), count) for count in (1, 2, 0)]
    for job in jobs:
        bench.backend.submit(bench.backend.plan(job))
        wait_for(lambda: bench.status(job.run_id) == "Completed", timeout_s=PATIENCE_S)  # noqa: B023  # it is called here

    assert (tmp_path / "1").read_text() in ("0node4", "1node4")
    assert (tmp_path / "2").read_text() == "0,1node4"
    assert (tmp_path / "0").read_text().startswith("-1")


def test_the_end_of_a_job_ends_its_processes_and_gives_everything_back(ray: RayCluster, bench: ClusterBench) -> None:
    job = bench.job("import time\ntime.sleep(600)\n", distribution=DistributionSpec(kind="pytorch", node_count=2))
    handle = bench.backend.submit(bench.backend.plan(job))
    wait_for(lambda: bench.status(job.run_id) == "Running", timeout_s=PATIENCE_S)
    wait_for(lambda: len(bridges()) == 1)  # the one of the test before takes a moment to leave
    os.kill(bridges()[0], signal.SIGKILL)
    wait_for(lambda: bench.backend.poll([handle])[handle].state is JobState.ALIVE)  # another bridge finds it
    bench.backend.end(handle)

    wait_for(lambda: not [pid for pid in live_pids() if environ_of(pid, "RUNYARD_RUN_ID") == job.run_id])
    wait_for(lambda: ray.ask(FREE) == "12.0 0")
    groups = "print([one['state'] for one in ray.util.placement_group_table().values() if one['state'] != 'REMOVED'])"
    wait_for(lambda: ray.ask(groups) == "[]")


def can_be_used(backend: RayBackend) -> bool:
    try:
        return backend.check().startswith("Ray 2.60.0")
    except UserError:
        return False


def bridges() -> list[int]:
    return [
        pid for pid in live_pids() if parent_of(pid) == os.getpid() and b"/ray/bridge.py" in read_proc(pid, "cmdline")
    ]


def parent_of(pid: int) -> int:
    fields = read_proc(pid, "stat").rpartition(b")")[2].split()
    return int(fields[1]) if fields else 0


def with_gpus(job: JobSpec, count: int) -> JobSpec:
    return replace(job, spec=replace(job.spec, gpus=count))


def test_the_cluster_is_described_and_nodes_that_cannot_reach_the_server_are_named(
    ray: RayCluster, bench: ClusterBench, ground: Ground
) -> None:
    backend = bench.backend
    assert isinstance(backend, RayBackend)
    assert re.fullmatch(r"Ray 2\.60\.0 \(Python 3\.[0-9.]+\): 4 nodes, 12 CPUs, 2 GPUs", backend.check())
    wait_for(lambda: ray.has_ready_workers(WORKERS), timeout_s=PATIENCE_S)  # a node without an answer is not named
    with pytest.raises(UserError, match="Connection refused"):
        backend.check_reach({"kind": "tcp", "host": ground.address(HEAD), "port": 1})
    backend.check_reach({"kind": "tcp", "host": ground.address(HEAD), "port": 6379})


def test_a_cluster_with_tokens_is_refused_without_one(ray: RayCluster, team: Team) -> None:
    env = {name: value for name, value in ray.env.items() if not name.startswith("RAY_AUTH_")}
    configuration = RayCompute.attach_configuration(ray.address, python=ray.python, env=env)

    with pytest.raises(ComputeTargetException, match="RAY_AUTH_TOKEN"):
        ComputeTarget.attach(team.workspace(), "no-token", configuration)
