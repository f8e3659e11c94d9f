"""Real Open MPI: the wheel of 5.x in the run's environment, and Debian's 4.1 on PATH."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from azureml.core import Experiment, Run
from azureml.core.runconfig import MpiConfiguration
from tests.conftest import environ_of, live_pids
from tests.e2e.conftest import finish
from tests.e2e.frameworks import MPI4PY, OPEN_MPI_5, ensure_debian_open_mpi, interpreter_with, logs_of, submit_to
from tests.waiting import wait_for

pytestmark = [pytest.mark.external, pytest.mark.timeout(600)]

ALLREDUCE = """
    import os, sys
    from azureml.core import Run
    from mpi4py import MPI
    world = MPI.COMM_WORLD
    total = world.allreduce(world.rank + 1)
    world.barrier()
    node = world.Split_type(MPI.COMM_TYPE_SHARED)
    assert (node.rank, node.size) == (int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"]))
    assert node.allgather(world.rank) == [world.rank - node.rank + place for place in range(node.size)]
    assert (world.rank, world.size) == (int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    assert os.environ["OMPI_COMM_WORLD_LOCAL_RANK"] == os.environ["LOCAL_RANK"]
    Run.get_context().log("total", total)
    version = MPI.Get_library_version().split(",")[0]
    print(total, os.environ["NODE_RANK"], os.environ["LOCAL_RANK"], sys.argv[1], version)
"""
FAILS = """
    from mpi4py import MPI
    if MPI.COMM_WORLD.rank == 2:
        raise ValueError("no luck")
    MPI.COMM_WORLD.barrier()
"""
WAITS = """
    import time
    from mpi4py import MPI
    MPI.COMM_WORLD.barrier()
    print("here", flush=True)
    time.sleep(600)
"""


@pytest.fixture(params=["5", "4"], ids=["wheel-5.x", "debian-4.1"])
def mpi(request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """The interpreter of a run, and what its library says about its version."""
    if request.param == "5":
        yield interpreter_with(OPEN_MPI_5), "Open MPI v5.0.11"
    else:
        ensure_debian_open_mpi()
        yield interpreter_with(MPI4PY), "Open MPI v4.1"


def test_an_allreduce_over_two_nodes_with_two_processes_each(
    experiment: Experiment, project: Path, mpi: tuple[str, str]
) -> None:
    interpreter, version = mpi
    job = MpiConfiguration(process_count_per_node=2, node_count=2)
    arguments = ["$OMPI_COMM_WORLD_RANK"]
    run = submit_to(experiment, project, interpreter, ALLREDUCE, distributed_job_config=job, arguments=arguments)

    assert finish(run)["status"] == "Completed", logs_of(run)
    logs = logs_of(run)
    assert {name: text.split()[:4] for name, text in logs.items()} == {
        "process_00": ["10", "0", "0", "0"],
        "process_01": ["10", "0", "1", "1"],
        "process_02": ["10", "1", "0", "2"],
        "process_03": ["10", "1", "1", "3"],
    }
    assert all(version in text for text in logs.values())
    assert run.get_metrics() == {"total": [10] * 4}


def test_one_node_needs_no_daemons(experiment: Experiment, project: Path, mpi: tuple[str, str]) -> None:
    job = MpiConfiguration(process_count_per_node=3)
    run = submit_to(experiment, project, mpi[0], ALLREDUCE, distributed_job_config=job, arguments=["x"])

    assert finish(run)["status"] == "Completed", logs_of(run)
    assert {text.split()[0] for text in logs_of(run).values()} == {"6"}


def test_an_exception_of_one_rank_ends_the_run_although_the_others_wait(
    experiment: Experiment, project: Path, mpi: tuple[str, str]
) -> None:
    run = submit_to(experiment, project, mpi[0], FAILS, distributed_job_config=MpiConfiguration(2, 2))
    details = finish(run)

    assert details["status"] == "Failed"
    assert details["error"]["error"]["data"]["rank"] == 2
    assert "ValueError: no luck" in details["error"]["error"]["message"]
    assert left_of(run) == []


def test_a_canceled_run_leaves_neither_ranks_nor_daemons_nor_mpirun(
    experiment: Experiment, project: Path, mpi: tuple[str, str]
) -> None:
    run = submit_to(experiment, project, mpi[0], WAITS, distributed_job_config=MpiConfiguration(2, 2))
    wait_for(lambda: list(logs_of(run).values()) == ["here\n"] * 4, timeout_s=120.0)
    assert len(left_of(run)) >= 9  # mpirun, two daemons, and four ranks each with its shim
    run.cancel()

    assert finish(run)["status"] == "Canceled"
    assert left_of(run) == []


def left_of(run: Run) -> list[int]:
    """Return the living processes that carry the run's variables."""
    return [pid for pid in live_pids() if pid != os.getpid() and environ_of(pid, "RUNYARD_RUN_ID") == run.id]
