"""Store a source folder as a snapshot on the server: read only what changed, send only what is missing.

`ChunkSender` sends whole batches, two at a time, while the walk goes on. As soon as there is more than a little to do,
the folder is looked at as a whole, so that the warning about its size and the progress's total come before the upload.
`survey` at the end says what a snapshot would hold without reading a file.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from dataclasses import field
from heapq import nlargest
from pathlib import Path
from typing import Callable, Dict, Iterable, Iterator, List, Optional, Protocol, Sequence, Set, Tuple

from runyard.core.errors import MissingContent, RunyardError, SnapshotRejected, StoreUnavailable, TooLarge
from runyard.core.formats.chunks import BATCH_BYTES, Batcher, Chunk, Clock
from runyard.core.formats.tree import FileEntry, entry_bytes, name_text
from runyard.core.lazy_dataclass import dataclass
from runyard.core.machine.portable import OpenFolder, close_folder, open_folder
from runyard.core.machine.progress import Progress
from runyard.snapshots.cache import SourceCache, source_cache
from runyard.snapshots.folder import Folder, KeptEntry
from runyard.snapshots.left_out import FolderSizes, LeftOutRule, summarize
from runyard.snapshots.notices import note_lines, size_warning, warning_lines, with_sizes
from runyard.snapshots.rules import Rules, read_rules
from runyard.snapshots.walk import Walk

IN_FLIGHT = 2
MOMENT_S = 0.003
ASK_ABOVE = 256 << 10  # bytes; below this, sending is cheaper than asking first
BIGGEST = 5
LOOK_ABOVE = 1 << 20  # bytes of new content from which on a look at the whole folder is worth its time


class Content(Protocol):
    """What this package needs of a server: `client.calls.content.ContentCalls` has it."""

    def server_id(self) -> str: ...

    def close(self) -> None:
        """Close this thread's connection."""

    def missing(self, ids: Sequence[str]) -> List[str]: ...

    def put(self, chunks: Iterable[Chunk]) -> None: ...

    def release(self, ids: Sequence[str]) -> None: ...

    def fetch(self, ids: Sequence[str]) -> Iterator[Chunk]: ...

    def put_trees(self, trees: Iterable[Chunk]) -> None: ...

    def tree(self, root: str) -> Dict[str, bytes]: ...

    def put_snapshot(self, root: str, files: int, size_bytes: int) -> str: ...


class ChunkSender:
    """Takes chunks from one thread and sends them from others, so that walking, reading and sending overlap.

    Batches go when they are full. The first goes after a moment even if it is not: when little changed, it is on its
    way while the walk still looks at the rest.
    """

    def __init__(self, content: Content) -> None:
        self._content = content
        self._batcher = Batcher()
        self._seen: Set[str] = set()
        self._sent: List[str] = []
        self._full: List[List[Chunk]] = []
        self._change = threading.Condition()
        self._is_closed = False
        self._may_go_early = True
        self._threads: List[threading.Thread] = []
        self._error: Optional[BaseException] = None

    def take(self, name: str, data: bytes) -> None:
        if name in self._seen:
            return
        self._seen.add(name)
        with self._change:
            self._raise_error()
            batch = self._batcher.push(name, data)
            if not self._threads or (batch is not None and len(self._threads) < IN_FLIGHT):
                self._start_thread()
            if batch is not None:
                while self._full and self._error is None:
                    self._change.wait()
                self._full.append(batch)
                self._change.notify_all()

    def finish(self) -> None:
        """Send the rest and wait until everything has arrived; raise what went wrong."""
        with self._change:
            self._may_go_early = False
            rest = self._batcher.flush()
        try:
            if rest and self._error is None:
                self._send(rest)
        finally:
            self.stop()
        self._raise_error()

    def stop(self) -> None:
        """End the threads; what they have taken is still sent. Twice is fine."""
        with self._change:
            self._is_closed = True
            self._change.notify_all()
        threads, self._threads = self._threads, []
        for thread in threads:
            thread.join()

    def release(self) -> None:
        """Take back what was sent, after the snapshot failed: a disk that it filled has room again. After `stop`."""
        try:
            if self._sent:
                self._content.release(self._sent)
        except RunyardError:
            pass  # it is collected later; the error that counts is the caller's

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._work, name="snapshot-sender", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _work(self) -> None:
        try:
            for batch in iter(self._next_batch, None):
                self._send(batch)
        except BaseException as error:
            with self._change:
                self._error = error
                self._change.notify_all()
        finally:
            self._content.close()

    def _next_batch(self) -> Optional[List[Chunk]]:
        with self._change:
            while self._error is None:
                if self._full:
                    self._change.notify_all()
                    return self._full.pop(0)
                if self._is_closed:
                    return None
                if not self._change.wait(MOMENT_S if self._may_go_early else None) and self._may_go_early:
                    self._may_go_early = False
                    return self._batcher.flush()
        return None

    def _send(self, batch: List[Chunk]) -> None:
        if sum(len(data) for _, data in batch) > ASK_ABOVE:
            wanted = set(self._content.missing([name for name, _ in batch]))
            batch = [chunk for chunk in batch if chunk[0] in wanted]
        if batch:
            self._sent += [name for name, _ in batch]
            self._content.put(batch)

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error


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
    ignored: List[LeftOutRule] = field(default_factory=list)  # what lines of ignore files kept out


def take_snapshot(
    source: str | os.PathLike[str],
    content: Content,
    *,
    home: Path,
    say: Optional[Say] = None,
    progress: Optional[Progress] = None,
    cache: Optional[SourceCache] = None,
    clock: Clock = time.time_ns,
) -> Snapshot:
    """Store the folder `source` as it is now and return its snapshot.

    Args:
        content: the server, `Client.content`.
        home: RUNYARD_HOME; the stat cache lies below it, and it is never part of a snapshot itself.
        say: called with each note and warning; with the one about a large folder before the folder is sent.
        progress: counts the bytes that are read and sent.
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
            taking = _Taking(
                path, root_fd, content, known, identity(home), clock, say=say or _silent, progress=progress
            )
            snapshot = taking.take()
    finally:
        close_folder(root_fd)
    if say is not None:
        for line in snapshot.notes + snapshot.warnings:
            if line != taking.told:
                say(line)
    return snapshot


def _silent(_line: str) -> None:
    """Take the place of `say`."""


class _Taking:
    def __init__(
        self,
        source: str,
        root_fd: OpenFolder,
        content: Content,
        cache: SourceCache,
        home: Optional[Tuple[int, int]],
        clock: Clock,
        *,
        say: Say,
        progress: Optional[Progress],
    ) -> None:
        self.told = ""  # the warning about a large folder, once it was said
        self._say = say
        self._progress = progress if progress is not None else Progress("storing the source folder")
        self._source = source
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
        sizes = FolderSizes(self._source, self._cache.sizes)
        ignored = summarize(walk.left_out, sizes)
        found = with_sizes(walk.notes, sizes)
        self._cache.sizes = sizes.found
        self._cache.save(self._server, [(change.path, change.folder) for change in walk.changed])
        secret = note_lines([note for note in walk.notes if note.kind == "secret"])
        return Snapshot(
            id=snapshot_id,
            root=root.tree,
            files=walk.files,
            size_bytes=walk.size_bytes,
            changed_files=walk.changed_files,
            notes=notes + note_lines(found),
            warnings=warning_lines(walk.notes) + self._size_lines(root, walk),
            left_out=secret[0] if secret else "",
            ignored=ignored,
        )

    def _walk(self, rules: Rules, before: Optional[Folder], is_held: bool, sender: ChunkSender) -> Tuple[Walk, Folder]:
        """Find what is there, and send the chunks of what is new while looking."""
        looked = False

        def take(name: str, data: bytes) -> None:
            nonlocal looked
            if not looked and self._progress.done + len(data) > LOOK_ABOVE:
                looked = True
                self._look_ahead(rules, before)
            self._progress.add(len(data))
            sender.take(name, data)

        walk = _Reading(rules, take, source=self._source, home=self._home, is_held=is_held, clock=self._clock)
        walk.progress = self._progress
        try:
            root = walk.run(self._root_fd, before)
            self._cache.keep(root)
            sender.finish()
        finally:
            sender.stop()
        return walk, root

    def _look_ahead(self, rules: Rules, before: Optional[Folder]) -> None:
        """Find out how much will be sent, and warn of a large folder before it is."""
        fd = open_folder(".", at=self._root_fd)  # the walk that goes on reads names through its own
        try:
            look = _Look(rules, _nothing, source=self._source, home=self._home, clock=self._clock)
            root = look.run(fd, before)
        except SnapshotRejected:
            return  # the walk itself will say so
        finally:
            close_folder(fd)
        self._progress.total = look.new_bytes
        line = size_warning(root, files=look.files, size_bytes=look.size_bytes, changed_files=look.changed_files)
        if line is not None:
            self.told = line
            self._say(line)

    def _size_lines(self, root: Folder, walk: Walk) -> List[str]:
        if self.told:
            return [self.told]
        line = size_warning(root, files=walk.files, size_bytes=walk.size_bytes, changed_files=walk.changed_files)
        return [line] if line is not None else []

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


class _Reading(Walk):
    """The walk that reads; its progress names the file that is being read."""

    progress: Progress

    def _content(self, file: int, path: str, name: str, before: Optional[KeptEntry]) -> KeptEntry:
        self.progress.add(0, f"{path}/{name}" if path else name)
        return super()._content(file, path, name, before)


def open_source(path: str) -> OpenFolder:
    try:
        return open_folder(path, follow=True)
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


@dataclass(frozen=True)
class Survey:
    files: int
    size_bytes: int
    biggest: List[Tuple[str, int]] = field(default_factory=list)  # path and size, the biggest first
    notes: List[str] = field(default_factory=list)  # what would be left out, and what is doubtful


def survey(source: str | os.PathLike[str], *, home: Path) -> Survey:
    """Return what `take_snapshot` would store.

    Raises:
        SnapshotRejected: as `take_snapshot` would.
    """
    path = os.path.realpath(source)
    root_fd = open_source(path)
    try:
        rules, notes = read_rules(root_fd)
        walk = _Look(rules, _nothing, source=path, home=identity(home))
        root = walk.run(root_fd, None)
    finally:
        close_folder(root_fd)
    found = notes + note_lines(with_sizes(walk.notes, FolderSizes(path, {}))) + warning_lines(walk.notes)
    return Survey(walk.files, walk.size_bytes, _biggest(root), found)


class _Look(Walk):
    """The same walk; a file's size stands for its content."""

    new_bytes = 0  # of files that would be read

    def _content(self, file: int, path: str, name: str, before: Optional[KeptEntry]) -> KeptEntry:
        status = os.fstat(file)
        self.new_bytes += status.st_size
        entry = FileEntry(name_text(os.fsencode(name)), stat.S_IMODE(status.st_mode) & 0o777, status.st_size, ())
        return KeptEntry(None, entry_bytes(entry), status.st_size)


def _nothing(_chunk: str, _data: bytes) -> None:
    raise AssertionError("a look at a folder reads no file")


def _biggest(root: Folder) -> List[Tuple[str, int]]:
    sizes = (
        (kept.size, f"{path}/{name}" if path else name)
        for path, folder in root.iter_below()
        for name, kept in folder.files.items()
        if kept.size
    )
    return [(name, size) for size, name in nlargest(BIGGEST, sizes)]
