"""The backend `local`: its fork server, what supervisors may know, and jobs whose supervisor is gone."""

from __future__ import annotations

import json
import os
import signal
import stat
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from runyard.compute import fork_server, local
from runyard.compute.base import JobHandle, JobState
from runyard.compute.fork_server import ForkServer, supervisor_variables
from runyard.compute.local import LocalBackend
from runyard.core.config.settings import Settings
from runyard.core.specs import DistributionSpec, NodeSpec
from runyard.testing.compute_backend import state_of
from tests.compute.test_conformance import Bench, bench  # noqa: F401  # the fixture
from tests.waiting import wait_for

HOSTILE = {
    "LD_PRELOAD": "/tmp/evil.so",
    "PYTHONSTARTUP": "/tmp/evil.py",
    "PYTHONPATH": "/tmp/evil",
    "BASH_ENV": "/tmp/evil.sh",
    "GIT_SSH_COMMAND": "evil",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "RUNYARD_TOKEN": "secret",
}


def forks_of(backend: object) -> ForkServer:
    assert isinstance(backend, LocalBackend)
    return backend._forks


def test_supervisors_start_from_an_allow_list(tmp_path: Path) -> None:
    environ = {**HOSTILE, "PATH": "/bin", "HOME": "/home/ada", "LC_ALL": "C.UTF-8", "RUNYARD_LOG_LEVEL": "DEBUG"}

    assert supervisor_variables(Settings(home=tmp_path), environ) == {
        "PATH": "/bin",
        "HOME": "/home/ada",
        "LC_ALL": "C.UTF-8",
        "RUNYARD_LOG_LEVEL": "DEBUG",
        "RUNYARD_HOME": str(tmp_path),
    }


def test_the_fork_server_knows_nothing_of_the_submitters_hooks(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in HOSTILE.items():
        monkeypatch.setenv(name, value)
    backend = LocalBackend(Settings(home=home))
    environ = wait_for(Path(f"/proc/{forks_of(backend).pid}/environ").read_bytes)  # empty until the exec
    backend.close()

    assert not [name for name in HOSTILE if f"{name}=".encode() in environ]


def test_one_fork_server_starts_job_after_job_each_in_a_session_of_its_own(bench: Bench) -> None:  # noqa: F811
    forks = forks_of(bench.backend).pid
    jobs = [
        bench.job("import os, time\nwhile not os.path.exists('../../../../go'): time.sleep(0.01)\n") for _ in range(3)
    ]
    handles = [bench.backend.submit(bench.backend.plan(job)) for job in jobs]
    claims = [wait_for(partial(_read, bench.home / "runs" / job.run_id / "1/claim")) for job in jobs]
    reapers = [int(json.loads(claim)["pid"]) for claim in claims]

    assert [_parent(pid) for pid in reapers] == [forks] * 3 and [os.getsid(pid) for pid in reapers] == reapers
    assert os.readlink(f"/proc/{reapers[0]}/fd/0") == os.devnull and len(set(reapers)) == 3
    (bench.home / "go").touch()
    for job, handle in zip(jobs, handles, strict=True):
        wait_for(lambda job=job: bench.status(job.run_id) == "Completed")  # type: ignore[misc]  # bound now
        wait_for(lambda handle=handle: state_of(bench, handle) is JobState.GONE)  # type: ignore[misc]
    wait_for(
        lambda: not [pid for pid in reapers if os.path.exists(f"/proc/{pid}")], what="ended children are collected"
    )
    assert forks_of(bench.backend).pid == forks


def test_a_fork_server_leaves_with_its_backend(home: Path) -> None:
    backend = LocalBackend(Settings(home=home))
    pid = forks_of(backend).pid
    backend.close()

    wait_for(lambda: _state(pid) in ("", "Z"))


def test_orders_that_a_killed_fork_server_left_are_carried_out_by_the_next(
    bench: Bench,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fork_server, "STEADY_S", 0.0)
    forks = forks_of(bench.backend)
    first = forks.pid
    os.kill(first, signal.SIGSTOP)  # it is told, and never acts
    jobs = [bench.job("print(1)") for _ in range(3)]
    handles = [bench.backend.submit(bench.backend.plan(job)) for job in jobs]
    assert state_of(bench, handles[0]) is JobState.WAITING
    os.kill(first, signal.SIGKILL)

    def over() -> bool:
        bench.backend.poll(handles)
        return {bench.status(job.run_id) for job in jobs} == {"Completed"}

    wait_for(over)
    assert forks.pid != first


def test_a_job_whose_fork_server_hangs_is_started_anyway(
    bench: Bench,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(local, "UNCLAIMED_S", 0.3)
    forks = forks_of(bench.backend)
    os.kill(forks.pid, signal.SIGSTOP)
    job = bench.job("print(1)")
    handle = bench.backend.submit(bench.backend.plan(job))

    def over() -> bool:
        bench.backend.poll([handle])
        return bench.status(job.run_id) == "Completed"

    wait_for(over)
    os.kill(forks.pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("program", "reason"),
    [("/nowhere/python", "/nowhere/python: No such file or directory."), ("broken", "ImportError: no such library")],
)
def test_a_supervisor_that_cannot_start_is_told_and_given_up(
    bench: Bench,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    program: str,
    reason: str,
) -> None:
    job = bench.job("print(1)")
    request = bench.backend.plan(job)
    folder = Path(request.run_folder)
    folder.mkdir(mode=0o700, parents=True)
    (folder / "job.json").write_text("{}")
    if program == "broken":
        script = tmp_path / "broken"
        script.write_text("#!/bin/sh\necho 'Traceback' >&2\necho 'ImportError: no such library' >&2\nexit 1\n")
        script.chmod(0o700)
        program = str(script)
    monkeypatch.setattr(local, "UNCLAIMED_S", 0.02)
    for module in (local, fork_server):
        monkeypatch.setattr(module, "supervisor_command", lambda: [program])
    handle = JobHandle(job.run_id, 1)
    reports = [bench.backend.poll([handle])[handle]]

    def is_gone() -> bool:
        reports.append(bench.backend.poll([handle])[handle])
        return reports[-1].state is JobState.GONE

    wait_for(is_gone)
    waits = {report.why for report in reports if report.state is JobState.WAITING}

    assert reports[0].state is JobState.WAITING and reports[0].why == ""
    assert any(reason in why for why in waits)
    assert reports[-1].why == f"A supervisor was started {local.MOST_STARTS} times and never took the job: {reason}"


def test_one_node_is_the_machine_itself_and_several_have_addresses_of_their_own(bench: Bench) -> None:  # noqa: F811
    alone = bench.backend.plan(bench.job("print(1)"))
    several = bench.backend.plan(replace(bench.job("", distribution=DistributionSpec("mpi", 2)), devices=["0", "1"]))

    assert alone.job.nodes == [NodeSpec(0, "127.0.0.1", "node-0")]
    assert several.job.nodes == [NodeSpec(0, "127.0.1.1", "node-0", ["0"]), NodeSpec(1, "127.0.1.2", "node-1", ["1"])]


def test_only_local_jobs_know_the_submitters_variables(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    backend = LocalBackend(Settings(home=bench.home))
    job = replace(bench.job("print(1)"), submitter={"MINE": "1"})
    on_pool = backend.plan(replace(job, spec=replace(job.spec, target="cpu-cluster"))).job.submitter
    backend.close()

    assert backend.plan(job).job.submitter == {"MINE": "1"}
    assert on_pool["PATH"] == os.environ["PATH"] and not {"MINE", "AWS_SECRET_ACCESS_KEY"} & set(on_pool)


def test_job_files_are_private(bench: Bench) -> None:  # noqa: F811
    old = os.umask(0)
    try:
        job = bench.job("import time\ntime.sleep(0.3)\n")
        request = bench.backend.plan(job)
        bench.backend.submit(request)
        folder = Path(request.run_folder)

        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE((folder / "job.json").stat().st_mode) == 0o600
        wait_for(lambda: bench.status(job.run_id) == "Running")
        for path in folder.rglob("*"):
            if "work" not in path.relative_to(folder).parts and not path.is_symlink():
                assert _mode(path) & 0o077 == 0, path
    finally:
        os.umask(old)
    wait_for(lambda: bench.status(job.run_id) == "Completed")


def test_an_orphaned_job_is_seen_and_adopted(bench: Bench, tmp_path: Path) -> None:  # noqa: F811
    stop = tmp_path / "stop"
    job = bench.job(f"import os, time\nwhile not os.path.exists({str(stop)!r}): time.sleep(0.01)\n")
    handle = bench.backend.submit(bench.backend.plan(job))
    wait_for(lambda: bench.status(job.run_id) == "Running")
    folder = bench.home / "runs" / job.run_id / "1"
    wait_for((folder / "ranks.json").exists)
    reaper = json.loads((folder / "claim").read_text())["pid"]
    _stop_below(reaper, except_pid=json.loads((folder / "ranks.json").read_text())[0]["pid"])

    wait_for(lambda: state_of(bench, handle) is JobState.ORPHANED)
    bench.backend.adopt(handle)
    wait_for(lambda: state_of(bench, handle) is JobState.ALIVE)
    stop.touch()
    wait_for(lambda: bench.status(job.run_id) == "Completed")
    wait_for(lambda: state_of(bench, handle) is JobState.GONE)


def test_a_claim_of_an_ended_process_whose_pid_was_reused_is_not_alive(bench: Bench) -> None:  # noqa: F811
    handle = JobHandle("exp_9_0000abcd", 1)
    folder = bench.home / "runs" / handle.run_id / "1"
    folder.mkdir(parents=True, mode=0o700)
    (folder / "job.json").write_text("{}")
    (folder / "claim").write_text(json.dumps({"pid": os.getpid(), "start_ticks": 1, "boot_id": "x"}))

    assert state_of(bench, handle) is JobState.ORPHANED


def _stop_below(reaper: int, *, except_pid: int) -> None:
    from runyard.supervisor.proc import descendants, list_processes

    below = [entry.pid for entry in descendants(list_processes(), reaper) if entry.pid != except_pid]
    for pid in [reaper, *below]:
        os.kill(pid, signal.SIGKILL)


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _mode(path: Path) -> int:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:  # written beside and renamed meanwhile
        return 0


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
