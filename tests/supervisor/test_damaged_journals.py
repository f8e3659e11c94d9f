"""Garbage, cuts and removals in journals that are not shipped yet: what is left arrives once, what is lost is said."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from runyard.core.errors import StoreUnavailable
from runyard.core.formats import journal
from runyard.core.records import Mark
from runyard.engine.ingest.decode import decode
from runyard.supervisor.run_folder import RunFolder
from runyard.supervisor.shipping.journals import MOST_HELD, Journals
from runyard.supervisor.shipping.segments import ChildRunLedger
from tests.supervisor.journals import COUNTER
from tests.supervisor.supervised import Site


class Uploads:
    def is_done(self, _segment: object, _record: object) -> bool:
        return True


class Desk:
    """Journals of one run, and what a server would hold of them."""

    def __init__(self, root: Path) -> None:
        self.folder = RunFolder(str(root))
        self.said: list[str] = []
        self.held: dict[tuple[str, int], bytearray] = {}
        self.restart()

    def restart(self) -> None:
        """A new supervisor takes over."""
        seen = ChildRunLedger(self.folder)
        self.journals = Journals(
            self.folder, "run", uploads=Uploads(), seen=seen, warn=lambda _source, text: self._warn(text)
        )

    def _warn(self, text: str) -> None:
        if text not in self.said:
            self.said.append(text)

    def ship(self, *, most_bytes: int = 8 << 20) -> None:
        """Ship all that is on disk now."""
        for _ in range(1000):
            self.journals.look()
            behind = self.journals.behind()
            if not behind:
                return
            for segment in behind:
                part = self.journals.part(segment, most_bytes=most_bytes)
                for head, body in part.frames:
                    if head["kind"] == "journal":
                        self._take(head["writer"], head["segment"], head["offset"], body)
        raise AssertionError("it goes on forever")

    def _take(self, writer: str, segment: int, offset: int, body: bytes) -> None:
        """As the server does: nothing twice, no gap, whole records alone."""
        held = self.held.setdefault((writer, segment), bytearray())
        if 0 <= len(held) - offset < len(body):
            new = body[len(held) - offset :]
            held += new[: journal.end_of(new)]
        self.journals.took([Mark(writer, segment, len(held))])

    def values(self, name: str = "n") -> list[float]:
        found: list[float] = []
        for (writer, segment), data in sorted(self.held.items()):
            part = decode(bytes(data), writer=writer, segment=segment, base=0, names={}).part
            assert part.end == len(data)
            for item in part.content:
                found += [value for value in item.values if item.metric == name]  # type: ignore[union-attr]
        return found


class Script:
    """A writer of one segment, as in training code."""

    def __init__(self, root: Path, writer: str = "r0-1-aaaaaaaa", number: int = 0) -> None:
        self.path = root / "journal" / f"{writer}.{number}.journal"
        self.fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o600)
        self.count = 0
        clocks = {"wall_ns": time.time_ns(), "t": time.monotonic_ns()}
        header = {"run": "run", "writer": writer, "segment": number, "rank": 0, **clocks}
        self.add(journal.pack_long(journal.HEADER, header))
        self.name(1, "n")

    def add(self, data: bytes) -> int:
        at = os.fstat(self.fd).st_size
        os.write(self.fd, data)
        return at

    def name(self, name_id: int, name: str) -> int:
        return self.add(journal.pack_long(journal.NAME, {"id": name_id, "name": name}))

    def log(self, times: int, name_id: int = 1) -> int:
        """Log 0, 1, 2 …; return where the first stands."""
        start = os.fstat(self.fd).st_size
        for _ in range(times):
            self.add(
                journal.pack_number(journal.FLOAT, 1, 0, name_id, self.count, time.monotonic_ns(), float(self.count))
            )
            self.count += 1
        return start

    def spoil(self, at: int, size: int, seed: int = 0) -> None:
        with open(self.path, "r+b") as file:
            file.seek(at)
            file.write(random.Random(seed).randbytes(size))


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path)
    desk.folder.make_subfolders()
    return desk


@pytest.fixture
def script(desk: Desk) -> Script:
    return Script(Path(desk.folder.path))


def without(count: int, *lost: int) -> list[float]:
    return [float(value) for value in range(count) if value not in lost]


@pytest.mark.parametrize("seed", range(8))
def test_a_bad_cell_costs_the_cell(desk: Desk, script: Script, seed: int) -> None:
    start = script.log(1000)
    script.spoil(start + 400 * 32, 32, seed)
    desk.ship()

    kept = Path(desk.folder.at("system_logs/damaged_journals.txt")).read_text()
    assert desk.values() == without(1000, 400)
    assert random.Random(seed).randbytes(32).hex() in kept
    assert len(desk.said) == 1 and f"32 bytes of {script.path.name} from byte {start + 400 * 32}" in desk.said[0]


def test_two_damages_and_one_across_cells_cost_what_they_hit(desk: Desk, script: Script) -> None:
    start = script.log(1000)
    script.spoil(start + 100 * 32 + 8, 40, 1)  # the first keeps its kind, the second does not
    script.spoil(start + 300 * 32, 96, 2)
    script.spoil(start + 302 * 32 + 32 * 2, 32, 3)
    desk.ship(most_bytes=64)

    assert set(without(1000, 100, 101, 300, 301, 302, 304)) <= set(desk.values())
    assert len(desk.values()) <= 995
    assert len(desk.said) == 3


def test_garbage_over_the_head_of_a_long_record_costs_that_record(desk: Desk, script: Script) -> None:
    script.log(10)
    at = script.add(journal.pack_long(journal.TAGS, {"set": {"text": "x" * 5000}}))
    script.log(10)
    script.spoil(at, 16)
    desk.ship()

    assert desk.values() == without(20)
    assert "damaged" in desk.said[0]


def test_values_whose_name_was_destroyed_are_kept_under_another(desk: Desk, script: Script) -> None:
    script.log(3)
    at = script.name(2, "accuracy")
    script.log(5, name_id=2)
    script.name(3, "late")
    script.log(2, name_id=3)
    script.spoil(at + 20, 8)
    desk.ship()

    assert desk.values() == [0.0, 1.0, 2.0]
    assert desk.values("unnamed-2") == [3.0, 4.0, 5.0, 6.0, 7.0]
    assert desk.values("late") == [8.0, 9.0]
    assert "unnamed-2" in desk.said[0]


def test_a_destroyed_header_costs_nothing_else(desk: Desk, script: Script) -> None:
    script.log(50)
    script.spoil(0, 32)
    desk.ship()
    part = decode(bytes(next(iter(desk.held.values()))), writer="w", segment=0, base=0, names={}).part

    assert desk.values() == without(50)
    assert abs(part.wall_offset_ns - (time.time_ns() - time.monotonic_ns())) < 10**9


@pytest.mark.parametrize("tail", ["torn number", "torn record", "garbage"])
def test_a_bad_tail_before_another_segment_is_named_unless_a_full_disk_leaves_such_a_one(
    desk: Desk, script: Script, tail: str
) -> None:
    start = script.log(10)
    if tail == "torn number":
        script.add(b"\x01\x00\x00")
    elif tail == "torn record":
        script.add(journal.pack_long(journal.TAGS, {"set": {"k": "x" * 500}})[:200])
    else:
        script.spoil(start + 8 * 32, 64)
    Script(Path(desk.folder.path), number=1).log(5)
    desk.ship()
    desk.journals.warn_of_tails()

    assert desk.values() == [*without(8 if tail == "garbage" else 10), *without(5)]
    assert len(desk.said) == (tail == "garbage")


def test_a_record_whose_side_file_is_gone_holds_nothing_up(desk: Desk, script: Script) -> None:
    script.log(10)
    named = {"kind": journal.TABLE, "file": "r0-1-aaaaaaaa.0.0.side", "length": 2_000_000, "crc": 1}
    script.add(journal.pack_long(journal.SIDE, named))
    script.log(10)
    desk.ship()

    assert desk.values() == without(20)
    assert desk.said == ["The side file 'r0-1-aaaaaaaa.0.0.side' of a record is missing; the record is lost."]


@pytest.mark.parametrize("length", [[1], {}, 1 << 62, 10**30], ids=["list", "dict", "no memory", "no offset"])
def test_a_side_file_of_an_odd_length_holds_nothing_up(desk: Desk, script: Script, length: object) -> None:
    (Path(desk.folder.path) / "journal" / "r0-1-aaaaaaaa.0.0.side").write_bytes(b"{}")
    script.log(10)
    named = {"kind": journal.TABLE, "file": "r0-1-aaaaaaaa.0.0.side", "length": length, "crc": 1}
    script.add(journal.pack_long(journal.SIDE, named))
    script.log(10)
    desk.ship()

    (held,) = desk.held.values()
    assert len(held) == script.path.stat().st_size
    lost = "The side file 'r0-1-aaaaaaaa.0.0.side' of a record is missing; the record is lost."
    assert desk.said == ([lost] if isinstance(length, int) else [])  # the server names what it cannot read


def test_damage_beyond_a_window_is_crossed(desk: Desk, script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runyard.supervisor.shipping.salvage._WINDOW", 3 << 20)
    script.log(10)
    script.add(random.Random(5).randbytes(7 << 20))
    script.log(10)
    desk.ship()

    assert desk.values() == without(20)


def test_damage_at_the_tail_waits_for_what_follows(desk: Desk, script: Script) -> None:
    script.log(10)
    script.add(b"\x12torn")
    desk.ship()
    assert desk.said == []
    script.log(10)
    desk.ship()

    assert desk.values() == without(20)
    assert "5 bytes" in desk.said[0]


def test_a_restarted_supervisor_goes_on_behind_damage_without_doubling(desk: Desk, script: Script) -> None:
    script.log(100)
    script.add(b"odd")
    script.log(100)
    desk.ship()
    desk.restart()
    script.log(100)
    desk.ship()

    assert desk.values() == without(300)


@pytest.mark.parametrize("cut_at", [2000, 2016, 3200], ids=["odd place", "half a cell", "cell"])
@pytest.mark.parametrize("shipped", [False, True], ids=["nothing shipped", "all shipped"])
def test_a_journal_cut_by_the_program_goes_on(desk: Desk, script: Script, cut_at: int, shipped: bool) -> None:
    start = script.log(200)
    if shipped:
        desk.ship()
    else:
        desk.journals.look()
    os.truncate(script.path, cut_at)
    script.name(2, "new")
    script.log(50)
    script.log(5, name_id=2)
    desk.ship()
    kept = 200 if shipped else (cut_at - start) // 32

    assert desk.values() == [*map(float, range(kept)), *map(float, range(200, 250))]
    assert desk.values("new") == [250.0, 251.0, 252.0, 253.0, 254.0]
    assert f"cut {script.path.name}" in desk.said[0]
    assert ("was stored" in desk.said[0]) == shipped


def test_a_journal_cut_to_nothing_goes_on(desk: Desk, script: Script) -> None:
    script.log(100)
    desk.ship()
    os.truncate(script.path, 0)
    desk.ship()
    script.log(100)
    desk.ship()
    desk.journals.warn_of_tails()

    assert desk.values() == without(200)
    assert len(desk.said) == 1


def test_a_removed_journal_is_read_to_its_end(desk: Desk, script: Script) -> None:
    child = Script(Path(desk.folder.path), writer="r0-2-bbbbbbbb")
    script.log(100)
    child.log(10)
    desk.journals.look()
    shutil.rmtree(desk.folder.at("journal"))
    script.log(100)
    child.log(10)
    desk.ship()

    assert sorted(desk.values()) == sorted(without(200) + without(20))
    assert len(desk.said) == 2 and all("still open here" in text for text in desk.said)


@pytest.mark.parametrize("what", ["folder", "link", "file", "fifo"])
def test_a_journal_that_became_something_else_is_read_to_its_end(desk: Desk, script: Script, what: str) -> None:
    script.log(100)
    desk.journals.look()
    script.path.unlink()
    if what == "folder":
        script.path.mkdir()
    elif what == "link":
        script.path.symlink_to("/etc/passwd")
    elif what == "file":
        script.path.write_bytes(b"something else")
    else:
        os.mkfifo(script.path)
    script.log(100)
    desk.ship()

    assert desk.values() == without(200)
    assert "still open here" in desk.said[0]


def test_a_journal_removed_while_no_supervisor_lived_is_named(desk: Desk, script: Script) -> None:
    script.log(100)
    desk.ship()
    script.path.unlink()
    desk.restart()
    desk.ship()

    assert desk.said == [f"The program removed {script.path.name}. What it held beyond what was stored before is lost."]


def test_a_removed_journal_that_was_not_open_is_said_to_be_lost(desk: Desk, script: Script) -> None:
    script.log(100)
    desk.journals.look()
    for segment in desk.journals.behind():
        segment.let_go()
    script.path.unlink()
    desk.ship()

    assert f"removed {script.path.name} after byte 0 was stored: at least 3" in desk.said[0]


def test_the_number_of_open_files_is_limited(desk: Desk) -> None:
    root = Path(desk.folder.path)
    for number in range(MOST_HELD + 20):
        os.close(Script(root, number=number).fd)
    desk.ship()
    open_files = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]

    assert sum(str(root) in path for path in open_files) <= MOST_HELD
    assert len(desk.held) == MOST_HELD + 20


def test_a_run_whose_script_damages_and_removes_its_journals(site: Site) -> None:
    script = COUNTER + (
        "import glob\n"
        "def is_open_elsewhere(path):\n"
        "    for fd in glob.glob('/proc/[0-9]*/fd/*'):\n"
        "        if fd.startswith('/proc/%d/' % pid): continue\n"
        "        try:\n"
        "            if os.readlink(fd) == os.path.realpath(path): return True\n"
        "        except OSError: pass\n"  # the file or the process is gone
        "fd = open_segment(0)\n"
        "for n in range(500): number(fd, float(n))\n"
        "path = '%s/journal/%s.0.journal' % (folder, writer)\n"
        "with open(path, 'r+b') as file:\n"
        "    file.seek(-32 * 100, 2)\n"
        "    file.write(b'\\xff' * 32)\n"
        "gone = open_segment(1)\n"
        "for n in range(500, 600): number(gone, float(n))\n"
        "path = '%s/journal/%s.1.journal' % (folder, writer)\n"
        "while not is_open_elsewhere(path): time.sleep(0.01)\n"  # the supervisor has seen it
        "os.unlink(path)\n"
        "for n in range(600, 1000): number(gone, float(n))\n"
        "open('go', 'w').close()\n"
    )

    def check(route: str, _head: Mapping[str, Any], _body: bytes) -> None:
        if route == "ship" and not (job.folder / "work/go").exists():
            raise StoreUnavailable("Later.")

    job = site.prepare(script)
    site.server.check = check
    run = job.start().wait()
    said = " ".join(warning["message"] for warning in run.warnings)

    assert run.status == "Completed"
    assert sorted(site.server.numbers(job.id)) == [float(n) for n in range(1000) if n != 400]
    assert "32 bytes of" in said
    assert "still open here" in said
