"""Journals, files and logs on their way: records that need work, a server that is away or refuses, a full disk."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from runyard.core.errors import InvalidArgument, NotAuthenticated, StoreUnavailable, SystemFailure
from runyard.core.formats import journal
from runyard.supervisor.disk import Disk
from runyard.supervisor.run_folder import RunFolder
from runyard.supervisor.shipping.logs import Log, Logs
from runyard.supervisor.shipping.segments import silence
from runyard.testing.fake_server import FakeServer
from tests.supervisor.journals import COUNTER, UNTIL_STOPPED
from tests.supervisor.supervised import Job, Site
from tests.supervisor.test_kills import check_complete, finish
from tests.waiting import wait_for


def test_a_file_record_is_shipped_after_its_file(site: Site) -> None:
    script = COUNTER + (
        "fd = open_segment(0)\n"
        "number(fd, 1.0)\n"
        "open(folder + '/uploads/abc', 'wb').write(b'x' * 5_000_000)\n"
        "for name, path in ('plots/a.png', 'uploads/abc'), ('../bad', 'uploads/abc'), ('x', '../../../etc/passwd'):\n"
        "    os.write(fd, journal.pack_long(journal.FILE, {'name': name, 'path': path, 'size': 5000000}))\n"
        "number(fd, 2.0)\n"
    )
    shipped_before_file = []

    def check(route: str, head: Mapping[str, Any], body: bytes) -> None:
        if route == "ship" and head["kind"] == "journal" and b"plots/a.png" in body:
            shipped_before_file.append("plots/a.png" not in site.server.runs[job.id].files)

    job = site.prepare(script)
    site.server.check = check
    run = job.start().wait()

    assert run.status == "Completed"
    assert site.server.file(job.id, "plots/a.png") == b"x" * 5_000_000
    assert shipped_before_file == [False]
    assert site.server.numbers(job.id) == [1.0, 2.0]
    assert list(run.files) == ["plots/a.png"]
    said = [warning["message"] for warning in run.warnings if warning["source"] == "files"]
    assert any(message.startswith("Could not be stored: the file '../bad'") for message in said)
    assert any("The file 'x' was removed before it could be stored" in message for message in said)
    assert os.listdir(job.folder / "uploads") == ["abc.done"]


def test_side_files_travel_before_the_record_that_names_them(site: Site) -> None:
    script = COUNTER + (
        "fd, name = open_segment(0), writer + '.0.0.side'\n"
        "open(folder + '/journal/' + name, 'wb').write(b'{' + b' ' * 3_000_000 + b'}')\n"
        "side = {'kind': journal.TABLE, 'file': name, 'length': 3_000_002, 'crc': 0}\n"
        "os.write(fd, journal.pack_long(journal.SIDE, side))\n"
        "number(fd, 1.0)\n"
    )
    job = site.start(script)

    assert job.wait().status == "Completed"
    assert [len(data) for data in site.server.sides.values()] == [3_000_002]
    assert site.server.numbers(job.id) == [1.0]


def test_records_of_a_child_run_are_shipped_for_it_and_an_open_child_is_ended(site: Site) -> None:
    script = COUNTER + (
        "fd = open_segment(0)\n"
        "for child in ('child-1', 'child-2'):\n"
        "    os.write(fd, journal.pack_long(journal.CHILD, {'run_id': child}))\n"
        "one = open_segment(1, run='child-1')\n"
        "number(one, 3.0)\n"
        "os.write(one, journal.pack_long(journal.END, {'status': 'Completed'}))\n"
    )
    job = site.start(script)
    run = job.wait()
    parts = list(journal.iter_parts(site.server.journal_of("child-2")[0]))

    assert run.status == "Completed"
    assert site.server.numbers("child-1") == [3.0]
    assert [part.kind for part in parts] == [journal.HEADER, journal.END]  # type: ignore[union-attr]
    assert parts[1].payload["error"]["code"] == "RunInterrupted"  # type: ignore[union-attr]
    assert len(site.server.journal_of("child-1")) == 1


def test_a_childs_records_wait_until_the_server_knows_the_child(site: Site) -> None:
    """Its journal may be there long before the record that makes it can go: that one waits behind an upload."""
    script = COUNTER + (
        "fd = open_segment(0)\n"
        "open(folder + '/uploads/big', 'wb').write(b'x' * 20_000_000)\n"
        "os.write(fd, journal.pack_long(journal.FILE, {'name': 'big', 'path': 'uploads/big', 'size': 20_000_000}))\n"
        "os.write(fd, journal.pack_long(journal.CHILD, {'run_id': 'child-1'}))\n"
        "one = open_segment(1, run='child-1')\n"
        "os.write(one, journal.pack_long(journal.CHILD, {'run_id': 'child-2'}))\n"
        "number(one, 3.0)\n"
        "two = open_segment(2, run='child-2')\n"
        "number(two, 4.0)\n"
    )
    run = site.start(script).wait()

    assert run.status == "Completed"
    assert run.warnings == []
    assert (site.server.numbers("child-1"), site.server.numbers("child-2")) == ([3.0], [4.0])
    assert list(dict.fromkeys(run_id for run_id, *_ in site.server.segments)) == ["exp_1", "child-1", "child-2"]


def test_acknowledged_offsets_are_written_for_who_waits_in_flush(site: Site) -> None:
    job = site.start(UNTIL_STOPPED)
    wait_for(lambda: list((job.folder / "journal").glob("*.acked")))
    finish(job)
    job.wait()
    segment = next((job.folder / "journal").glob("*.journal"))
    acked = int.from_bytes(segment.with_suffix(".acked").read_bytes(), "little")

    assert acked == segment.stat().st_size


def test_a_ring_ships_at_once(site: Site) -> None:
    job = site.start(COUNTER + "fd = open_segment(0)\nopen('ready', 'w').write('x')\nimport sys\n"
                     "while not os.path.exists('log'): time.sleep(0.001)\n"
                     "number(fd, 7.0)\nos.write(os.open(folder + '/wake', os.O_WRONLY | os.O_NONBLOCK), b'x')\n"
                     "end = os.fstat(fd).st_size\n"
                     "acked = '%s/journal/%s.0.acked' % (folder, writer)\n"
                     "def read():\n"
                     "    try: return int.from_bytes(open(acked, 'rb').read(), 'little')\n"
                     "    except OSError: return 0\n"
                     "while read() < end: time.sleep(0.001)\n"
                     "open('acked', 'w').write('x')\n")  # fmt: skip
    job.wait_for_text("ready")
    wait_for(lambda: "ship" in site.server.requests)
    (job.folder / "work/log").touch()

    job.wait_for_text("acked")
    assert job.wait().status == "Completed"


def test_a_server_that_is_away_gets_everything_later(site: Site) -> None:
    job = site.start(UNTIL_STOPPED)
    wait_for(lambda: site.server.numbers(job.id))
    site.server.stop()
    count = finish(job)
    wait_for((job.folder / "final.json").exists)
    site.server.start()

    assert job.wait().status == "Completed"
    check_complete(site, job, count)


def test_a_store_that_is_full_for_a_while_delays_the_end_and_loses_nothing(site: Site) -> None:
    job = site.prepare(UNTIL_STOPPED)
    full_until = time.monotonic() + 1.0

    def check(route: str, head: Mapping[str, Any], body: bytes) -> None:
        if time.monotonic() < full_until:
            raise StoreUnavailable("The disk is full.")

    site.server.check = check
    job.start().wait_for_file("ranks.json")
    count = finish(job)

    assert job.wait().status == "Completed"
    check_complete(site, job, count)


POISON = COUNTER + (
    "fd = open_segment(0)\n"
    "for n in range(5000): number(fd, float(n))\n"
    "os.write(fd, journal.pack_long(journal.VALUES, {'name': 'poison', 'values': ['x' * 100]}))\n"
    "for n in range(5000, 10_000): number(fd, float(n))\n"
    "open('outputs/poison.txt', 'w').write('poison')\n"
    "open('outputs/good.txt', 'w').write('good')\n"
    "open(folder + '/uploads/abc', 'wb').write(b'poison')\n"
    "os.write(fd, journal.pack_long(journal.FILE, {'name': 'poison.png', 'path': 'uploads/abc', 'size': 6}))\n"
    "print('done')\n"
    "while not os.path.exists('stop'): time.sleep(0.002)\n"
)


def is_poison(head: Mapping[str, Any], body: bytes) -> bool:
    return (head.get("kind") == "journal" and b'"poison"' in body) or "poison" in str(head.get("name"))


def refuse_poison(route: str, head: Mapping[str, Any], body: bytes) -> None:
    if is_poison(head, body):
        raise InvalidArgument("This cannot be applied.")


def numbers_of(site: Site, job: Job) -> list[float]:
    """Return what the program logged; its machine is sampled beside it."""
    with site.server.lock:
        segments = {key: bytes(data) for key, data in site.server.segments.items() if key[1].startswith("r0-")}
    other = FakeServer("")
    other.segments.update((key, bytearray(data)) for key, data in segments.items())
    return other.numbers(job.id)


@pytest.mark.long
def test_content_that_the_server_refuses_is_named_and_kept_and_holds_nothing_up(home: Path) -> None:
    site = Site(home, keep=False)
    job = site.prepare(POISON, output_folders=["outputs"])
    site.server.check = refuse_poison
    job.start()
    wait_for(lambda: len(numbers_of(site, job)) == 10_000 and "outputs/good.txt" in job.run.files)
    (job.folder / "work/stop").touch()
    run = job.wait()

    assert run.status == "Completed"
    assert numbers_of(site, job) == [float(n) for n in range(10_000)]
    assert job.log() == b"done\n"
    told = [one["message"] for one in run.warnings if one["message"].startswith("Could not be stored")]
    assert len(told) == 3
    assert any("1 records of" in message for message in told)
    assert any("'outputs/poison.txt'. This cannot be applied." in message for message in told)
    assert any("'poison.png'. This cannot be applied." in message for message in told)
    assert str(job.folder) in run.warnings[-1]["message"]
    assert (job.folder / "work/outputs/poison.txt").read_text() == "poison"
    assert (job.folder / "uploads/abc").read_bytes() == b"poison"
    assert len(list((job.folder / "journal").glob("*-again.*.journal"))) == 1
    site.close()


@pytest.mark.long
@pytest.mark.parametrize("killed", [False, True])
def test_content_that_was_refused_for_a_while_is_stored_at_the_end(home: Path, killed: bool) -> None:
    site = Site(home, keep=False)
    job = site.prepare(POISON, output_folders=["outputs"])
    site.server.check = refuse_poison
    job.start()
    wait_for(lambda: sum("Not stored so far" in one["message"] for one in job.run.warnings) == 3)
    wait_for(lambda: len(numbers_of(site, job)) == 10_000)
    if killed:
        os.kill(job.supervisor_pid(), signal.SIGKILL)
    site.server.check = None
    (job.folder / "work/stop").touch()
    run = job.wait()

    assert run.status == "Completed"
    assert numbers_of(site, job) == [float(n) for n in range(10_000)]
    assert b"".join(site.server.journal_of(job.id)).count(b'"poison"') == 1
    assert site.server.file(job.id, "outputs/poison.txt") == site.server.file(job.id, "poison.png") == b"poison"
    assert [one["message"] for one in run.warnings if one["message"].startswith("Could not be stored")] == []
    assert not job.folder.exists()
    site.close()


@pytest.mark.long
@pytest.mark.parametrize("killed", [False, True])
def test_a_server_that_fails_on_one_thing_gets_all_the_others_and_that_one_when_it_can(
    site: Site, killed: bool
) -> None:
    """A 500 is no verdict: nothing is given up, however often it comes."""

    def fail(route: str, head: Mapping[str, Any], body: bytes) -> None:
        if is_poison(head, body):
            raise SystemFailure("An error that nobody foresaw.")

    job = site.prepare(POISON, output_folders=["outputs"])
    site.server.check = fail
    job.start()
    wait_for(lambda: len(numbers_of(site, job)) == 5000 and "outputs/good.txt" in job.run.files)
    (job.folder / "work/stop").touch()
    wait_for((job.folder / "final.json").exists)
    failures = site.server.requests.count("files")
    wait_for(lambda: site.server.requests.count("files") > failures + 3)
    if killed:
        os.kill(job.supervisor_pid(), signal.SIGKILL)
    assert not job.run.is_over
    site.server.check = None
    run = job.wait()

    assert (run.status, run.warnings) == ("Completed", [])
    assert numbers_of(site, job) == [float(n) for n in range(10_000)]
    assert site.server.file(job.id, "outputs/poison.txt") == site.server.file(job.id, "poison.png") == b"poison"


def test_a_server_that_does_not_know_the_run_for_a_while_gets_everything_later(site: Site) -> None:
    """It was restored from a backup, or another database: 401, 403 and 404 are believed only when they last."""

    def forget(route: str, head: Mapping[str, Any], body: bytes) -> None:
        raise NotAuthenticated("The request has no valid token.")

    job = site.prepare(POISON, output_folders=["outputs"])
    site.server.check = forget
    job.start()
    wait_for((job.folder / "work/outputs/good.txt").exists)
    wait_for(lambda: site.server.requests.count("files") + site.server.requests.count("ship") > 8)
    (job.folder / "work/stop").touch()
    site.server.check = None
    run = job.wait()

    assert (run.status, run.warnings) == ("Completed", [])
    assert numbers_of(site, job) == [float(n) for n in range(10_000)]
    assert {"outputs/poison.txt", "outputs/good.txt", "poison.png"} <= set(run.files)


def test_a_run_that_this_one_may_not_write_to_does_not_hold_up_its_own_records(site: Site) -> None:
    script = COUNTER + (
        "fd = open_segment(0)\nnumber(fd, 1.0)\nother = open_segment(1, run='somebody-else')\nnumber(other, 2.0)\n"
    )

    def check(route: str, head: Mapping[str, Any], body: bytes) -> None:
        if head.get("run") == "somebody-else":
            raise InvalidArgument("There is no such run below this one.")

    job = site.prepare(script)
    site.server.check = check
    run = job.start().wait()

    assert run.status == "Completed"
    assert site.server.numbers(job.id) == [1.0]
    assert "records for run somebody-else" in run.warnings[0]["message"]
    assert job.folder.exists()


def test_journals_that_the_program_removes_or_tears_end_the_run_with_a_warning(site: Site) -> None:
    script = COUNTER + (
        "fd = open_segment(0)\nnumber(fd, 1.0)\nos.write(fd, b'\\x10torn')\n"
        "gone = open_segment(1)\nos.unlink('%s/journal/%s.1.journal' % (folder, writer))\n"
        "open(folder + '/journal/evil.journal', 'w').write('no journal')\n"
    )
    job = site.start(script)
    run = job.wait()

    assert run.status == "Completed"
    assert site.server.numbers(job.id) == [1.0]
    assert any("no whole record" in warning["message"] for warning in run.warnings)


def test_journals_and_logs_that_nobody_can_read_end_the_run_with_a_warning(site: Site) -> None:
    script = COUNTER + (
        "number(open_segment(0), 1.0)\n"
        "os.symlink('/etc/passwd', folder + '/journal/elsewhere.0.journal')\n"
        "os.mkdir(folder + '/journal/folder.0.journal')\n"
        "os.unlink(folder + '/user_logs/std_log.txt')\n"
        "os.symlink('/etc/passwd', folder + '/user_logs/std_log.txt')\n"
    )
    job = site.start(script)
    run = job.wait()

    assert run.status == "Completed"
    assert site.server.numbers(job.id) == [1.0]
    said = " ".join(warning["message"] for warning in run.warnings)
    assert "elsewhere.0.journal cannot be read: Too many levels of symbolic links." in said
    assert "folder.0.journal cannot be read: Is a directory." in said


@pytest.mark.parametrize("held", [None, 0, 4, 10])
def test_a_log_that_is_removed_before_all_of_it_was_shipped_is_read_to_its_end(
    tmp_path: Path, held: int | None
) -> None:
    logs, said = make_logs(tmp_path)
    log = tmp_path / "user_logs" / "std_log.txt"
    with open(log, "ab", buffering=0) as program:
        program.write(b"0123456789")
        logs.look()
        if held is not None:
            logs.took({"user_logs/std_log.txt": held})
        shutil.rmtree(tmp_path / "user_logs")
        program.write(b"after")
    stored = bytearray(b"0123456789after"[: held or 0])
    ship_logs(logs, stored)

    assert stored == b"0123456789after"
    assert logs.sizes() == {"user_logs/std_log.txt": 15}
    assert said == ["The program removed user_logs/std_log.txt. It is still open here: what it holds is stored."]


def test_a_log_that_another_file_replaces_is_followed_by_that(tmp_path: Path) -> None:
    logs, said = make_logs(tmp_path)
    log = tmp_path / "user_logs" / "std_log.txt"
    log.write_bytes(b"first ")
    stored = bytearray()
    ship_logs(logs, stored)
    os.rename(log, tmp_path / "elsewhere")
    log.write_bytes(b"second ")
    ship_logs(logs, stored)
    with open(log, "ab") as file:
        file.write(b"third")
    ship_logs(logs, stored)

    assert stored == b"first second third"
    assert any("one after the other" in text for text in said)


def test_a_log_that_was_shortened_goes_on(tmp_path: Path) -> None:
    logs, said = make_logs(tmp_path)
    log = tmp_path / "user_logs" / "std_log.txt"
    log.write_bytes(b"0123456789")
    stored = bytearray()
    ship_logs(logs, stored)
    os.truncate(log, 0)
    ship_logs(logs, stored)
    with open(log, "ab") as file:
        file.write(b"after")
    ship_logs(logs, stored)

    assert stored == b"0123456789after"
    assert said == ["The program removed or shortened user_logs/std_log.txt; what was shipped before is kept."]


def test_a_removed_log_that_was_not_open_holds_nothing_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runyard.supervisor.shipping.logs.MOST_HELD", 0)
    logs, said = make_logs(tmp_path)
    log = tmp_path / "user_logs" / "std_log.txt"
    log.write_bytes(b"0123456789")
    logs.look()
    logs.took({"user_logs/std_log.txt": 4})
    log.unlink()
    logs.look()

    assert logs.behind() == []
    assert said == [
        "The program removed user_logs/std_log.txt: 6 bytes of it are lost, what was shipped before is kept."
    ]


def test_output_that_stays_in_memory_follows_its_log_once(tmp_path: Path) -> None:
    logs, said = make_logs(tmp_path)
    log = tmp_path / "user_logs" / "std_log.txt"
    log.write_bytes(b"0123")
    stored = bytearray()
    ship_logs(logs, stored)
    memory = tmp_path / "overflow" / "user_logs"
    memory.mkdir(parents=True)
    (memory / "std_log.txt.77").write_bytes(b"live")
    ship_logs(logs, stored)
    assert stored == b"0123", "its process may still print"
    (memory / "std_log.txt.77").unlink()
    (memory / "std_log.txt@00000000000000000004").write_bytes(b"4567")
    (memory / "std_log.txt@00000000000000000008").write_bytes(b"89")
    log.write_bytes(b"012345")  # a supervisor was killed while it wrote the first of them
    ship_logs(logs, stored)

    assert stored == b"0123456789"
    assert said == []


def test_output_is_brought_home_in_order_and_once(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path))
    folder.make_subfolders()
    log, memory = tmp_path / "user_logs" / "std_log.txt", tmp_path / "overflow" / "user_logs"
    memory.mkdir(parents=True)
    log.write_bytes(b"0123zz")  # "zz": what a killed supervisor wrote of the first part
    (memory / "std_log.txt@00000000000000000004").write_bytes(b"4567")
    (memory / "std_log.txt.77").write_bytes(b"89")
    said: list[str] = []
    disk = Disk(folder, warn=lambda source, message: said.append(message), note=said.append)
    disk.bring_home()
    disk.bring_home()

    assert log.read_bytes() == b"0123456789"
    assert os.listdir(memory) == [] and said == []


def make_logs(root: Path) -> tuple[Logs, list[str]]:
    folder, said = RunFolder(str(root)), []
    folder.make_subfolders()

    def warn(_source: str, message: str) -> None:
        if message not in said:
            said.append(message)

    return Logs(folder, warn=warn), said


def ship_logs(logs: Logs, stored: bytearray) -> None:
    """Ship all that is there now; `stored` is what the server holds of the one log."""
    logs.look()
    while logs.behind():
        for log in logs.behind():
            frame = log.frame()
            if frame is not None:
                assert frame[0]["offset"] <= len(stored)
                stored += frame[1]
            logs.took({log.name: len(stored)})
        logs.look()


def test_a_log_that_nobody_can_read_holds_nothing_up(tmp_path: Path) -> None:
    log = Log("user_logs/std_log.txt", str(tmp_path / "std_log.txt"))
    log.offset, log.size = 0, 10
    assert log.frame() is None and log.is_behind  # not there: it is missed at the next look
    os.symlink("/etc/passwd", log.path)

    assert log.frame() is None and not log.is_behind


def test_a_log_folder_that_cannot_be_listed_for_a_moment_counts_as_it_was(tmp_path: Path) -> None:
    folder, said = RunFolder(str(tmp_path)), []
    folder.make_subfolders()
    (tmp_path / "user_logs" / "std_log.txt").write_bytes(b"0123456789")
    logs = Logs(folder, warn=lambda source, message: said.append(message))
    logs.look()
    logs.took({"user_logs/std_log.txt": 4})
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        logs.look()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    assert [(log.offset, log.size) for log in logs.behind()] == [(4, 10)]
    assert said == []


def test_a_restored_server_that_lost_the_tail_gets_it_again(site: Site) -> None:
    job = site.start(UNTIL_STOPPED)
    wait_for(lambda: len(site.server.numbers(job.id)) > 500)
    with site.server.lock:
        for data in site.server.segments.values():
            del data[len(data) // 64 * 32 :]
        del job.run.logs["user_logs/std_log.txt"][10:]
    count = finish(job)

    assert job.wait().status == "Completed"
    check_complete(site, job, count)


def test_silence_has_the_size_of_what_it_stands_for() -> None:
    for size in (32, 64, 96, 1024, 1 << 20):
        record = next(iter(journal.iter_parts(silence(size))))

        assert isinstance(record, journal.LongRecord)
        assert (record.kind, record.end, record.payload) == (journal.TAGS, size, {"set": {}})


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system")
def test_a_full_disk_delays_and_loses_nothing_that_was_written(site: Site) -> None:
    runs = site.home / "runs"
    runs.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m,mode=0700", "none", str(runs)], check=True)
    try:
        job = site.start(
            COUNTER + "fd = open_segment(0)\n"
            "for n in range(100): number(fd, float(n))\n"
            "try:\n"
            "    with open('outputs/big', 'wb', buffering=0) as big:\n"
            "        while True: big.write(b'x' * 65536)\n"
            "except OSError as error: code = error.errno\n"
            "try: open('outputs/more', 'w').write('y' * 10000)\n"
            "except OSError: pass\n"
            "while os.path.exists('outputs/big') or os.statvfs('.').f_bavail < 64: time.sleep(0.01)\n"
            "for n in range(100, 200): number(fd, float(n))\n"
            "print('errno', code)\n"
        )  # fmt: skip
        wait_for(lambda: (job.folder / "work/outputs/more").exists() or os.statvfs(runs).f_bavail == 0)
        time.sleep(1.0)
        os.unlink(job.folder / "work/outputs/big")
        run = job.wait()

        assert run.status == "Completed"
        assert site.server.numbers(job.id) == [float(n) for n in range(200)]
        assert job.log() == b"errno 28\n"
    finally:
        subprocess.run(["umount", "-l", str(runs)], check=True)
