"""Runs that we did not launch: their process is watched, shipped for, and its death is the run's end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import runyard
from runyard.supervisor.proc import read_process
from tests.supervisor.journals import COUNTER
from tests.supervisor.supervised import Job, Site
from tests.waiting import wait_for

Start = Callable[..., tuple[Job, "subprocess.Popen[bytes]"]]


@pytest.fixture
def interactive(site: Site) -> Iterator[Start]:
    started: list[subprocess.Popen[bytes]] = []

    def start(script: str, **options: Any) -> tuple[Job, subprocess.Popen[bytes]]:
        source = os.path.dirname(os.path.dirname(runyard.__file__))
        process = subprocess.Popen(
            [sys.executable, "-c", f"import os, sys\nsys.stdin.readline()\n{COUNTER}{script}"],
            env={**site.variables, "PYTHONPATH": source, "RUNYARD_RUN_FOLDER": folder(), "RUNYARD_RUN_ID": "exp_1"},
            stdin=subprocess.PIPE,
        )
        started.append(process)
        entry = read_process(process.pid)
        assert entry is not None
        job = site.prepare("", interactive_pid=process.pid, interactive_start_ticks=entry.start_ticks, **options)
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
    process.send_signal(signal.SIGKILL)
    process.wait()
    run = job.wait()

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


def test_an_open_journal_keeps_the_watcher_but_not_the_run(site: Site, interactive: Start) -> None:
    job, process = interactive(
        "fd = open_segment(0)\n"
        "os.write(fd, journal.pack_long(journal.END, {'status': 'Failed', 'error': {'code': 'UserError'}, 't': 0}))\n"
        "while not os.path.exists(folder + '/go'): time.sleep(0.01)\n"
        "number(fd, 2.0)\n"
    )
    wait_for(lambda: job.run.is_over)
    assert process.poll() is None
    (job.folder / "go").touch()
    process.wait()
    run = job.wait()

    assert run.status == "Failed"
    assert run.error == {"code": "UserError"}
    assert site.server.numbers(job.id) == [2.0]


def test_a_wish_of_the_server_ends_the_run_and_leaves_its_process_alone(site: Site, interactive: Start) -> None:
    job, process = interactive(
        "fd = open_segment(0)\nnumber(fd, 1.0)\n"
        "while not os.path.exists(folder + '/go'): time.sleep(0.01)\n"
        "number(fd, 2.0)\n"
    )
    wait_for(lambda: site.server.numbers(job.id))
    job.run.desired, job.run.desired_error = "fail", {"code": "Mine", "message": "no good"}
    (job.folder / "control.json").write_text("{}")
    wait_for(lambda: job.run.is_over)
    assert process.poll() is None
    (job.folder / "go").touch()
    process.wait()
    assert job.process is not None
    job.process.wait(10)

    assert (job.run.status, job.run.error) == ("Failed", {"code": "Mine", "message": "no good"})
    assert site.server.numbers(job.id) == [1.0, 2.0]


def test_folders_of_the_process_are_stored_while_it_goes_on(site: Site, interactive: Start, tmp_path: Path) -> None:
    (tmp_path / "outputs").mkdir()
    (tmp_path / "outputs" / "model.txt").write_text("weights")
    folders = {"outputs": str(tmp_path / "outputs"), "logs": str(tmp_path / "logs")}
    job, process = interactive("time.sleep(600)\n", interactive_folders=folders)
    wait_for(lambda: "outputs/model.txt" in job.run.files)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "events.txt").write_text("event")
    process.kill()
    process.wait()
    run = job.wait()

    assert run.error is not None and run.error["code"] == "RunInterrupted"
    assert site.server.file(job.id, "logs/events.txt") == b"event"
    assert site.server.file(job.id, "outputs/model.txt") == b"weights"


GUEST = (
    "fd = open_segment(0)\nnumber(fd, 1.0)\n"
    "while not os.path.exists(folder + '/go'): time.sleep(0.01)\n"
    "if os.path.exists(folder + '/more'): number(fd, 2.0)\n"
)


OF_THIS_VERSION = {"attempt": 0, "external_writer": 7}
OF_VERSION_0_2 = {"attempt": (1 << 20) + 7}  # the job of a server that runs since before the upgrade


def start_guest(
    site: Site, interactive: Start, job: dict[str, int] = OF_THIS_VERSION, **server: str
) -> tuple[Job, subprocess.Popen[bytes]]:
    """A process that logs on a run which it is not, its first record with the server."""
    del site.variables["RUNYARD_KEEP_RUN_FOLDERS"]
    address = {"kind": "unix", "path": site.server.path, **server}
    started, process = interactive(GUEST, server=address, **job)
    wait_for(lambda: site.server.numbers(started.id) == [1.0])
    acked = [len(site.server.journal_of(started.id)[0]).to_bytes(8, "little")]
    wait_for(lambda: [path.read_bytes() for path in started.folder.glob("journal/*.acked")] == acked)
    return started, process


@pytest.mark.parametrize("job", [OF_THIS_VERSION, OF_VERSION_0_2], ids=["this version", "0.2"])
def test_a_guest_with_nothing_to_send_leaves_a_stopped_server_alone(
    site: Site, interactive: Start, job: dict[str, int]
) -> None:
    guest, process = start_guest(site, interactive, job, home=str(site.home))  # a private server, started when needed
    site.server.stop()
    (guest.folder / "go").touch()
    process.wait()
    assert guest.process is not None
    assert guest.process.wait(10) == 0

    assert not guest.folder.exists()
    assert not (site.home / "server").exists()
    assert guest.run.heartbeats == 0
    assert guest.run.statuses == []


def test_what_a_guest_wrote_last_waits_for_the_server(site: Site, interactive: Start) -> None:
    job, process = start_guest(site, interactive)
    site.server.stop()
    (job.folder / "more").touch()
    (job.folder / "go").touch()
    process.wait()
    site.server.start()
    assert job.process is not None
    job.process.wait(10)

    assert site.server.numbers(job.id) == [1.0, 2.0]
    assert not job.folder.exists()
