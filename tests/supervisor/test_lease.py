"""A run that may be started again elsewhere ends itself when the server has not answered for a lease."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from runyard.core.attempts import LEASE_S
from runyard.core.machine.facts import boot_id, supervisor_command
from runyard.core.specs import JobSpec, RunSpec
from runyard.engine.runs.retries import MARGIN_S
from runyard.supervisor.proc import boot_ns
from runyard.supervisor.run_folder import RunFolder
from runyard.supervisor.shipping.connection import ASK_S, FILE, GRACE_S, Lease
from runyard.supervisor.supervisor import VARIABLE, watch_engine
from tests.supervisor.supervised import Site, lives
from tests.waiting import wait_for

STUBBORN = (
    "import signal, time\n"
    "signal.signal(15, lambda *_: open('outputs/told', 'w').write('TERM'))\n"
    "print('begun', flush=True)\n"
    "open('started', 'w').write('x')\n"
    "while True: time.sleep(1)\n"
)


def a_job(max_attempts: int) -> JobSpec:
    return JobSpec("r", 1, "e", "w", RunSpec(max_attempts=max_attempts), None, {}, "", "", "")


def age(path: Path, seconds: float) -> None:
    path.write_text(json.dumps({"since_boot_ns": boot_ns() - int(seconds * 1e9), "boot_id": boot_id()}))


def test_a_lease_counts_from_the_last_answered_question_through_restarts(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path))
    lease = Lease(folder, a_job(2))
    assert not lease.is_over
    age(tmp_path / FILE, LEASE_S + 1)

    again = Lease(folder, a_job(2))
    assert again.is_over
    again.renew(boot_ns())
    assert not again.is_over and not Lease(folder, a_job(2)).is_over
    again.renew(boot_ns() - int(1e9 * LEASE_S * 2))  # an answer to an older question
    assert not again.is_over


def test_a_supervisor_that_was_stopped_itself_asks_before_it_ends_anything(tmp_path: Path) -> None:
    asked: list[str] = []
    age(tmp_path / FILE, LEASE_S * 10)
    lease = Lease(RunFolder(str(tmp_path)), a_job(2), ask_s=0.0)
    patient = Lease(RunFolder(str(tmp_path)), a_job(2), ask_s=60.0)

    assert not patient.has_ended(lambda: asked.append("patient"))
    assert not patient.has_ended(lambda: asked.append("patient")) and asked == ["patient"]
    patient.renew(boot_ns())
    assert not patient.has_ended(lambda: asked.append("never"))

    assert lease.has_ended(lambda: asked.append("now")) and asked == ["patient", "now"]


def test_a_run_that_is_never_started_again_has_no_lease(tmp_path: Path) -> None:
    age(tmp_path / FILE, LEASE_S * 100)

    assert not Lease(RunFolder(str(tmp_path)), a_job(1)).is_over


def test_the_processes_have_ended_before_the_server_may_start_the_next_attempt() -> None:
    assert ASK_S + GRACE_S + 3.0 < MARGIN_S  # three seconds to notice it twice, and to kill


@pytest.mark.long
@pytest.mark.parametrize("max_attempts", [2, 1])
def test_a_run_that_is_cut_off_ends_its_processes_and_tells_later(site: Site, max_attempts: int) -> None:
    job = site.start(STUBBORN, max_attempts=max_attempts, grace_s=0.3)
    job.wait_for_text("started")
    rank = job.rank_pid()
    site.server.stop()
    age(job.folder / FILE, LEASE_S + 1)
    os.kill(job.supervisor_pid(), signal.SIGKILL)  # the next one takes the lease up where it was
    if max_attempts == 1:
        before = len(site.server.requests)
        site.server.start()
        wait_for(lambda: "state" in site.server.requests[before:])
        assert lives(rank) and not (job.folder / "stop.json").exists()  # the control: it goes on
        return
    wait_for(lambda: job.living() == [])
    assert not job.run.is_over
    site.server.start()
    run = job.wait()

    assert run.status == "Failed" and run.error is not None and run.error["code"] == "NodeLost"
    assert f"cut off from the server for {LEASE_S:g} s" in run.error["message"]
    assert job.log() == b"begun\n" and site.server.file(job.id, "outputs/told") == b"TERM"


def test_a_supervisor_tells_at_once_that_the_process_which_started_it_is_gone(site: Site) -> None:
    job = site.prepare("import time\nopen('started', 'w').write('x')\ntime.sleep(600)\n")
    read_end, write_end = os.pipe()
    command = [*supervisor_command(), "--run", str(job.folder)]
    variables = {**site.variables, VARIABLE: str(read_end)}
    job.process = subprocess.Popen(command, env=variables, stdin=subprocess.DEVNULL, pass_fds=[read_end])
    os.close(read_end)
    job.wait_for_text("started")
    wait_for(lambda: job.run.status == "Running")
    assert not job.run.engine_gone

    os.close(write_end)
    wait_for(lambda: job.run.engine_gone)
    job.run.attempt = 2  # the server gives the attempt up
    wait_for(lambda: job.living() == [])


def test_a_descriptor_that_is_not_open_is_passed_over() -> None:
    told: list[str] = []
    watch_engine(lambda: told.append("gone"), {VARIABLE: "987"})
    watch_engine(lambda: told.append("gone"), {})

    assert told == []
