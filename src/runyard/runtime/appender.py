"""Puts records into a run's journal, whatever the disk, threads, signals and forks do.

There is no lock: a lock held by another thread at a fork, or by the code that a signal handler interrupts, would stop
training. Instead every step may happen twice or beside another: two segments or two ids for one name are harmless, and
a name id never leaves the segment that defined it.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
import zlib
from collections import deque
from typing import Any, Callable, Deque, Dict, List, Optional

from runyard.core.formats import journal
from runyard.core.machine.disk import NO_SPACE
from runyard.core.machine.whole_files import write_whole
from runyard.runtime.acks import wake
from runyard.runtime.backlog import LIMIT_BYTES, Backlog, size_of
from runyard.runtime.foreign import raise_foreign
from runyard.runtime.overflow import Tally, find_folder
from runyard.runtime.records import Cell, Record, Side
from runyard.runtime.segment import Names, Segment, Write

_EXIT_S = 5.0
_BATCH_BYTES = 1 << 20
_BATCH_RECORDS = 4096
_WAKE_AGAIN_S = 1.0
_KEPT_OPEN = 16  # ended segments whose descriptors stay: another thread may be about to write to one

UseNames = Callable[[Names], None]


class Appender:
    """Appends to segments of one writer. `use_names` is told which name ids the fast path may use now.

    No method raises for what the disk does: what it has no room for goes into the supervisor's folder in memory
    (`overflow.py`), else it waits in this process's own. After a fork the child calls `forget` and is a new writer.
    """

    def __init__(self, run_folder: str, header: Dict[str, Any], *, use_names: UseNames, write: Write) -> None:
        self.run_folder = run_folder
        self.folder = f"{run_folder}/journal"
        self.segments: List[Segment] = []
        self.backlog = Backlog()
        self.closed = False
        self._header = header
        self._use_names = use_names
        self._write = write
        self._writer = _new_writer(header)
        self._current: Optional[Segment] = None
        self._inherited: List[Segment] = []
        self._unbegun: Deque[Segment] = deque()  # files whose first record the disk refused
        self._retries_at_exit = False
        self._is_full = False
        self._code = 0  # why records wait: an errno
        self._lane: Optional[Appender] = None  # writes into the folder in memory
        self._spilled = 0
        self._tally: Optional[Tally] = None
        self._waked = float("-inf")
        self._said: Dict[str, bool] = {}

    def append(self, *records: Record) -> None:
        """Write the records, or keep them in memory until the disk takes them."""
        if self.closed:
            self._say("closed", "a value was logged after the run had ended; it is not recorded.")
            return
        waiting = deque(records)
        if not self.backlog or self.drain():
            try:
                self._write_records(waiting)
                self._recover()
            except OSError as error:
                raise_foreign(error)
                self._degrade(error)
        if waiting:
            self._keep(waiting)

    def drain(self) -> bool:
        """Try to write what waits in memory; return whether nothing is left."""
        is_drained = self._drain_to_disk() or (self._is_full and self._drain(self._spill))
        self._count()
        return is_drained

    def all_segments(self) -> List[Segment]:
        """Return every segment of this writer, those in memory first."""
        return self.segments if self._lane is None else self._lane.segments + self.segments

    def _keep(self, records: Deque[Record]) -> None:
        """Keep what the disk did not take."""
        if self._is_full and not self.backlog:
            self._spill(records)
        for record in records:
            if not self.backlog.add(record):
                self._say("lost", f"{LIMIT_BYTES >> 20} MiB of records wait for the disk; newer ones are lost.")
        self._count()

    def _spill(self, records: Deque[Record]) -> None:
        """Write from the left into the folder in memory and remove what is written, while there is room."""
        size = size_of(records)
        lane = self._find_lane() if self._spilled + size <= LIMIT_BYTES else None
        if lane is None:
            return
        try:
            lane._write_records(records)
        except OSError as error:
            raise_foreign(error)
        self._spilled += size - size_of(records)

    def _find_lane(self) -> Optional[Appender]:
        folder = find_folder(self.run_folder)
        if folder is None:
            return None
        if self._lane is None:
            self._lane = Appender(self.run_folder, self._header, use_names=_ignore, write=self._write)
            self._lane.folder = f"{folder}/journal"
        return self._lane

    def _drain(self, write: Callable[[Deque[Record]], None]) -> bool:
        """Have `write` take from the left what waits in memory; return whether it took everything."""
        count = 1  # while there is no room, a try costs little
        while self.backlog:
            taken = self.backlog.take(count)
            count = _BATCH_RECORDS
            try:
                write(taken)
            finally:
                self.backlog.put_back(taken)
            if taken:
                return False
        return True

    def _recover(self) -> None:
        """The disk takes records again: so may the fast path."""
        if self._is_full and self._current is not None and not self.backlog and not self.closed:
            self._is_full = False
            self._use_names(self._current.names)

    def _count(self) -> None:
        """Leave word outside of this process of what only its memory holds."""
        waiting, lost = len(self.backlog), self.backlog.lost
        if self._tally is None:
            if not waiting and not lost:
                return
            self._tally = Tally(self.run_folder, self._writer)
        numbers = {"waiting_numbers": self.backlog.numbers, "lost_numbers": self.backlog.lost_numbers}
        self._tally.write(self._code, waiting=waiting, lost=lost, **numbers)

    def _drain_to_disk(self) -> bool:
        try:
            self._drain(self._write_records)
        except OSError as error:
            raise_foreign(error)
            self._is_full = error.errno in NO_SPACE
            return False
        if self._current is not None and not self.closed:
            self._use_names(self._current.names)
            if self.backlog:  # another thread came between
                self._use_names(Names())
        return not self.backlog

    def end_segment(self, fd: int) -> None:
        """Use the segment of this descriptor no more: a write to it was short."""
        if self._current is not None and self._current.fd == fd:
            self._use_names(Names())
            self._current = None

    def names(self) -> Names:
        """Return the name ids of the current segment."""
        return Names() if self._current is None else self._current.names

    def forget(self) -> None:
        """In a forked child: become another writer.

        The parent's descriptor is closed with our own first record, so that code which the fork interrupted between
        name id and write still hits the file that it meant.
        """
        self._use_names(Names())
        self._inherited = [] if self._current is None else [self._current]
        for segment in self.segments:
            segment.disown()
            if segment is not self._current:
                segment.close()
        self._current = None
        self.segments = []
        self.backlog = Backlog()
        self._tally = None
        if self._lane is not None:
            self._lane.forget()
        self._unbegun = deque()
        self._retries_at_exit = False
        self._writer = _new_writer(self._header)

    def close(self) -> None:
        if self.closed:
            return
        if self.drain() or not self._is_full:
            self._give_up()  # else the exit tries again
        self._use_names(Names())
        self.closed = True
        self._current = None
        for segment in self.segments + self._inherited:
            segment.close()
        if self._lane is not None:
            self._lane.close()

    def drain_at_exit(self) -> None:
        """Wait a while for space to write what still waits, and say what is lost."""
        deadline = time.monotonic() + _EXIT_S
        while not self.drain() and self._is_full and time.monotonic() < deadline:
            time.sleep(0.05)
        self._give_up()

    def _write_records(self, records: Deque[Record]) -> None:
        """Write from the left and remove what is written. A failed or short write is tried once in the next segment."""
        failures = 0
        while records:
            segment = self._current
            try:
                segment = self._open() if segment is None else segment
                pieces = self._encode(segment, records)
                written = segment.write(b"".join(pieces))
            except OSError as error:
                raise_foreign(error)
                failures += 1
                if error.errno in NO_SPACE or failures > 1:
                    raise
                self._leave(segment)
                continue
            for piece in pieces:
                written -= len(piece)
                if written < 0:
                    self._leave(segment)
                    break
                records.popleft()

    def _encode(self, segment: Segment, records: Deque[Record]) -> List[bytes]:
        pieces: List[bytes] = []
        size = 0
        for record in records:
            if isinstance(record, Cell):
                _fd, name_id = segment.entry(record.name)
                kind, pack = record.packer
                piece = pack(kind, record.flags, 0, name_id, record.step, record.time, record.value)
            elif isinstance(record, Side):
                piece = _write_side(segment.side_path(), record)
            else:
                piece = record
            pieces.append(piece)
            size += len(piece)
            if size >= _BATCH_BYTES:
                break
        return pieces

    def _open(self) -> Segment:
        segment = self._next_segment()
        now = {"wall_ns": time.time_ns(), "t": time.monotonic_ns()}
        header = {**self._header, **now, "writer": segment.writer, "segment": segment.number, "pid": os.getpid()}
        try:
            segment.begin(header)
        except OSError:
            if not segment.torn:
                self._unbegun.append(segment)
            raise
        if segment.writer != self._writer:  # a signal handler forked meanwhile, and this is the child
            return self._open()
        self._current = segment
        inherited, self._inherited = self._inherited, []
        for parent in inherited:
            parent.close()
        if not self.backlog:
            self._use_names(segment.names)
        return segment

    def _next_segment(self) -> Segment:
        try:
            return self._unbegun.pop()
        except IndexError:
            segment = self._create()
        self.segments.append(segment)
        for old in self.segments[:-_KEPT_OPEN]:
            old.close()
        return segment

    def _create(self) -> Segment:
        number = len(self.segments)
        while True:
            try:
                return Segment(self.folder, self._writer, number, write=self._write)
            except FileExistsError:
                number += 1
            except FileNotFoundError:
                if os.path.isdir(self.folder):
                    raise
                os.mkdir(self.folder, 0o700)  # raises when the run folder itself is gone

    def _leave(self, segment: Optional[Segment]) -> None:
        if segment is not None and segment is self._current:
            self._use_names(Names())
            self._current = None

    def _degrade(self, error: OSError) -> None:
        self._use_names(Names())
        self._retry_at_exit()
        run = self._header["run"]
        self._is_full = error.errno in NO_SPACE
        self._code = error.errno or 0
        if time.monotonic() - self._waked >= _WAKE_AGAIN_S:
            self._waked = time.monotonic()
            wake(self.run_folder)  # the supervisor makes the folder in memory
        if self._is_full:
            what = f"the disk is full, so records of run {run} wait in memory"
            self._say("space", f"{what}; they would not survive a kill. Free space below {self.folder}.")
        else:
            what = f"the journal of run {run} cannot be written ({error.strerror or error})"
            self._say("disk", f"{what}; records wait in memory. Look at {self.folder}.")

    def _give_up(self) -> None:
        lost = len(self.backlog) + self.backlog.lost
        if lost:
            self._count()
            self._say("end", f"{lost} records of run {self._header['run']} could not be written and are lost.")
        self.backlog = Backlog()

    def _retry_at_exit(self) -> None:
        if self._retries_at_exit:
            return
        self._retries_at_exit = True
        atexit.register(self.drain_at_exit)
        workers: Any = sys.modules.get("multiprocessing.util")  # its processes leave without atexit
        if workers is not None:
            workers.Finalize(None, self.drain_at_exit, exitpriority=0)

    def _say(self, key: str, text: str) -> None:
        """One line on stderr, once; a closed stderr is no reason to end a training run."""
        if self._said.setdefault(key, False):
            return
        self._said[key] = True
        try:
            sys.stderr.write(f"runyard: warning: {text}\n")
        except Exception:  # closed, replaced by something odd, or interrupted while it was written to
            pass


def _ignore(_names: Names) -> None:
    """A lane has no fast path."""


def _new_writer(header: Dict[str, Any]) -> str:
    return f"r{header['rank']}-{os.getpid()}-{os.urandom(4).hex()}"


def _write_side(path: str, side: Side) -> bytes:
    """Write the payload's file and return the record that names it."""
    write_whole(path, side.body)
    named = {"kind": side.kind, "file": os.path.basename(path), "length": len(side.body), "crc": zlib.crc32(side.body)}
    return journal.pack_long(journal.SIDE, named)
