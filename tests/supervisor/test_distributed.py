"""Jobs of several processes on several nodes of one machine, below one reaper and supervisor."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
from glob import glob
from pathlib import Path
from typing import Any

import pytest

from runyard.compute.local import is_locked
from runyard.core.specs import DistributionSpec, NodeSpec
from tests.supervisor.supervised import Job, Site, command_line, kill_all, lives
from tests.waiting import wait_for

PYTORCH = DistributionSpec("pytorch", 2, 2, {"world_size": 4})
MPI = DistributionSpec("mpi", 2, 2)
NODES = [NodeSpec(0, "127.0.1.1", "node-0"), NodeSpec(1, "127.0.1.2", "node-1")]

SAY = """
import json, os, sys
names = ("RANK", "LOCAL_RANK", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT", "RUNYARD_RANK")
print(json.dumps({name: os.environ[name] for name in names}), sys.argv[1:])
"""
# Every rank says that it is there and waits until the others are.
MEET = """
import os, sys, time
from pathlib import Path
Path(f"here_{os.environ['RANK']}").touch()
while len(list(Path(".").glob("here_*"))) < 4:
    time.sleep(0.005)
"""
WAIT = "while not Path('go').exists(): time.sleep(0.01)\n"


def start(site: Site, script: str, distribution: DistributionSpec, **options: Any) -> Job:
    return site.start(script, distribution=distribution, nodes=NODES, node_count=2, **options)


def logs_of(job: Job, count: int = 4) -> list[str]:
    return [job.log(f"user_logs/std_log_process_{rank:02d}.txt").decode() for rank in range(count)]


def pids_of(job: Job) -> dict[int, int]:
    """Return the pid of each rank, once all of them run."""

    def found() -> dict[int, int]:
        text = job.wait_for_file("ranks.json").read_text()
        pids = {entry["rank"]: entry["pid"] for entry in json.loads(text) if entry["rank"] >= 0}
        return pids if len(pids) == 4 else {}

    return wait_for(found)


def all_met(job: Job) -> None:
    wait_for(lambda: len(glob(str(job.folder / "work" / "here_*"))) == 4)


def test_four_ranks_run_with_their_own_variables_and_logs(site: Site) -> None:
    job = start(site, SAY, PYTORCH, arguments=["$RANK of $WORLD_SIZE"])

    assert job.wait().status == "Completed"
    found = [json.loads(text.split("}")[0] + "}") for text in logs_of(job)]
    assert [one["RANK"] for one in found] == ["0", "1", "2", "3"]
    assert [one["LOCAL_RANK"] for one in found] == ["0", "1", "0", "1"]
    assert [one["NODE_RANK"] for one in found] == ["0", "0", "1", "1"]
    assert {one["MASTER_ADDR"] for one in found} == {"127.0.1.1"}
    assert len({one["MASTER_PORT"] for one in found}) == 1
    assert logs_of(job)[3].endswith("['3 of 4']\n")


def test_parameter_servers_are_stopped_when_all_workers_have_ended(site: Site) -> None:
    script = """
import json, os, time
task = json.loads(os.environ["TF_CONFIG"])["task"]
print(task["type"], task["index"], flush=True)
if task["type"] == "ps":
    open("ps-is-up", "w").close()
while task["type"] == "ps" or not os.path.exists("ps-is-up"):
    time.sleep(0.1)
"""
    options = {"worker_count": 2, "parameter_server_count": 1}
    job = start(site, script, DistributionSpec("tensorflow", 2, 2, options))

    assert job.wait().status == "Completed"
    assert job.log("user_logs/std_log_node_00_worker.txt") == b"worker 0\n"
    assert job.log("user_logs/std_log_node_01_worker.txt") == b"worker 1\n"
    assert job.log("user_logs/std_log_node_00_ps.txt") == b"ps 0\n"
    assert job.living() == []


@pytest.mark.long
def test_one_failed_rank_below_mpirun_ends_the_others_and_is_named(site: Site, mpirun: dict[str, str]) -> None:
    script = MEET + "if os.environ['RANK'] == '2': raise ValueError('no luck')\n" + WAIT
    run = start(site, script, MPI, submitter=mpirun).wait()

    assert run.status == "Failed"
    assert run.error["details"]["rank"] == 2
    assert "ValueError: no luck" in run.error["message"]
    assert "Rank 2 of 4 failed first on node-1" in run.error["message"]
    assert sorted(one["rank"] for one in run.error["details"]["consequences"]) == [0, 1, 3]


def test_ranks_below_mpirun_run_as_planned(site: Site, mpirun: dict[str, str]) -> None:
    job = start(site, SAY, MPI, submitter=mpirun, arguments=["$OMPI_COMM_WORLD_RANK/$OMPI_COMM_WORLD_SIZE"])

    assert job.wait().status == "Completed", job.run.error
    found = [json.loads(text.split("}")[0] + "}") for text in logs_of(job)]
    assert [one["RUNYARD_RANK"] for one in found] == ["0", "1", "2", "3"]
    assert [one["NODE_RANK"] for one in found] == ["0", "0", "1", "1"]
    assert logs_of(job)[3].endswith("['3/4']\n")
    exits = {int(path.stem): json.loads(path.read_text()) for path in (job.folder / "exits").glob("*.json")}
    assert sorted(exits) == [-3, -2, -1, 0, 1, 2, 3]
    assert {record["code"] for record in exits.values()} == {0}
    assert job.living() == []


def test_no_open_mpi_is_said_before_anything_starts(site: Site) -> None:
    run = start(site, SAY, MPI, submitter={"PATH": "/nowhere"}).wait()

    assert run.status == "Failed"
    assert "there is no Open MPI to start it" in run.error["message"]
    assert "pip install 'runyard[mpi]'" in run.error["message"]
    assert not list((site.home / "runs").rglob("launched"))


def test_an_mpirun_that_starts_nobody_is_itself_the_cause(site: Site, mpirun: dict[str, str]) -> None:
    program = Path(mpirun["PATH"].split(":")[0]) / "mpirun"
    program.write_text("#!/bin/sh\necho 'no such host'\nexit 213\n")
    run = start(site, SAY, MPI, submitter=mpirun).wait()

    assert run.status == "Failed"
    assert "mpirun ended with exit code 213 before it had started rank 0, 1, 2, 3" in run.error["message"]
    assert run.error["details"]["last_lines"] == ["no such host"]


@pytest.mark.long
def test_a_killed_mpirun_is_the_cause_of_what_its_ranks_suffer(site: Site, mpirun: dict[str, str]) -> None:
    job = start(site, MEET + WAIT, MPI, submitter=mpirun)
    all_met(job)
    pids_of(job)
    ranks = json.loads((job.folder / "ranks.json").read_text())
    os.kill(next(entry["pid"] for entry in ranks if entry["rank"] == -1), signal.SIGKILL)

    assert job.wait().status == "Failed"
    assert job.run.error["message"].startswith("mpirun was killed by signal 9, and its ranks ended with it.")
    assert job.living() == []


def test_a_rank_whose_shim_was_killed_still_tells_how_it_ended(site: Site, mpirun: dict[str, str]) -> None:
    job = start(site, MEET + WAIT + "sys.exit(7 if os.environ['RANK'] == '3' else 0)", MPI, submitter=mpirun)
    all_met(job)
    pids_of(job)
    ranks = json.loads((job.folder / "ranks.json").read_text())
    (job.folder / "work" / "go").touch()
    os.kill(next(entry["shim_pid"] for entry in ranks if entry["rank"] == 3), signal.SIGKILL)

    assert job.wait().status == "Failed"
    assert job.run.error["details"]["rank"] == 3
    assert job.run.error["details"]["exit_code"] == 7


@pytest.mark.parametrize("launcher", ["pytorch", "mpi"])
def test_a_canceled_run_gets_term_once_and_leaves_nothing(site: Site, mpirun: dict[str, str], launcher: str) -> None:
    handler = "import signal\nsignal.signal(signal.SIGTERM, lambda *_: (print('told', flush=True), sys.exit(0)))\n"
    script = "import sys\n" + handler + MEET + WAIT
    job = start(site, script, MPI if launcher == "mpi" else PYTORCH, submitter=mpirun)
    all_met(job)
    pids_of(job)
    job.run.desired = "cancel"

    assert job.wait().status == "Canceled"
    assert logs_of(job) == ["told\n"] * 4
    assert job.living() == []


@pytest.mark.parametrize("launcher", ["pytorch", "mpi"])
@pytest.mark.parametrize("victim", ["supervisor", "reaper"])
def test_a_run_whose_supervisor_or_reaper_is_killed_ends_right(
    site: Site, mpirun: dict[str, str], launcher: str, victim: str
) -> None:
    job = start(site, MEET + WAIT + "print('done', os.environ['RANK'])", MPI if launcher == "mpi" else PYTORCH,
                submitter=mpirun)  # fmt: skip
    all_met(job)
    pids = pids_of(job)
    supervisor = job.supervisor_pid()
    if victim == "supervisor":
        os.kill(supervisor, signal.SIGKILL)
        wait_for(lambda: job.find_supervisor() not in (0, supervisor))
    else:
        os.kill(job.reaper_pid(), signal.SIGKILL)
        wait_for(lambda: b"--adopt" in command_line(supervisor))
    ports = json.loads((job.folder / "launch.json").read_text())["ports"]
    wait_for(lambda: {port for of_node in ports for port in of_node} <= held_ports())
    (job.folder / "work" / "go").touch()

    wait_for(lambda: job.run.is_over)
    assert job.run.status == "Completed", job.run.error
    assert logs_of(job) == [f"done {rank}\n" for rank in range(4)]
    assert not any(lives(pid) for pid in pids.values())
    wait_for(lambda: not job.living())
    if victim == "supervisor" and launcher == "mpi":  # its agents asked the next supervisor, and mpirun ended by itself
        assert json.loads((job.folder / "exits" / "-1.json").read_text())["code"] == 0


def held_ports() -> set[int]:
    """Return the ports that somebody of ours holds on this machine."""
    return {int(port) for port in re.findall(r"@runyard-port-(\d+)", Path("/proc/net/unix").read_text())}


@pytest.mark.long
def test_a_rank_killed_after_its_reaper_was_is_still_the_one_that_failed(site: Site) -> None:
    job = start(site, MEET + WAIT, PYTORCH)
    all_met(job)
    pids = pids_of(job)
    os.kill(job.reaper_pid(), signal.SIGKILL)
    os.kill(pids[1], signal.SIGKILL)

    wait_for(lambda: job.run.is_over)
    assert job.run.status == "Failed"
    assert job.run.error["details"]["rank"] == 1


def test_everything_killed_at_once_is_adopted_and_told(site: Site) -> None:
    job = start(site, MEET + WAIT, PYTORCH)
    all_met(job)
    kill_all(job)
    assert job.process is not None
    job.process.wait()
    wait_for(lambda: not is_locked(job.folder / "supervisor.lock"))  # an adopter leaves a run alone that has one
    job.start("--adopt")

    assert job.wait().status == "Failed"
    assert job.living() == []


def test_nodes_with_folders_of_their_own_keep_all_their_files(site: Site) -> None:
    script = """
import os
from pathlib import Path
node = os.environ["NODE_RANK"]
Path("outputs/same.txt").write_text(f"of node {node}")
Path(f"outputs/only_{node}.txt").write_text("mine")
assert sorted(path.name for path in Path("outputs").iterdir()) == [f"only_{node}.txt", "same.txt"]
"""
    per_node = DistributionSpec("pytorch", 2, 1, {"world_size": 2})
    job = start(site, script, per_node, variables={"RUNYARD_WORK_FOLDER": "per-node"})

    assert job.wait().status == "Completed", job.run.error
    contents = {name: file["sha256"] for name, file in job.run.files.items() if "outputs/" in name}
    expected = {
        "outputs/same.txt": b"of node 0",
        "outputs/only_0.txt": b"mine",
        "outputs/only_1.txt": b"mine",
        "node_1/outputs/same.txt": b"of node 1",
    }
    assert contents == {name: hashlib.sha256(content).hexdigest() for name, content in expected.items()}
    assert "copy of its own" in str(job.run.warnings)
