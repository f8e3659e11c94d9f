"""Remove content that nothing refers to any more, while uploads and reads go on.

Used content is: snapshots and files of existing runs, recorded snapshots, and content that an upload was told is there
within the grace time (`Leases`). All other content leaves the index in one transaction. Then packs that hold much more
than the index knows of are written anew. The next round repairs a crash at any point; `ContentStore.tidy` does so for
packs that the index does not know. An automatic round sets the old packs aside (`Aside`); a round that a user asked for
deletes them.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from runyard.artifacts.aside import Aside
from runyard.artifacts.base import ArtifactStore, ChunkIndex
from runyard.artifacts.content import ContentStore, tree_key
from runyard.artifacts.packs import PackEntry, Place, new_pack_key
from runyard.core.errors import NotFound
from runyard.core.formats.tree import FileEntry, FolderEntry, decode_tree, snapshot_id

logger = logging.getLogger(__name__)
_WORTH_BYTES = 1 << 20
_WORTH_PART = 4  # a quarter of a pack
_SETTLE_S = 0.5


class ContentReferences(Protocol):
    @property
    def roots(self) -> Collection[str]: ...

    @property
    def chunks(self) -> Collection[str]: ...

    @property
    def snapshots(self) -> Collection[str]: ...


class ContentIndex(ChunkIndex, Protocol):
    """The index with what collecting needs: methods of `store.base.RunStore`, which says what they mean."""

    def read_references(self) -> ContentReferences: ...

    def list_snapshots(self) -> dict[str, str]: ...

    def delete_snapshots(self, ids: Collection[str]) -> None: ...

    def iter_chunk_places(self) -> Iterator[tuple[str, str, int, int, int, str]]: ...

    def remove_chunks(self, ids: Collection[str]) -> None: ...

    def replace_pack(self, old: str, new: str | None, places: Mapping[str, Place]) -> None: ...


@dataclass(frozen=True)
class Collected:
    removed: int  # chunks and trees
    freed_bytes: int  # or set aside


class Collector:
    """One at a time; the caller sees to that."""

    def __init__(self, content: ContentStore, artifacts: ArtifactStore, index: ContentIndex) -> None:
        self._content = content
        self._artifacts = artifacts
        self._index = index
        self._leases = content.leases
        self._aside = Aside(artifacts)
        self._aside_since: datetime | None = None

    def collect(self, *, aside: datetime | None = None, at_once: bool = False) -> Collected | None:
        """Remove what nothing refers to; None when the server has not listened for long enough to know.

        Args:
            aside: set packs aside at this time rather than delete them.
            at_once: do not spare what uploads that are under way count on. They are told, and send it again.

        Raises:
            StoreUnavailable: a tree that is in use cannot be read; nothing was removed.
        """
        if not self._leases.is_warm() and not at_once:
            return None
        self._aside_since = aside
        self._leases.watch()
        if at_once:
            # A request that looked its content up before has named it by then; what comes after is noted.
            time.sleep(_SETTLE_S)
            self._leases.forget()
        self._drop_snapshots(hold=not at_once)
        live = self._mark()
        # Before the places: a pack comes with its chunks, so all used content of these packs is in `found`.
        packs = list(self._index.iter_packs())
        found = {row[0]: PackEntry(*row[1:]) for row in self._index.iter_chunk_places()}
        dead = self._remove(found.keys() - live)
        kept = {name: place for name, place in found.items() if name not in dead}
        return Collected(len(dead), self._shrink(packs, kept))

    def take_back(self, ids: Collection[str], uploader: str) -> int:
        """Delete what an upload that failed has stored, unless another upload counts on it; return the bytes.

        May be repeated after an error: packs that could not be deleted are still the uploader's.
        """
        freed = 0
        with self._leases.gate:
            packs = self._content.unnamed.take(ids, uploader)
            try:
                for pack in list(packs):
                    self._index.remove_chunks(packs[pack])
                    self._index.replace_pack(pack, None, {})
                    freed += self._artifacts.size(pack)
                    self._artifacts.delete(pack)
                    del packs[pack]
            finally:
                for pack, held in packs.items():
                    self._content.unnamed.note(pack, uploader, held)
        return freed

    def _drop_snapshots(self, *, hold: bool) -> None:
        """Forget recorded snapshots that no run, service or image has. Their content stays for one more grace time."""
        found = self._index.read_references()
        used, kept = found.roots, found.snapshots
        known = self._index.list_snapshots()
        with self._leases.gate:
            held = self._leases.held()
            gone = {
                id: root
                for id, root in known.items()
                if root not in used and id not in kept and not _is_held(id, root, held)
            }
            self._index.delete_snapshots(gone)
            if hold:
                self._content.hold_trees(gone.values())

    def _mark(self) -> set[str]:
        """Return the index's keys of all that is in use."""
        used = self._index.read_references()
        chunks, trees = _split(self._leases.held())
        roots = {*used.roots, *self._index.list_snapshots().values(), *trees}
        return {*used.chunks, *chunks, *self._closure(roots)}

    def _remove(self, candidates: set[str]) -> set[str]:
        with self._leases.gate:
            chunks, trees = _split(self._leases.fresh())
            dead = candidates - chunks - self._closure(tree for tree in trees if tree_key(tree) in candidates)
            self._index.remove_chunks(dead)
        return dead

    def _closure(self, roots: Iterable[str]) -> set[str]:
        """Return the keys of the trees `roots`, of all trees below them and of the chunks they name."""
        keys: set[str] = set()
        level = set(roots)
        while level:
            below: set[str] = set()
            for name in level:
                if tree_key(name) in keys:
                    continue
                for entry in self._entries(name):
                    if isinstance(entry, FileEntry):
                        keys.update(entry.chunks)
                    elif isinstance(entry, FolderEntry):
                        below.add(entry.tree)
                keys.add(tree_key(name))
            level = {name for name in below if tree_key(name) not in keys}
        return keys

    def _entries(self, tree: str) -> list[object]:
        try:
            return list(decode_tree(self._content.get_tree(tree)))
        except NotFound:
            return []  # asked for by an upload, and not stored

    def _shrink(self, packs: Iterable[str], found: Mapping[str, PackEntry]) -> int:
        """Delete packs without content, write those anew that hold much that is dead; return the bytes freed."""
        content: dict[str, dict[str, PackEntry]] = defaultdict(dict)
        for name, place in found.items():
            content[place.pack][name] = place
        # Those without content first: on a full disk they make the room that writing others anew needs.
        return sum(self._shrink_pack(pack, content[pack]) for pack in sorted(packs, key=lambda pack: pack in content))

    def _shrink_pack(self, pack: str, live: Mapping[str, PackEntry]) -> int:
        try:
            size = self._artifacts.size(pack)
        except NotFound:
            logger.error("the pack %s is missing", pack)
            return 0
        lost = size - sum(place.stored for place in live.values())
        if live and lost < _WORTH_BYTES and (not lost or lost * _WORTH_PART < size):
            return 0
        self._rewrite(pack, live)
        return lost

    def _rewrite(self, pack: str, live: Mapping[str, PackEntry]) -> None:
        if not live:
            self._index.replace_pack(pack, None, {})
        else:
            whole = memoryview(self._artifacts.get(pack))
            pieces, places, at = [], {}, 0
            for name, place in sorted(live.items(), key=lambda item: item[1].offset):
                pieces.append(bytes(whole[place.offset : place.offset + place.stored]))
                places[name] = (at, place.stored, place.plain, place.codec)
                at += place.stored
            new = new_pack_key()
            self._artifacts.put(new, pieces)
            self._index.replace_pack(pack, new, places)
        if self._aside_since is None:
            self._artifacts.delete(pack)
        else:
            self._aside.put([pack], self._aside_since)


def _is_held(snapshot: str, root: str, held: Collection[str]) -> bool:
    return f"tree:{root}" in held or f"snapshot:{snapshot}" in held or f"snapshot:{snapshot_id(root)}" in held


def _split(held: Iterable[str]) -> tuple[set[str], set[str]]:
    """Return (chunks, trees) of what is held."""
    chunks, trees = set(), set()
    for name in held:
        kind, _, id = name.rpartition(":")
        if kind == "tree":
            trees.add(id)
        elif not kind:
            chunks.add(id)
    return chunks, trees
