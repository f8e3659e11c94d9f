"""Runs whose processes are in containers, with a stand-in for the engine."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from runyard.core.errors import SubmitRejected
from runyard.core.specs import ContainerSpec, DistributionSpec, EnvironmentSpec, JobSpec, RunSpec
from runyard.environments.base import Inside, Outside, Wrapper
from runyard.supervisor.lifecycle.containers import contain, remove_containers
from runyard.supervisor.processes.exits import container_exit
from runyard.supervisor.run_folder import RunFolder
from tests.environments.container_runtime import FakeRuntime
from tests.supervisor.supervised import Job, Site
from tests.supervisor.test_stopping import ask
from tests.waiting import wait_for


class Recorder(Wrapper):
    def __init__(self) -> None:
        self.seen: list[Inside] = []

    def wrap(self, process: Inside) -> Outside:
        self.seen.append(process)
        return Outside(["engine", *process.argv], {"E": "1"}, ["engine", "rm", process.name])


def a_job(**fields: Any) -> JobSpec:
    known: dict[str, Any] = {"server": {"kind": "unix", "path": "/sockets/s"}, **fields}
    return JobSpec("run_1", 2, "e", "w", RunSpec(), None, token="", cookie="c" * 32, home="/home", **known)


def a_plan(folder: Path, *ranks: int, **fields: Any) -> dict[str, Any]:
    cwd = str(folder / "work")
    return {
        "processes": [
            {"rank": rank, "argv": ["python"], "variables": {"A": "b"}, "cwd": cwd, **fields} for rank in ranks
        ]
    }


def start(site: Site, engine: FakeRuntime, script: str, **options: Any) -> Job:
    environment = EnvironmentSpec(name="boxed", kind="container", container=ContainerSpec(image="mine:1"))
    submitter = {**engine.variables, "RUNYARD_CONTAINER_ENGINE": "podman", "OF_THE_SUBMITTER": "1"}
    return site.start(script, environment=environment, submitter=submitter, **options)


@pytest.fixture
def engine(tmp_path: Path) -> FakeRuntime:
    engine = FakeRuntime(tmp_path)
    engine.have("mine:1")
    return engine


def test_each_process_gets_a_container_with_the_runs_folders(tmp_path: Path) -> None:
    recorder = Recorder()
    (tmp_path / "outside").mkdir()
    data = [str(tmp_path / "outside"), str(tmp_path / "run" / "data" / "x")]
    folder = RunFolder(str(tmp_path / "run"))

    plan = contain(a_plan(tmp_path, 0, 1), recorder, folder, a_job(), injection="/injection", data=data)

    assert [one.name for one in recorder.seen] == ["runyard-run_1-2-0-cccccccc", "runyard-run_1-2-1-cccccccc"]
    assert recorder.seen[0].writable == [folder.path, str(tmp_path / "outside")]
    assert recorder.seen[0].readable == ["/injection", "/sockets"]
    assert recorder.seen[0].has_peers
    assert recorder.seen[0].work_folder == str(tmp_path / "work")
    assert [one["argv"] for one in plan["processes"]] == [["engine", "python"]] * 2
    assert plan["processes"][0]["contained"] is True
    assert plan["remove"][1]["argv"] == ["engine", "rm", "runyard-run_1-2-1-cccccccc"]


def test_a_run_of_one_process_has_no_peers_and_a_tcp_server_no_socket(tmp_path: Path) -> None:
    recorder = Recorder()
    job = a_job(server={"kind": "tcp", "host": "h", "port": 1})
    contain(a_plan(tmp_path, 0), recorder, RunFolder(str(tmp_path)), job, injection="/injection")

    assert (recorder.seen[0].has_peers, recorder.seen[0].readable) == (False, ["/injection"])


def test_mpirun_is_refused_in_containers(tmp_path: Path) -> None:
    plan = a_plan(tmp_path, 0, started_by="mpirun")
    with pytest.raises(SubmitRejected, match="cannot be started by mpirun"):
        contain(plan, Recorder(), RunFolder(str(tmp_path)), a_job(), injection="/i")


@pytest.mark.parametrize(
    ("process", "code", "end"),
    [
        ({"contained": True}, 137, (None, signal.SIGKILL)),
        ({"contained": True}, 139, (None, signal.SIGSEGV)),
        ({"contained": True}, 3, (3, None)),
        ({"contained": True}, 128, (128, None)),
        ({"contained": True}, 255, (255, None)),
        ({}, 137, (137, None)),
    ],
)
def test_an_engine_ends_as_its_container_did(process: dict[str, Any], code: int, end: tuple[Any, Any]) -> None:
    assert container_exit(process, code) == end


def test_what_cannot_be_removed_is_told_and_what_is_gone_is_not(tmp_path: Path) -> None:
    def order(text: str, name: str) -> dict[str, Any]:
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\nenv > {tmp_path}/{name}.env\n{text}\n")
        program.chmod(0o755)
        return {"argv": [str(program), name], "variables": {"PATH": os.defpath, "RUNYARD_COOKIE": "c", "A": "b"}}

    plan = {
        "remove": [
            order("exit 0", "fine"),
            order("echo 'Error: No such container: x' >&2; exit 1", "gone"),
            order("echo 'daemon is down' >&2; exit 1", "stuck"),
            {"argv": [str(tmp_path / "none"), "missing"], "variables": {}},
        ]
    }
    problems = remove_containers(plan)

    assert problems[0] == "stuck: daemon is down"
    assert [problem.partition(":")[0] for problem in problems] == ["stuck", "missing"]
    assert "A=b" in (tmp_path / "fine.env").read_text()
    assert "COOKIE" not in (tmp_path / "fine.env").read_text()


def test_a_run_goes_through_the_engine_with_its_own_variables_only(site: Site, engine: FakeRuntime) -> None:
    script = "import json, os\nprint(json.dumps(dict(os.environ)))\nopen('outputs/a', 'w').write('x')\n"
    job = start(site, engine, script, variables={"SPECIAL": "yes"})
    run = job.wait()
    launch = json.loads((job.folder / "launch.json").read_text())
    words = next(call for call in engine.calls() if f"--name runyard-{job.id}" in call)

    assert run.status == "Completed", run.error
    assert json.loads(job.log())["SPECIAL"] == "yes"
    assert "OF_THE_SUBMITTER" not in words
    assert "--env SPECIAL" in words and "yes" not in words.split()
    assert launch["cgroup"] == ""
    assert run.environment["image"] == {"name": "mine:1", "id": "sha256:local"}
    assert run.environment["packages"]
    assert f"rm --force --ignore --time 0 runyard-{job.id}-1-0-{job.cookie[:8]}" in engine.calls()[-1]


def test_a_canceled_run_leaves_neither_process_nor_container(site: Site, engine: FakeRuntime) -> None:
    script = (
        "import subprocess, time\nsubprocess.Popen(['sleep', '1000'])\nopen('on', 'w').write('1')\ntime.sleep(1000)\n"
    )
    job = start(site, engine, script)
    job.wait_for_text("on")
    ask(job, "cancel")
    run = job.wait()

    assert run.status == "Canceled"
    wait_for(lambda: not job.living())
    assert engine.calls()[-1].startswith("rm --force")


def test_without_an_engine_the_run_fails_with_what_to_do(site: Site, engine: FakeRuntime) -> None:
    engine.mark("broken")
    run = start(site, engine, "").wait()

    assert run.status == "Failed"
    assert run.error is not None
    assert "podman does not work (cannot connect)" in run.error["message"]
    assert "use_docker=False" in run.error["message"]


def test_each_rank_has_a_container_and_all_share_memory(site: Site, engine: FakeRuntime) -> None:
    script = "import os\nprint(os.environ['RANK'], os.environ['WORLD_SIZE'])\n"
    distribution = DistributionSpec(kind="pytorch", processes_per_node=2)
    job = start(site, engine, script, distribution=distribution)
    run = job.wait()
    started = [call for call in engine.calls() if f"--name runyard-{job.id}-1-" in call]

    assert run.status == "Completed", run.error
    logs = [bytes(text).decode().strip() for name, text in sorted(run.logs.items()) if name.startswith("user_logs/")]
    assert logs == ["0 2", "1 2"]
    assert len(started) == 2
    assert all("--ipc host" in call for call in started)
