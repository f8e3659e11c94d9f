"""Runs whose disk is full while they log, print, fail, end or are killed: a small disk, mounted for the test."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from runyard.core.formats import journal
from runyard.supervisor.disk import Disk
from runyard.supervisor.run_folder import RunFolder
from tests.supervisor.supervised import Job, Site
from tests.waiting import wait_for

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system")

SCRIPT = """
import os, sys, time
from runyard.runtime.writer import get_writer
folder = os.environ["RUNYARD_RUN_FOLDER"]
writer = get_writer(folder, os.environ["RUNYARD_RUN_ID"])

def fill():
    with open("filler", "wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while file.write(bytes(size)): pass
            except OSError: pass

writer.log("n", 0)
print("line 0", flush=True)
while not os.path.exists(folder + "/reserve"): time.sleep(0.01)
fill()
for n in range(1, 2000):
    writer.log("n", n)
    print("line", n, flush=n % 10 == 0)
"""
LINES = b"".join(b"line %d\n" % n for n in range(2000))


@pytest.fixture
def full_site(site: Site) -> Iterator[Site]:
    runs = site.home / "runs"
    runs.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m,mode=0700", "none", str(runs)], check=True)
    yield site
    subprocess.run(["umount", "-l", str(runs)], check=True)


def numbers(site: Site, job: Job) -> list[int]:
    """Return what the script logged; the supervisor's own samples of the machine are in journals of its own."""
    found: list[int] = []
    with site.server.lock:
        held = [
            bytes(data)
            for (run_id, writer, _), data in site.server.segments.items()
            if run_id == job.id and writer.startswith("r")
        ]
    for data in held:
        for part in journal.iter_parts(data):
            if isinstance(part, journal.Span):
                found += [cell[6] for cell in journal.INTEGER.iter_unpack(data[part.offset : part.end])]
    return sorted(found)


def said(job: Job) -> str:
    return "\n".join(warning["message"] for warning in job.run.warnings)


def overflow_of(job: Job) -> list[Path]:
    """Return the run's files in memory. Other tests have theirs beside them."""
    files = [file for file in Path("/dev/shm").glob("runyard-*/**/*") if file.is_file()]
    return [file for file in files if job.id.encode() in file.read_bytes()]


def test_what_a_script_logs_and_prints_arrives_though_it_ends_on_a_full_disk(full_site: Site) -> None:
    job = full_site.start(SCRIPT)
    run = job.wait()

    assert (job.folder / "work/filler").exists(), "it was full to the end"
    assert run.status == "Completed"
    assert numbers(full_site, job) == list(range(2000))
    assert printed(job) == LINES
    assert "is full. What the run logs and prints waits in memory" in said(job)
    assert overflow_of(job) == []


def printed(job: Job) -> bytes:
    """Return the program's log without our own warning, which may stand inside of a line."""
    return re.sub(rb"runyard: warning: the disk is full[^\n]*\n", b"", job.log())


@pytest.mark.long
def test_a_script_that_is_killed_on_a_full_disk_keeps_what_it_logged(full_site: Site) -> None:
    script = SCRIPT + "while True:\n    writer.log('n', 2000)\n    writer = None\n    os.kill(os.getpid(), 9)\n"
    job = full_site.start(script)
    run = job.wait()

    assert run.status == "Failed"
    found = numbers(full_site, job)
    lost = [text for text in said(job).splitlines() if "could not be kept" in text]
    assert found == list(range(2001)) or (
        found == list(range(len(found))) and f"{2001 - len(found)} records" in lost[0]
    )
    assert "The disk that holds" in run.error["message"]


@pytest.mark.parametrize("kilobytes", [200, 3000], ids=["the reserve holds it", "more than the reserve holds"])
def test_all_that_a_script_printed_is_stored_though_the_disk_stays_full(full_site: Site, kilobytes: int) -> None:
    job = full_site.start(SCRIPT + f"for n in range({kilobytes}): print('%04d' % n, 'x' * 1000)\nsys.stdout.flush()\n")
    run = job.wait()

    assert (job.folder / "work/filler").exists(), "it was full to the end"
    assert run.status == "Completed"
    assert printed(job) == LINES + b"".join(b"%04d %s\n" % (n, b"x" * 1000) for n in range(kilobytes))
    assert "could not be kept" not in said(job)
    assert overflow_of(job) == []


@pytest.mark.long
def test_lines_wait_for_space_and_come_in_order(full_site: Site) -> None:
    job = full_site.start(SCRIPT + "while os.path.exists('filler'): time.sleep(0.01)\nprint('after')\n")
    wait_for((job.folder / "overflow").exists)
    (job.folder / "work/filler").unlink()
    run = job.wait()

    assert run.status == "Completed"
    assert printed(job) == LINES + b"after\n"
    assert "could not be kept" not in said(job)


def test_the_error_of_a_script_that_could_not_write_names_the_disk_and_the_exception(full_site: Site) -> None:
    job = full_site.start(SCRIPT + "raise ValueError('no checkpoint')\n")
    run = job.wait()

    assert run.status == "Failed"
    assert "ValueError: no checkpoint" in run.error["message"]
    assert "The disk that holds" in run.error["message"]
    assert numbers(full_site, job) == list(range(2000))


@pytest.mark.long
def test_a_disk_that_fills_is_freed_once_of_what_can_be_made_again(full_site: Site, tmp_path: Path) -> None:
    freed: list[str] = []
    disk = Disk(
        RunFolder(str(full_site.home / "runs")),
        warn=lambda _, message: freed.append(message.partition(" is full")[0]),
        note=lambda _: None,
        make_room=lambda: freed.append("made room"),
        memory=str(tmp_path),
    )
    (full_site.home / "runs" / "journal").mkdir()
    disk.look()
    with open(full_site.home / "runs" / "filler", "wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass
    disk.look()
    disk.look()

    assert freed == ["made room", f"The disk that holds {full_site.home}/runs"]


def test_a_run_that_finds_the_disk_full_waits_for_space_with_words(full_site: Site) -> None:
    filler = full_site.home / "runs" / "filler"
    job = full_site.prepare("print('x' * 100_000)\n" + "#" * 200_000)
    with open(filler, "wb", buffering=0) as file:
        try:
            while file.write(bytes(65536)):
                pass
        except OSError:
            pass
    os.truncate(filler, os.stat(filler).st_size - 40_000)
    job.start()
    wait_for(lambda: any("disk is full" in doing for doing in job.run.doings))
    filler.unlink()
    run = job.wait()

    assert run.status == "Completed"
