"""The launcher `mpi`: mpirun's very command, its daemons, and what each rank finds in `launch.json`."""

from __future__ import annotations

from typing import Any

import pytest

from runyard.core.specs import DistributionSpec
from runyard.launchers.base import BY_AGENT, BY_MPIRUN, BY_REAPER, MPIRUN, MpiInstallation, Process
from runyard.launchers.mpi import daemon_rank
from tests.launchers.jobs import VARIABLES, a_job, lay_out

FOUR = DistributionSpec("mpi", 2, 2)
SHIM = ["/env/bin/python", "-I", "-S", "/cache/injection/1/runyard/runtime/rank_shim.py", "--folder", "/runs/1"]
DEBIAN = MpiInstallation("/usr/bin/mpirun", 4, "/usr/bin", "/usr/lib/x86_64-linux-gnu/libmpi.so.40")


def by_rank(*arguments: Any, **changes: Any) -> dict[int, Process]:
    return {process.rank: process for process in lay_out(*arguments, **changes)}


def test_the_reaper_starts_mpirun_the_agent_its_daemons_and_mpirun_the_ranks() -> None:
    processes = by_rank(a_job(FOUR))

    assert {rank: process.started_by for rank, process in processes.items()} == {
        MPIRUN: BY_REAPER,
        daemon_rank(0): BY_AGENT,
        daemon_rank(1): BY_AGENT,
        0: BY_MPIRUN,
        1: BY_MPIRUN,
        2: BY_MPIRUN,
        3: BY_MPIRUN,
    }
    assert sorted(rank for rank, process in processes.items() if process.counts) == [0, 1, 2, 3]
    assert processes[MPIRUN].argv == [
        "/mpi/bin/mpirun", "--host", "127.0.1.1:2,127.0.1.2:2", "-n", "4", "--map-by", "slot", "--bind-to", "none",
        *SHIM,
    ]  # fmt: skip
    assert processes[MPIRUN].log == "system_logs/mpirun.log"


def test_one_node_needs_no_daemon() -> None:
    processes = by_rank(a_job(DistributionSpec("mpi", 1, 3)))

    assert sorted(processes) == [MPIRUN, 0, 1, 2]
    assert processes[MPIRUN].argv[1:5] == ["--host", "localhost:3", "-n", "3"]
    assert "OMPI_MCA_btl" not in processes[0].variables


def test_a_rank_has_torchs_variables_too_and_its_arguments_are_expanded_in_its_own() -> None:
    job = a_job(FOUR, arguments=["$RANK/$WORLD_SIZE", "$OMPI_COMM_WORLD_LOCAL_RANK", "$AZ_BATCH_MASTER_NODE"])
    rank = by_rank(job)[3]

    assert rank.argv == ["/env/bin/python", "train.py", "3/4", "1", "127.0.1.1:7000"]
    assert rank.log == "user_logs/std_log_process_03.txt"
    assert rank.variables == {
        **VARIABLES,
        "PWD": "/runs/1/work",
        "RUNYARD_RANK": "3",
        "RUNYARD_ROLE": "worker",
        "RUNYARD_NODE_RANK": "1",
        "RUNYARD_NODE_NAME": "node-1",
        "RUNYARD_NODE_ADDRESS": "127.0.1.2",
        "RUNYARD_NODE_PORTS": "7100,7101,7102,7103,7104,7105,7106,7107",
        "HOSTNAME": "node-1",
        "RANK": "3",
        "WORLD_SIZE": "4",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "2",
        "NODE_RANK": "1",
        "MASTER_ADDR": "127.0.1.1",
        "MASTER_PORT": "7000",
        "AZUREML_NODE_COUNT": "2",
        "AZ_BATCHAI_GPU_COUNT": "0",
        "AZ_BATCH_MASTER_NODE": "127.0.1.1:7000",
        "AZ_BATCHAI_MPI_MASTER_NODE": "127.0.1.1",
        "AZ_BATCH_HOST_LIST": "127.0.1.1,127.0.1.2",
        "GLOO_SOCKET_IFNAME": "lo",
        "NCCL_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "2",
        "MPI4PY_LIBMPI": "/mpi/lib/libmpi.so.40",
        "LD_LIBRARY_PATH": "/mpi/lib",
        "OMPI_MCA_pml": "ob1",
        "OMPI_MCA_btl": "self,tcp",
        "OMPI_MCA_btl_tcp_if_include": "lo",
        "PMIX_MCA_gds": "hash",
    }


@pytest.mark.parametrize(
    ("mpi", "agent"),
    [
        (MpiInstallation("/m/mpirun", 5, "/m"), "PRTE_MCA_plm_ssh_agent"),
        (DEBIAN, "OMPI_MCA_plm_rsh_agent"),
    ],
    ids=["5.x", "4.x"],
)
def test_the_launch_agent_is_told_in_the_words_of_each_version(mpi: MpiInstallation, agent: str) -> None:
    for rank in (MPIRUN, daemon_rank(1)):
        variables = by_rank(a_job(FOUR), mpi=mpi)[rank].variables

        assert [name for name in variables if name.endswith("_agent")] == [agent]
        assert variables[agent] == "runyard-launch-agent"
        assert variables["PATH"].split(":")[:2] == ["/runs/1/agent", mpi.bin_folder]
        assert variables["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] == "1"
        assert variables["NODE_RANK"] == ("0" if rank == MPIRUN else "1")


def test_daemons_of_5x_report_the_address_of_their_virtual_node_as_hostname() -> None:
    assert [by_rank(a_job(FOUR))[daemon_rank(rank)].hostname for rank in (0, 1)] == ["127.0.1.1", "127.0.1.2"]
    assert {process.hostname for process in by_rank(a_job(FOUR), mpi=DEBIAN).values()} == {""}


def test_4x_is_kept_on_the_loopback_and_the_systems_libraries_are_left_alone() -> None:
    rank = by_rank(a_job(FOUR), mpi=DEBIAN)[0]

    assert rank.variables["OMPI_MCA_oob_tcp_if_include"] == "lo"
    assert rank.variables["MPI4PY_LIBMPI"] == "/usr/lib/x86_64-linux-gnu/libmpi.so.40"
    assert "LD_LIBRARY_PATH" not in rank.variables


def test_daemons_of_4x_keep_their_files_apart_and_ranks_do_not_see_where() -> None:
    processes = by_rank(a_job(FOUR), mpi=DEBIAN)

    assert [processes[daemon_rank(rank)].variables["TMPDIR"] for rank in (0, 1)] == [
        "/runs/1/agent/node_00",
        "/runs/1/agent/node_01",
    ]
    assert not any("tmpdir_base" in name for name in processes[MPIRUN].variables)
    assert processes[0].variables["TMPDIR"] == "/tmp"
    given = by_rank(a_job(FOUR), mpi=DEBIAN, base_variables={**VARIABLES, "TMPDIR": "/mine"})
    assert given[0].variables["TMPDIR"] == "/mine"
    assert given[MPIRUN].variables["TMPDIR"] == "/runs/1/agent/node_00"


def test_what_a_user_said_about_open_mpi_stays() -> None:
    given = {**VARIABLES, "OMPI_MCA_btl": "self,sm", "MPI4PY_LIBMPI": "/my.so", "LD_LIBRARY_PATH": "/mine"}
    processes = by_rank(a_job(FOUR), base_variables=given)

    for rank in (MPIRUN, 0):
        assert processes[rank].variables["OMPI_MCA_btl"] == "self,sm"
        assert processes[rank].variables["MPI4PY_LIBMPI"] == "/my.so"
        assert processes[rank].variables["LD_LIBRARY_PATH"] == "/mpi/lib:/mine"


def test_ranks_that_share_a_core_yield_while_they_wait() -> None:
    assert "OMPI_MCA_mpi_yield_when_idle" not in by_rank(a_job(FOUR), cores=4)[0].variables
    assert by_rank(a_job(FOUR), cores=2)[0].variables["OMPI_MCA_mpi_yield_when_idle"] == "1"


def test_no_value_of_a_user_shows_in_the_process_list() -> None:
    processes = by_rank(a_job(FOUR, arguments=["--password", "secret"], variables={"KEY": "secret"}))

    assert "secret" not in " ".join(processes[MPIRUN].argv)
