"""Files of a run become content on the server: read once, sent once, named last."""

from __future__ import annotations

import logging
import os
import stat
import threading
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Set, Tuple

from runyard.core import journal
from runyard.core.errors import InvalidArgument, RunyardError, ServerUnreachable, StoreUnavailable
from runyard.core.names import clean_file_name
from runyard.supervisor.connection import Connection
from runyard.supervisor.folder import RunFolder
from runyard.supervisor.loops import Loop
from runyard.supervisor.segments import Segment

logger = logging.getLogger(__name__)

MOST_TRIES = 3


class Signature(NamedTuple):
    """Tells whether a file changed."""

    size: int
    mtime_ns: int
    inode: int


class Uploader:
    """Uploads one file at a time; shared between threads."""

    def __init__(self, connection: Connection, run_id: str, *, attempt: int) -> None:
        self._connection = connection
        self._run_id = run_id
        self._attempt = attempt

    def upload(self, run_id: str, name: str, path: str, *, root: str) -> Signature:
        """Store the regular file `path`, which must lie in `root`, as the run's file `name`.

        Returns the signature that the file had before it was read: a later one means it must be read again.

        Raises:
            InvalidArgument: the file lies outside `root` or is none.
        """
        fd = open_inside(path, root)
        try:
            before = signature(os.fstat(fd))
            content = self._connection.client.content
            file = self._connection.call(lambda: content.upload_file(fd, name=name))
            attempt = self._attempt if run_id == self._run_id else None  # a child run has none
            self._connection.call(
                lambda: self._connection.client.runs.put_file(run_id, file, attempt=attempt, replace=True)
            )
            return before
        finally:
            os.close(fd)


class ExplicitUploads:
    """The files that FILE records name. A record is shipped when its file is there, or was given up with a warning."""

    def __init__(
        self,
        folder: RunFolder,
        run_id: str,
        *,
        uploader: Uploader,
        warn: Callable[[str, str], None],
        done: Callable[[], None],
    ) -> None:
        self._folder = folder
        self._run_id = run_id
        self._uploader = uploader
        self._warn = warn
        self._done = done
        self._lock = threading.Lock()
        self._waiting: List[Tuple[Tuple[str, int, int], str, Dict[str, Any]]] = []
        self._known: Set[Tuple[str, int, int]] = set()
        self._finished: Set[Tuple[str, int, int]] = set()
        self._tries: Dict[Tuple[str, int, int], int] = {}
        self.loop = Loop("uploads", self.step, every_s=60.0)
        self.uploaded_at: Dict[str, float] = {}

    def is_done(self, segment: Segment, record: journal.LongRecord) -> bool:
        """Whether the record's file is on the server; if nobody asked before, its upload begins."""
        key = (segment.writer, segment.number, record.offset)
        with self._lock:
            if key not in self._known:
                self._known.add(key)
                self._waiting.append((key, str(segment.header.get("run") or self._run_id), record.payload))
                self.loop.wake()
            return key in self._finished

    def step(self) -> bool:
        with self._lock:
            task = self._waiting[0] if self._waiting else None
        if task is None:
            return False
        key, run_id, payload = task
        if self._upload(key, run_id, payload):
            with self._lock:
                self._finished.add(key)
                self._waiting.remove(task)
            self._done()
        return True

    def _upload(self, key: Tuple[str, int, int], run_id: str, payload: Dict[str, Any]) -> bool:
        """Try once. True when there is nothing left to do for this record."""
        shown = str(payload.get("name", ""))[:200]
        try:
            name = clean_file_name(str(payload.get("name", "")))
            path = self._folder.at(str(payload.get("path", "")))
            if not os.path.lexists(path) and os.path.lexists(path + ".done"):
                return True
            self._uploader.upload(run_id, name, path, root=self._folder.path)
            self.uploaded_at[name] = time.time()
            self._drop_copy(path)
            return True
        except (ServerUnreachable, StoreUnavailable):
            raise
        except (RunyardError, OSError) as error:
            self._tries[key] = self._tries.get(key, 0) + 1
            hopeless = isinstance(error, (InvalidArgument, FileNotFoundError))
            if self._tries[key] < MOST_TRIES and not hopeless:
                raise
            self._warn("files", f"The file {shown!r} could not be stored: {error}")
            return True

    def _drop_copy(self, path: str) -> None:
        """A copy in `uploads/` gives its disk space back; the mark tells a restarted supervisor that it was stored."""
        if os.path.dirname(os.path.abspath(path)) == self._folder.at("uploads"):
            os.close(os.open(path + ".done", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            os.unlink(path)


def open_inside(path: str, root: str) -> int:
    """Open a regular file for reading, after all links, only when it lies in `root`; races with renames included.

    Raises:
        InvalidArgument: it is no regular file or lies elsewhere.
    """
    fd = os.open(os.path.realpath(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    where = os.readlink(f"/proc/self/fd/{fd}")
    if stat.S_ISREG(os.fstat(fd).st_mode) and where.startswith(os.path.realpath(root) + os.sep):
        return fd
    os.close(fd)
    raise InvalidArgument(f"{path!r} cannot be uploaded.", why="It is no regular file inside the run's folder.")


def signature(found: os.stat_result) -> Signature:
    return Signature(found.st_size, found.st_mtime_ns, found.st_ino)


def find_signature(path: str) -> Optional[Signature]:
    try:
        return signature(os.stat(path))
    except OSError:
        return None
