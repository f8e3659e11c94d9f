"""The files of a snapshot as flat lists: all of them, one by its path, and where two snapshots differ.

Nothing here reads a file's bytes: trees say what is the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from runyard.artifacts.content import ContentStore
from runyard.core.formats.tree import Entry, FileEntry, FolderEntry, LinkEntry, decode_tree, name_bytes


@dataclass(frozen=True)
class SnapshotFile:
    """One file or link of a snapshot. Files with the same `key` have the same bytes."""

    path: str
    kind: str  # "file" or "link"
    size: int = 0
    mode: int = 0
    key: str = ""
    target: str = ""  # where a link leads


@dataclass(frozen=True)
class ChangedFile:
    path: str
    before: SnapshotFile
    after: SnapshotFile


@dataclass(frozen=True)
class Differences:
    added: list[SnapshotFile] = field(default_factory=list)
    removed: list[SnapshotFile] = field(default_factory=list)
    changed: list[ChangedFile] = field(default_factory=list)
    more: bool = False  # there are others, too many to tell


class Folders:
    """The folders of one snapshot, read from the store once, when it is made."""

    def __init__(self, content: ContentStore, root: str) -> None:
        self.root = root
        self._raw = dict(content.get_tree_closure(root))
        self._decoded: dict[str, list[Entry]] = {}

    def entries(self, tree: str) -> list[Entry]:
        if tree not in self._decoded:
            self._decoded[tree] = decode_tree(self._raw[tree])
        return self._decoded[tree]

    def walk(self, tree: str | None = None, *, below: str = "") -> Iterator[tuple[str, FileEntry | LinkEntry | None]]:
        """Yield (path, entry) in the order of the names; None for a folder, so that callers can count empty ones."""
        for entry in self.entries(tree or self.root):
            path = below + entry.name
            if isinstance(entry, FolderEntry):
                yield path, None
                yield from self.walk(entry.tree, below=f"{path}/")
            else:
                yield path, entry

    def count(self) -> int:
        """Return how many entries `walk` yields, without walking: a folder may lie in a snapshot 2^200 times."""
        return self._count(self.root, {})

    def find(self, path: str) -> FileEntry | LinkEntry | None:
        """Return the file or link at exactly that path."""
        tree = self.root
        *folders, name = path.split("/")
        for folder in folders:
            found = self._named(tree, folder)
            if not isinstance(found, FolderEntry):
                return None
            tree = found.tree
        entry = self._named(tree, name)
        return None if isinstance(entry, FolderEntry) else entry

    def _named(self, tree: str, name: str) -> Entry | None:
        return next((entry for entry in self.entries(tree) if entry.name == name), None)

    def _count(self, tree: str, known: dict[str, int]) -> int:
        if tree not in known:
            below = [self._count(one.tree, known) for one in self.entries(tree) if isinstance(one, FolderEntry)]
            known[tree] = len(self.entries(tree)) + sum(below)
        return known[tree]


def list_files(folders: Folders, *, limit: int) -> tuple[list[SnapshotFile], bool]:
    """Return the files among the first `limit` entries, and whether there are more."""
    found = list(islice(folders.walk(), limit + 1))
    return [_described(path, entry) for path, entry in found[:limit] if entry is not None], len(found) > limit


def compare(before: Folders, after: Folders, *, limit: int) -> Differences:
    """Return what `after` has that `before` has not, and so on; at most `limit` entries are looked at."""
    found = Differences()
    for looked, (path, old, new) in enumerate(_pairs(before, after, before.root, after.root, "")):
        if looked == limit:
            return Differences(found.added, found.removed, found.changed, more=True)
        _note(found, path, old, new)
    return found


def _note(found: Differences, path: str, old: FileEntry | LinkEntry | None, new: FileEntry | LinkEntry | None) -> None:
    if old is not None and new is not None:
        found.changed.append(ChangedFile(path, _described(path, old), _described(path, new)))
    elif new is not None:
        found.added.append(_described(path, new))
    elif old is not None:
        found.removed.append(_described(path, old))


_Pair = tuple[str, "FileEntry | LinkEntry | None", "FileEntry | LinkEntry | None"]


def _pairs(before: Folders, after: Folders, old_tree: str, new_tree: str, below: str) -> Iterator[_Pair]:
    """Yield (path, old, new) where the two differ; folders that are equal are not opened."""
    if old_tree == new_tree:
        return
    old = {entry.name: entry for entry in before.entries(old_tree)}
    new = {entry.name: entry for entry in after.entries(new_tree)}
    for name in sorted({**old, **new}, key=name_bytes):
        one, other, path = old.get(name), new.get(name), below + name
        if isinstance(one, FolderEntry) and isinstance(other, FolderEntry):
            yield path, None, None  # counted as looked at
            yield from _pairs(before, after, one.tree, other.tree, f"{path}/")
        elif isinstance(one, FolderEntry) or isinstance(other, FolderEntry):
            yield from ((at, entry, None) for at, entry in _all(before, one, path))
            yield from ((at, None, entry) for at, entry in _all(after, other, path))
        elif one != other:
            yield path, one, other


def _all(folders: Folders, entry: Entry | None, path: str) -> Iterator[tuple[str, FileEntry | LinkEntry | None]]:
    if isinstance(entry, FolderEntry):
        yield from folders.walk(entry.tree, below=f"{path}/")
    elif entry is not None:
        yield path, entry


def _described(path: str, entry: FileEntry | LinkEntry) -> SnapshotFile:
    if isinstance(entry, LinkEntry):
        return SnapshotFile(path, "link", target=entry.target)
    return SnapshotFile(path, "file", entry.size, entry.mode, _key(entry))


def _key(entry: FileEntry) -> str:
    if len(entry.chunks) == 1:
        return entry.chunks[0]
    return hashlib.sha256("".join(entry.chunks).encode()).hexdigest()
