"""The plan of a restore: what an untrusted root tree stands for, checked before anything is written."""

from __future__ import annotations

import os
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple, Union

from runyard.core.errors import ProtocolError
from runyard.core.formats.chunks import CHUNK_SIZE
from runyard.core.formats.tree import MAX_DEPTH, FileEntry, FolderEntry, LinkEntry, decode_tree, tree_id
from runyard.core.machine.portable import CLOEXEC, DIRECTORY, NOFOLLOW, READ
from runyard.snapshots.links import leaves_tree

MAX_ENTRIES = 5_000_000  # a few kilobytes of trees that name each other can stand for any number of files
# A whole chunk of zeros: it stays a hole in the file, neither fetched nor written.
ZEROS = "bb9f8df61474d25e71fa00722318cd387396ca1736605e1248821cc0de3d3af8"
OPEN_FOLDER = READ | DIRECTORY | NOFOLLOW
CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NOFOLLOW | CLOEXEC


class PlannedFolder(NamedTuple):
    """One tree, decoded once however often it is named."""

    files: List[FileEntry]
    links: List[LinkEntry]
    folders: List[Tuple[FolderEntry, PlannedFolder]]
    entries: int  # of this folder and all below it
    depth: int

    def entry(self, name: str) -> Optional[Union[PlannedFolder, str]]:
        """Return what `name` is, for `links.leaves_tree`."""
        for folder, below in self.folders:
            if folder.name == name:
                return below
        return next((link.target for link in self.links if link.name == name), None)


def plan_restore(root: str, trees: Mapping[str, bytes]) -> PlannedFolder:
    """Return what the root tree stands for.

    Raises:
        ProtocolError: a tree is missing or not what its id says, it is too deep or too large, or a link leads out.
        InvalidArgument: a tree cannot be read.
    """
    planned: Dict[str, PlannedFolder] = {}
    waiting = [root]
    open_trees: Dict[str, List[Union[FileEntry, FolderEntry, LinkEntry]]] = {}
    while waiting:
        name = waiting[-1]
        if name in planned:
            waiting.pop()
            continue
        if name not in open_trees:
            open_trees[name] = _decode(name, trees)
        missing = [e.tree for e in open_trees[name] if isinstance(e, FolderEntry) and e.tree not in planned]
        if missing:
            waiting.extend(missing)
            continue
        planned[name] = _join(root, open_trees.pop(name), planned)
        waiting.pop()
    _check_links(planned[root])
    return planned[root]


def _decode(name: str, trees: Mapping[str, bytes]) -> List[Union[FileEntry, FolderEntry, LinkEntry]]:
    data = trees.get(name)
    if data is None or tree_id(data) != name:
        raise _bad_snapshot("The server did not send all of its folders.", f"The tree {name} is missing or damaged.")
    return decode_tree(data)


def _join(
    root: str, entries: List[Union[FileEntry, FolderEntry, LinkEntry]], planned: Mapping[str, PlannedFolder]
) -> PlannedFolder:
    folders = [(entry, planned[entry.tree]) for entry in entries if isinstance(entry, FolderEntry)]
    count = len(entries) + sum(below.entries for _, below in folders)
    depth = 1 + max((below.depth for _, below in folders), default=0)
    if count > MAX_ENTRIES or depth > MAX_DEPTH + 1:
        raise _bad_snapshot(
            f"The snapshot {root} is too large.", f"It has {count} entries in {depth} levels of folders."
        )
    files = [entry for entry in entries if isinstance(entry, FileEntry)]
    links = [entry for entry in entries if isinstance(entry, LinkEntry)]
    return PlannedFolder(files, links, folders, count, depth)


def _check_links(root: PlannedFolder) -> None:
    waiting: List[Tuple[Tuple[str, ...], PlannedFolder]] = [((), root)]
    while waiting:
        path, folder = waiting.pop()
        for link in folder.links:
            # Without `..` a link can only lead on through others, which are checked themselves.
            risky = ".." in link.target or link.target.startswith("/")
            if risky and leaves_tree(root, path, link.target, PlannedFolder.entry):
                where = "/".join((*path, link.name))
                raise _bad_snapshot(f"The link `{where}` leads out of the folder, to `{link.target}`.", "")
        waiting.extend(((*path, entry.name), below) for entry, below in folder.folders)


def _bad_snapshot(what: str, why: str) -> ProtocolError:
    return ProtocolError(
        f"The snapshot cannot be restored. {what}", why=why, hint="Nothing was written. Take the snapshot again."
    )


def size_of(folder: PlannedFolder) -> int:
    """Return the bytes of all files."""
    return sum(entry.size for entry in folder.files) + sum(size_of(below) for _, below in folder.folders)


def iter_chunks(folder: PlannedFolder) -> Iterator[Tuple[str, int]]:
    """Yield (chunk id, about how many bytes) in the order in which they will be written."""
    for entry in folder.files:
        left = entry.size
        for chunk in entry.chunks:
            if chunk != ZEROS:
                yield chunk, min(left, CHUNK_SIZE)
            left -= CHUNK_SIZE
    for _, below in folder.folders:
        yield from iter_chunks(below)
