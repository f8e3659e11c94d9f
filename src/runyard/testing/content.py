"""A server's content calls without a server: the client's side of `ContentStore`, in this process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from runyard.artifacts.base import ArtifactStore
from runyard.artifacts.content import ContentStore
from runyard.artifacts.memory import MemoryStore
from runyard.core.errors import MissingContent
from runyard.core.formats.tree import snapshot_id
from runyard.core.names import make_uuid


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
    """Has the calls of `client.content.ContentCalls` that snapshots need, and counts what it was asked."""

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
