"""Runs that we did not launch: their process is watched, shipped for, and its death is the run's end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

import runyard
from runyard.supervisor.proc import read_process
from tests.supervisor.journals import COUNTER
from tests.supervisor.supervised import Job, Site, wait_for

Start = Callable[[str], tuple[Job, "subprocess.Popen[bytes]"]]


@pytest.fixture
def interactive(site: Site) -> Iterator[Start]:
    started: list[subprocess.Popen[bytes]] = []

    def start(script: str) -> tuple[Job, subprocess.Popen[bytes]]:
        source = os.path.dirname(os.path.dirname(runyard.__file__))
        process = subprocess.Popen(
            [sys.executable, "-c", f"import os, sys\nsys.stdin.readline()\n{COUNTER}{script}"],
            env={**site.variables, "PYTHONPATH": source, "RUNYARD_RUN_FOLDER": folder(), "RUNYARD_RUN_ID": "exp_1"},
            stdin=subprocess.PIPE,
        )
        started.append(process)
        entry = read_process(process.pid)
        assert entry is not None
        job = site.prepare("", interactive_pid=process.pid, interactive_start_ticks=entry.start_ticks)
        job.start("--watch").wait_for_file("journal")
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
        return job, process

    def folder() -> str:
        return str(site.home / "runs" / "exp_1" / "1")

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_a_killed_process_closes_the_run_as_interrupted(site: Site, interactive: Start) -> None:
    job, process = interactive("fd = open_segment(0)\nfor n in range(1000): number(fd, float(n))\ntime.sleep(600)\n")
    wait_for(lambda: site.server.numbers(job.id))
    began = time.monotonic()
    process.send_signal(signal.SIGKILL)
    process.wait()
    run = job.wait()

    assert time.monotonic() - began < 3
    assert run.status == "Failed"
    assert run.error is not None
    assert run.error["code"] == "RunInterrupted"
    assert site.server.numbers(job.id) == [float(n) for n in range(1000)]


def test_a_run_that_says_its_end_keeps_it_and_the_watcher_leaves(site: Site, interactive: Start) -> None:
    job, process = interactive(
        "fd = open_segment(0)\nnumber(fd, 1.0)\n"
        "os.write(fd, journal.pack_long(journal.END, {'status': 'Completed', 'error': None, 't': 0}))\n"
        "os.close(fd)\ntime.sleep(600)\n"
    )
    run = job.wait()

    assert process.poll() is None
    assert run.statuses == ["Completed"]
    assert site.server.numbers(job.id) == [1.0]


def test_an_open_journal_keeps_the_watcher_until_the_process_ends(site: Site, interactive: Start) -> None:
    job, process = interactive(
        "fd = open_segment(0)\n"
        "os.write(fd, journal.pack_long(journal.END, {'status': 'Failed', 'error': {'code': 'UserError'}, 't': 0}))\n"
        "while not os.path.exists(folder + '/go'): time.sleep(0.01)\n"
        "number(fd, 2.0)\n"
    )
    wait_for(lambda: site.server.journal_of(job.id))
    time.sleep(1.5)
    assert not job.run.is_over
    (job.folder / "go").touch()
    run = job.wait()
    process.wait()

    assert run.status == "Failed"
    assert run.error == {"code": "UserError"}
    assert site.server.numbers(job.id) == [2.0]
