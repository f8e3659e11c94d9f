"""mpirun on node 0 has its daemons started by the supervisors of the other nodes."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from runyard.core.specs import DistributionSpec, EnvironmentSpec
from tests.e2e.frameworks import MPI4PY, OPEN_MPI_5, ensure_debian_open_mpi, interpreter_with
from tests.supervisor.gangs import all_met, kill_supervisor, start_gang, wait_all
from tests.supervisor.supervised import Site

MPI = DistributionSpec("mpi", 2, 2)
HERE = """
import os, sys, time
from pathlib import Path
Path(f"here_{os.environ['RANK']}").touch()
"""
WAIT = "while not Path('go').exists(): time.sleep(0.01)\n"


def test_daemons_are_started_on_every_node_and_their_ranks_run(site: Site, mpirun: dict[str, str]) -> None:
    script = (
        HERE + WAIT + "print(os.environ['NODE_RANK'], os.environ['LOCAL_RANK'], os.environ['OMPI_COMM_WORLD_SIZE'])"
    )
    jobs = start_gang(site, script, MPI, submitter=mpirun)
    all_met(jobs, per_node=2)
    for job in jobs:
        kill_supervisor(job)
        (job.folder / "work" / "go").touch()
    run = wait_all(jobs)

    assert run.status == "Completed", run.error
    logs = [run.logs[f"user_logs/std_log_process_0{rank}.txt"].decode() for rank in range(4)]
    assert logs == ["0 0 4\n", "0 1 4\n", "1 0 4\n", "1 1 4\n"]
    exits = [sorted(int(path.stem) for path in (job.folder / "exits").glob("*.json")) for job in jobs]
    assert exits == [[-2, -1, 0, 1], [-3, 2, 3]]
    assert {json.loads(path.read_text())["code"] for job in jobs for path in (job.folder / "exits").glob("*.json")} == {
        0
    }


def test_an_mpirun_that_starts_nobody_ends_the_nodes_that_wait_for_it(site: Site, mpirun: dict[str, str]) -> None:
    program = mpirun["PATH"].split(":")[0] + "/mpirun"
    with open(program, "w") as file:
        file.write("#!/bin/sh\necho 'no such host'\nexit 213\n")
    run = wait_all(start_gang(site, HERE, MPI, submitter=mpirun))

    assert run.status == "Failed"
    assert "mpirun ended with exit code 213 before it had started rank 0, 1" in run.error["message"]


@pytest.fixture(params=["5", "4"], ids=["wheel-5.x", "debian-4.1"])
def interpreter(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "4":
        ensure_debian_open_mpi()
    yield interpreter_with(OPEN_MPI_5 if request.param == "5" else MPI4PY)


ALLREDUCE = """
import os
from mpi4py import MPI
world = MPI.COMM_WORLD
total = world.allreduce(world.rank + 1)
node = world.Split_type(MPI.COMM_TYPE_SHARED)
assert (node.rank, node.size) == (int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"]))
assert world.rank == int(os.environ["RANK"])
print(total, os.environ["NODE_RANK"], os.getcwd().rsplit("/", 2)[1])
"""
FAILS = """
from mpi4py import MPI
if MPI.COMM_WORLD.rank == 2:
    raise ValueError("no luck")
MPI.COMM_WORLD.barrier()
"""


@pytest.mark.external
@pytest.mark.timeout(600)
def test_a_real_allreduce_over_two_supervisors(site: Site, interpreter: str) -> None:
    run = wait_all(start_gang(site, ALLREDUCE, MPI, environment=EnvironmentSpec(interpreter=interpreter)), timeout_s=60)

    assert run.status == "Completed", (run.error, run.logs)
    logs = [run.logs[f"user_logs/std_log_process_0{rank}.txt"].decode() for rank in range(4)]
    assert logs == ["10 0 1\n", "10 0 1\n", "10 1 1-1\n", "10 1 1-1\n"]


@pytest.mark.external
@pytest.mark.timeout(600)
def test_a_real_rank_that_fails_on_the_second_node_is_named(site: Site, interpreter: str) -> None:
    run = wait_all(start_gang(site, FAILS, MPI, environment=EnvironmentSpec(interpreter=interpreter)), timeout_s=60)

    assert run.status == "Failed"
    assert "Rank 2 of 4 failed first on host-1 (127.0.1.2)." in run.error["message"], run.error["message"]
    assert "ValueError: no luck" in run.error["message"]


SAVES = """
import signal, sys, time
from pathlib import Path
from mpi4py import MPI

def save(*_):
    time.sleep(1.5)
    print("saved", flush=True)
    sys.exit(0)

signal.signal(signal.SIGTERM, save)
MPI.COMM_WORLD.barrier()
Path(f"here_{MPI.COMM_WORLD.rank}").touch()
while True:
    time.sleep(0.05)
"""


@pytest.mark.external
@pytest.mark.timeout(600)
def test_ranks_of_a_canceled_run_have_time_to_save_their_work(site: Site, interpreter: str) -> None:
    jobs = start_gang(site, SAVES, MPI, environment=EnvironmentSpec(interpreter=interpreter))
    all_met(jobs, per_node=2)
    jobs[0].run.desired = "cancel"
    run = wait_all(jobs, timeout_s=60)

    assert run.status == "Canceled"
    assert [run.logs[f"user_logs/std_log_process_0{rank}.txt"].decode() for rank in range(4)] == ["saved\n"] * 4
