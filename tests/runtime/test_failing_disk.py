"""Short writes, errors, a full disk, a vanished folder: training goes on and nothing that could be kept is lost."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from runyard.core.formats import journal
from runyard.runtime import appender
from runyard.runtime.writer import JournalWriter
from tests.runtime.faulty_disk import FaultyDisk
from tests.runtime.journals import (
    SOURCE,
    make_run_folder,
    read_points,
    read_records,
    read_segments,
    read_values,
    run_script,
)


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


@pytest.fixture
def faulty(run_folder: Path, disk: FaultyDisk) -> JournalWriter:
    return JournalWriter(run_folder, "run", write=disk.write)


@pytest.mark.parametrize("fault", [errno.EIO, errno.EFBIG, errno.EBADF], ids=errno.errorcode.get)
def test_a_file_that_cannot_be_written_any_more_is_followed_by_the_next(run_folder: Path, fault: int) -> None:
    disk, bad = FaultyDisk(), set()

    def write(fd: int, data: bytes) -> int:
        disk.fault = fault if os.fstat(fd).st_ino in bad else None
        return disk.write(fd, data)

    writer = JournalWriter(run_folder, "run", write=write)
    writer.log("loss", 0.0)
    writer.log("other", 0.0)
    bad.update(path.stat().st_ino for path in (run_folder / "journal").iterdir())
    for value in range(1, 5):
        writer.log("loss", value, step=value)
        writer.log("other", float(value))
    writer.close()

    assert read_values(run_folder, "loss") == [0.0, 1, 2, 3, 4]
    assert read_values(run_folder, "other") == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert [segment.header["segment"] for segment in read_segments(run_folder)] == [0, 1]


@pytest.mark.parametrize("at", range(1, 9))
def test_a_short_write_at_any_call_tears_nothing_but_its_own_segment(tmp_path: Path, at: int) -> None:
    folder, calls = make_run_folder(tmp_path / "run"), 0

    def short_once(fd: int, data: bytes) -> int:
        nonlocal calls
        calls += 1
        return os.write(fd, data[:-1] if calls == at else data)

    writer = JournalWriter(folder, "run", write=short_once)
    writer.log("loss", 1.0)
    writer.log("loss", 2.0)
    writer.log_list("list", [1, "a", 2.0])
    writer.log_row("row", x=1)
    writer.log("loss", 3.0)
    writer.close()

    assert read_values(folder, "loss") == [1.0, 2.0, 3.0]
    assert read_values(folder, "list") == [1, "a", 2.0]
    assert [payload["columns"] for _kind, payload in read_records(folder)] == [{"x": 1}]
    assert calls >= at


def test_records_wait_in_memory_while_the_disk_is_full_and_are_written_by_a_later_call(
    faulty: JournalWriter, disk: FaultyDisk, run_folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    faulty.log("loss", 0.0)
    disk.fault = errno.ENOSPC
    for value in range(1, 6000):
        faulty.log("loss", float(value))
    faulty.log("new", "text")
    faulty.log_row("row", x=1)
    faulty.set_tags({"k": "v"})
    assert read_values(run_folder, "loss") == [0.0]

    disk.fault = None
    faulty.log("loss", 6000.0)
    before = disk.calls
    faulty.log("loss", 6001.0)

    assert disk.calls == before + 1, "the fast path is back"
    assert read_values(run_folder, "loss") == [float(value) for value in range(6002)]
    assert read_values(run_folder, "new") == ["text"]
    assert [kind for kind, _payload in read_records(run_folder)] == [journal.ROW, journal.TAGS]
    assert len(read_segments(run_folder)) == 1, "nothing was torn, so nothing was left"
    said = capfd.readouterr().err
    assert said.count("disk is full") == 1
    assert "would not survive a kill" in said


def test_a_full_disk_from_the_very_first_record_on(faulty: JournalWriter, disk: FaultyDisk, run_folder: Path) -> None:
    disk.fault = errno.EDQUOT
    for value in range(10):
        faulty.log("loss", value)
    faulty.append(journal.TABLE, {"name": "big", "columns": {"x": ["y" * 2_000_000]}, "t": 1})
    disk.fault = None
    faulty.close()

    assert read_values(run_folder, "loss") == list(range(10))
    assert [segment.header["segment"] for segment in read_segments(run_folder)] == [0]
    assert [kind for kind, _payload in read_records(run_folder)] == [journal.SIDE]


def test_a_flood_beyond_the_limit_says_that_newer_records_are_lost(
    faulty: JournalWriter, disk: FaultyDisk, run_folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    disk.fault = errno.ENOSPC
    text = "x" * 1_000_000
    for number in range(80):
        faulty.log("text", f"{number}{text}")
    disk.fault = None
    faulty.close()

    kept = read_values(run_folder, "text")
    assert len(kept) == appender.LIMIT_BYTES // 1_000_200
    assert kept[0][0] == "0"
    assert "newer ones are lost" in capfd.readouterr().err


FULL = """
import os, sys
from runyard.runtime.writer import JournalWriter
folder = sys.argv[1]
writer = JournalWriter(folder, "run")
filler = os.path.join(folder, "journal", "filler")
with open(filler, "wb", buffering=0) as file:
    try:
        while file.write(bytes(4096)):
            pass
    except OSError:
        pass
for value in range(20000):
    writer.log("loss", float(value))
    writer.log("name%d" % (value % 100), value)
    if value == 10000 and sys.argv[2] == "later":
        os.unlink(filler)
writer.log_list("list", [float(value) for value in range(1000)])
if sys.argv[2] == "exit":
    os.unlink(filler)
"""


@pytest.mark.long
@pytest.mark.parametrize("freed", ["later", "exit", "never"])
def test_a_file_system_that_is_really_full(run_folder: Path, tmp_path: Path, freed: str) -> None:
    unshare = shutil.which("unshare")
    command = (
        [unshare or "", "--mount"] if os.geteuid() == 0 else [unshare or "", "--user", "--map-root-user", "--mount"]
    )
    if unshare is None or subprocess.run([*command, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine allows no mount namespaces")
    shell = 'mount -t tmpfs -o size=2m none "$1/journal" && "$2" -c "$3" "$1" "$4" && cp -r "$1/journal" "$5"'
    kept = tmp_path / "kept"
    kept.mkdir()
    done = subprocess.run(
        [*command, "sh", "-c", shell, "sh", str(run_folder), sys.executable, FULL, freed, str(kept)],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stderr.count("the disk is full") == 1
    if freed == "never":
        assert "could not be written and are lost" in done.stderr
        return
    assert read_values(kept, "loss") == [float(value) for value in range(20000)]
    assert read_values(kept, "list") == [float(value) for value in range(1000)]
    assert sorted(p.value for p in read_points(kept) if p.name.startswith("name")) == list(range(20000))
    assert "lost" not in done.stderr


def test_a_limit_of_the_file_size_only_makes_more_segments(run_folder: Path) -> None:
    script = """
import resource, sys
from runyard.runtime.writer import JournalWriter
resource.setrlimit(resource.RLIMIT_FSIZE, (10_007, 10_007))
writer = JournalWriter(sys.argv[1], "run")
for value in range(5000):
    writer.log("loss", float(value))
    if value % 500 == 0:
        writer.log("text", "x" * 3000)
"""
    done = run_script(script, run_folder)

    assert done.stderr == ""
    assert read_values(run_folder, "loss") == [float(value) for value in range(5000)]
    assert read_values(run_folder, "text") == ["x" * 3000] * 10
    assert len(read_segments(run_folder)) > 15


def test_a_missing_journal_folder_is_made_again(run_folder: Path) -> None:
    shutil.rmtree(run_folder / "journal")
    writer = JournalWriter(run_folder, "run")
    writer.log("loss", 1.0)
    writer.close()

    assert read_values(run_folder, "loss") == [1.0]


def test_a_deleted_run_folder_is_said_once_and_hurts_nobody(
    run_folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    writer = JournalWriter(run_folder, "run")
    shutil.rmtree(run_folder)
    for value in range(100):
        writer.log("loss", float(value))
    writer.log_row("row", x=1)
    assert writer.flush(0.05) is False
    writer.close()

    assert capfd.readouterr().err.count("cannot be written (No such file or directory)") == 1


def test_a_closed_stderr_is_no_reason_to_end(run_folder: Path) -> None:
    script = """
import os, sys
from runyard.runtime.writer import JournalWriter
sys.stderr.close()
os.close(1)
writer = JournalWriter(os.path.join(sys.argv[1], "nowhere"), "run")
for value in range(10):
    writer.log("loss", float(value))
sys.stderr = None
writer.close()
writer.log("loss", 1.0)
"""
    run_script(script, run_folder)


def test_without_free_descriptors_records_wait(run_folder: Path) -> None:
    script = """
import os, resource, sys
from runyard.runtime.writer import JournalWriter
writer = JournalWriter(sys.argv[1], "run")
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
files = []
try:
    while True:
        files.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
writer.log("loss", 1.0)
for fd in files:
    os.close(fd)
writer.log("loss", 2.0)
"""
    done = run_script(script, run_folder)

    assert "Too many open files" in done.stderr
    assert read_values(run_folder, "loss") == [1.0, 2.0]
