"""A source folder that comes as a ZIP archive becomes a snapshot: read file by file, and never unpacked to a disk."""

from __future__ import annotations

import stat
import threading
import zipfile
from dataclasses import dataclass, field
from typing import Callable, Dict, List, Optional, Tuple

from runyard.client.client import Client
from runyard.core.formats.chunks import CHUNK_SIZE, Batcher, Chunk, chunk_id
from runyard.core.formats.tree import Entry, FileEntry, FolderEntry, encode_tree, name_fault, tree_id
from runyard.imports.records import SourceFile

MOST_BYTES = 8 << 30  # unpacked; Azure takes 300 MB
MOST_MEMBERS = 1_000_000
_ASK_ABOVE = 256 << 10
_FILE, _FOLDER = 0o644, 0o755


@dataclass
class _Folder:
    files: Dict[str, FileEntry] = field(default_factory=dict)
    folders: Dict[str, _Folder] = field(default_factory=dict)


@dataclass(frozen=True)
class PackedSource:
    """What an archive holds, as a snapshot is described."""

    root: str
    trees: List[Chunk]  # children first
    files: int
    bytes: int


class SnapshotSender:
    """Sends each archive once, however many runs have it. Used by many threads at once."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._known: Dict[Tuple[str, str], str] = {}
        self.count = 0

    def send(self, archive: SourceFile) -> str:
        """Store the archive's content; return the snapshot's id.

        Raises:
            ValueError: the archive is damaged, or holds what no source folder holds.
        """
        key = (archive.name, archive.stamp)
        with self._lock:  # threads that wait for the same archive find it known
            found = self._known.get(key)
            if found is None:
                found = self._known[key] = self._send(archive)
                self.count += 1
            return found

    def _send(self, archive: SourceFile) -> str:
        content, batcher = self._client.content, Batcher()

        def take(name: str, data: bytes) -> None:
            batch = batcher.push(name, data)
            if batch is not None:
                content.send_missing(batch, ask_above=_ASK_ABOVE)

        packed = read_archive(archive, take)
        content.send_missing(batcher.flush(), ask_above=_ASK_ABOVE)
        content.put_trees(packed.trees)
        return content.put_snapshot(packed.root, packed.files, packed.bytes)


def read_archive(archive: SourceFile, take: Optional[Callable[[str, bytes], None]] = None) -> PackedSource:
    """Return what the archive is as a snapshot; `take` gets each piece of its files.

    Raises:
        ValueError: it is damaged, too large, or a member leads out of it.
    """
    try:
        with archive.open() as file, zipfile.ZipFile(file) as packed:
            return _read(packed, take or (lambda name, data: None))
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        raise ValueError(f"{archive.name} is no archive that can be read: {error}") from error


def _read(packed: zipfile.ZipFile, take: Callable[[str, bytes], None]) -> PackedSource:
    members = packed.infolist()
    if len(members) > MOST_MEMBERS or sum(member.file_size for member in members) > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_MEMBERS:,} files or {MOST_BYTES:,} bytes")
    root, count, size = _Folder(), 0, 0
    for member in members:
        parts = [part for part in member.filename.split("/") if part not in ("", ".")]
        faults = [fault for fault in map(name_fault, parts) if fault]
        kind = stat.S_IFMT(member.external_attr >> 16)
        if faults or not parts:
            raise ValueError(f"its member {member.filename[:200]!r} {faults[0] if faults else 'is no name'}")
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise ValueError(f"its member {member.filename[:200]!r} is a link or a device")
        folder = root
        for part in parts if member.filename.endswith("/") else parts[:-1]:
            if part in folder.files:
                raise ValueError(f"its member {member.filename[:200]!r} lies below a file")
            folder = folder.folders.setdefault(part, _Folder())
        if member.filename.endswith("/"):
            continue
        if parts[-1] in folder.folders:
            raise ValueError(f"its member {member.filename[:200]!r} is a folder too")
        entry = _read_file(packed, member, parts[-1], take)
        folder.files[parts[-1]] = entry
        count, size = count + 1, size + entry.size
    trees: List[Chunk] = []
    name = _encode(root, trees)
    return PackedSource(name, trees, count, size)


def _read_file(
    packed: zipfile.ZipFile, member: zipfile.ZipInfo, name: str, take: Callable[[str, bytes], None]
) -> FileEntry:
    chunks: List[str] = []
    size = 0
    with packed.open(member) as file:
        for data in iter(lambda: file.read(CHUNK_SIZE), b""):
            size += len(data)
            if size > member.file_size:
                raise ValueError(f"its member {member.filename[:200]!r} is longer than it says")
            chunks.append(chunk_id(data))
            take(chunks[-1], data)
    mode = stat.S_IMODE(member.external_attr >> 16) & 0o777 or _FILE
    return FileEntry(name, mode, size, tuple(chunks))


def _encode(folder: _Folder, trees: List[Chunk]) -> str:
    entries: List[Entry] = [*folder.files.values()]
    for name, below in folder.folders.items():
        entries.append(FolderEntry(name, _FOLDER, _encode(below, trees)))
    data = encode_tree(entries)
    trees.append((tree_id(data), data))
    return trees[-1][0]
