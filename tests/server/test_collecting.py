"""The bytes of deleted runs are freed by the server itself, also when it was stopped in between."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard.artifacts.aside import Aside
from runyard.artifacts.collect import Collector
from runyard.artifacts.content import ContentStore, Leases
from runyard.artifacts.filesystem import FilesystemStore
from runyard.core.errors import StoreUnavailable
from runyard.core.formats.chunks import chunk_id
from runyard.core.records import RunFile
from runyard.core.statuses import RunStatus
from runyard.server.storage.collecting import GARBAGE, Collecting, CollectionRound
from runyard.store import open_store
from runyard.store.base import RunStore
from runyard.testing.runs import a_run
from tests.waiting import wait_for

BLOB = bytes(range(256)) * 4096


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    opened = open_store(tmp_path / "runyard.db")
    yield opened
    opened.close()


def open_collecting(store: RunStore, artifacts: FilesystemStore) -> tuple[ContentStore, Collecting]:
    content = ContentStore(artifacts, store, leases=Leases(grace_s=0.05))
    return content, Collecting(store, content, Collector(content, artifacts, store), Aside(artifacts))


def test_deleted_content_leaves_the_disk_and_the_rest_stays(store: RunStore, tmp_path: Path) -> None:
    artifacts = FilesystemStore(tmp_path / "artifacts")
    content, collecting = open_collecting(store, artifacts)
    kept = BLOB[::-1]
    content.put_chunks([(chunk_id(blob), blob) for blob in (BLOB, kept)])
    for run_id, blob in (("gone", BLOB), ("stays", kept)):
        a_run(store, run_id)
        store.put_file(run_id, RunFile(name="m", size=len(blob), chunks=[chunk_id(blob)]))
    store.set_status("gone", RunStatus.CANCELED)
    first = list(artifacts.iter_keys("packs/"))

    collecting.start()
    collecting.note()
    store.delete_run("gone")
    assert store.find_value(GARBAGE) == "1"
    wait_for(lambda: store.find_value(GARBAGE) == "")
    collecting.stop()

    assert content.missing([chunk_id(BLOB), chunk_id(kept)]) == [chunk_id(BLOB)]
    assert content.get_chunk(chunk_id(kept)) == kept
    packs = list(artifacts.iter_keys("packs/"))
    assert packs == list(store.iter_packs()) and packs != first and len(packs) == 1
    artifacts.close()


def test_what_a_stopped_server_left_is_collected_by_the_next(store: RunStore, tmp_path: Path) -> None:
    artifacts = FilesystemStore(tmp_path / "artifacts")
    content, before = open_collecting(store, artifacts)
    content.put_chunks([(chunk_id(BLOB), BLOB)])
    before.note()
    before.stop()
    _, after = open_collecting(store, artifacts)
    after.start()
    wait_for(lambda: store.find_value(GARBAGE) == "")
    after.stop()

    assert list(artifacts.iter_keys("packs/")) == [] == list(store.iter_packs())
    artifacts.close()


def test_content_is_collected_while_the_caller_waits(store: RunStore, tmp_path: Path) -> None:
    artifacts = FilesystemStore(tmp_path / "artifacts")
    content, collecting = open_collecting(store, artifacts)
    content.put_chunks([(chunk_id(BLOB), BLOB)])
    wait_for(lambda: not content.leases.held() and content.leases.is_warm())
    freed = collecting.collect_now()

    assert freed.removed == 1 and 0 < freed.freed_bytes <= len(BLOB)
    assert freed.rest_within_s == pytest.approx(0.2)
    assert list(artifacts.iter_keys("packs/")) == []
    artifacts.close()


def test_an_upload_that_failed_is_taken_back_at_once(store: RunStore, tmp_path: Path) -> None:
    """M7: what did not fit does not keep the disk full."""
    artifacts = FilesystemStore(tmp_path / "artifacts")
    content, collecting = open_collecting(store, artifacts)
    blobs = [bytes([at]) * 9 + BLOB for at in range(4)]
    for blob in blobs:
        content.put_chunks([(chunk_id(blob), blob)], uploader="alice")
    ids = [chunk_id(blob) for blob in blobs]
    content.file_size([ids[0]])  # about to be a file of a run
    assert content.missing([ids[1]]) == []  # another upload counts on it

    assert collecting.take_back(ids, "bob") == 0
    assert collecting.take_back(ids, "alice") > 0
    assert content.missing(ids) == ids[2:]
    assert list(artifacts.iter_keys("packs/")) == sorted(store.iter_packs()) and len(list(store.iter_packs())) == 2
    assert collecting.take_back(ids, "alice") == 0
    artifacts.close()


def test_an_upload_that_could_not_be_taken_back_is_at_the_next_try(
    store: RunStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M7: the disk is so full that the index cannot even forget a chunk; the server then frees its reserve."""
    artifacts = FilesystemStore(tmp_path / "artifacts")
    content, collecting = open_collecting(store, artifacts)
    blobs = [bytes([at]) + BLOB for at in range(2)]
    for blob in blobs:
        content.put_chunks([(chunk_id(blob), blob)], uploader="alice")
    ids, tries = [chunk_id(blob) for blob in blobs], [0]

    def full_at_first(*args: object) -> None:
        tries[0] += 1
        if tries[0] == 2:  # of the second pack
            raise StoreUnavailable("database or disk is full")
        replace_pack(*args)  # type: ignore[arg-type]

    replace_pack = store.replace_pack
    monkeypatch.setattr(store, "replace_pack", full_at_first)
    with pytest.raises(StoreUnavailable):
        collecting.take_back(ids, "alice")
    assert len(list(artifacts.iter_keys("packs/"))) == 1
    assert collecting.take_back(ids, "alice") > 0
    assert list(artifacts.iter_keys("packs/")) == [] == list(store.iter_packs())
    artifacts.close()


def test_a_pack_goes_back_whole_or_not_at_all(store: RunStore, tmp_path: Path) -> None:
    artifacts = FilesystemStore(tmp_path / "artifacts")
    content, collecting = open_collecting(store, artifacts)
    ids = [chunk_id(BLOB), chunk_id(BLOB[::-1])]
    content.put_chunks([(ids[0], BLOB), (ids[1], BLOB[::-1])], uploader="alice")

    assert collecting.take_back(ids[:1], "alice") == 0 and content.get_chunk(ids[0]) == BLOB
    assert collecting.take_back(ids, "alice") > 0 and list(artifacts.iter_keys("packs/")) == []
    artifacts.close()


def test_an_upload_whose_client_was_killed_is_found_later(store: RunStore, tmp_path: Path) -> None:
    artifacts = FilesystemStore(tmp_path / "artifacts")
    content, collecting = open_collecting(store, artifacts)
    content.put_chunks([(chunk_id(BLOB), BLOB)], uploader="alice")
    collecting._look_aside()
    assert store.find_value(GARBAGE) is None  # it may still go on

    def is_found() -> bool:
        collecting._look_aside()
        return store.find_value(GARBAGE) == "1"

    wait_for(is_found)
    collecting.start()
    wait_for(lambda: store.find_value(GARBAGE) == "")
    collecting.stop()
    assert list(store.iter_packs()) == []
    artifacts.close()


def test_copies_of_snapshots_go_with_a_delete(store: RunStore, tmp_path: Path) -> None:
    artifacts = FilesystemStore(tmp_path / "artifacts")
    content, dropped = ContentStore(artifacts, store, leases=Leases(grace_s=60)), threading.Event()
    collector = Collector(content, artifacts, store)
    collecting = Collecting(store, content, collector, Aside(artifacts), drop_copies=dropped.set)
    collecting.start()
    assert not dropped.wait(0.05)
    collecting.note()

    assert dropped.wait(10)
    collecting.stop()
    artifacts.close()


def test_everything_is_freed_at_once_for_who_asks_also_after_a_restart(store: RunStore, tmp_path: Path) -> None:
    artifacts = FilesystemStore(tmp_path / "artifacts")
    content = ContentStore(artifacts, store)
    a_run(store, "stays")
    kept = BLOB[::-1]
    for blob in (BLOB, kept):
        content.put_chunks([(chunk_id(blob), blob)])
    store.put_file("stays", RunFile(name="m", size=len(kept), chunks=[chunk_id(kept)]))
    artifacts.put("aside/20260101T000000Z/x", b"12345")
    collecting = Collecting(store, content, Collector(content, artifacts, store), Aside(artifacts))

    assert collecting.collect_now() == CollectionRound(0, 0, rest_within_s=2400.0, aside_bytes=5)
    freed = collecting.collect_now(everything=True)
    assert freed.removed == 1 and freed.freed_bytes > 5 and freed.aside_bytes == 0
    assert content.get_chunk(chunk_id(kept)) == kept and len(list(artifacts.iter_keys(""))) == 1
    artifacts.close()
