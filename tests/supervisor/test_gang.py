"""Jobs whose nodes are run by several supervisors end like those of virtual nodes."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from pathlib import Path

import pytest

from runyard.core.specs import DistributionSpec
from tests.supervisor.gangs import all_met, kill_supervisor, prepare_gang, start_gang, wait_all
from tests.supervisor.supervised import Site, kill_all
from tests.waiting import wait_for

TWO = DistributionSpec("pytorch", 2, 1)

HERE = """
import os, sys, time
from pathlib import Path
Path(f"here_{os.environ['RANK']}").touch()
"""
WAIT = "while not Path('go').exists(): time.sleep(0.01)\n"


def test_each_node_runs_its_ranks_with_the_variables_of_all(site: Site) -> None:
    script = """
import json, os
from pathlib import Path
names = ("RANK", "LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "AZ_BATCH_HOST_LIST",
         "AZ_BATCHAI_PYTORCH_INIT_METHOD", "RUNYARD_NODE_PORTS")
print(json.dumps({name: os.environ[name] for name in names}))
Path("outputs/same.txt").write_text(os.environ["RANK"])
"""
    jobs = start_gang(site, script, DistributionSpec("pytorch", 3, 2))
    run = wait_all(jobs)

    assert run.status == "Completed", run.error
    assert run.statuses == ["Preparing", "Starting", "Running", "Finalizing", "Completed"]
    found = [json.loads(run.logs[f"user_logs/std_log_process_{rank:02d}.txt"]) for rank in range(6)]
    assert [one["RANK"] for one in found] == ["0", "1", "2", "3", "4", "5"]
    assert [one["NODE_RANK"] for one in found] == ["0", "0", "1", "1", "2", "2"]
    assert {one["WORLD_SIZE"] for one in found} == {"6"}
    assert {one["AZ_BATCH_HOST_LIST"] for one in found} == {"127.0.1.1,127.0.1.2,127.0.1.3"}
    master = {(one["MASTER_ADDR"], one["MASTER_PORT"]) for one in found}
    port = found[0]["RUNYARD_NODE_PORTS"].split(",")[0]
    assert master == {("127.0.1.1", port)}
    assert {one["AZ_BATCHAI_PYTORCH_INIT_METHOD"] for one in found} == {f"tcp://127.0.1.1:{port}"}
    assert len({one["RUNYARD_NODE_PORTS"] for one in found}) == 3
    stored = {name: site.server.file(jobs[0].id, name) for name in run.files if name.endswith("same.txt")}
    assert set(stored) == {"outputs/same.txt", "node_1/outputs/same.txt", "node_2/outputs/same.txt"}
    assert stored["node_2/outputs/same.txt"] in (b"4", b"5")
    assert {"system_logs/supervisor.log", "system_logs/supervisor_2.log"} <= set(run.logs)


def test_parameter_servers_of_other_nodes_go_on_until_all_workers_are_done(site: Site) -> None:
    script = """
import json, os, sys, time
from pathlib import Path
config = json.loads(os.environ["TF_CONFIG"])
task = config["task"]
print(json.dumps(config["cluster"]), flush=True)
if task["type"] == "worker" and task["index"] == 1:
    sys.exit(0)
while task["type"] == "ps" or not os.path.exists("go"):
    time.sleep(0.02)
    with open(task["type"], "a") as file:
        file.write(".")
"""
    options = {"worker_count": 2, "parameter_server_count": 2}
    jobs = start_gang(site, script, DistributionSpec("tensorflow", 2, 2, options))
    wait_for(lambda: "workers_done" in jobs[0].run.gang.facts.get(1, {}))
    server = jobs[1].wait_for_file("work/ps")
    enough = server.stat().st_size + 10
    wait_for(lambda: server.stat().st_size > enough)  # it goes on, though its own node has no worker any more
    (jobs[0].folder / "work" / "go").touch()
    run = wait_all(jobs)

    assert run.status == "Completed", run.error
    clusters = {
        run.logs[f"user_logs/std_log_node_0{node}_{role}.txt"].decode() for node in (0, 1) for role in ("worker", "ps")
    }
    assert len(clusters) == 1
    cluster = json.loads(clusters.pop())
    assert [place.split(":")[0] for place in cluster["worker"]] == ["127.0.1.1", "127.0.1.2"]
    assert len({*cluster["worker"], *cluster["ps"]}) == 4


@pytest.mark.long
def test_a_rank_that_fails_on_another_node_is_named_and_ends_the_others(site: Site) -> None:
    script = HERE + "if os.environ['RANK'] == '2': raise ValueError('no luck')\n" + WAIT
    jobs = start_gang(site, script, DistributionSpec("pytorch", 2, 2))
    run = wait_all(jobs)

    assert run.status == "Failed"
    details = run.error["details"]
    assert (details["rank"], details["node"], details["address"]) == (2, "host-1", "127.0.1.2")
    assert "ValueError: no luck" in run.error["message"]
    assert "Rank 2 of 4 failed first on host-1 (127.0.1.2)." in run.error["message"]
    assert "Ranks 0, 1 and 3 ended because of it." in run.error["message"]
    assert details["failed_ranks"] == [0, 1, 2, 3]
    assert json.loads(site.server.file(jobs[0].id, "diagnosis.json"))["rank"] == 2


def test_a_node_that_cannot_prepare_ends_the_run_before_anything_starts(site: Site) -> None:
    jobs = prepare_gang(site, HERE, TWO)
    plain = json.loads((jobs[1].folder / "job.json").read_text())
    plain["spec"]["environment"]["interpreter"] = "/nowhere/python"
    (jobs[1].folder / "job.json").write_text(json.dumps(plain))
    for job in jobs:
        job.start()
    run = wait_all(jobs)

    assert run.status == "Failed"
    assert "making the environment `default-environment` failed on host-1 (127.0.1.2)." in run.error["message"]
    assert not any((job.folder / "launched").exists() for job in jobs)


def test_nodes_wait_for_the_last_and_a_cancel_ends_the_wait(site: Site) -> None:
    jobs = prepare_gang(site, HERE, TWO)
    jobs[0].start()
    wait_for(lambda: "ready" in jobs[0].run.gang.facts.get(0, {}))
    wait_for(
        lambda: b"waiting for node 1 (not there yet) of 2" in jobs[0].run.logs.get("system_logs/supervisor.log", b"")
    )
    jobs[0].run.desired = "cancel"

    assert wait_all(jobs[:1]).status == "Canceled"  # one that never came is not waited for
    assert not (jobs[0].folder / "launched").exists()


def test_a_cancel_reaches_all_nodes(site: Site) -> None:
    handler = "import signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: (print('told', flush=True), sys.exit(0)))\n"
    jobs = start_gang(site, handler + HERE + WAIT, TWO)
    all_met(jobs)
    jobs[0].run.desired = "cancel"
    run = wait_all(jobs)

    assert run.status == "Canceled"
    assert [bytes(run.logs[f"user_logs/std_log_process_0{rank}.txt"]) for rank in (0, 1)] == [b"told\n"] * 2


def test_a_cancel_does_not_wait_for_a_node_that_is_silent(site: Site) -> None:
    jobs = start_gang(site, HERE + WAIT, TWO)
    all_met(jobs)
    kill_all(jobs[1])
    with site.server.lock:
        jobs[0].run.gang.silent = [1]
        jobs[0].run.desired = "cancel"

    assert wait_all(jobs[:1]).status == "Canceled"


def test_a_given_up_attempt_ends_on_all_nodes_and_each_says_so(site: Site) -> None:
    jobs = start_gang(site, HERE + WAIT, TWO)
    all_met(jobs)
    with site.server.lock:
        jobs[0].run.attempt = 2
    for job in jobs:
        assert job.process is not None
        job.process.wait(30)
        assert job.living() == []

    assert jobs[0].run.gang.facts[1]["ended"]["status"] == "Canceled"
    assert not jobs[0].run.is_over  # another attempt goes on with it


def test_the_time_limit_of_node_0_stops_all(site: Site) -> None:
    jobs = start_gang(site, HERE + WAIT, TWO, time_limit_s=0.3, grace_s=1.0)
    run = wait_all(jobs)

    assert run.status == "Canceled"
    assert run.error["code"] == "RunTimeLimitExceeded"
    assert json.loads((jobs[1].folder / "stop.json").read_text())["reason"] == "time limit"


def test_killed_supervisors_and_a_restarted_server_change_nothing(site: Site) -> None:
    jobs = start_gang(site, HERE + WAIT + "print('done')", TWO)
    all_met(jobs)
    kill_supervisor(jobs[1])
    (jobs[1].folder / "work" / "go").touch()
    wait_for(lambda: "workers_done" in jobs[0].run.gang.facts[1])
    asked = len(site.server.requests)
    wait_for(lambda: len(site.server.requests) > asked + 2)  # so it has its answer, too
    site.server.stop()
    kill_supervisor(jobs[0])
    site.server.start()  # which knows nothing; node 1 has nothing new to say, and says it again
    wait_for(lambda: "workers_done" in jobs[0].run.gang.facts.get(1, {}))
    (jobs[0].folder / "work" / "go").touch()
    run = wait_all(jobs)

    assert run.status == "Completed", run.error
    assert [bytes(run.logs[f"user_logs/std_log_process_0{rank}.txt"]) for rank in (0, 1)] == [b"done\n"] * 2


def test_a_supervisor_killed_at_the_barrier_keeps_its_ports(site: Site) -> None:
    jobs = prepare_gang(site, HERE, TWO)
    jobs[0].start()
    ready = wait_for(lambda: jobs[0].run.gang.facts.get(0, {}).get("ready"))
    os.kill(jobs[0].supervisor_pid(), signal.SIGKILL)
    jobs[1].start()
    run = wait_all(jobs)

    assert run.status == "Completed", run.error
    assert json.loads((jobs[1].folder / "peers.json").read_text())["nodes"][0] == ready
    assert json.loads((jobs[0].folder / "launch.json").read_text())["ports"] == [ready["ports"]]


def test_a_lost_node_ends_the_run_by_its_name(site: Site) -> None:
    jobs = start_gang(site, HERE + WAIT, TWO)
    all_met(jobs)
    kill_all(jobs[1])
    with site.server.lock:
        jobs[0].run.gang.lose(1, "the machine is gone.")
    run = jobs[0].wait()

    assert run.status == "Failed"
    assert run.error["code"] == "NodeLost"
    assert "Node 1 (host-1, 127.0.1.2) was lost: the machine is gone." in run.error["message"]
    assert jobs[0].living() == []


def test_nodes_that_share_a_folder_work_in_it_together_and_leave_nothing(home: Path) -> None:
    script = """
import os, time
from pathlib import Path
Path(f"outputs/of_{os.environ['RANK']}").write_text("mine")
while len(list(Path("outputs").iterdir())) < 2:
    time.sleep(0.01)
"""
    site = Site(home, keep=False)
    shared = home / "shared" / "exp" / "1"
    jobs = start_gang(site, script, TWO, shared_folder=str(shared))
    run = wait_all(jobs)
    site.close()

    assert run.status == "Completed", run.error
    digest = hashlib.sha256(b"mine").hexdigest()
    assert {name: file["sha256"] for name, file in run.files.items()} == {
        "outputs/of_0": digest,
        "outputs/of_1": digest,
    }
    assert not shared.exists()
    assert not any(job.folder.exists() for job in jobs)
