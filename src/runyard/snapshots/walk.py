"""One walk over a source folder, always relative to open folders: a folder swapped meanwhile never leads outside."""

from __future__ import annotations

import errno
import os
import stat
import time
from typing import Dict, List, NamedTuple, Optional, Tuple

from runyard.core.errors import RunyardError, SnapshotRejected
from runyard.core.formats.chunks import FRESH_NS, Clock, TakeChunk, read_chunks
from runyard.core.formats.tree import MAX_DEPTH, MAX_TREE_BYTES, FileEntry, LinkEntry, entry_bytes, name_text
from runyard.snapshots.folder import OPEN_FOLDER, Folder, KeptEntry, chunks_of, stamp_of
from runyard.snapshots.links import leaves_tree
from runyard.snapshots.rules import SECRET, Rules, holds_key

_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_KINDS = {stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}
_SWAPPED = (errno.ELOOP, errno.ENOTDIR, errno.ENXIO)


class Note(NamedTuple):
    """Something the user should know: `kind` is secret, special, vanished, swapped, changed or home."""

    kind: str
    path: str
    detail: str = ""


class Changed(NamedTuple):
    """A folder that is not as the walk before found it; `data` is its tree object.

    Its tree may still be the same: then only stats differ.
    """

    path: str
    folder: Folder
    data: bytes
    is_new: bool


class _Listing:
    """What one folder holds now."""

    __slots__ = ("files", "folders", "is_fresh", "skipped")

    def __init__(self, files: Dict[str, KeptEntry], folders: List[str], skipped: Dict[str, int]) -> None:
        self.files = files
        self.folders = folders
        self.skipped = skipped
        self.is_fresh = False  # a file is new or differs


class Walk:
    """Finds what is in a source folder, reading only files whose stat changed since `known` was made."""

    def __init__(
        self,
        rules: Rules,
        take: TakeChunk,
        *,
        home: Optional[Tuple[int, int]] = None,
        is_held: bool = False,
        recheck: bool = False,
        clock: Clock = time.time_ns,
    ) -> None:
        self._rules = rules
        self._take = take
        self._home = home  # device and inode of our own home, which is never part of a snapshot
        self._is_held = is_held  # the server has all that the walk before found
        self._clock = clock
        self._recheck = recheck  # the rules changed: decide anew about every name
        self.notes: List[Note] = []
        self.changed: List[Changed] = []  # children first
        self.changed_files = 0
        self.files = 0
        self.size_bytes = 0

    def run(self, root_fd: int, known: Optional[Folder]) -> Folder:
        """Return the source folder as it is now.

        Raises:
            SnapshotRejected: something in it cannot be read, or a link leads out of it.
        """
        root = self._folder(root_fd, "", known, 0, 0)
        self._check_links(root)
        return root

    def _folder(self, fd: int, path: str, known: Optional[Folder], mode: int, depth: int) -> Folder:
        before = known if known is not None else Folder(mode, {}, {})
        found = self._list(fd, path, before)
        folders = self._below(fd, path, found.folders, before.folders, depth)
        self.files += len(found.files)
        if known is not None and mode == known.mode and _is_same(found, folders, known):
            known.skipped = found.skipped
            self.size_bytes += known.size
            return known
        folder = Folder(mode, found.files, folders, found.skipped)
        self.size_bytes += folder.size
        self._seal(path, folder, before.tree)
        return folder

    def _list(self, fd: int, path: str, before: Folder) -> _Listing:
        """Look at every entry of one folder. The first three lines of the loop are all that an unchanged file costs."""
        found = _Listing({}, [], {})
        files = found.files
        trusted: Dict[str, KeptEntry] = {} if self._recheck else before.files
        look_up = trusted.get
        with os.scandir(fd) as entries:
            for entry in entries:
                name = entry.name
                try:
                    hit = look_up(name)
                    if hit is not None and hit[0] == stamp_of(entry.stat(follow_symlinks=False)):
                        files[name] = hit
                        continue
                    kept = self._look(entry, fd, path, before, found)
                except FileNotFoundError:
                    self.notes.append(Note("vanished", _join(path, name)))
                except PermissionError as error:
                    raise _unreadable(path or ".", error, "folder") from error  # it can be listed, not entered
                else:
                    if kept is not None:
                        files[name] = kept
                        found.is_fresh = self._compare(before.files.get(name), kept) or found.is_fresh
        return found

    def _compare(self, before: Optional[KeptEntry], found: KeptEntry) -> bool:
        if before is None or before.piece != found.piece:
            self.changed_files += 1
        return before is not found

    def _seal(self, path: str, folder: Folder, known_tree: str) -> None:
        data = folder.seal()
        if len(data) > MAX_TREE_BYTES:
            raise SnapshotRejected(
                f"The folder `{path or '.'}` has too many files for one folder: {len(folder.files)}.",
                why="The description of one folder of a snapshot may have 30 MiB, about 190,000 files.",
                hint="Spread the files over subfolders, or name the folder in `.amlignore` and use a dataset.",
            )
        self.changed.append(Changed(path, folder, data, folder.tree != known_tree))

    def _look(
        self, entry: os.DirEntry[str], fd: int, path: str, before: Folder, found: _Listing
    ) -> Optional[KeptEntry]:
        """Decide about an entry that is new, changed, a folder or left out; return a file or link to keep."""
        name = entry.name
        is_folder = entry.is_dir(follow_symlinks=False)
        if not (is_folder and name in before.folders and not self._recheck):
            verdict = self._verdict(path, name, is_folder, before)
            if verdict:
                found.skipped[name] = verdict * 2 + is_folder
                if verdict == SECRET:
                    self.notes.append(Note("secret", _join(path, name), name + "/" * is_folder))
                return None
        if is_folder:
            found.folders.append(name)
            return None
        if self._recheck:
            hit = before.files.get(name)
            if hit is not None and hit.stamp == stamp_of(entry.stat(follow_symlinks=False)):
                return hit
        return self._read(fd, path, name, before.files.get(name))

    def _verdict(self, path: str, name: str, is_folder: bool, before: Folder) -> int:
        code = None if self._recheck else before.skipped.get(name)
        if code is not None and code & 1 == is_folder:
            return code >> 1
        if name in before.files and not self._recheck and not is_folder:
            return 0
        return self._rules.verdict(_join(path, name), name, is_folder=is_folder)

    def _read(self, fd: int, path: str, name: str, before: Optional[KeptEntry]) -> Optional[KeptEntry]:
        status = os.stat(name, dir_fd=fd, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            return self._link(fd, path, name, status)
        if stat.S_ISREG(status.st_mode):
            return self._file(fd, path, name, before)
        self.notes.append(Note("special", _join(path, name), _KINDS.get(stat.S_IFMT(status.st_mode), "no file")))
        return None

    def _link(self, fd: int, path: str, name: str, status: os.stat_result) -> Optional[KeptEntry]:
        try:
            target = os.readlink(name, dir_fd=fd)
        except OSError as error:
            if error.errno != errno.EINVAL:  # it is a link no longer
                raise
            self.notes.append(Note("swapped", _join(path, name)))
            return None
        if target.startswith("/"):
            raise _link_out(_join(path, name), target)
        entry = LinkEntry(name_text(os.fsencode(name)), name_text(os.fsencode(target)))
        stamp = stamp_of(status) if status.st_ctime_ns < self._clock() - FRESH_NS else None
        return KeptEntry(stamp, entry_bytes(entry), 0, target)

    def _file(self, fd: int, path: str, name: str, before: Optional[KeptEntry]) -> Optional[KeptEntry]:
        try:
            file = os.open(name, _OPEN_FILE, dir_fd=fd)
        except FileNotFoundError:
            raise
        except OSError as error:
            if error.errno in _SWAPPED:
                self.notes.append(Note("swapped", _join(path, name)))
                return None
            raise _unreadable(_join(path, name), error, "file") from error
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                self.notes.append(Note("swapped", _join(path, name)))
                return None
            if holds_key(file, name, status.st_size) and not self._rules.takes_in(_join(path, name)):
                self.notes.append(Note("secret", _join(path, name), name))
                return None
            return self._content(file, path, name, before)
        except RunyardError:
            raise  # the server's; some are an OSError too
        except OSError as error:
            raise _unreadable(_join(path, name), error, "file") from error
        finally:
            os.close(file)

    def _content(self, file: int, path: str, name: str, before: Optional[KeptEntry]) -> KeptEntry:
        now = self._clock()
        held = set(chunks_of(before)) if before is not None and self._is_held else frozenset()

        def take(chunk: str, data: bytes) -> None:
            if chunk not in held:
                self._take(chunk, data)

        found = read_chunks(file, take, careful=True, clock=self._clock)
        if found.changed:
            self.notes.append(Note("changed", _join(path, name)))
        mode = stat.S_IMODE(found.status.st_mode) & 0o777
        entry = FileEntry(name_text(os.fsencode(name)), mode, found.size, tuple(found.chunks))
        # A file that was just written may change again within the same clock tick, so its stat proves nothing yet.
        settled = not found.changed and found.status.st_ctime_ns < now - FRESH_NS
        return KeptEntry(stamp_of(found.status) if settled else None, entry_bytes(entry), found.size)

    def _below(self, fd: int, path: str, names: List[str], known: Dict[str, Folder], depth: int) -> Dict[str, Folder]:
        if names and depth >= MAX_DEPTH:
            raise SnapshotRejected(
                f"The folder `{_join(path, names[0])}` lies too deep.",
                why=f"A snapshot has at most {MAX_DEPTH} levels of folders.",
                hint="Move it up, or name it in `.amlignore`.",
            )
        folders: Dict[str, Folder] = {}
        for name in names:
            found = self._child(fd, path, name, known.get(name), depth)
            if found is not None:
                folders[name] = found
        return folders

    def _child(self, fd: int, path: str, name: str, known: Optional[Folder], depth: int) -> Optional[Folder]:
        below = _join(path, name)
        try:
            child = os.open(name, OPEN_FOLDER, dir_fd=fd)
        except FileNotFoundError:
            self.notes.append(Note("vanished", below))
            return None
        except OSError as error:
            if error.errno in _SWAPPED:
                self.notes.append(Note("swapped", below))
                return None
            raise _unreadable(below, error, "folder") from error
        try:
            status = os.fstat(child)
            if (status.st_dev, status.st_ino) == self._home:
                self.notes.append(Note("home", below))
                return None
            return self._folder(child, below, known, stat.S_IMODE(status.st_mode) & 0o777, depth + 1)
        finally:
            os.close(child)

    def _check_links(self, root: Folder) -> None:
        for path, folder in root.iter_below():
            for name in folder.uplinks:
                target = folder.files[name].target or ""
                if leaves_tree(root, path.split("/") if path else [], target, Folder.entry):
                    raise _link_out(_join(path, name), target)


def _is_same(found: _Listing, folders: Dict[str, Folder], known: Folder) -> bool:
    if found.is_fresh or len(found.files) != len(known.files) or len(folders) != len(known.folders):
        return False
    return all(known.folders.get(name) is folder for name, folder in folders.items())


def _join(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name


def _link_out(path: str, target: str) -> SnapshotRejected:
    return SnapshotRejected(
        f"The link `{path}` leads out of the source folder, to `{target}`.",
        why="A snapshot holds the source folder and nothing else; on another machine the link would lead nowhere.",
        hint=f"Copy what it points to into the folder, or add the line `/{path}` to `.amlignore`.",
    )


def _unreadable(path: str, error: OSError, noun: str) -> SnapshotRejected:
    fix = f"chmod u+r '{path}'" if noun == "file" else f"chmod u+rx '{path}'"
    return SnapshotRejected(
        f"The {noun} `{path}` cannot be read.",
        why=f"{error.strerror or error} (errno {error.errno}).",
        hint=f"Type `{fix}`, or add the line `/{path}` to `.amlignore` to leave it out.",
    )
