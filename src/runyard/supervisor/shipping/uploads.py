"""Uploads a run's files: first their content as chunks, then the names under which the run has them.

`Uploader` sends; `ExplicitUploads` handles the files that FILE records name.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
import threading
import time
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple, Union

from runyard.core.errors import InvalidArgument, MissingContent, RunyardError, SystemFailure, is_later
from runyard.core.formats import journal
from runyard.core.formats.chunks import BATCH_BYTES, Chunk, read_chunks
from runyard.core.names import clean_file_name
from runyard.core.records import RunFile
from runyard.supervisor.run_folder import RunFolder
from runyard.supervisor.shipping.connection import REFUSALS, Connection
from runyard.supervisor.shipping.loops import ShippingLoop
from runyard.supervisor.shipping.refusals import Refusals, explain, is_failure_of_ours
from runyard.supervisor.shipping.segments import Segment

logger = logging.getLogger(__name__)

SMALL_BYTES = 1 << 20  # files up to this size travel in batches
BATCH_FILES = 500  # most files in one request, so that the server stays responsive
ASK_ABOVE = BATCH_BYTES // 32  # below this size, sending is cheaper than asking whether the server has the content

_PASSING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.ENOBUFS)


class Signature(NamedTuple):
    """Size, mtime and inode of a file; another signature means that the file changed."""

    size: int
    mtime_ns: int
    inode: int


class UploadRequest(NamedTuple):
    """A regular file `path`, which must lie in `root`, and the name that it gets on the run."""

    name: str
    path: str
    root: str
    size: int


Outcome = Union[Signature, Exception]  # the signature of a stored file, or the error of one that is not stored


class _Grown(Exception):
    """A file of a batch is not small any more."""


class Uploader:
    """Uploads files, the small ones in batches. It has no state of its own, so threads share it."""

    def __init__(self, connection: Connection, run_id: str, *, attempt: Optional[int]) -> None:
        self._connection = connection
        self._run_id = run_id
        self._attempt = attempt

    def upload(self, run_id: str, name: str, path: str, *, root: str) -> Signature:
        """Store the regular file `path`, which must lie in `root`, as the run's file `name`.

        Returns the signature that the file had before it was read: if it differs later, the file must be read again.

        Raises:
            InvalidArgument: the path is no regular file, or lies outside `root`.
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

    def upload_many(self, run_id: str, files: Sequence[UploadRequest]) -> List[Outcome]:
        """Store a batch of `iter_batches`; small files share a few requests.

        Returns for each file, in order, the signature that it had before it was read, or the error of this file: it
        cannot be read, or the server refuses it or fails on it. Outages are raised.
        """
        if len(files) == 1:
            return [self._alone(run_id, files[0])]
        roots = {root: os.path.realpath(root) for root in {file.root for file in files}}
        outcomes: List[Outcome] = []
        chunks: Dict[str, bytes] = {}
        named: Dict[int, RunFile] = {}
        for index, file in enumerate(files):
            try:
                found, before = _read_small(file, roots[file.root], chunks)
                named[index] = found
                outcomes.append(before)
            except _Grown:
                outcomes.append(self._alone(run_id, file))
            except (OSError, InvalidArgument) as error:
                outcomes.append(error)
        if named and not self._send(run_id, list(chunks.items())):
            for index in named:
                outcomes[index] = self._alone(run_id, files[index])
        elif named:
            for index, refused in zip(named, self._name(run_id, list(named.values()))):
                if refused is not None:
                    outcomes[index] = refused
        return outcomes

    def _alone(self, run_id: str, file: UploadRequest) -> Outcome:
        try:
            return self.upload(run_id, file.name, file.path, root=file.root)
        except RunyardError as error:
            return self._judge(run_id, error)
        except OSError as error:
            return error

    def _send(self, run_id: str, chunks: Sequence[Chunk]) -> bool:
        """Send the content of several files; False when the server refuses some of it."""
        content = self._connection.client.content
        try:
            self._connection.call(lambda: content.send_missing(chunks, ask_above=ASK_ABOVE))
        except RunyardError as error:
            self._judge(run_id, error)
            return False
        return True

    def _judge(self, run_id: str, error: RunyardError) -> RunyardError:
        """Return an error that concerns one file: a refusal, or a failure of the server on it. Raises outages."""
        if isinstance(error, MissingContent):  # the server lacks chunks that were sent: send them again
            raise SystemFailure(error.what, why=error.why) from error
        is_outage = is_later(error) and not is_failure_of_ours(error)
        if is_outage or (isinstance(error, REFUSALS) and run_id == self._run_id):
            raise error
        return error

    def _name(self, run_id: str, files: List[RunFile]) -> Sequence[Optional[RunyardError]]:
        """Name stored content as files of the run; return the error of each file, None for those that were taken."""
        attempt = self._attempt if run_id == self._run_id else None  # a child run has none
        calls = self._connection.client.runs
        try:
            refused = self._connection.call(lambda: calls.put_files(run_id, files, attempt=attempt, replace=True))
            return [None if error is None else self._judge(run_id, error) for error in refused]
        except RunyardError as error:
            if is_later(error) and not is_failure_of_ours(error):
                raise
            logger.info("the server refuses a batch of files, they go one by one: %s", error)  # or it is older
            return [self._name_one(run_id, file, attempt) for file in files]

    def _name_one(self, run_id: str, file: RunFile, attempt: Optional[int]) -> Optional[RunyardError]:
        calls = self._connection.client.runs
        try:
            self._connection.call(lambda: calls.put_file(run_id, file, attempt=attempt, replace=True))
        except RunyardError as error:
            return self._judge(run_id, error)
        return None


def iter_batches(files: Sequence[UploadRequest]) -> Iterator[List[int]]:
    """Yield the indices of files that are uploaded together: small ones in batches, then large ones alone."""
    batch: List[int] = []
    size = 0
    for index, file in enumerate(files):
        if file.size > SMALL_BYTES:
            continue
        if batch and (len(batch) >= BATCH_FILES or size + file.size > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(index)
        size += file.size
    if batch:
        yield batch
    for index, file in enumerate(files):
        if file.size > SMALL_BYTES:
            yield [index]


Key = Tuple[str, int, int]  # writer, segment, offset of a FILE record


class UploadTask(NamedTuple):
    """The file that a FILE record names; `path` is relative to the run folder."""

    key: Key
    run_id: str
    name: str
    path: str
    size: int


def _task_of(key: Key, run_id: str, payload: journal.Payload) -> UploadTask:
    size = payload.get("size")
    known = size if isinstance(size, int) and size >= 0 else BATCH_BYTES
    return UploadTask(key, run_id, str(payload.get("name", "")), str(payload.get("path", "")), known)


class ExplicitUploads:
    """Uploads the files that FILE records name. A record is shipped after its file was stored or refused.

    The threads `uploads` and main call `step`: `_stepping` lets one of them work. `_lock` guards the lists, because the
    thread `ship` calls `is_done`. `done` is called after each batch.
    """

    def __init__(
        self,
        folder: RunFolder,
        run_id: str,
        *,
        uploader: Uploader,
        refusals: Refusals,
        warn: Callable[[str, str], None],
        done: Callable[[], None],
    ) -> None:
        self._folder = folder
        self._run_id = run_id
        self._uploader = uploader
        self._refusals = refusals
        self._warn = warn
        self._done = done
        self._lock = threading.Lock()
        self._stepping = threading.Lock()
        self._waiting: List[UploadTask] = []
        self._known: Set[Key] = set()
        self._finished: Set[Key] = set()
        self.loop = ShippingLoop("uploads", self.step, every_s=60.0)
        self.uploaded_at: Dict[str, float] = {}
        self.sources: Dict[str, int] = {}  # paths that were uploaded from, with their sizes then

    def is_done(self, segment: Segment, record: journal.LongRecord) -> bool:
        """Return whether the record's file is stored or refused; the first call queues its upload. Never waits."""
        key = (segment.writer, segment.number, record.offset)
        with self._lock:
            if key not in self._known:
                self._known.add(key)
                self._waiting.append(_task_of(key, str(segment.header.get("run") or self._run_id), record.payload))
                source, size = record.payload.get("source"), record.payload.get("size")
                if isinstance(source, str) and isinstance(size, int):
                    self.sources[source] = size
                self.loop.wake()
            return key in self._finished

    def step(self) -> bool:
        """Upload the files of the oldest waiting records, small ones of one run together; False when none waits.

        An outage is raised: call it again.
        """
        with self._stepping:
            tasks = self._next_tasks()
            if tasks:
                self._upload(tasks)
            return bool(tasks)

    def try_refused_again(self) -> None:
        """Upload refused files once more, at the run's end. An outage is raised: call it again."""
        for entry in self._refusals.list("files"):
            if "upload" not in entry:
                continue
            task = _task_of(("", 0, 0), str(entry["run"]), entry["upload"])
            file = self._find_file(task)
            if file is None:
                continue
            error = self._note(task, file, self._uploader.upload_many(task.run_id, [file])[0])
            if error is not None:
                raise error

    def _upload(self, tasks: Sequence[UploadTask]) -> None:
        left: List[Exception] = []
        wanted: List[Tuple[UploadTask, UploadRequest]] = []
        for task in tasks:
            file = self._find_file(task)
            if file is None:
                self._finish(task)
            else:
                wanted.append((task, file))
        outcomes = self._uploader.upload_many(tasks[0].run_id, [file for _, file in wanted]) if wanted else []
        for (task, file), outcome in zip(wanted, outcomes):
            error = self._take(task, file, outcome)
            left += [] if error is None else [error]
        self._done()
        if left:
            raise left[0]

    def _next_tasks(self) -> List[UploadTask]:
        with self._lock:
            first = self._waiting[:1]
            if not first or first[0].size > SMALL_BYTES:
                return first
            tasks: List[UploadTask] = []
            size = 0
            for task in self._waiting[:BATCH_FILES]:
                size += task.size
                if task.run_id != first[0].run_id or task.size > SMALL_BYTES or size > BATCH_BYTES:
                    break
                tasks.append(task)
            return tasks

    def _find_file(self, task: UploadTask) -> Optional[UploadRequest]:
        """Return what to upload; None when there is nothing left to do for this record."""
        try:
            name = clean_file_name(task.name)
            path = self._folder.at(task.path)
        except RunyardError as error:
            self._refuse(task, explain(error))
            return None
        except ValueError as error:
            self._refuse(task, str(error))
            return None
        if not os.path.lexists(path) and os.path.lexists(path + ".done"):
            return None
        return UploadRequest(name, path, self._folder.path, task.size)

    def _take(self, task: UploadTask, file: UploadRequest, outcome: Outcome) -> Optional[Exception]:
        """Note the outcome of an upload; return the error after which it is repeated."""
        error = self._note(task, file, outcome)
        if error is None:
            self._finish(task)
        else:
            self._put_off(task)
        return error

    def _note(self, task: UploadTask, file: UploadRequest, outcome: Outcome) -> Optional[Exception]:
        """Note that a file is stored, refused or gone; return an error that may pass."""
        if isinstance(outcome, Signature):
            self.uploaded_at[file.name] = time.time()
            self._refusals.settle("files", _called(task))
            self._drop_copy(file.path)
        elif isinstance(outcome, FileNotFoundError):
            self._warn("files", f"The file {task.name[:200]!r} was removed before it could be stored.")
            self._refusals.settle("files", _called(task))
        elif is_passing(outcome):
            return outcome
        else:
            self._refuse(task, explain(outcome))
        return None

    def _refuse(self, task: UploadTask, why: str) -> None:
        said = {"name": task.name, "path": task.path, "size": task.size}
        self._refusals.add("files", _called(task), why, run=task.run_id, upload=said)

    def _put_off(self, task: UploadTask) -> None:
        """Let other files go first, except when one of the same name waits: the last upload of a name must win."""
        with self._lock:
            if not any(other is not task and other.name == task.name for other in self._waiting):
                self._waiting.remove(task)
                self._waiting.append(task)

    def _finish(self, task: UploadTask) -> None:
        with self._lock:
            self._finished.add(task.key)
            self._waiting.remove(task)

    def _drop_copy(self, path: str) -> None:
        """Free the space of a copy in `uploads/`; the `.done` mark tells a restarted supervisor that it is stored."""
        if os.path.dirname(os.path.abspath(path)) != self._folder.at("uploads"):
            return
        try:
            os.close(os.open(path + ".done", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            os.unlink(path)
        except OSError as error:  # a full disk: a restarted supervisor stores it again, which is harmless
            logger.warning("%s stays: %s", path, error)


def _called(task: UploadTask) -> str:
    return f"the file {task.name[:200]!r}"


def is_passing(error: Exception) -> bool:
    """Return whether an upload may succeed later: the server fails, or this machine lacks a resource for a moment."""
    if isinstance(error, RunyardError):
        return is_later(error)
    return isinstance(error, OSError) and error.errno in _PASSING


def open_inside(path: str, root: str, *, real_root: str = "") -> int:
    """Open a regular file for reading, only if it lies in `root` after all links, also when it is renamed meanwhile.

    `real_root`: `root` with all links resolved, where the caller knows it.

    Raises:
        InvalidArgument: it is no regular file or lies elsewhere.
    """
    fd = _open_real(path)
    where = os.readlink(f"/proc/self/fd/{fd}")
    if stat.S_ISREG(os.fstat(fd).st_mode) and where.startswith((real_root or os.path.realpath(root)) + os.sep):
        return fd
    os.close(fd)
    raise InvalidArgument(f"{path!r} cannot be uploaded.", why="It is no regular file inside the run's folder.")


def _open_real(path: str) -> int:
    """Open `path`; if its last part is a link, open the link's current target."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
    try:
        return os.open(path, flags)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
    return os.open(os.path.realpath(path), flags)


def _read_small(file: UploadRequest, real_root: str, chunks: Dict[str, bytes]) -> Tuple[RunFile, Signature]:
    """Read a small file into `chunks`; return how the run names it, and its signature before it was read."""
    fd = open_inside(file.path, file.root, real_root=real_root)
    try:
        if file.size > SMALL_BYTES or os.fstat(fd).st_size > 2 * SMALL_BYTES:
            raise _Grown
        found = read_chunks(fd, chunks.__setitem__, whole=True)
    finally:
        os.close(fd)
    before = signature(found.status)
    return RunFile(name=file.name, size=found.size, sha256=found.sha256, chunks=found.chunks), before


def signature(found: os.stat_result) -> Signature:
    """Return the signature in a stat result."""
    return Signature(found.st_size, found.st_mtime_ns, found.st_ino)


def find_signature(path: str) -> Optional[Signature]:
    """Return the signature of the file now; None when it cannot be read."""
    try:
        return signature(os.stat(path))
    except OSError:
        return None
