"""A full disk with the supervisor's folder in memory, and the count of what no disk and no folder took."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from runyard.core.machine import disk
from runyard.runtime import appender, overflow
from runyard.runtime.writer import JournalWriter
from runyard.supervisor.disk import Disk
from runyard.supervisor.run_folder import RunFolder
from tests.runtime.faulty_disk import FaultyDisk
from tests.runtime.journals import SOURCE, read_values


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    folder = tmp_path / "memory"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def counts(run_folder: Path) -> Path:
    """The file that a supervisor makes at the start of a run."""
    path = run_folder / disk.WAITING
    path.write_bytes(bytes(disk.COUNTS * disk.COUNT_BYTES))
    return path


class FullButFor(FaultyDisk):
    """Full, except for what lies below a folder."""

    def __init__(self, folder: Path, fault: int) -> None:
        super().__init__()
        self._folder, self._fault = str(folder), fault

    def write(self, fd: int, data: bytes) -> int:
        self.fault = None if os.readlink(f"/proc/self/fd/{fd}").startswith(self._folder) else self._fault
        return super().write(fd, data)


def warnings_of(run_folder: Path) -> list[str]:
    said: list[str] = []
    looker = Disk(RunFolder(str(run_folder)), warn=lambda _source, text: said.append(text), note=lambda _text: None)
    looker.warn_of_losses()
    return said


@pytest.mark.parametrize("fault", [errno.ENOSPC, errno.EDQUOT], ids=errno.errorcode.get)
def test_records_go_into_the_folder_in_memory(run_folder: Path, memory: Path, counts: Path, fault: int) -> None:
    writer = JournalWriter(run_folder, "run", write=FullButFor(memory, fault).write)
    writer.log("loss", 0.0)
    writer.log("loss", 1.0)
    assert [count.waiting for count in disk.iter_counts(counts.read_bytes())] == [2]
    (run_folder / disk.OVERFLOW).symlink_to(memory)
    for value in range(2, 500):
        writer.log("loss", float(value))
    writer.append(19, {"name": "big", "columns": {"x": "y" * 2_000_000}, "t": 1})

    assert read_values(memory, "loss") == [float(value) for value in range(500)]
    assert list(disk.iter_counts(counts.read_bytes())) == []
    assert len(list((memory / "journal").glob("*.side"))) == 1


def test_the_fast_path_is_back_once_the_disk_has_space(run_folder: Path, memory: Path) -> None:
    (run_folder / disk.OVERFLOW).symlink_to(memory)
    full = FullButFor(memory, errno.ENOSPC)
    writer = JournalWriter(run_folder, "run", write=full.write)
    for value in range(10):
        writer.log("loss", float(value))
    full._folder = "/"
    writer.log("loss", 10.0)
    before = full.calls
    writer.log("loss", 11.0)

    assert full.calls == before + 1
    assert read_values(memory, "loss") == [float(value) for value in range(10)]
    assert read_values(run_folder, "loss") == [10.0, 11.0]


@pytest.mark.parametrize("mode", [0o755, 0o770])
def test_a_folder_that_others_may_enter_is_not_used(run_folder: Path, memory: Path, mode: int) -> None:
    memory.chmod(mode)
    (run_folder / disk.OVERFLOW).symlink_to(memory)

    assert overflow.find_folder(str(run_folder)) is None


def test_a_killed_process_leaves_the_count_of_what_it_held(run_folder: Path, counts: Path) -> None:
    script = """
import errno, os, signal, sys
from runyard.runtime.writer import JournalWriter
from tests.runtime.faulty_disk import FaultyDisk
full = FaultyDisk()
full.fault = errno.ENOSPC
writer = JournalWriter(sys.argv[1], "run", write=full.write)
for n in range(1234): writer.log("loss", float(n))
writer.log("text", "word")
if os.fork() == 0:
    for n in range(7): writer.log("loss", float(n))
    os.kill(os.getpid(), signal.SIGKILL)
os.wait()
os.kill(os.getpid(), signal.SIGKILL)
"""
    variables = {**os.environ, "PYTHONPATH": f"{SOURCE}:{SOURCE.parent}"}
    done = subprocess.run([sys.executable, "-c", script, str(run_folder)], env=variables, check=False)
    said = sorted(warnings_of(run_folder))

    assert done.returncode == -signal.SIGKILL
    assert len(said) == 2
    assert said[0].startswith("1235 records of r0-") and "(1234 of them numbers)" in said[0]
    assert said[1].startswith("7 records of r0-") and said[1].endswith("could not be kept: the disk was full.")


def test_what_no_memory_took_is_counted_too(
    run_folder: Path, counts: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(appender, "LIMIT_BYTES", 2000)  # ten numbers
    full = FaultyDisk()
    full.fault = errno.ENOSPC
    writer = JournalWriter(run_folder, "run", write=full.write)
    for value in range(25):
        writer.log("loss", float(value))

    assert "25 records" in warnings_of(run_folder)[0]
    full.fault = None
    writer.close()
    assert "15 records" in warnings_of(run_folder)[0]
    assert "15 records of run run could not be written and are lost" in capfd.readouterr().err


def test_more_writers_than_cells_are_counted_as_far_as_there_are_cells(run_folder: Path, counts: Path) -> None:
    tallies = [overflow.OverflowTally(str(run_folder), f"r{number}-1-aaaaaaaa") for number in range(disk.COUNTS + 5)]
    for number, tally in enumerate(tallies, 1):
        tally.write(errno.ENOSPC, waiting=number)
    for tally in tallies:
        tally._close()

    assert len(list(disk.iter_counts(counts.read_bytes()))) == disk.COUNTS


def test_a_quota_that_only_the_program_sees_brings_the_folder_in_memory(run_folder: Path, counts: Path) -> None:
    said: list[str] = []
    noted: list[str] = []
    folder = RunFolder(str(run_folder))
    looker = Disk(folder, warn=lambda _source, text: said.append(text), note=noted.append)
    looker.look()
    assert (run_folder / disk.RESERVE).stat().st_blocks * 512 >= 1 << 20
    assert (said, noted) == ([], [])
    tally = overflow.OverflowTally(str(run_folder), "r0-1-aaaaaaaa")
    tally.write(errno.EDQUOT, waiting=3)
    looker.look()
    target = os.readlink(run_folder / disk.OVERFLOW)
    found = overflow.find_folder(str(run_folder))
    tally.write(errno.EDQUOT, waiting=0)
    looker.look()
    looker.remove_overflow()

    assert found is not None
    assert target.startswith("/dev/shm/runyard-") and not os.path.exists(target)
    assert "is full" in said[0]
    assert noted[0].startswith("the disk is full: waiting for space") and noted[1] == ""


PRINTS = """
import os, sys
from runyard.runtime import sitecustomize_hook as hook
hook._guard_output(sys.argv[1])
"""


def run_printing(run_folder: Path, script: str, *options: str) -> tuple[int, bytes]:
    """Run a script whose log may have 10,000 bytes, as the hook sets it up; return its exit code and its log."""
    log = run_folder / "user_logs" / "std_log.txt"
    log.parent.mkdir(exist_ok=True)
    variables = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    with open(log, "ab") as file:
        command = [sys.executable, *options, "-c", PRINTS + script, str(run_folder)]
        done = subprocess.run(
            command, env={**variables, "PYTHONPATH": str(SOURCE)}, stdout=file, stderr=file, check=False, timeout=60
        )
    return done.returncode, log.read_bytes()


FULL = """
import io
real = io.FileIO.write
is_full = True
def write(self, data):
    if is_full: raise OSError(28, "No space left on device")
    return real(self, data)
hook._PatientFile.write.__defaults__ = (write,)
real_write = os.write
def os_write(fd, data):
    if is_full and fd in (1, 2): raise OSError(28, "No space left on device")
    return real_write(fd, data)
os.write = os_write
"""


@pytest.mark.parametrize("options", [(), ("-u",)], ids=["buffered", "unbuffered"])
def test_print_goes_on_while_the_disk_is_full(run_folder: Path, counts: Path, options: tuple[str, ...]) -> None:
    script = FULL + (
        "print('a' * 100, flush=True)\nsys.stdout.buffer.write(b'bytes\\n')\nsys.stdout.flush()\n"
        "print('error', file=sys.stderr)\nis_full = False\nprint('after', flush=True)\nprint('end')\n"
    )
    code, log = run_printing(run_folder, script, *options)

    assert code == 0
    assert sorted(log.splitlines()) == sorted([b"a" * 100, b"bytes", b"error", b"after", b"end"])
    assert log.index(b"aaa") < log.index(b"bytes") < log.index(b"after") < log.index(b"end")
    assert warnings_of(run_folder) == []


def test_what_was_printed_until_the_end_on_a_full_disk_is_left_in_memory(
    run_folder: Path, memory: Path, counts: Path
) -> None:
    (run_folder / disk.OVERFLOW).symlink_to(memory)
    code, log = run_printing(run_folder, FULL + "import atexit\natexit.register(print, 'last')\nprint('first')\n")
    left = [path.read_bytes() for path in (memory / "user_logs").iterdir()]

    assert (code, log) == (0, b"")
    assert left == [b"first\nlast\n"]


def test_a_worker_of_multiprocessing_leaves_its_lines_in_memory_too(
    run_folder: Path, memory: Path, counts: Path
) -> None:
    (run_folder / disk.OVERFLOW).symlink_to(memory)
    script = FULL + (
        "import multiprocessing\n"
        "print('parent', flush=True)\n"
        "worker = multiprocessing.get_context('fork').Process(target=print, args=('worker',))\n"
        "worker.start()\nworker.join()\nsys.exit(worker.exitcode)\n"
    )
    code, log = run_printing(run_folder, script)
    left = sorted(path.read_bytes() for path in (memory / "user_logs").iterdir())

    assert (code, log) == (0, b"")
    assert left == [b"parent\n", b"worker\n"]
    assert warnings_of(run_folder) == []


def test_a_fork_does_not_print_twice_what_waits(run_folder: Path, counts: Path) -> None:
    script = FULL + (
        "print('parent', flush=True)\n"
        "if os.fork() == 0:\n    print('child', flush=True)\n    is_full = False\n    print('freed', flush=True)\n"
        "    os._exit(0)\n"
        "os.wait()\nis_full = False\nprint('end')\n"
    )
    code, log = run_printing(run_folder, script)

    assert code == 0
    assert log == b"child\nfreed\nparent\nend\n"


def test_the_streams_are_what_they_were(run_folder: Path) -> None:
    script = (
        "import subprocess, faulthandler\n"
        "facts = [(s.name, s.mode, s.encoding, s.errors, s.line_buffering, s.fileno(), s.isatty(), s.writable())\n"
        "         for s in (sys.stdout, sys.stderr)]\n"
        "sys.stdout.reconfigure(line_buffering=True)\n"
        "print(facts == EXPECTED, sys.stdout is sys.__stdout__)\n"
        "subprocess.run(['echo', 'child'])\nfaulthandler.enable(sys.stderr)\nos.write(1, b'raw\\n')\n"
    )
    before = (
        "import sys\nEXPECTED = [(s.name, s.mode, s.encoding, s.errors, s.line_buffering, s.fileno(), s.isatty(), "
        "s.writable()) for s in (sys.stdout, sys.stderr)]\n"
    )
    log = run_folder / "user_logs" / "std_log.txt"
    log.parent.mkdir(exist_ok=True)
    with open(log, "ab") as file:
        command = [sys.executable, "-c", before + PRINTS + script, str(run_folder)]
        subprocess.run(command, env={**os.environ, "PYTHONPATH": str(SOURCE)}, stdout=file, stderr=file, check=True)

    assert log.read_bytes() == b"True True\nchild\nraw\n"


def test_a_program_that_writes_elsewhere_still_hears_of_its_full_disk(run_folder: Path) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", PRINTS + "print('x', flush=True)", str(run_folder)],
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )

    assert done.returncode != 0
    assert b"No space left" in done.stderr
