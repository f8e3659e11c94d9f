"""Content by its hash, on top of an artifact store and an index: chunks of files, and the trees that name them.

The keys of the artifact store are checked here alone: every part is a plain file name below the root. `Leases` protects
content that the server told an upload is there, until the upload has ended.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from runyard.artifacts.aside import Aside
from runyard.artifacts.base import ArtifactStore, ChunkIndex
from runyard.artifacts.packs import (
    MAX_SPAN,
    PREFIX,
    PackEntry,
    PackSpan,
    build_pack,
    damaged,
    new_pack_key,
    plan_reads,
    unpack,
)
from runyard.artifacts.unnamed import Unnamed
from runyard.core.errors import DamagedContent, InvalidArgument, MissingContent, NotFound, RunyardError, TooLarge
from runyard.core.formats.chunks import BATCH_BYTES, CHUNK_SIZE, chunk_id
from runyard.core.formats.tree import MAX_DEPTH, FileEntry, FolderEntry, LinkEntry, decode_tree, tree_id
from runyard.core.names import check_content_id

MAX_PART_BYTES = 255
RESERVED = "tmp"  # the filesystem store's half-written files
GRACE_S = 600.0
_COMPLEMENT = str.maketrans("0123456789abcdef", "fedcba9876543210")
MAX_CLOSURE_TREES = 1_000_000


def split_key(key: str) -> list[str]:
    """Return the parts of a key such as `packs/ab12`.

    Raises:
        InvalidArgument: a part is empty, `.`, `..`, too long, or holds what no file system agrees on.
    """
    parts = key.split("/")
    for part in parts:
        if part in ("", ".", "..") or "\\" in part or not part.isprintable() or len(part.encode()) > MAX_PART_BYTES:
            raise bad_key(key, f"The part {part[:100]!r} is no plain name.")
    if parts[0] == RESERVED:
        raise bad_key(key, f"`{RESERVED}/` is kept for half-written files.")
    return parts


def split_prefix(prefix: str) -> tuple[list[str], str]:
    """Return (folders, start of the last part) of a prefix such as `packs/` or `logs/run_1/std`."""
    folders, _, start = prefix.rpartition("/")
    return (split_key(folders) if folders else []), start


def bad_key(key: str, why: str) -> InvalidArgument:
    return InvalidArgument(f"{key[:200]!r} is not a valid artifact key.", why=why)


def unknown_key(key: str) -> NotFound:
    return NotFound(f"There is no artifact `{key}`.", why="It was never stored, or it was deleted.")


class Leases:
    """Ids that were asked for or stored lately. Shared between threads.

    An id is held for one to two times `grace_s` after its last use. `gate` is held by code that looks up ids
    to rely on them, and by the collector while it removes: so the collector knows every id that was promised.
    """

    def __init__(self, *, grace_s: float = GRACE_S, clock: Callable[[], float] = time.monotonic) -> None:
        self.gate = threading.RLock()
        self.grace_s = grace_s
        self._clock = clock
        self.began = clock()
        self._turned = self.began
        self._now: set[str] = set()
        self._before: set[str] = set()
        self._since: set[str] = set()  # since the last `watch`

    def hold(self, ids: Iterable[str]) -> None:
        with self.gate:
            self._turn()
            fresh = set(ids)
            self._now |= fresh
            self._since |= fresh

    def watch(self) -> None:
        """Start to collect for `fresh`."""
        with self.gate:
            self._since = set()

    def fresh(self) -> set[str]:
        """Return what was held since `watch`."""
        with self.gate:
            return set(self._since)

    def held(self) -> set[str]:
        with self.gate:
            self._turn()
            return self._now | self._before

    def forget(self) -> None:
        """Hold nothing of what was held so far."""
        with self.gate:
            self._now, self._before = set(), set()

    def is_warm(self) -> bool:
        """Whether we have listened for so long that no upload from before can still count on anything."""
        return self._clock() - self.began >= self.grace_s

    def _turn(self) -> None:
        passed = self._clock() - self._turned
        if passed >= self.grace_s:
            self._before = self._now if passed < 2 * self.grace_s else set()
            self._now = set()
            self._turned = self._clock()


LookUp = Callable[[Sequence[str]], Mapping[str, PackEntry]]


@dataclass(frozen=True)
class Tidied:
    """How many packs a start has put back, set aside, and not found."""

    restored: int
    set_aside: int
    missing: int


class ContentStore:
    """Chunks and checked trees, each stored once. Shared between threads; a write is durable when it returns.

    Trees lie in the same index under the complement of their id. No client can upload a chunk under such an id, because
    that would need bytes with a given SHA-256; so a tree that is found there went through `put_trees`, and all that it
    names was there.
    """

    def __init__(self, artifacts: ArtifactStore, index: ChunkIndex, *, leases: Leases | None = None) -> None:
        self._artifacts = artifacts
        self._index = index
        self.leases = leases if leases is not None else Leases()
        self.unnamed = Unnamed()

    def tidy(self, now: datetime) -> Tidied:
        """Bring packs and index together: only before the first write, and nothing is deleted.

        Packs that the index knows and that lie aside are put back. Packs that it does not know, which a crash leaves,
        are set aside; but an index that knows none at all has lost its own, and its word counts for nothing.
        """
        aside = Aside(self._artifacts)
        known, present = set(self._index.iter_packs()), set(self._artifacts.iter_keys(PREFIX))
        back = aside.put_back(known - present)
        unknown = sorted(present - known) if known else []
        aside.put(unknown, now)
        return Tidied(len(back), len(unknown), len(known - present) - len(back))

    def missing(self, ids: Sequence[str]) -> list[str]:
        """Return those of `ids` that are not stored, in their order, each once."""
        wanted = list(dict.fromkeys(check_content_id(name) for name in ids))
        self.leases.hold(wanted)  # before the look: what is found must stay
        known = self._index.find_chunks(wanted)
        self.unnamed.forget(known)
        return [name for name in wanted if name not in known]

    def put_chunks(self, chunks: Iterable[tuple[str, bytes]], *, uploader: str = "") -> int:
        """Store chunks in one new pack; known ones are not stored again. Returns how many were new.

        `uploader` may take them back (`Collector.take_back`) until something names them or another upload needs them.

        Raises:
            InvalidArgument: bytes do not have the SHA-256 they came under, or are empty.
            TooLarge: a chunk is over 4 MiB.
        """
        items = {check_content_id(name): bytes(data) for name, data in chunks}
        for name, data in items.items():
            _check_chunk(name, data)
        self.leases.hold(items)
        known = self._index.find_chunks(list(items))
        self.unnamed.forget(known)
        pack = self._store(items, known)
        if pack is not None:
            self.unnamed.note(pack, uploader, items.keys() - known.keys())
        return len(items) - len(known)

    def get_chunk(self, name: str) -> bytes:
        """Raises: NotFound; StoreUnavailable when the stored bytes are damaged."""
        return next(self.iter_chunks([name]))[1]

    def iter_chunks(self, ids: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """Yield (id, bytes) in the order asked for; about 8 MiB are in memory at a time.

        Raises:
            NotFound: one is not stored; said before the first is yielded.
            StoreUnavailable: the stored bytes are damaged.
        """
        places = self._places(ids)
        window: list[str] = []
        size = 0
        for name in ids:
            window.append(name)
            size += places[name].plain
            if size >= BATCH_BYTES:
                yield from self._read_window(window, places, self._places)
                window, size = [], 0
        yield from self._read_window(window, places, self._places)

    def read_file(self, chunks: Sequence[str], *, offset: int = 0, limit: int | None = None) -> Iterator[bytes]:
        """Yield the bytes [offset, offset + limit) of the file that `chunks` make up."""
        places = self._places(chunks)
        start, end = 0, None if limit is None else offset + limit
        for name in chunks:
            stop = start + places[name].plain
            if stop > offset and (end is None or start < end):
                data = self._read_window([name], places, self._places)
                yield next(data)[1][max(0, offset - start) : None if end is None else end - start]
            start = stop

    def file_size(self, chunks: Sequence[str]) -> int:
        """Return the size of the file that `chunks` make up.

        Raises:
            MissingContent: chunks are not stored; `details["missing"]` lists them.
        """
        return size_of(chunks, self.chunk_sizes(chunks))

    def chunk_sizes(self, ids: Iterable[str]) -> dict[str, int]:
        """Return the sizes of those chunks that are stored, and keep all of `ids` from being collected for a while."""
        wanted = list(dict.fromkeys(ids))
        self.leases.hold(wanted)
        self.unnamed.forget(wanted)
        return {name: row[3] for name, row in self._index.find_chunks(wanted).items()}

    def put_trees(self, trees: Sequence[tuple[str, bytes]]) -> int:
        """Store tree objects, children first; all or none of them. Returns how many were new.

        Raises:
            InvalidArgument: one cannot be read, or its sizes are not those of the chunks it names.
            MissingContent: one names what is not there; `details["missing"]` lists chunk and tree ids.
        """
        items: dict[str, bytes] = {}
        files: list[FileEntry] = []
        outside: list[str] = []
        for name, data in trees:
            whole = bytes(data)
            if tree_id(whole) != check_content_id(name):
                raise _wrong_hash("tree", name)
            for entry in decode_tree(whole):
                if isinstance(entry, FileEntry):
                    files.append(entry)
                elif isinstance(entry, FolderEntry) and tree_key(entry.tree) not in items:
                    outside.append(entry.tree)
            items[tree_key(name)] = whole
        self.hold_trees([*outside, *(name for name, _ in trees)])
        self.leases.hold(chunk for entry in files for chunk in entry.chunks)
        self.unnamed.forget(chunk for entry in files for chunk in entry.chunks)
        known = self._check_named(files, outside, items)
        self._store(items, known)
        return sum(name not in known for name in items)

    def has_tree(self, name: str) -> bool:
        """Whether the tree, and with it everything below it, is stored."""
        key = tree_key(check_content_id(name))
        self.hold_trees([name])
        return key in self._index.find_chunks([key])

    def hold_trees(self, names: Iterable[str]) -> None:
        """Keep the trees, and all below them, from being collected for a while."""
        self.leases.hold(f"tree:{name}" for name in names)

    def hold_snapshot(self, snapshot: str) -> None:
        """Keep a recorded snapshot likewise; call it before looking for the record."""
        self.leases.hold([f"snapshot:{snapshot}"])

    def get_tree(self, name: str) -> bytes:
        """Raises: NotFound; StoreUnavailable when the stored bytes are damaged."""
        return self._read_trees([name])[name]

    def get_tree_closure(self, root: str) -> list[tuple[str, bytes]]:
        """Return the tree `root` and all trees below it, root first, each once.

        Raises:
            NotFound: there is no such tree.
        """
        found: dict[str, bytes] = {}
        for _ in self._iter_levels(root, found):
            if len(found) > MAX_CLOSURE_TREES:
                raise TooLarge(f"The snapshot {root} has more than {MAX_CLOSURE_TREES} folders.")
        return list(found.items())

    def get_small_snapshot(self, root: str, *, most_bytes: int) -> tuple[dict[str, bytes], dict[str, bytes]] | None:
        """Return all trees and all chunks of a snapshot; None when it is larger than `most_bytes`, or too deep.

        Raises:
            NotFound: there is no such tree.
        """
        trees: dict[str, bytes] = {}
        files: list[FileEntry] = []
        try:
            for entries in self._iter_levels(root, trees):
                files += [entry for entry in entries if isinstance(entry, FileEntry)]
                if sum(map(len, trees.values())) + sum(entry.size for entry in files) > most_bytes:
                    return None
        except TooLarge:
            return None
        chunks = dict.fromkeys(chunk for entry in files for chunk in entry.chunks)
        return trees, dict(self.iter_chunks(list(chunks)))

    def iter_content_ids(self, root: str) -> Iterator[str]:
        """Yield the ids of all chunks and trees of a snapshot: what a token for it may read."""
        for name, data in self.get_tree_closure(root):
            yield name
            for entry in decode_tree(data):
                if isinstance(entry, FileEntry):
                    yield from entry.chunks

    def check_snapshot(self, root: str, *, most_bytes: int) -> None:
        """Look whether a snapshot's folders and files can be read; of its files' bytes, up to `most_bytes` are checked.

        Raises:
            NotFound: something of it is not in the index.
            DamagedContent: something of it is damaged or missing on the disk.
        """
        trees = self.get_tree_closure(root)
        files = [entry for _, data in trees for entry in decode_tree(data) if isinstance(entry, FileEntry)]
        places = self._places(list(dict.fromkeys(chunk for entry in files for chunk in entry.chunks)))
        ends: dict[str, tuple[int, str]] = {}
        for name, place in places.items():
            ends[place.pack] = max(ends.get(place.pack, (0, "")), (place.offset + place.stored, name))
        for pack, (end, name) in ends.items():
            try:
                held = self._artifacts.size(pack)
            except NotFound as error:
                raise _lost_pack(name, error) from error
            if held < end:
                raise damaged(name, places[name])
        left = most_bytes
        for name, place in places.items():
            left -= place.plain
            if left < 0:
                return
            self.get_chunk(name)

    def _iter_levels(self, root: str, found: dict[str, bytes]) -> Iterator[list[FileEntry | FolderEntry | LinkEntry]]:
        """Fill `found` with the trees of one level after the other, each once; yield what those of a level name.

        Raises:
            NotFound: there is no such tree.
            TooLarge: it is too deep.
        """
        level = [check_content_id(root)]
        for _ in range(MAX_DEPTH + 1):
            found.update(self._read_trees(level))
            entries = [entry for name in level for entry in decode_tree(found[name])]
            yield entries
            level = list(dict.fromkeys(e.tree for e in entries if isinstance(e, FolderEntry) and e.tree not in found))
            if not level:
                return
        raise TooLarge(f"The folders of the snapshot {root} lie more than {MAX_DEPTH} levels deep.")

    def _store(self, items: Mapping[str, bytes], known: Mapping[str, object]) -> str | None:
        """Store what is not known in one new pack; return its key."""
        new = {name: data for name, data in items.items() if name not in known}
        if not new:
            return None
        pieces, places = build_pack(new)
        key = new_pack_key()
        self._artifacts.put(key, pieces)
        try:
            self._index.add_chunks(key, places)
        except BaseException:
            self._drop_unknown(key, list(new))
            raise
        return key

    def _drop_unknown(self, pack: str, ids: Sequence[str]) -> None:
        """Delete a pack whose rows were refused, unless the index turns out to have them or cannot tell."""
        with suppress(RunyardError):
            if all(row[0] != pack for row in self._index.find_chunks(ids).values()):
                self._artifacts.delete(pack)

    def _places(self, ids: Sequence[str]) -> dict[str, PackEntry]:
        rows = self._index.find_chunks(list(dict.fromkeys(check_content_id(name) for name in ids)))
        for name in ids:
            if name not in rows:
                raise NotFound(f"There is no stored content with the id {name}.")
        return {name: PackEntry(*row) for name, row in rows.items()}

    def _read_window(
        self, ids: Sequence[str], places: Mapping[str, PackEntry], look: LookUp
    ) -> Iterator[tuple[str, bytes]]:
        if not ids:
            return
        try:
            spans, views = self._read_spans(ids, places)
        except NotFound:  # the pack was written anew since its places were looked up
            places = look(ids)
            try:
                spans, views = self._read_spans(ids, places)
            except NotFound as error:
                raise _lost_pack(ids[0], error) from error
        for name in ids:
            place = places[name]
            at = bisect_right(spans, PackSpan(place.pack, place.offset, MAX_SPAN)) - 1
            start = place.offset - spans[at].offset
            yield name, unpack(views[at][start : start + place.stored], place, name)

    def _read_spans(
        self, ids: Sequence[str], places: Mapping[str, PackEntry]
    ) -> tuple[list[PackSpan], list[memoryview]]:
        spans = plan_reads([places[name] for name in ids])
        return spans, [
            memoryview(self._artifacts.get(span.pack, offset=span.offset, length=span.length)) for span in spans
        ]

    def _read_trees(self, ids: Sequence[str]) -> dict[str, bytes]:
        return dict(self._read_window(ids, self._tree_places(ids), self._tree_places))

    def _tree_places(self, ids: Sequence[str]) -> dict[str, PackEntry]:
        rows = self._index.find_chunks([tree_key(name) for name in ids])
        for name in ids:
            if tree_key(name) not in rows:
                raise NotFound(f"There is no snapshot folder (tree) with the id {name}.")
        return {name: PackEntry(*rows[tree_key(name)]) for name in ids}

    def _check_named(
        self, files: Sequence[FileEntry], trees: Sequence[str], items: Mapping[str, bytes]
    ) -> Mapping[str, object]:
        """Check that all that `items` name is there; return what the index knows, asked once."""
        chunks = dict.fromkeys(chunk for entry in files for chunk in entry.chunks)
        keys = {tree_key(name): name for name in trees}
        known = self._index.find_chunks([*chunks, *keys, *items])
        _need(
            [*(name for name in chunks if name not in known), *(name for key, name in keys.items() if key not in known)]
        )
        for entry in files:
            held = sum(known[chunk][3] for chunk in entry.chunks)
            if held != entry.size:
                raise InvalidArgument(
                    f"A tree says that {entry.name!r} has {entry.size} bytes, its chunks have {held}.",
                    hint="Take the snapshot again.",
                )
        return known


def size_of(chunks: Sequence[str], sizes: Mapping[str, int]) -> int:
    """Return the size of the file that `chunks` make up, from what `chunk_sizes` found.

    Raises:
        MissingContent: chunks are not stored; `details["missing"]` lists them.
    """
    _need([name for name in chunks if name not in sizes])
    return sum(sizes[name] for name in chunks)


def _lost_pack(name: str, error: NotFound) -> DamagedContent:
    return DamagedContent(
        f"Stored content is missing: chunk {name}.",
        why=f"{error.what} The index names it, but the disk does not hold it.",
        hint="Bring the folder `artifacts` of the server's home back from a backup.",
    )


def tree_key(name: str) -> str:
    return name.translate(_COMPLEMENT)


def _check_chunk(name: str, data: bytes) -> None:
    if len(data) > CHUNK_SIZE:
        raise TooLarge(f"The chunk {name} has {len(data)} bytes; {CHUNK_SIZE} is the most.")
    if not data or chunk_id(data) != name:
        raise _wrong_hash("chunk", name)


def _need(missing: Sequence[str]) -> None:
    if missing:
        raise MissingContent(
            f"{len(missing)} parts of the content are not on the server.",
            why=f"The first is {missing[0]}.",
            hint="Send them with `POST /api/v1/chunks` (files) or `POST /api/v1/trees` (folders), then try again.",
            details={"missing": list(missing)},
        )


def _wrong_hash(noun: str, name: str) -> InvalidArgument:
    return InvalidArgument(
        f"The bytes sent as {noun} {name} are not that {noun}.",
        why="Their SHA-256 differs, or there are none.",
        hint="They changed on the way or while they were read. Send them again.",
    )
