"""The conformance suite of `ArtifactStore`, and a content store in this process.

Subclass the suite with a fixture `artifacts` that gives an empty store. `LocalContent` answers the client's content
calls from a `ContentStore`, without a server.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pytest

from runyard.artifacts.base import ArtifactStore
from runyard.artifacts.content import ContentStore
from runyard.artifacts.memory import MemoryStore
from runyard.core.errors import InvalidArgument, MissingContent, NotFound
from runyard.core.formats.tree import snapshot_id
from runyard.core.names import make_uuid

BAD_KEYS = [
    "",
    "/",
    "..",
    "../canary",
    "packs/../../canary",
    "packs/./x",
    "packs//x",
    "/etc/passwd",
    "packs/",
    "packs/a\0b",
    "packs/a\nb",
    "packs\\..\\canary",
    "tmp/x",
    f"packs/{'x' * 256}",
]


class ArtifactStoreSuite:
    def test_bytes_come_back_as_they_were_put(self, artifacts: ArtifactStore) -> None:
        artifacts.put("packs/one", b"\0bytes\xff")
        artifacts.put("packs/two", [b"pieces ", b"", b"in a row"])

        assert artifacts.get("packs/one") == b"\0bytes\xff"
        assert artifacts.get("packs/two") == b"pieces in a row"
        assert (artifacts.size("packs/one"), artifacts.size("packs/two")) == (7, 15)

    def test_a_part_of_an_object_can_be_read(self, artifacts: ArtifactStore) -> None:
        artifacts.put("packs/one", b"0123456789")

        assert artifacts.get("packs/one", offset=3) == b"3456789"
        assert artifacts.get("packs/one", offset=3, length=2) == b"34"
        assert artifacts.get("packs/one", offset=8, length=50) == b"89"
        assert artifacts.get("packs/one", offset=50) == b""

    def test_an_empty_object_exists(self, artifacts: ArtifactStore) -> None:
        artifacts.put("packs/empty", b"")

        assert artifacts.get("packs/empty") == b"" and artifacts.size("packs/empty") == 0
        assert list(artifacts.iter_keys("packs/")) == ["packs/empty"]

    def test_an_object_of_thousands_of_pieces_is_whole(self, artifacts: ArtifactStore) -> None:
        pieces = [index.to_bytes(4, "big") for index in range(5000)]
        artifacts.put("packs/many", pieces)

        assert artifacts.get("packs/many") == b"".join(pieces)

    def test_the_same_key_with_the_same_bytes_is_harmless(self, artifacts: ArtifactStore) -> None:
        artifacts.put("packs/one", b"same")
        artifacts.put("packs/one", b"same")

        assert artifacts.get("packs/one") == b"same"

    def test_an_unknown_key_is_not_found(self, artifacts: ArtifactStore) -> None:
        with pytest.raises(NotFound, match="packs/none"):
            artifacts.get("packs/none")
        with pytest.raises(NotFound, match="packs/none"):
            artifacts.size("packs/none")

    def test_delete_removes_and_may_be_repeated(self, artifacts: ArtifactStore) -> None:
        artifacts.put("packs/one", b"x")
        artifacts.delete("packs/one")
        artifacts.delete("packs/one")
        artifacts.delete("nowhere/at/all")

        with pytest.raises(NotFound):
            artifacts.get("packs/one")

    def test_keys_are_listed_by_prefix_in_order(self, artifacts: ArtifactStore) -> None:
        for key in ("packs/b", "packs/a", "packs/deep/c", "other/d", "packs-not/e"):
            artifacts.put(key, b"x")

        assert list(artifacts.iter_keys("packs/")) == ["packs/a", "packs/b", "packs/deep/c"]
        assert list(artifacts.iter_keys("packs")) == ["packs-not/e", "packs/a", "packs/b", "packs/deep/c"]
        assert list(artifacts.iter_keys("none/")) == []
        assert len(list(artifacts.iter_keys(""))) == 5

    def test_a_stream_grows_where_it_ended(self, artifacts: ArtifactStore) -> None:
        assert artifacts.stream_size("logs/r/std.txt") == 0
        assert artifacts.append("logs/r/std.txt", 0, b"hello ") == 6
        assert artifacts.append("logs/r/std.txt", 6, b"world") == 11

        assert artifacts.stream_size("logs/r/std.txt") == 11
        assert artifacts.read_stream("logs/r/std.txt") == b"hello world"
        assert artifacts.read_stream("logs/r/std.txt", offset=6, length=3) == b"wor"
        assert artifacts.read_stream("logs/r/std.txt", offset=11) == b""
        assert artifacts.read_stream("logs/none.txt") == b""

    def test_bytes_that_a_stream_has_are_skipped(self, artifacts: ArtifactStore) -> None:
        artifacts.append("logs/s", 0, b"abcdef")

        assert artifacts.append("logs/s", 0, b"abc") == 6
        assert artifacts.append("logs/s", 4, b"efgh") == 8
        assert artifacts.read_stream("logs/s") == b"abcdefgh"

    def test_a_gap_in_a_stream_writes_nothing(self, artifacts: ArtifactStore) -> None:
        artifacts.append("logs/s", 0, b"abc")

        assert artifacts.append("logs/s", 5, b"xyz") == 3
        assert artifacts.read_stream("logs/s") == b"abc"

    def test_two_senders_of_one_stream_store_it_once(self, artifacts: ArtifactStore) -> None:
        whole = bytes(range(256)) * 40
        steps = range(0, len(whole), 97)

        def send() -> None:
            for start in steps:
                artifacts.append("logs/s", start, whole[start : start + 97])

        threads = [threading.Thread(target=send) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert artifacts.read_stream("logs/s") == whole

    @pytest.mark.parametrize("key", BAD_KEYS, ids=repr)
    def test_a_key_that_could_leave_the_root_is_refused(self, artifacts: ArtifactStore, key: str) -> None:
        calls = (
            lambda: artifacts.put(key, b"x"),
            lambda: artifacts.get(key),
            lambda: artifacts.size(key),
            lambda: artifacts.delete(key),
            lambda: artifacts.append(key, 0, b"x"),
            lambda: artifacts.read_stream(key),
            lambda: artifacts.stream_size(key),
        )
        for call in calls:
            with pytest.raises(InvalidArgument, match="artifact key"):
                call()


class MemoryIndex:
    """The index of packed content in a dict; `store.base.RunStore` says what its methods mean."""

    def __init__(self) -> None:
        self.rows: dict[str, tuple[str, int, int, int, str]] = {}

    def find_chunks(self, ids: Sequence[str]) -> dict[str, tuple[str, int, int, int, str]]:
        return {name: self.rows[name] for name in ids if name in self.rows}

    def add_chunks(self, pack: str, places: Mapping[str, tuple[int, int, int, str]]) -> None:
        for name, place in places.items():
            self.rows.setdefault(name, (pack, *place))

    def iter_packs(self) -> Iterator[str]:
        yield from {row[0] for row in self.rows.values()}


class LocalContent:
    """Has the calls of `client.calls.content.ContentCalls` that snapshots need, and counts them."""

    def __init__(self, artifacts: ArtifactStore | None = None, index: MemoryIndex | None = None) -> None:
        self.index = index if index is not None else MemoryIndex()
        self.artifacts = artifacts if artifacts is not None else MemoryStore()
        self.store = ContentStore(self.artifacts, self.index)
        self.snapshots: dict[str, str] = {}
        self.calls: list[tuple[str, int]] = []  # (call, how many items)
        self._id = make_uuid()

    def server_id(self) -> str:
        return self._id

    def close(self) -> None: ...

    def missing(self, ids: Sequence[str]) -> list[str]:
        self.calls.append(("missing", len(ids)))
        return self.store.missing(ids)

    def put(self, chunks: Iterable[tuple[str, bytes]]) -> None:
        items = list(chunks)
        self.calls.append(("put", len(items)))
        self.store.put_chunks(items)

    def release(self, ids: Sequence[str]) -> None:
        self.calls.append(("release", len(ids)))

    def fetch(self, ids: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        self.calls.append(("fetch", len(ids)))
        return self.store.iter_chunks(ids)

    def put_trees(self, trees: Iterable[tuple[str, bytes]]) -> None:
        items = list(trees)
        self.calls.append(("put_trees", len(items)))
        self.store.put_trees(items)

    def tree(self, root: str) -> dict[str, bytes]:
        return dict(self.store.get_tree_closure(root))

    def put_snapshot(self, root: str, files: int, size_bytes: int) -> str:
        self.calls.append(("put_snapshot", 1))
        if not self.store.has_tree(root):
            raise MissingContent(f"The tree {root} is not stored.", details={"missing": [root]})
        name = snapshot_id(root)
        self.snapshots[name] = root
        return name
