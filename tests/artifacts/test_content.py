from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from runyard.artifacts.aside import KEEP, Aside
from runyard.artifacts.content import ContentStore, Tidied
from runyard.artifacts.filesystem import FilesystemStore
from runyard.core.errors import InvalidArgument, MissingContent, NotFound, StoreUnavailable, TooLarge
from runyard.core.formats.chunks import CHUNK_SIZE, chunk_id
from runyard.core.formats.tree import FileEntry, FolderEntry, LinkEntry, encode_tree, tree_id
from runyard.testing.artifact_store import MemoryIndex

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)


@pytest.fixture
def index() -> MemoryIndex:
    return MemoryIndex()


@pytest.fixture
def artifacts(tmp_path: Path) -> Iterator[FilesystemStore]:
    opened = FilesystemStore(tmp_path / "artifacts")
    yield opened
    opened.close()


@pytest.fixture
def content(artifacts: FilesystemStore, index: MemoryIndex) -> ContentStore:
    return ContentStore(artifacts, index)


def chunks(*items: bytes) -> list[tuple[str, bytes]]:
    return [(chunk_id(item), item) for item in items]


def a_tree(*entries: FileEntry | FolderEntry | LinkEntry) -> tuple[str, bytes]:
    data = encode_tree(entries)
    return tree_id(data), data


def a_file(name: str, *items: bytes) -> FileEntry:
    return FileEntry(name, 0o644, sum(map(len, items)), tuple(chunk_id(item) for item in items))


def test_chunks_come_back_in_the_order_asked_for(content: ContentStore) -> None:
    items = chunks(*[os.urandom(100) + bytes(5000) for _ in range(50)], b"x")
    assert content.put_chunks(items) == 51
    order = [items[7], items[50], items[7], items[0], items[31]]

    assert list(content.iter_chunks([name for name, _ in order])) == order
    assert content.get_chunk(items[3][0]) == items[3][1]


def test_one_call_is_one_pack_and_known_chunks_are_not_stored_again(
    content: ContentStore, artifacts: FilesystemStore
) -> None:
    first = chunks(b"one", b"two")
    content.put_chunks(first)
    assert content.put_chunks(chunks(b"two", b"three")) == 1
    assert content.put_chunks(first) == 0

    packs = list(artifacts.iter_keys("packs/"))
    assert sorted(artifacts.get(pack) for pack in packs) == [b"onetwo", b"three"]


def test_what_shrinks_is_compressed_and_what_does_not_is_not(content: ContentStore, index: MemoryIndex) -> None:
    noise, text = os.urandom(100_000), b"the same line again\n" * 5000
    content.put_chunks(chunks(noise, text))
    rows = index.find_chunks([chunk_id(noise), chunk_id(text)])

    assert rows[chunk_id(noise)][2:] == (100_000, 100_000, "raw")
    assert rows[chunk_id(text)][3:] == (100_000, "zstd") and rows[chunk_id(text)][2] < 1000


def test_missing_names_each_unknown_id_once(content: ContentStore) -> None:
    content.put_chunks(chunks(b"here"))
    gone = hashlib.sha256(b"gone").hexdigest()

    assert content.missing([gone, chunk_id(b"here"), gone]) == [gone]
    with pytest.raises(NotFound, match=gone):
        content.get_chunk(gone)


@pytest.mark.parametrize("bad", ["", "..", "A" * 64, "a" * 63, "../" + "a" * 61, "a" * 64 + "\n"], ids=repr)
def test_an_id_is_64_hexadecimal_digits(content: ContentStore, bad: str) -> None:
    for call in (lambda: content.missing([bad]), lambda: content.get_chunk(bad), lambda: content.has_tree(bad)):
        with pytest.raises(InvalidArgument, match="content id"):
            call()


def test_bytes_under_another_hash_are_refused(content: ContentStore) -> None:
    with pytest.raises(InvalidArgument, match="not that chunk"):
        content.put_chunks([(chunk_id(b"a"), b"b")])
    with pytest.raises(InvalidArgument, match="not that chunk"):
        content.put_chunks([(chunk_id(b""), b"")])
    with pytest.raises(TooLarge, match=str(CHUNK_SIZE + 1)):
        content.put_chunks(chunks(bytes(CHUNK_SIZE + 1)))

    assert content.missing([chunk_id(b"a")]) == [chunk_id(b"a")]


@pytest.mark.parametrize("compressible", [True, False], ids=["zstd", "raw"])
def test_a_flipped_bit_is_found_and_named(
    content: ContentStore, artifacts: FilesystemStore, tmp_path: Path, compressible: bool
) -> None:
    data = b"line\n" * 2000 if compressible else os.urandom(10_000)
    content.put_chunks(chunks(data, b"another"))
    pack = next(iter(artifacts.iter_keys("packs/")))
    path = tmp_path / "artifacts" / pack
    raw = bytearray(path.read_bytes())
    raw[10] ^= 4
    path.write_bytes(raw)

    with pytest.raises(StoreUnavailable) as caught:
        content.get_chunk(chunk_id(data))
    assert chunk_id(data) in str(caught.value) and pack in str(caught.value)
    assert content.get_chunk(chunk_id(b"another")) == b"another"


def test_a_pack_that_lost_its_end_is_found(content: ContentStore, artifacts: FilesystemStore, tmp_path: Path) -> None:
    content.put_chunks(chunks(b"first", b"second"))
    path = tmp_path / "artifacts" / next(iter(artifacts.iter_keys("packs/")))
    path.write_bytes(path.read_bytes()[:7])

    assert content.get_chunk(chunk_id(b"first")) == b"first"
    with pytest.raises(StoreUnavailable, match=chunk_id(b"second")):
        content.get_chunk(chunk_id(b"second"))


def test_a_range_of_a_file_reads_only_its_chunks(content: ContentStore) -> None:
    parts = [bytes([65 + index]) * 1000 for index in range(5)]
    content.put_chunks(chunks(*parts))
    ids = [chunk_id(part) for part in parts]
    whole = b"".join(parts)

    assert content.file_size(ids) == 5000
    for offset, limit in [(0, None), (0, 1), (999, 2), (1500, 2500), (4999, 10), (5000, 1), (0, 0)]:
        end = None if limit is None else offset + limit
        assert b"".join(content.read_file(ids, offset=offset, limit=limit)) == whole[offset:end], (offset, limit)


def test_the_size_of_a_file_with_missing_chunks_names_them(content: ContentStore) -> None:
    with pytest.raises(MissingContent) as caught:
        content.file_size([chunk_id(b"nobody sent this")])
    assert caught.value.details == {"missing": [chunk_id(b"nobody sent this")]}


def test_a_tree_is_taken_when_all_it_names_is_there(content: ContentStore) -> None:
    content.put_chunks(chunks(b"code"))
    below = a_tree(a_file("train.py", b"code"), FileEntry("empty", 0o600, 0, ()))
    root = a_tree(FolderEntry("src", 0o755, below[0]), LinkEntry("link", "src/train.py"))

    assert content.put_trees([below, root]) == 2
    assert content.put_trees([below, root]) == 0
    assert content.has_tree(root[0])
    assert content.get_tree_closure(root[0]) == [root, below]
    assert set(content.iter_content_ids(root[0])) == {root[0], below[0], chunk_id(b"code")}


def test_a_small_snapshot_is_given_whole_and_a_large_one_not(content: ContentStore) -> None:
    content.put_chunks(chunks(b"code", b"more"))
    below = a_tree(a_file("train.py", b"code", b"more"), FileEntry("empty", 0o600, 0, ()))
    root = a_tree(FolderEntry("a", 0o755, below[0]), FolderEntry("b", 0o755, below[0]), a_file("again.py", b"code"))
    content.put_trees([below, root])
    size = len(below[1]) + len(root[1]) + len(b"codemore") + len(b"code")

    assert content.get_small_snapshot(root[0], most_bytes=size) == (dict([root, below]), dict(chunks(b"code", b"more")))
    assert content.get_small_snapshot(root[0], most_bytes=size - 1) is None


def test_a_tree_that_names_missing_content_is_refused_and_says_what(content: ContentStore) -> None:
    other = a_tree(FileEntry("x", 0o644, 0, ()))
    root = a_tree(a_file("train.py", b"code"), FolderEntry("src", 0o755, other[0]))

    with pytest.raises(MissingContent) as caught:
        content.put_trees([root])
    assert caught.value.details == {"missing": [chunk_id(b"code"), other[0]]}
    assert not content.has_tree(root[0])


def test_trees_of_one_call_are_stored_all_or_none(content: ContentStore) -> None:
    good = a_tree(FileEntry("x", 0o644, 0, ()))
    bad = a_tree(a_file("y", b"missing"))

    with pytest.raises(MissingContent):
        content.put_trees([good, bad])
    assert not content.has_tree(good[0])


def test_a_chunk_upload_cannot_pass_as_a_checked_tree(content: ContentStore) -> None:
    hollow = a_tree(a_file("train.py", b"never sent"))
    content.put_chunks([(hollow[0], hollow[1])])
    assert content.missing([hollow[0]]) == [], "the control: its bytes are there as a chunk"

    assert not content.has_tree(hollow[0])
    with pytest.raises(NotFound):
        content.get_tree_closure(hollow[0])
    with pytest.raises(MissingContent):
        content.put_trees([a_tree(FolderEntry("src", 0o755, hollow[0]))])


def test_a_file_that_looks_like_a_tree_does_not_stand_in_its_way(content: ContentStore) -> None:
    tree = a_tree(FileEntry("x", 0o644, 0, ()))
    content.put_chunks([tree])
    content.put_trees([tree])

    assert content.has_tree(tree[0]) and content.get_chunk(tree[0]) == tree[1]


def test_a_size_that_the_chunks_do_not_have_is_refused(content: ContentStore) -> None:
    content.put_chunks(chunks(b"four"))

    with pytest.raises(InvalidArgument, match=r"'train\.py' has 5 bytes, its chunks have 4"):
        content.put_trees([a_tree(FileEntry("train.py", 0o644, 5, (chunk_id(b"four"),)))])


def test_a_tree_under_another_hash_is_refused(content: ContentStore) -> None:
    with pytest.raises(InvalidArgument, match="not that tree"):
        content.put_trees([("a" * 64, encode_tree([]))])


def test_folders_that_name_each_other_a_million_times_are_listed_once(content: ContentStore) -> None:
    trees = [a_tree(FileEntry("x", 0o644, 0, ()))]
    for _ in range(20):
        trees.append(a_tree(*[FolderEntry(f"d{index}", 0o755, trees[-1][0]) for index in range(10)]))
    content.put_trees(trees)

    assert len(content.get_tree_closure(trees[-1][0])) == 21


def test_folders_too_deep_to_restore_are_refused(content: ContentStore) -> None:
    trees = [a_tree()]
    for _ in range(250):
        trees.append(a_tree(FolderEntry("d", 0o755, trees[-1][0])))
    content.put_trees(trees)

    with pytest.raises(TooLarge, match="200 levels"):
        content.get_tree_closure(trees[-1][0])
    assert content.get_small_snapshot(trees[-1][0], most_bytes=1 << 20) is None


def test_packs_that_the_index_does_not_know_are_set_aside_at_the_start(
    content: ContentStore, artifacts: FilesystemStore
) -> None:
    content.put_chunks(chunks(b"kept"))
    artifacts.put("packs/orphan", b"its index row was never written")

    assert content.tidy(NOW) == Tidied(restored=0, set_aside=1, missing=0)
    assert len(list(artifacts.iter_keys("packs/"))) == 1
    assert artifacts.get("aside/20260101T000000Z/orphan") == b"its index row was never written"
    assert content.get_chunk(chunk_id(b"kept")) == b"kept"


def test_an_index_that_knows_no_pack_moves_none(content: ContentStore, artifacts: FilesystemStore) -> None:
    artifacts.put("packs/somebodys", b"files of runs")

    assert content.tidy(NOW) == Tidied(restored=0, set_aside=0, missing=0)
    assert artifacts.get("packs/somebodys") == b"files of runs"


def test_a_pack_that_lies_aside_and_is_in_use_is_put_back(content: ContentStore, artifacts: FilesystemStore) -> None:
    content.put_chunks(chunks(b"kept"))
    content.put_chunks(chunks(b"newer"))
    first, second = (content._index.find_chunks([chunk_id(data)])[chunk_id(data)][0] for data in (b"kept", b"newer"))
    old = ContentStore(artifacts, old_copy(content, [chunk_id(b"kept")]))
    assert old.tidy(NOW).set_aside == 1 and list(artifacts.iter_keys("packs/")) == [first]

    assert content.tidy(NOW) == Tidied(restored=1, set_aside=0, missing=0)
    assert content.get_chunk(chunk_id(b"newer")) == b"newer"
    artifacts.delete(second)
    assert content.tidy(NOW) == Tidied(restored=0, set_aside=0, missing=1)


def old_copy(content: ContentStore, ids: list[str]) -> MemoryIndex:
    """Return the index as it was when it knew only `ids`."""
    index = MemoryIndex()
    index.rows = content._index.find_chunks(ids)
    return index


def test_what_lies_aside_is_freed_after_days_and_not_before(artifacts: FilesystemStore) -> None:
    aside = Aside(artifacts)
    artifacts.put("packs/a", b"12345")
    assert aside.put(["packs/a"], NOW) == 5 == aside.size()

    assert aside.free(NOW - timedelta(days=400)) == 0
    assert aside.free(NOW + KEEP - timedelta(seconds=1)) == 0
    assert aside.free(NOW + KEEP) == 5 and list(artifacts.iter_keys("aside/")) == []
    artifacts.put("aside/by-hand/b", b"1")
    assert aside.free(NOW + timedelta(days=4000)) == 0 and aside.free() == 1


class FailingIndex(MemoryIndex):
    def add_chunks(self, pack: str, places: object) -> None:
        raise StoreUnavailable("The database is locked.")


def test_a_pack_without_index_rows_is_not_seen(artifacts: FilesystemStore) -> None:
    content = ContentStore(artifacts, FailingIndex())

    with pytest.raises(StoreUnavailable, match="locked"):
        content.put_chunks(chunks(b"data"))
    assert content.missing([chunk_id(b"data")]) == [chunk_id(b"data")]
    assert list(artifacts.iter_keys("packs/")) == []  # a failed upload takes up no space
