"""A run folder or a whole home that somebody removed: everything of ours ends, and nothing makes it again."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from runyard.client.address import Address
from runyard.client.private_server import client_for
from runyard.core.errors import ServerUnreachable
from runyard.core.machine.facts import supervisor_command
from runyard.supervisor.proc import read_process
from tests.supervisor.supervised import Job, Site, lives
from tests.waiting import wait_for

SLEEP = "import time\nopen('started', 'w').write('x')\ntime.sleep(600)\n"


def start(site: Site) -> Job:
    """A run whose server is private: one that is away would be started again."""
    server = {"kind": "unix", "path": site.server.path, "home": str(site.home)}
    job = site.start(SLEEP, server=server)
    job.wait_for_text("started")
    wait_for(lambda: job.run.environment)  # looking at it makes a folder in the home's cache
    return job


def remove(path: Path) -> None:
    """As `rm -rf` does, again when somebody wrote into it meanwhile."""
    wait_for(lambda: shutil.rmtree(path, ignore_errors=True) or not path.exists())


def remove_home(site: Site) -> None:
    site.server.stop()
    remove(site.home)


def check_ended(job: Job) -> None:
    assert job.process is not None
    job.process.wait(20)
    wait_for(lambda: job.living() == [])


def test_a_removed_run_folder_ends_the_run_and_is_not_made_again(site: Site) -> None:
    job = start(site)
    remove(job.folder.parent)
    run = job.wait()

    assert run.status == "Failed"
    assert run.error is not None
    assert run.error["code"] == "RunFolderRemoved"
    assert str(job.folder) in run.error["message"]
    check_ended(job)
    assert not job.folder.parent.exists()


def test_a_removed_home_ends_supervisor_reaper_and_program(site: Site) -> None:
    job = start(site)
    remove_home(site)

    check_ended(job)
    assert not site.home.exists()


def test_a_reaper_whose_supervisor_died_with_the_folder_ends_the_program(site: Site) -> None:
    job = start(site)
    supervisor = job.supervisor_pid()
    remove_home(site)
    os.kill(supervisor, signal.SIGKILL)

    check_ended(job)
    assert not site.home.exists()


def test_a_supervisor_whose_reaper_died_with_the_folder_ends_the_program(site: Site) -> None:
    job = start(site)
    reaper, supervisor = job.reaper_pid(), job.supervisor_pid()
    remove_home(site)
    os.kill(reaper, signal.SIGKILL)

    check_ended(job)
    wait_for(lambda: not lives(supervisor))
    assert not site.home.exists()


def test_a_supervisor_that_waits_for_its_server_to_take_the_end_leaves_with_the_home(site: Site) -> None:
    job = site.prepare("open('started', 'w').write('x')\n")
    job.start()
    job.wait_for_text("started")
    site.server.stop()
    wait_for(lambda: (job.folder / "final.json").exists() or job.run.is_over)
    remove(site.home)

    check_ended(job)
    assert not site.home.exists()


@pytest.mark.parametrize("what", ["runs", "."])
def test_a_watcher_leaves_with_its_folder(site: Site, what: str) -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        entry = read_process(process.pid)
        assert entry is not None
        server = {"kind": "unix", "path": site.server.path, "home": str(site.home)}
        job = site.prepare(
            "", server=server, interactive_pid=process.pid, interactive_start_ticks=entry.start_ticks
        ).start("--watch")
        wait_for(lambda: job.run.logs)  # it is at work
        if what == ".":
            site.server.stop()
        remove(site.home / what)

        assert job.process is not None
        assert job.process.wait(20) == 0
        assert not (site.home / what).exists()
        assert what == "." or (job.run.error or {})["code"] == "RunFolderRemoved"
    finally:
        process.communicate(b"\n")


def test_serve_starts_nothing_for_a_home_that_is_gone(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    variables = {"PATH": os.environ["PATH"], "RUNYARD_HOME": str(gone), "XDG_RUNTIME_DIR": str(tmp_path)}
    reader, writer = os.pipe()
    subprocess.run([*supervisor_command(), "--serve"], env=variables, pass_fds=[writer], check=True)
    os.close(writer)
    with open(reader, "rb") as pipe:
        pipe.read()  # until the process that would start it has ended

    assert not gone.exists()


def test_a_run_does_not_start_a_server_in_a_home_that_is_gone(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    client = client_for(Address("unix", path=str(tmp_path / "s"), token="ryr_x", home=str(gone)))

    with pytest.raises(ServerUnreachable, match="home was removed"):
        client.server.info()
    assert not gone.exists()
