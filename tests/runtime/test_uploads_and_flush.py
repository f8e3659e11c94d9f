"""Long records, side files, uploads, and waiting until the server has everything."""

from __future__ import annotations

import io
import json
import os
import threading
import time
import zlib
from pathlib import Path

import pytest

from runyard.core.errors import InvalidArgument, StoreUnavailable
from runyard.core.formats import journal
from runyard.runtime.writer import JournalWriter
from tests.runtime.journals import read_records


def test_tags_properties_artifacts_and_ends_are_the_records_of_the_contract(
    writer: JournalWriter, run_folder: Path
) -> None:
    writer.set_tags({"a": "b", "rank": 1, "bare": None})
    writer.remove_tags(["a"])
    writer.add_properties({"p": 1})
    writer.log_artifact("plot", "image", "./plot_1.png")
    writer.fail("it broke", error_code="E1")
    writer.end("Failed", {"code": "E1", "message": "it broke"})
    writer.append(journal.CHILD, {"run_id": "c1", "name": "child", "tags": {}})

    records = read_records(run_folder)
    times = [payload.pop("t") for kind, payload in records if kind in (journal.ARTIFACT, journal.END)]
    assert all(0 < t <= time.monotonic_ns() for t in times)
    assert records == [
        (journal.TAGS, {"set": {"a": "b", "rank": "1", "bare": None}, "remove": []}),
        (journal.TAGS, {"set": {}, "remove": ["a"]}),
        (journal.PROPERTIES, {"add": {"p": "1"}}),
        (journal.ARTIFACT, {"name": "plot", "kind": "image", "file": "plot_1.png"}),
        (journal.FAIL, {"error_details": "it broke", "error_code": "E1"}),
        (journal.END, {"status": "Failed", "error": {"code": "E1", "message": "it broke"}}),
        (journal.CHILD, {"run_id": "c1", "name": "child", "tags": {}}),
    ]


def test_a_payload_over_one_mebibyte_is_a_side_file(writer: JournalWriter, run_folder: Path) -> None:
    small = {"x": ["a" * (journal.MAX_PAYLOAD - 200)]}
    writer.log_table("small", small)
    writer.log_table("large", {"x": list(range(300_000))})
    writer.log("text", "y" * (2 << 20))

    (kind, payload), *sides = read_records(run_folder)
    assert (kind, payload["columns"]) == (journal.TABLE, small)
    assert [kind for kind, _ in sides] == [journal.SIDE] * 2
    bodies = []
    for _kind, side in sides:
        body = (run_folder / "journal" / side["file"]).read_bytes()
        assert (len(body), zlib.crc32(body)) == (side["length"], side["crc"])
        bodies.append((side["kind"], json.loads(body)))
    assert bodies[0][0] == journal.TABLE
    assert bodies[0][1]["columns"]["x"] == list(range(300_000))
    assert bodies[1][0] == journal.VALUES
    assert bodies[1][1]["values"] == ["y" * (2 << 20)]
    segment = next((run_folder / "journal").glob("*.journal")).name[: -len(".journal")]
    assert [side["file"] for _kind, side in sides] == [f"{segment}.0.side", f"{segment}.1.side"]


def test_an_upload_keeps_what_the_file_held_at_the_call(
    writer: JournalWriter, run_folder: Path, tmp_path: Path
) -> None:
    source = tmp_path / "model.bin"
    content = os.urandom(3_000_001)
    source.write_bytes(content)
    assert writer.upload("outputs/model.bin", source) == len(content)
    source.write_bytes(b"changed")
    source.unlink()

    [(kind, payload)] = read_records(run_folder)
    assert (kind, payload["name"], payload["size"]) == (journal.FILE, "outputs/model.bin", len(content))
    kept = run_folder / payload["path"]
    assert kept.parent == run_folder / "uploads"
    assert kept.read_bytes() == content
    assert kept.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in kept.parent.iterdir()] == [kept.name]


@pytest.mark.parametrize("kind", ["bytes", "stream", "advanced file", "empty file", "proc"])
def test_streams_bytes_and_odd_files_are_uploaded_whole(
    writer: JournalWriter, run_folder: Path, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "source"
    path.write_bytes(b"0123456789" if kind != "empty file" else b"")
    with open(path, "rb") as file:
        file.seek(4)
        sources = {
            "bytes": (b"0123", b"0123"),
            "stream": (io.BytesIO(b"abc"), b"abc"),
            "advanced file": (file, b"456789"),
            "empty file": (path, b""),
            "proc": ("/proc/self/comm", Path("/proc/self/comm").read_bytes()),
        }
        source, expected = sources[kind]
        size = writer.upload("file", source)  # type: ignore[arg-type]

    [(_kind, payload)] = read_records(run_folder)
    assert size == payload["size"] == len(expected)
    assert (run_folder / payload["path"]).read_bytes() == expected


def test_what_cannot_be_uploaded_is_refused_with_the_reason(
    writer: JournalWriter, run_folder: Path, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(InvalidArgument, match="No such file"):
        writer.upload("x", tmp_path / "missing")
    with pytest.raises(InvalidArgument, match="not a regular file"):
        writer.upload("x", tmp_path)
    with pytest.raises(InvalidArgument, match="not a regular file"):
        writer.upload("x", tmp_path / "fifo")
    with pytest.raises(InvalidArgument, match="mode 'rb'"):
        writer.upload("x", io.StringIO("text"))  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="cannot be used"):
        writer.upload("../x", b"")
    (run_folder / "uploads").write_text("in the way")
    with pytest.raises(StoreUnavailable, match="could not be copied"):
        writer.upload("x", b"1")

    assert read_records(run_folder) == []


class Supervisor:
    """A stand-in that acknowledges every segment once it is woken."""

    def __init__(self, run_folder: Path) -> None:
        self.run_folder = run_folder
        os.mkfifo(run_folder / "wake")
        self.fifo = os.open(run_folder / "wake", os.O_RDWR)
        self.woken = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self) -> None:
        os.read(self.fifo, 1)
        self.woken.set()
        for path in (self.run_folder / "journal").glob("*.journal"):
            end = journal.end_of(path.read_bytes())
            path.with_suffix(".acked").write_bytes(end.to_bytes(8, "little"))

    def close(self) -> None:
        self.thread.join()
        os.close(self.fifo)


def test_flush_wakes_the_supervisor_and_waits_for_its_answer(writer: JournalWriter, run_folder: Path) -> None:
    writer.log("loss", 1.0)
    supervisor = Supervisor(run_folder)

    assert writer.flush(20.0) is True
    assert supervisor.woken.is_set()
    supervisor.close()
    writer.log("loss", 2.0)
    assert writer.flush(0.05) is False


def test_flush_does_not_wait_for_the_torn_tail_of_an_old_segment(run_folder: Path) -> None:
    calls = 0

    def short_once(fd: int, data: bytes) -> int:
        nonlocal calls
        calls += 1
        return os.write(fd, data[:-1] if calls == 3 else data)

    writer = JournalWriter(run_folder, "run", write=short_once)
    writer.log("loss", 1.0)
    supervisor = Supervisor(run_folder)

    assert writer.flush(20.0) is True
    supervisor.close()
    writer.close()


def test_flush_of_nothing_is_done_and_a_missing_supervisor_is_no_error(writer: JournalWriter, run_folder: Path) -> None:
    assert writer.flush(5.0) is True
    writer.log("loss", 1.0)
    assert writer.flush(0.05) is False


def test_the_folder_of_an_ended_run_vanishes_when_all_is_stored(writer: JournalWriter, run_folder: Path) -> None:
    writer.end("Completed")
    mover = threading.Timer(0.1, run_folder.rename, [run_folder.with_name("gone")])
    mover.start()

    assert writer.flush(20.0) is True
    mover.join()
