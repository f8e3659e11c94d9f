"""The bytes of deleted runs are freed by the server itself, also when it was stopped in between."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runyard.artifacts.aside import Aside
from runyard.artifacts.collect import Collector
from runyard.artifacts.content import ContentStore
from runyard.artifacts.filesystem import FilesystemStore
from runyard.artifacts.leases import Leases
from runyard.core.chunks import chunk_id
from runyard.core.records import RunFile
from runyard.core.statuses import RunStatus
from runyard.server.collecting import GARBAGE, Collecting
from runyard.store import open_store
from runyard.store.base import RunStore
from runyard.testing.runs import a_run

BLOB = bytes(range(256)) * 4096


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    opened = open_store(tmp_path / "runyard.db")
    yield opened
    opened.close()


def open_collecting(store: RunStore, artifacts: FilesystemStore) -> tuple[ContentStore, Collecting]:
    content = ContentStore(artifacts, store, leases=Leases(grace_s=0.05))
    return content, Collecting(store, content, Collector(content, artifacts, store), Aside(artifacts))


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


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
