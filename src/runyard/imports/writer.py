"""Writes what a reader yields into a workspace: runs in the order of their creation, their files beside.

One thread reads and packs, one sends runs, so that a parent is there before its children, and some send files. A run's
record says by a digest what of it is stored, and says so last; an import that is killed is gone on with by the next.
"""

from __future__ import annotations

import queue
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence

from runyard.client.calls.imports import MOST_IDS, ImportedResult
from runyard.client.client import Client
from runyard.core.errors import NotFound, RunyardError, UserError, is_later
from runyard.core.formats.frames import Bytes
from runyard.core.names import name_of_title
from runyard.imports.frames import (
    MOST_PARTS_BYTES,
    Digest,
    PointsFrame,
    frame_of_run,
    iter_frames_of_points,
)
from runyard.imports.records import ImportedRun, ImportSource, RunHead, SourceFile, in_order
from runyard.imports.report import GROWN, NEW, SAME, ImportReport
from runyard.imports.snapshots import SnapshotSender
from runyard.imports.uploads import ALL, NONE, FileSender, wanted_files

BATCH_BYTES = 8 << 20
BATCH_RUNS = 200
MOST_RUNS = 1000  # of one request
MOST_TITLE = 500  # characters
MOST_WAITING = 64  # runs whose files wait for a thread


@dataclass(frozen=True)
class ImportOptions:
    workspace: str
    experiment_prefix: str = ""
    since_ns: int = 0
    files: str = ALL
    jobs: int = 4


class _Sent(NamedTuple):
    """A run on its way: its frames, and what to do with the answer."""

    run_id: str
    frames: List[Bytes]
    size: int
    done: Callable[[ImportedResult], None]


def write_history(
    client: Client,
    source: ImportSource,
    options: ImportOptions,
    report: ImportReport,
    *,
    counted: Callable[[int], None] = lambda count: None,
    began: Callable[[str], None] = lambda run_id: None,
    moved: Callable[[int], None] = lambda size: None,
) -> None:
    """Bring all runs of a source in. May be repeated, and stopped at any moment.

    Args:
        counted: called with the number of runs, once that is known.
        began: called with the id of each run before it is read.
        moved: called with the bytes of files as they are read.

    Raises:
        RunyardError: the server is away.
    """
    heads = wanted_heads(source, options)
    counted(len(heads))
    runs = RunSender(client, options.workspace, report)
    files = ThreadPoolExecutor(max(1, options.jobs), thread_name_prefix="files")
    sender = _ContentSender(client, report, FileSender(client, moved), SnapshotSender(client))
    writer = _HistoryWriter(source, options, report, runs, sender, files)
    try:
        for at in range(0, len(heads), MOST_IDS):
            some = heads[at : at + MOST_IDS]
            known = client.imports.known(options.workspace, [head.id for head in some])
            for head in some:
                began(head.id)
                writer.write(head, known.get(head.id))
        runs.flush()
        writer.wait_for_files()
        runs.flush()
        _set_titles(client, options.workspace, writer.titles, report)
        if not options.since_ns:
            _put_experiments(client, source, options, report)
    finally:
        writer.stop()
        runs.stop()
        files.shutdown(wait=True)


def _put_experiments(client: Client, source: ImportSource, options: ImportOptions, report: ImportReport) -> None:
    """Make experiments that have no runs, and say of all what the source says."""
    for found in source.iter_experiments():
        title = experiment_title(options.experiment_prefix, found.name)
        name = name_of_title(title)
        try:
            known = client.experiments.put(options.workspace, name)
            tags = {key: value for key, value in found.tags.items() if known.tags.get(key) != value}
            is_archived = True if found.is_archived and known.archived_at is None else None
            new_title = title if title != name and known.title != title else None
            if tags or is_archived or new_title:
                client.experiments.update(options.workspace, name, tags_set=tags, archived=is_archived, title=new_title)
        except UserError as error:
            report.fail(f"experiment {found.name}", told(error))


def experiment_title(prefix: str, name: str) -> str:
    """Return what an experiment of the source is called here."""
    return (prefix + name).replace("\0", "")[:MOST_TITLE] or "imported"


def _set_titles(client: Client, workspace: str, titles: Mapping[str, str], report: ImportReport) -> None:
    for name, title in titles.items():
        try:
            client.experiments.update(workspace, name, title=title)
        except NotFound:
            continue  # none of its runs came
        except UserError as error:
            report.fail(f"title of experiment {name}", told(error))


def wanted_heads(source: ImportSource, options: ImportOptions) -> List[RunHead]:
    """Return the heads of the runs to import, parents first."""
    return [head for head in in_order(source.list_heads()) if head.created_ns >= options.since_ns]


class _HistoryWriter:
    """Reads runs one after another and gives them to the senders."""

    def __init__(
        self,
        source: ImportSource,
        options: ImportOptions,
        report: ImportReport,
        runs: RunSender,
        sender: _ContentSender,
        files: ThreadPoolExecutor,
    ) -> None:
        self._source = source
        self._options = options
        self._report = report
        self._runs = runs
        self._sender = sender
        self._files = files
        self.titles: Dict[str, str] = {}  # of experiments, by their names, where these differ
        self._room = threading.Semaphore(MOST_WAITING)
        self._uploads: List[Future[None]] = []
        self._stopped = threading.Event()

    def write(self, head: RunHead, origin: Optional[Mapping[str, Any]]) -> None:
        try:
            run = self._source.read_run(head)
            self._write(run, self._name_of(run), [], origin or {})
        except (OSError, ValueError) as error:
            if isinstance(error, RunyardError) and is_later(error):
                raise
            self._report.fail(f"run {head.id}", getattr(error, "what", None) or str(error))

    def wait_for_files(self) -> None:
        for upload in self._uploads:
            upload.result()
        self._uploads = []

    def stop(self) -> None:
        """Send no more files; those under way are ended."""
        self._stopped.set()

    def _name_of(self, run: ImportedRun) -> str:
        """Return the name of the run's experiment; what no name can be is its title."""
        title = experiment_title(self._options.experiment_prefix, run.experiment)
        name = name_of_title(title)
        if name != title:
            self.titles[name] = title
        return name

    def _write(self, run: ImportedRun, experiment: str, notes: List[str], origin: Mapping[str, Any]) -> None:
        known_digest, known_files = str(origin.get("digest", "")), str(origin.get("files", NONE))
        files = wanted_files(run.files, self._options.files)
        archive = run.snapshot_zip if self._options.files == ALL else None
        is_whole = len(files) == len(run.files) and archive is run.snapshot_zip
        is_more = bool(files) or archive is not None
        has_files = not is_more or known_files == ALL or known_files == self._options.files
        packed = self._pack(run, notes, known_digest)
        if packed is None and has_files:
            self._report.count(self._report.runs, SAME)
            return
        digest = known_digest if packed is None else packed.digest
        stored = known_files if packed is None else NONE
        notes += [note for note in run.notes if note not in notes]

        def frame(which: str) -> List[Bytes]:
            return frame_of_run(run, self._source, experiment=experiment, digest=digest, files=which, notes=notes)

        final = ALL if is_whole else self._options.files
        pieces = [] if packed is None else packed.pieces
        frames = [*frame(stored if is_more else final), *(piece for one in pieces for piece in one.pieces)]

        def stored_run(result: ImportedResult) -> None:
            self._report.count(self._report.runs, GROWN if origin else NEW)
            self._report.add(points=result.points, noted=1 if notes else 0)
            if is_more:
                self._room.acquire()
                upload = self._files.submit(self._upload, run.id, files, archive, lambda: frame(final))
                self._uploads.append(upload)

        self._runs.send(run.id, frames, stored_run)

    def _pack(self, run: ImportedRun, notes: List[str], known: str) -> Optional[_Packed]:
        """Return the points of a run and its digest; None when the digest is the known one.

        Points beyond what a request carries are sent at once, before the rest; of a run that is known, not before all
        of them were read, since most likely nothing has changed.
        """
        digest, size, overflow = Digest(run), 0, False
        pieces: List[PointsFrame] = []
        for piece in iter_frames_of_points(run, notes):
            digest.add(piece)
            size += piece.size
            overflow = overflow or size > MOST_PARTS_BYTES
            if overflow and known:
                pieces = []
                continue
            pieces.append(piece)
            if overflow:
                self._send_part(run, notes, pieces)
                pieces, size, overflow = [], 0, False
        if known and digest.text() == known:
            return None
        if overflow:
            size = 0
            for piece in iter_frames_of_points(run, notes):
                pieces.append(piece)
                size += piece.size
                if size > MOST_PARTS_BYTES:
                    self._send_part(run, notes, pieces)
                    pieces, size = [], 0
        return _Packed(digest.text(), pieces)

    def _send_part(self, run: ImportedRun, notes: List[str], pieces: Sequence[PointsFrame]) -> None:
        """Send points of a run that has more. Without a digest, the record says that it is not complete."""
        head = frame_of_run(run, self._source, experiment=self._name_of(run), digest="", files=NONE, notes=notes)
        frames = [*head, *(one for piece in pieces for one in piece.pieces)]
        self._runs.send(run.id, frames, lambda result: self._report.add(points=result.points))

    def _upload(
        self, run_id: str, files: List[SourceFile], archive: Optional[SourceFile], frame: Callable[[], List[Bytes]]
    ) -> None:
        try:
            if self._stopped.is_set():
                return
            is_all_here = self._sender.send(run_id, files, archive)
        finally:
            self._room.release()
        if is_all_here:
            self._runs.send_later(run_id, frame())


class _ContentSender:
    """Sends a run's files and its source folder. Used by many threads at once."""

    def __init__(self, client: Client, report: ImportReport, files: FileSender, snapshots: SnapshotSender) -> None:
        self._client = client
        self._report = report
        self._files = files
        self._snapshots = snapshots

    def send(self, run_id: str, files: Sequence[SourceFile], archive: Optional[SourceFile]) -> bool:
        """Return whether all of it is here; the report names what is not.

        Raises:
            RunyardError: the server is away.
        """
        try:
            done = self._files.send_to_run(run_id, files)
            self._report.add(files=done.files, size=done.bytes)
            for fault in done.faults:
                self._report.fail(f"run {run_id}", fault)
            if archive is not None:
                self._client.runs.update(run_id, snapshot_id=self._snapshots.send(archive))
                self._report.add(snapshots=1)
            return not done.faults
        except (UserError, OSError, ValueError) as error:
            if isinstance(error, RunyardError) and is_later(error):
                raise
            why = told(error) if isinstance(error, RunyardError) else f"its snapshot: {error}"
            self._report.fail(f"run {run_id}", why)
            return False


class _Packed(NamedTuple):
    digest: str
    pieces: List[PointsFrame]


class RunSender:
    """Sends runs in the order in which they came, many in one request, from a thread of its own."""

    def __init__(self, client: Client, workspace: str, report: ImportReport) -> None:
        self._client = client
        self._workspace = workspace
        self._report = report
        self._batch: List[_Sent] = []
        self._size = 0
        self._lock = threading.Lock()
        self._queue: queue.Queue[Optional[List[_Sent]]] = queue.Queue(2)
        self._fault: Optional[BaseException] = None
        self._thread = threading.Thread(target=self._work, name="runs", daemon=True)
        self._thread.start()

    def send(self, run_id: str, frames: List[Bytes], done: Callable[[ImportedResult], None]) -> None:
        """Send with the others; waits while two requests wait already."""
        if self._add(run_id, frames, done):
            self._hand_over()

    def send_later(self, run_id: str, frames: List[Bytes]) -> None:
        """Send with the next request. Never waits: the thread that sends may wait for the caller."""
        self._add(run_id, frames, lambda result: None)

    def flush(self) -> None:
        """Wait until all that was given was answered.

        Raises:
            RunyardError: the server is away.
        """
        self._hand_over()
        self._queue.join()
        self._check()

    def stop(self) -> None:
        """End the thread; what was not sent stays behind. May be repeated."""
        if self._thread.is_alive():
            self._queue.put(None)
            self._thread.join()

    def _add(self, run_id: str, frames: List[Bytes], done: Callable[[ImportedResult], None]) -> bool:
        size = sum(map(len, frames))
        with self._lock:
            self._batch.append(_Sent(run_id, frames, size, done))
            self._size += size
            return self._size >= BATCH_BYTES or len(self._batch) >= BATCH_RUNS

    def _hand_over(self) -> None:
        self._check()
        with self._lock:
            batch, self._batch, self._size = self._batch, [], 0
        if batch:
            self._queue.put(batch)

    def _check(self) -> None:
        if self._fault is not None:
            raise self._fault

    def _work(self) -> None:
        while True:
            batch = self._queue.get()
            try:
                if batch is None:
                    return
                if self._fault is None:
                    self._send(batch)
            except BaseException as error:
                self._fault = error
            finally:
                self._queue.task_done()

    def _send(self, batch: List[_Sent]) -> None:
        for some in _requests(batch):
            self._send_some(some)

    def _send_some(self, batch: List[_Sent]) -> None:
        try:
            results = self._client.imports.put_runs(self._workspace, [piece for one in batch for piece in one.frames])
        except UserError as error:
            if is_later(error):
                raise
            if len(batch) == 1:
                self._report.fail(f"run {batch[0].run_id}", told(error))
                return
            for one in batch:  # one of them cannot be read, and keeps the others out no longer
                self._send_some([one])
            return
        for one, result in zip(batch, results):
            if result.error is not None:
                self._report.fail(f"run {one.run_id}", told(result.error))
            else:
                one.done(result)


def _requests(batch: List[_Sent]) -> Iterator[List[_Sent]]:
    """Yield the runs in requests that the server takes."""
    some: List[_Sent] = []
    size = 0
    for one in batch:
        if some and (size + one.size > 2 * MOST_PARTS_BYTES or len(some) >= MOST_RUNS):
            yield some
            some, size = [], 0
        some.append(one)
        size += one.size
    if some:
        yield some


def told(error: RunyardError) -> str:
    """Return an error as one line."""
    return " ".join(filter(None, (error.what, error.why)))
