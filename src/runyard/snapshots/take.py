"""A source folder becomes a snapshot on the server; only what changed is read, only what is missing travels."""

from __future__ import annotations

import os
import time
from dataclasses import field
from pathlib import Path
from typing import Callable, Iterable, List, Optional, Tuple

from runyard.core.errors import MissingContent, SnapshotRejected, StoreUnavailable, TooLarge
from runyard.core.formats.chunks import BATCH_BYTES, Chunk, Clock
from runyard.core.lazy_dataclass import dataclass
from runyard.snapshots.cache import SourceCache, source_cache
from runyard.snapshots.folder import Folder
from runyard.snapshots.notices import note_lines, size_warning, warning_lines
from runyard.snapshots.rules import Rules, read_rules
from runyard.snapshots.sender import ChunkSender, Content
from runyard.snapshots.walk import Walk

Say = Callable[[str], None]


@dataclass(frozen=True)
class Snapshot:
    id: str
    root: str  # id of the root tree
    files: int
    size_bytes: int
    changed_files: int  # new or changed since the last snapshot of this folder
    notes: List[str] = field(default_factory=list)  # what was left out
    warnings: List[str] = field(default_factory=list)  # what may be wrong, or is large
    left_out: str = ""  # the note about files that look like secrets, for the run's record


def take_snapshot(
    source: str | os.PathLike[str],
    content: Content,
    *,
    home: Path,
    say: Optional[Say] = None,
    cache: Optional[SourceCache] = None,
    clock: Clock = time.time_ns,
) -> Snapshot:
    """Store the folder `source` as it is now and return its snapshot.

    Args:
        content: the server, `Client.content`.
        home: RUNYARD_HOME; the stat cache lies below it, and it is never part of a snapshot itself.
        say: called with each note and warning.
        cache: what is known about the folder from before; None: this process's.
        clock: the wall clock in ns; a file whose inode changed in the last two seconds is never trusted by its stat.

    Raises:
        SnapshotRejected: the folder is missing, something in it cannot be read, or a link leads out of it.
    """
    path = os.path.realpath(source)
    root_fd = open_source(path)
    try:
        known = cache if cache is not None else source_cache(home, path)
        with known.lock:
            snapshot = _Taking(root_fd, content, known, identity(home), clock).take()
    finally:
        os.close(root_fd)
    if say is not None:
        for line in snapshot.notes + snapshot.warnings:
            say(line)
    return snapshot


class _Taking:
    def __init__(
        self, root_fd: int, content: Content, cache: SourceCache, home: Optional[Tuple[int, int]], clock: Clock
    ) -> None:
        self._root_fd = root_fd
        self._content = content
        self._cache = cache
        self._home = home
        self._clock = clock
        self._server = content.server_id()

    def take(self) -> Snapshot:
        try:
            return self._take()
        except MissingContent:
            # The server lost what we thought it had; now it is asked about everything.
            self._cache.forget_server(self._server)
            return self._take()

    def _take(self) -> Snapshot:
        before = self._cache.root
        is_held = self._cache.is_held_by(self._server)
        if before is not None and not is_held:
            self._cache.distrust(self._content.missing(self._cache.chunk_ids()))
        rules, notes = read_rules(self._root_fd)
        sender = ChunkSender(self._content)
        try:
            walk, root = self._walk(rules, before, is_held, sender)
            if not is_held:
                self._send_trees((folder.seal(), folder) for _, folder in root.iter_below())
            else:
                self._send_trees((change.data, change.folder) for change in walk.changed if change.is_new)
        except (StoreUnavailable, SnapshotRejected, TooLarge):  # the server's disk is full, above all
            sender.release()
            raise
        snapshot_id = self._content.put_snapshot(root.tree, walk.files, walk.size_bytes)
        self._cache.save(self._server, [(change.path, change.folder) for change in walk.changed])
        secret = note_lines([note for note in walk.notes if note.kind == "secret"], rules.file)
        return Snapshot(
            id=snapshot_id,
            root=root.tree,
            files=walk.files,
            size_bytes=walk.size_bytes,
            changed_files=walk.changed_files,
            notes=notes + note_lines(walk.notes, rules.file),
            warnings=warning_lines(walk.notes) + _size_lines(root, walk),
            left_out=secret[0] if secret else "",
        )

    def _walk(self, rules: Rules, before: Optional[Folder], is_held: bool, sender: ChunkSender) -> Tuple[Walk, Folder]:
        """Find what is there, and send the chunks of what is new while looking."""
        recheck = before is not None and rules.digest != self._cache.rules
        walk = Walk(rules, sender.take, home=self._home, is_held=is_held, recheck=recheck, clock=self._clock)
        try:
            root = walk.run(self._root_fd, before)
            self._cache.keep(root, rules.digest)
            sender.finish()
        finally:
            sender.stop()
        return walk, root

    def _send_trees(self, trees: Iterable[Tuple[bytes, Folder]]) -> None:
        """Send them children first, in bodies of about 8 MiB."""
        batch: List[Chunk] = []
        size = 0
        for data, folder in trees:
            if batch and size + len(data) > BATCH_BYTES:
                self._content.put_trees(batch)
                batch, size = [], 0
            batch.append((folder.tree, data))
            size += len(data)
        if batch:
            self._content.put_trees(batch)


def _size_lines(root: Folder, walk: Walk) -> List[str]:
    line = size_warning(root, files=walk.files, size_bytes=walk.size_bytes, changed_files=walk.changed_files)
    return [line] if line is not None else []


def open_source(path: str) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise SnapshotRejected(
            f"The source folder `{path}` cannot be opened.",
            why=f"{error.strerror or error} (errno {error.errno}).",
            hint="Set `source_directory` to a folder that exists and that you may read.",
        ) from error


def identity(home: Path) -> Optional[Tuple[int, int]]:
    try:
        status = os.stat(home)
    except OSError:
        return None
    return status.st_dev, status.st_ino
