"""Read all stored content and compare it with the index: which chunks and trees are damaged or missing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator

from runyard.artifacts.base import ArtifactStore
from runyard.artifacts.content import tree_key
from runyard.artifacts.packs import PackEntry, unpack
from runyard.core.errors import NotFound, StoreUnavailable
from runyard.core.formats.tree import FileEntry, FolderEntry, decode_tree


class Verified:
    """What is whole, by a look at every byte; `damaged` and `missing_packs` for people."""

    def __init__(self, artifacts: ArtifactStore, places: Iterable[tuple[str, str, int, int, int, str]]) -> None:
        self._trees: dict[str, bytes] = {}
        self._known: dict[str, bool] = {}  # trees, and whether anything below them is damaged
        self.whole: set[str] = set()  # keys of the index
        self.damaged: set[str] = set()
        self.missing_packs: set[str] = set()
        packs: dict[str, dict[str, PackEntry]] = defaultdict(dict)
        for key, *place in places:
            packs[str(place[0])][key] = PackEntry(*place)  # type: ignore[arg-type]  # a row of the index
        for pack, held in packs.items():
            self._look_at(artifacts, pack, held)

    def damaged_of(self, chunks: Collection[str]) -> bool:
        """Whether a file of these chunks cannot be read."""
        return any(chunk not in self.whole for chunk in chunks)

    def damaged_paths(self, root: str, below: str = "") -> Iterator[str]:
        """Yield the files and folders of a snapshot that cannot be read. Folders that are whole are not walked."""
        data = self._trees.get(root)
        if data is None:
            yield below or "."
            return
        for entry in decode_tree(data):
            path = f"{below}/{entry.name}" if below else entry.name
            if isinstance(entry, FolderEntry):
                if self._has_damage(entry.tree):
                    yield from self.damaged_paths(entry.tree, path)
            elif isinstance(entry, FileEntry) and self.damaged_of(entry.chunks):
                yield path

    def _has_damage(self, tree: str) -> bool:
        if tree not in self._known:
            data = self._trees.get(tree)
            self._known[tree] = data is None or any(
                self._has_damage(entry.tree)
                if isinstance(entry, FolderEntry)
                else isinstance(entry, FileEntry) and self.damaged_of(entry.chunks)
                for entry in decode_tree(data)
            )
        return self._known[tree]

    def _look_at(self, artifacts: ArtifactStore, pack: str, held: dict[str, PackEntry]) -> None:
        try:
            data = memoryview(artifacts.get(pack))
        except NotFound:
            self.missing_packs.add(pack)
            self.damaged.update(held)
            return
        for key, place in held.items():
            stored = data[place.offset : place.offset + place.stored]
            try:
                unpack(stored, place, key)
            except StoreUnavailable:
                self._look_at_tree(key, stored, place)
            else:
                self.whole.add(key)

    def _look_at_tree(self, key: str, stored: memoryview, place: PackEntry) -> None:
        name = tree_key(key)  # trees lie under the complement of their id
        try:
            self._trees[name] = unpack(stored, place, name)
            self.whole.add(key)
        except StoreUnavailable:
            self.damaged.add(key)
