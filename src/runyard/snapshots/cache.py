"""The cache of a source folder's last walk: kept in the process, and in one file for the next process.

The file is a sequence of records, each with its own CRC: one for each folder, written again when that folder changed,
and one that says which tree a server holds. Later records win; reading stops at the first damaged one. A walk appends
its changes in one write; when much of the file is outdated it is written anew beside and renamed.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import threading
import zlib
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from runyard.core.config.paths import cache_folder
from runyard.core.machine.files import write_whole
from runyard.core.machine.portable import NOFOLLOW, WRITE
from runyard.snapshots.folder import Folder, KeptEntry, chunks_of

_HEAD = struct.Struct("<4sIII")  # magic, length of the JSON, length of the entries, CRC of both
_MAGIC = b"rys1"
_ROOTS = "roots"  # links by the ids of root trees to the files of their source folders
_MOST_ROOTS = 500
_NO_STAMP = (0, 0, 0, 0, 0)
_processes: Dict[Tuple[str, str], SourceCache] = {}
_processes_lock = threading.Lock()


class LeftOutSize(NamedTuple):
    """What lies in a folder that stays out of the snapshot; `is_all` False: that much at least."""

    mtime_ns: int  # of the folder itself
    files: int
    size_bytes: int
    is_all: bool


def source_cache(home: Path, source: str) -> SourceCache:
    """Return this process's cache of one source folder (a real path), read from its file at the first call."""
    with _processes_lock:
        key = (str(home), source)
        found = _processes.get(key)
        if found is None:
            name = hashlib.sha256(os.fsencode(source)).hexdigest()[:32]
            found = _processes[key] = SourceCache(cache_folder(home) / "snapshots" / f"{name}.stat", source)
        return found


def find_cache_of(home: Path, root: str) -> Optional[Path]:
    """Return the file with the cache of the source folder that a root tree was made from; None: made elsewhere."""
    folder = cache_folder(home) / "snapshots"
    try:
        name = os.path.basename(os.readlink(folder / _ROOTS / root))
    except OSError:
        return None
    return folder / name


def _link_root(path: Path, root: str) -> None:
    """Have `find_cache_of` find the file; of many roots the newest ones stay."""
    folder = path.parent / _ROOTS
    folder.mkdir(mode=0o700, exist_ok=True)
    link = folder / root
    if link.is_symlink() and os.readlink(link) != path.name:
        link.unlink()
    if not link.is_symlink():
        os.symlink(path.name, link)
    names = os.listdir(folder)
    if len(names) > _MOST_ROOTS:
        oldest = sorted(names, key=lambda name: os.lstat(folder / name).st_mtime_ns)
        for name in oldest[: len(names) // 2]:
            os.unlink(folder / name)


class SourceCache:
    """One source folder's cache. Hold `lock` while using it. `source` None: whichever folder the file is about."""

    def __init__(self, path: Path, source: Optional[str]) -> None:
        self.lock = threading.Lock()
        self.root: Optional[Folder] = None
        self.sizes: Dict[str, LeftOutSize] = {}  # what lies in folders that were left out, by path
        self._path = path
        self.source = source or ""
        self._servers: Dict[str, str] = {}  # server id → root tree that it holds whole
        self._file_bytes = 0
        self._live_bytes = 0
        self._read()

    def is_held_by(self, server: str) -> bool:
        """Whether the server has everything that `root` names, as far as we know."""
        return self.root is not None and self._servers.get(server) == self.root.tree

    def forget_server(self, server: str) -> None:
        self._servers.pop(server, None)

    def chunk_ids(self) -> List[str]:
        """Return the ids of all chunks that `root` names, each once."""
        found: Dict[str, None] = {}
        for _, folder in self.root.iter_below() if self.root is not None else ():
            for kept in folder.files.values():
                found.update(dict.fromkeys(chunks_of(kept)))
        return list(found)

    def distrust(self, lost: Iterable[str]) -> None:
        """Have the next walk read the files again that these chunks belong to."""
        ids = set(lost)
        for _, folder in self.root.iter_below() if self.root is not None and ids else ():
            for name, kept in list(folder.files.items()):
                if not ids.isdisjoint(chunks_of(kept)):
                    folder.files[name] = kept._replace(stamp=None)

    def keep(self, root: Folder) -> None:
        """Remember a walk. What it found is true whether or not it reaches the server."""
        self.root = root

    def save(self, server: str, changed: Iterable[Tuple[str, Folder]]) -> None:
        """Remember that `server` holds `root` and write down what changed; a disk that refuses is no error."""
        assert self.root is not None
        news = list(changed)
        if not news and self.is_held_by(server):
            return
        self._servers[server] = self.root.tree
        try:
            self._append(b"".join(_folder_record(path, folder) for path, folder in news))
            _link_root(self._path, self.root.tree)
        except OSError:
            pass

    def _append(self, records: bytes) -> None:
        data = records + self._facts_record()
        if not self._file_bytes or self._file_bytes + len(data) > 2 * self._live_bytes + (1 << 20):
            self._rewrite()
            return
        try:
            fd = os.open(self._path, WRITE | os.O_APPEND | NOFOLLOW)
        except FileNotFoundError:
            self._rewrite()
            return
        try:
            self._file_bytes += os.write(fd, data)
        finally:
            os.close(fd)

    def _rewrite(self) -> None:
        assert self.root is not None
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        records = [_folder_record(path, item) for path, item in self.root.iter_below()]
        data = b"".join([self._facts_record(), *records])
        write_whole(str(self._path), data)
        self._file_bytes = self._live_bytes = len(data)

    def _facts_record(self) -> bytes:
        return _record({"source": self.source, "servers": self._servers, "sizes": self.sizes})

    def _read(self) -> None:
        try:
            data = self._path.read_bytes()
        except OSError:
            return
        folders: Dict[str, Folder] = {}
        below: Dict[str, List[str]] = {}
        sizes: Dict[str, int] = {}
        facts: Dict[str, Any] = {}
        try:
            for head, body, size in _iter_records(data):
                if "source" in head:
                    facts = head
                else:
                    folders[head["p"]], below[head["p"]] = _read_folder(head, body)
                    sizes[head["p"]] = size
        except (KeyError, TypeError, ValueError, IndexError):
            return
        self.source = self.source or str(facts.get("source", ""))
        if facts.get("source") != self.source or "" not in folders:
            return
        self.root = _assemble("", folders, below)
        sizes_of = dict(facts.get("sizes", {}))
        self.sizes = {str(path): LeftOutSize(*found) for path, found in sizes_of.items() if len(found) == 4}
        self._servers = {str(key): str(value) for key, value in dict(facts.get("servers", {})).items()}
        self._file_bytes = len(data)
        self._live_bytes = sum(sizes.values())


def _assemble(path: str, folders: Dict[str, Folder], below: Dict[str, List[str]]) -> Folder:
    """Join the folders and seal them from the leaves up: ids come from what was read, never from what a record says."""
    folder = folders[path]
    for name in below[path]:
        child = f"{path}/{name}" if path else name
        if child in folders:
            folder.folders[name] = _assemble(child, folders, below)
    folder.seal()
    return folder


def _folder_record(path: str, folder: Folder) -> bytes:
    stamps: List[int] = []
    for kept in folder.files.values():
        stamps.extend(kept.stamp or _NO_STAMP)
    head = {
        "p": path,
        "m": folder.mode,
        "n": list(folder.files),
        "k": stamps,
        "s": [kept.size for kept in folder.files.values()],
        "l": {name: kept.target for name, kept in folder.files.items() if kept.target is not None},
        "o": folder.skipped,
        "r": folder.rules,
        "d": list(folder.folders),
    }
    return _record(head, b"\n".join([kept.piece for kept in folder.files.values()]))


def _read_folder(head: Dict[str, Any], body: bytes) -> Tuple[Folder, List[str]]:
    names, stamps, sizes, links = head["n"], head["k"], head["s"], head["l"]
    pieces = body.split(b"\n") if names else []
    if not len(names) == len(sizes) == len(pieces) or len(stamps) != 5 * len(names):
        raise ValueError("lengths differ")
    files: Dict[str, KeptEntry] = {}
    for index, name in enumerate(names):
        stamp = tuple(stamps[5 * index : 5 * index + 5])
        files[name] = KeptEntry(stamp if stamp[4] else None, pieces[index], sizes[index], links.get(name))
    return Folder(int(head["m"]), files, {}, dict(head["o"]), str(head.get("r", ""))), list(head["d"])


def _record(head: Mapping[str, object], body: bytes = b"") -> bytes:
    text = json.dumps(head, separators=(",", ":")).encode("ascii")
    return _HEAD.pack(_MAGIC, len(text), len(body), zlib.crc32(body, zlib.crc32(text))) + text + body


def _iter_records(data: bytes) -> Iterator[Tuple[Dict[str, Any], bytes, int]]:
    """Yield (head, entries, size of the record) until the end or the first record that is not whole."""
    at = 0
    while at + _HEAD.size <= len(data):
        magic, text_size, body_size, crc = _HEAD.unpack_from(data, at)
        start = at + _HEAD.size
        text = data[start : start + text_size]
        body = data[start + text_size : start + text_size + body_size]
        if (
            magic != _MAGIC
            or len(text) + len(body) != text_size + body_size
            or zlib.crc32(body, zlib.crc32(text)) != crc
        ):
            return
        yield json.loads(text), body, _HEAD.size + text_size + body_size
        at = start + text_size + body_size
