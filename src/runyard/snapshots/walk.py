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
from runyard.core.machine.portable import (
    OpenFolder,
    close_folder,
    folder_status,
    open_file_at,
    open_folder,
    readlink_at,
    status_at,
)
from runyard.snapshots.folder import Folder, KeptEntry, chunks_of, stamp_of
from runyard.snapshots.links import leaves_tree, links_out, path_inside
from runyard.snapshots.rules import IGNORE_FILES, KEEP, SECRET, Rule, Rules, verdict_of
from runyard.snapshots.secret_files import holds_key

_KINDS = {stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}
_ENVIRONMENT_SIGNS = ("pyvenv.cfg", "conda-meta")  # of a virtual environment, and of conda's
_OF_ENVIRONMENT = frozenset({"bin", "include", "lib", "lib64", "pyvenv.cfg"})  # made in the root by `python -m venv .`
MOST_NAMES = 10  # files that a line of an ignore file left out, shown by name
_MOST_STATS = 200  # files that were left out and whose sizes are looked at: it costs a call for each
_SWAPPED = (errno.ELOOP, errno.ENOTDIR, errno.ENXIO)


class Note(NamedTuple):
    """Something the user should know: `kind` is secret, special, vanished, swapped, changed, environment or home."""

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


class IgnoredEntries:
    """What one line of an ignore file kept out of the snapshot."""

    __slots__ = ("files", "folders", "is_all", "names", "rule", "size_bytes")

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.files = 0  # files that the line fits; what lies in folders is not counted
        self.size_bytes = 0
        self.is_all = True  # False: there is more than was counted
        self.names: List[str] = []  # the first of these files
        self.folders: List[str] = []  # folders that the line fits


class _Listing:
    """What one folder holds now."""

    __slots__ = ("files", "folders", "is_fresh", "recheck", "rules", "skipped")

    def __init__(self, rules: Rules, files: Dict[str, KeptEntry], *, recheck: bool) -> None:
        self.rules = rules
        self.files = files
        self.folders: List[str] = []
        self.skipped: Dict[str, int] = {}
        self.is_fresh = False  # a file is new or differs
        self.recheck = recheck  # the rules changed: decide anew about every name


class Walk:
    """Finds what is in a source folder, reading only files whose stat changed since `known` was made.

    `source` is the folder's real path: an absolute link below it is kept as a relative one.
    """

    def __init__(
        self,
        rules: Rules,
        take: TakeChunk,
        *,
        source: str = "",
        home: Optional[Tuple[int, int]] = None,
        is_held: bool = False,
        clock: Clock = time.time_ns,
    ) -> None:
        self._rules = rules
        self._take = take
        self._source = source
        self._home = home  # device and inode of our own home, which is never part of a snapshot
        self._is_held = is_held  # the server has all that the walk before found
        self._clock = clock
        self._links_out: List[Tuple[str, str]] = []  # with one, the snapshot is refused: nothing more is read
        self._stats = 0
        self.notes: List[Note] = []
        self.left_out: Dict[Rule, IgnoredEntries] = {}
        self.changed: List[Changed] = []  # children first
        self.changed_files = 0
        self.files = 0
        self.size_bytes = 0

    def run(self, root_fd: OpenFolder, known: Optional[Folder]) -> Folder:
        """Return the source folder as it is now.

        Raises:
            SnapshotRejected: something in it cannot be read, or links lead out of it.
        """
        root = self._folder(root_fd, "", known, 0, 0, self._rules)
        assert root is not None  # only folders below it can be environments
        self._check_links(root)
        return root

    def _folder(
        self, fd: OpenFolder, path: str, known: Optional[Folder], mode: int, depth: int, above: Rules
    ) -> Optional[Folder]:
        before = known if known is not None else Folder(mode, {}, {})
        found = self._list(fd, path, before, above)
        if found is None:
            self.notes.append(Note("environment", path))
            return None
        folders = self._below(fd, path, found, before.folders, depth)
        self.files += len(found.files)
        if known is not None and mode == known.mode and _is_same(found, folders, known):
            known.skipped = found.skipped
            self.size_bytes += known.size
            if known.rules != found.rules.digest:
                known.rules = found.rules.digest
                self._seal(path, known, known.tree)
            return known
        folder = Folder(mode, found.files, folders, found.skipped, found.rules.digest)
        self.size_bytes += folder.size
        self._seal(path, folder, before.tree)
        return folder

    def _list(self, fd: OpenFolder, path: str, before: Folder, above: Rules) -> Optional[_Listing]:
        """Look at every entry of one folder; None when it is an environment with a Python of its own."""
        files, others = self._scan(fd, path, before.files)
        names = {entry.name for entry in others}
        if path and any(sign in names or sign in files for sign in _ENVIRONMENT_SIGNS):
            return None
        rules = above
        ignore_files = [name for name in IGNORE_FILES if name in names or name in files]
        if path and ignore_files:
            rules, notes = above.with_files(fd, path, ignore_files)
            self.notes += [Note("ignore_file", path, note) for note in notes]
        recheck = rules.digest != before.rules
        if recheck and files:
            files, others = self._scan(fd, path, {})
        if not path and os.path.exists(os.path.join(self._source, "pyvenv.cfg")):
            others = self._without_environment(files, others)
        found = _Listing(rules, files, recheck=recheck)
        for entry in others:
            name = entry.name
            try:
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

    def _without_environment(
        self, files: Dict[str, KeptEntry], others: List[os.DirEntry[str]]
    ) -> List[os.DirEntry[str]]:
        """Leave out what `python -m venv .` made in the source folder itself; return the other entries."""
        if not os.path.exists(os.path.join(self._source, "bin", "activate")):
            return others
        self.notes += [Note("environment", entry.name) for entry in others if entry.name in ("bin", "lib")]
        for name in _OF_ENVIRONMENT & files.keys():
            del files[name]
        return [entry for entry in others if entry.name not in _OF_ENVIRONMENT]

    def _scan(
        self, fd: OpenFolder, path: str, trusted: Dict[str, KeptEntry]
    ) -> Tuple[Dict[str, KeptEntry], List[os.DirEntry[str]]]:
        """Return the files that are as `trusted` says, and the other entries."""
        files: Dict[str, KeptEntry] = {}
        others: List[os.DirEntry[str]] = []
        look_up = trusted.get
        with os.scandir(fd) as entries:
            for entry in entries:  # the first four lines of the loop are all that an unchanged file costs
                name = entry.name
                hit = look_up(name)
                try:
                    if hit is not None and hit[0] == stamp_of(entry.stat(follow_symlinks=False)):
                        files[name] = hit
                        continue
                except FileNotFoundError:
                    self.notes.append(Note("vanished", _join(path, name)))
                    continue
                except PermissionError as error:
                    raise _unreadable(path or ".", error, "folder") from error
                others.append(entry)
        return files, others

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
        self, entry: os.DirEntry[str], fd: OpenFolder, path: str, before: Folder, found: _Listing
    ) -> Optional[KeptEntry]:
        """Decide about an entry that is new, changed, a folder or left out; return a file or link to keep."""
        name = entry.name
        is_folder = entry.is_dir(follow_symlinks=False)
        if not (is_folder and name in before.folders and not found.recheck):
            decision = self._decide(path, name, is_folder, before, found)
            if decision:
                found.skipped[name] = decision * 2 + is_folder
                if verdict_of(decision) == SECRET:
                    self.notes.append(Note("secret", _join(path, name), name + "/" * is_folder))
                else:
                    self._note_left_out(entry, _join(path, name), found.rules.rule_of(decision), is_folder)
                return None
        if is_folder:
            found.folders.append(name)
            return None
        if found.recheck:
            hit = before.files.get(name)
            if hit is not None and hit.stamp == stamp_of(entry.stat(follow_symlinks=False)):
                return hit
        return self._read(fd, path, name, before.files.get(name), found.rules)

    def _decide(self, path: str, name: str, is_folder: bool, before: Folder, found: _Listing) -> int:
        code = None if found.recheck else before.skipped.get(name)
        if code is not None and code & 1 == is_folder:
            return code >> 1
        if name in before.files and not found.recheck and not is_folder:
            return KEEP
        return found.rules.decide(_join(path, name), name, is_folder=is_folder)

    def _note_left_out(self, entry: os.DirEntry[str], path: str, rule: Optional[Rule], is_folder: bool) -> None:
        if rule is None:
            return
        about = self.left_out.get(rule)
        if about is None:
            about = self.left_out[rule] = IgnoredEntries(rule)
        if is_folder:
            about.folders.append(path)
            return
        about.files += 1
        if len(about.names) < MOST_NAMES:
            about.names.append(path)
        if self._stats < _MOST_STATS:
            self._stats += 1
            about.size_bytes += entry.stat(follow_symlinks=False).st_size
        else:
            about.is_all = False

    def _read(
        self, fd: OpenFolder, path: str, name: str, before: Optional[KeptEntry], rules: Rules
    ) -> Optional[KeptEntry]:
        status = status_at(fd, name)
        if stat.S_ISLNK(status.st_mode):
            return self._link(fd, path, name, status)
        if stat.S_ISREG(status.st_mode):
            return self._file(fd, path, name, before, rules)
        self.notes.append(Note("special", _join(path, name), _KINDS.get(stat.S_IFMT(status.st_mode), "no file")))
        return None

    def _link(self, fd: OpenFolder, path: str, name: str, status: os.stat_result) -> Optional[KeptEntry]:
        try:
            target = readlink_at(fd, name)
        except OSError as error:
            if error.errno != errno.EINVAL:  # it is a link no longer
                raise
            self.notes.append(Note("swapped", _join(path, name)))
            return None
        if target.startswith("/"):
            inside = path_inside(self._source, target)
            if inside is None:
                self._links_out.append((_join(path, name), target))
                return None
            target = "/".join([*[".."] * (path.count("/") + 1 if path else 0), inside or "."])
        entry = LinkEntry(name_text(os.fsencode(name)), name_text(os.fsencode(target)))
        stamp = stamp_of(status) if status.st_ctime_ns < self._clock() - FRESH_NS else None
        return KeptEntry(stamp, entry_bytes(entry), 0, target)

    def _file(
        self, fd: OpenFolder, path: str, name: str, before: Optional[KeptEntry], rules: Rules
    ) -> Optional[KeptEntry]:
        try:
            file = open_file_at(fd, name)
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
            if holds_key(file, name, status.st_size) and not rules.takes_in(_join(path, name), name):
                self.notes.append(Note("secret", _join(path, name), name))
                return None
            return self._content(file, path, name, before) if not self._links_out else _unread(name, status)
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

    def _below(
        self, fd: OpenFolder, path: str, found: _Listing, known: Dict[str, Folder], depth: int
    ) -> Dict[str, Folder]:
        names = found.folders
        if names and depth >= MAX_DEPTH:
            raise SnapshotRejected(
                f"The folder `{_join(path, names[0])}` lies too deep.",
                why=f"A snapshot has at most {MAX_DEPTH} levels of folders.",
                hint="Move it up, or name it in `.amlignore`.",
            )
        folders: Dict[str, Folder] = {}
        for name in names:
            rules = found.rules.below(_join(path, name), name)
            folder = self._child(fd, path, name, known.get(name), depth, rules)
            if folder is not None:
                folders[name] = folder
        return folders

    def _child(
        self, fd: OpenFolder, path: str, name: str, known: Optional[Folder], depth: int, rules: Rules
    ) -> Optional[Folder]:
        below = _join(path, name)
        try:
            child = open_folder(name, at=fd)
        except FileNotFoundError:
            self.notes.append(Note("vanished", below))
            return None
        except OSError as error:
            if error.errno in _SWAPPED:
                self.notes.append(Note("swapped", below))
                return None
            raise _unreadable(below, error, "folder") from error
        try:
            status = folder_status(child)
            if (status.st_dev, status.st_ino) == self._home:
                self.notes.append(Note("home", below))
                return None
            return self._folder(child, below, known, stat.S_IMODE(status.st_mode) & 0o777, depth + 1, rules)
        finally:
            close_folder(child)

    def _check_links(self, root: Folder) -> None:
        found = list(self._links_out)
        for path, folder in root.iter_below():
            for name in folder.uplinks:
                target = folder.files[name].target or ""
                if leaves_tree(root, path.split("/") if path else [], target, Folder.entry):
                    found.append((_join(path, name), target))
        if found:
            raise links_out(sorted(found), self._rules.file or IGNORE_FILES[0])


def _is_same(found: _Listing, folders: Dict[str, Folder], known: Folder) -> bool:
    if found.is_fresh or len(found.files) != len(known.files) or len(folders) != len(known.folders):
        return False
    return all(known.folders.get(name) is folder for name, folder in folders.items())


def _join(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name


def _unread(name: str, status: os.stat_result) -> KeptEntry:
    """Return the entry of a file whose content does not matter."""
    mode = stat.S_IMODE(status.st_mode) & 0o777
    entry = FileEntry(name_text(os.fsencode(name)), mode, status.st_size, ())
    return KeptEntry(None, entry_bytes(entry), status.st_size)


def _unreadable(path: str, error: OSError, noun: str) -> SnapshotRejected:
    fix = f"chmod u+r '{path}'" if noun == "file" else f"chmod u+rx '{path}'"
    return SnapshotRejected(
        f"The {noun} `{path}` cannot be read.",
        why=f"{error.strerror or error} (errno {error.errno}).",
        hint=f"Type `{fix}`, or add the line `/{path}` to `.amlignore` to leave it out.",
    )
