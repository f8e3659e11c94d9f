"""Collecting content: what is in use stays, what is not goes, whatever happens in between."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, cast

import pytest

from runyard.artifacts.collect import Collector
from runyard.artifacts.content import ContentStore, Leases, tree_key
from runyard.artifacts.memory import MemoryStore
from runyard.core.errors import MissingContent, NotFound, StoreUnavailable
from runyard.core.formats.chunks import chunk_id
from runyard.core.formats.tree import FileEntry, FolderEntry, encode_tree, snapshot_id, tree_id
from runyard.core.records import RunFile
from runyard.core.statuses import RunStatus
from runyard.store import open_store
from runyard.testing.runs import a_new_run, a_workspace

GRACE = 600.0
BLOBS = [bytes([at]) * (10 + at) for at in range(6)]
INTERLEAVINGS = 10_000


class Between:
    """Lets something else happen before every call of an object, unless the gate is held."""

    def __init__(self, real: Any, happen: Callable[[], None]) -> None:
        self._real, self._happen = real, happen

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._real, name)

        def wrapped(*args: Any) -> Any:
            self._happen()
            return call(*args)

        return wrapped


class CountingGate:
    def __init__(self) -> None:
        self.depth = 0

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *_error: object) -> None:
        self.depth -= 1


class World:
    """A server's content with clients at work; `step` lets one of them go on."""

    def __init__(self, seed: int = 0) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        self.store = open_store("memory:")
        self.store.put_workspace(a_workspace())
        self.artifacts = MemoryStore()
        self.leases = Leases(grace_s=GRACE, clock=lambda: self.now)
        self.gate = CountingGate()
        self.leases.gate = self.gate  # type: ignore[assignment]  # one thread: the gate only says that it is held
        self.content = ContentStore(self.artifacts, self.store, leases=self.leases)
        self.collector = Collector(
            self.content,
            cast(Any, Between(self.artifacts, self._happen)),
            Between(self.store, self._happen),
        )
        self.clients: list[Iterator[None]] = []
        self.made: list[str] = []  # snapshots
        self.runs = 0
        self.live: list[str] = []
        self.busy = False

    def pass_grace(self, times: int = 1) -> None:
        self.now += times * GRACE + 1

    def step(self) -> None:
        if len(self.clients) < 3:
            self.clients.append(self.random.choice([self.upload, self.again, self.read, self.write, self.delete])())
        client = self.random.choice(self.clients)
        self.now += self.random.choice([0, 1, 30])
        if next(client, self) is self:
            self.clients.remove(client)

    def finish(self) -> None:
        for client in self.clients:
            for _ in client:
                pass
        self.clients = []

    def upload(self) -> Iterator[None]:
        blobs = self.random.sample(BLOBS, self.random.randint(1, 3))
        ids = [chunk_id(blob) for blob in blobs]
        missing = self.content.missing(ids)
        yield
        self.content.put_chunks([(chunk_id(blob), blob) for blob in blobs if chunk_id(blob) in missing])
        yield
        inner = encode_tree([a_file("x", blobs[0])])
        self.content.put_trees([(tree_id(inner), inner)])
        yield
        files = [a_file(f"f{at}", blob) for at, blob in enumerate(blobs[1:])]
        root = encode_tree([*files, FolderEntry("sub", 0o755, tree_id(inner))])
        self.content.put_trees([(tree_id(root), root)])
        yield
        assert self.content.has_tree(tree_id(root))
        self.store.put_snapshot(snapshot_id(tree_id(root)), tree_id(root), files=1, size_bytes=1)
        self.made.append(snapshot_id(tree_id(root)))
        yield
        yield from self._run(self.made[-1], must=True)

    def again(self) -> Iterator[None]:
        """Submit a snapshot of long ago by its id: it is there, or is said not to be."""
        if self.made:
            yield from self._run(self.random.choice(self.made), must=False)

    def _run(self, snapshot: str, *, must: bool) -> Iterator[None]:
        self.content.hold_snapshot(snapshot)
        yield
        root = self.store.find_snapshot(snapshot)
        assert root is not None or not must, "a snapshot was lost while it was submitted"
        yield
        if root is not None:
            self.runs += 1
            new = replace(a_new_run(f"r{self.runs}"), snapshot_id=snapshot, snapshot_root=root)
            self.store.create_run(new)
            self.store.set_status(new.id, RunStatus.CANCELED)
            self.live.append(new.id)

    def write(self) -> Iterator[None]:
        """Give a run a file."""
        blob = self.random.choice(BLOBS)
        if self.content.missing([chunk_id(blob)]):
            yield
            self.content.put_chunks([(chunk_id(blob), blob)])
        yield
        assert self.content.file_size([chunk_id(blob)]) == len(blob)
        yield
        for run_id in self._some_run():
            self.store.put_file(run_id, RunFile(name="f", size=len(blob), chunks=[chunk_id(blob)]))

    def read(self) -> Iterator[None]:
        for run_id in self._some_run():
            try:
                root = self.store.get_run(run_id).snapshot_root
                assert root is not None
                ids = [id for id in self.content.iter_content_ids(root) if id in {chunk_id(blob) for blob in BLOBS}]
                pieces = self.content.read_file(ids)
                for id in ids:
                    yield
                    assert chunk_id(next(pieces)) == id
            except NotFound:
                assert self.store.find_run(run_id) is None, "a reader lost what is in use"

    def delete(self) -> Iterator[None]:
        for run_id in self._some_run():
            self.live.remove(run_id)
            self.store.delete_run(run_id)
        return
        yield

    def check(self) -> set[str]:
        """Read all that runs refer to; return the keys of it in the index."""
        keys: set[str] = set()
        references = self.store.read_references()
        for root in references.roots:
            trees = self.content.get_tree_closure(root)
            named = set(self.content.iter_content_ids(root)) - {name for name, _ in trees}
            keys |= {tree_key(name) for name, _ in trees} | named
        keys |= references.chunks
        for id, data in self.content.iter_chunks([key for key in keys if key in {chunk_id(blob) for blob in BLOBS}]):
            assert chunk_id(data) == id
        return keys

    def _some_run(self) -> list[str]:
        return self.random.sample(self.live, 1) if self.live else []

    def _happen(self) -> None:
        if self.busy and not self.gate.depth:
            for _ in range(self.random.randint(0, 3)):
                self.step()


def a_file(name: str, blob: bytes) -> FileEntry:
    return FileEntry(name, 0o644, len(blob), (chunk_id(blob),))


def stored_keys(world: World) -> set[str]:
    return {row[0] for row in world.store.iter_chunk_places()}


def drain(client: Iterator[None]) -> None:
    for _ in client:
        pass


@pytest.mark.slow
@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.soak) for part in range(1, 16))])
def test_nothing_in_use_is_lost_in_any_interleaving(part: int) -> None:
    """M70: uploads, submits, reads and deletes go on between any two steps of the collector."""
    removed = 0
    seeds = range(part * INTERLEAVINGS // 16, (part + 1) * INTERLEAVINGS // 16)
    for seed in seeds:
        if seed % 20 == 0 or seed == seeds.start:
            world = World(seed)
            world.pass_grace()
        world.busy = True
        collected = world.collector.collect()
        assert collected is not None
        removed += collected.removed
        world.check()
        if seed % 4 == 3:  # a quiet time, so that there is something to collect
            world.finish()
            world.pass_grace(2)
    assert removed > 50


def test_after_a_quiet_time_only_what_is_used_is_left() -> None:
    for seed in range(30):
        world = World(seed)
        for _ in range(60):
            world.step()
        world.finish()
        for _ in range(3):
            world.pass_grace(2)
            world.collector.collect()

        assert stored_keys(world) == world.check()
        assert set(world.store.list_snapshots().values()) == world.store.read_references().roots
        assert set(world.artifacts.iter_keys("packs/")) == set(world.store.iter_packs())


def test_the_last_run_takes_all_bytes_with_it() -> None:
    world = World()
    drain(world.upload())
    drain(world.delete())
    for _ in range(3):
        world.pass_grace(2)
        world.collector.collect()

    assert stored_keys(world) == set() and list(world.artifacts.iter_keys("")) == []


def test_a_server_that_just_started_collects_nothing() -> None:
    world = World()
    world.content.put_chunks([(chunk_id(b"abc"), b"abc")])

    assert world.collector.collect() is None
    assert world.content.get_chunk(chunk_id(b"abc")) == b"abc"


def test_an_upload_keeps_what_it_was_told_is_there() -> None:
    world = World()
    world.content.put_chunks([(chunk_id(blob), blob) for blob in BLOBS])
    world.pass_grace(2)
    assert world.content.missing([chunk_id(BLOBS[0])]) == []
    collected = world.collector.collect()

    assert collected is not None and collected.removed == len(BLOBS) - 1
    assert world.content.get_chunk(chunk_id(BLOBS[0])) == BLOBS[0]
    with pytest.raises(MissingContent):
        world.content.file_size([chunk_id(BLOBS[1])])


def test_a_tree_that_cannot_be_read_stops_the_collector() -> None:
    world = World()
    drain(world.upload())
    orphan = b"orphan" * 20
    world.content.put_chunks([(chunk_id(orphan), orphan)])
    world.pass_grace(2)
    for key in list(world.artifacts.iter_keys("packs/")):
        world.artifacts.put(key, bytes(len(world.artifacts.get(key))))
    before = stored_keys(world)

    with pytest.raises(StoreUnavailable, match="damaged"):
        world.collector.collect()
    assert stored_keys(world) == before


def test_a_reader_goes_on_when_its_pack_is_written_anew() -> None:
    world = World()
    drain(world.upload())
    world.content.put_chunks([(chunk_id(data), data) for data in (b"kept" * 50, b"more" * 50, b"dead" * 500)])
    kept = [chunk_id(b"kept" * 50), chunk_id(b"more" * 50)]
    world.store.put_file("r1", RunFile(name="m", size=400, chunks=kept))
    pieces = world.content.read_file(kept)
    assert next(pieces) == b"kept" * 50
    before = set(world.artifacts.iter_keys("packs/"))
    world.pass_grace(2)
    world.collector.collect()

    assert set(world.artifacts.iter_keys("packs/")) != before
    assert next(pieces) == b"more" * 50


def test_a_snapshot_that_a_run_is_about_to_name_stays_whole() -> None:
    world = World()
    drain(world.upload())
    drain(world.delete())
    world.pass_grace(2)
    world.content.hold_snapshot(world.made[0])
    collected = world.collector.collect()
    root = world.store.find_snapshot(world.made[0])

    assert collected is not None and collected.removed == 0
    assert root is not None and len(world.content.get_tree_closure(root)) == 2


class Killed(BaseException):
    """Stands for the end of the process."""


def test_what_a_crash_between_index_and_pack_left_is_freed_by_the_next_round() -> None:
    world = World()
    drain(world.upload())
    world.content.put_chunks([(chunk_id(data), data) for data in (b"kept" * 50, b"dead" * 500)])
    world.store.put_file("r1", RunFile(name="m", size=200, chunks=[chunk_id(b"kept" * 50)]))
    world.pass_grace(2)

    def kill(*_: object) -> None:
        raise Killed

    world.collector._rewrite = kill  # type: ignore[method-assign]
    with pytest.raises(Killed):
        world.collector.collect()
    del world.collector._rewrite
    assert chunk_id(b"dead" * 500) not in stored_keys(world)
    collected = world.collector.collect()

    assert collected is not None and collected.removed == 0 and collected.freed_bytes > 0
    assert world.content.get_chunk(chunk_id(b"kept" * 50)) == b"kept" * 50
    live = sum(row[3] for row in world.store.iter_chunk_places())
    assert sum(world.artifacts.size(pack) for pack in world.artifacts.iter_keys("packs/")) == live
    again = world.collector.collect()
    assert again is not None and (again.removed, again.freed_bytes) == (0, 0)


def test_what_a_pack_loses_little_by_little_is_freed_in_the_end() -> None:
    world = World()
    drain(world.upload())
    blobs = [bytes([at]) * 50 + bytes(range(256)) for at in range(8)]
    world.content.put_chunks([(chunk_id(blob), blob) for blob in blobs])
    before = set(world.artifacts.iter_keys("packs/"))
    freed = []
    for left in (7, 6, 5):  # an eighth each time: one alone is not worth a rewrite
        names = [chunk_id(blob) for blob in blobs[:left]]
        world.store.put_file("r1", RunFile(name="m", size=306 * left, chunks=names), replace=True)
        world.pass_grace(2)
        collected = world.collector.collect()
        assert collected is not None and collected.removed == 1
        freed.append(collected.freed_bytes)

    assert freed[0] == 0 and sum(freed) > 0
    assert set(world.artifacts.iter_keys("packs/")) != before
