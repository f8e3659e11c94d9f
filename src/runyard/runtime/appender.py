"""Append records to a run's journal, whatever the disk, threads, signals and forks do.

There is no lock: a lock held by another thread at a fork, or by the code that a signal handler interrupts, would stop
training. Instead every step may happen twice or beside another: two segments or two ids for one name are harmless, and
a name id never leaves the segment that defined it.

`Backlog` holds records that could not be written yet, up to a limit. `OpenSegment` is one journal file that is open for
appending, with the name ids that hold in it. `raise_foreign` tells our own failures from an exception that a signal
handler raised inside our code. `wait_for_acks` reads the offsets that the supervisor writes beside each segment once
the server has stored the records. `Appender` puts these parts together.
"""

from __future__ import annotations

import atexit
import errno
import itertools
import os
import sys
import time
import zlib
from collections import deque
from typing import Any, Callable, Deque, Dict, Iterable, List, Optional, Sequence, Tuple, Type

from runyard.core.formats import journal
from runyard.core.machine.disk import NO_SPACE
from runyard.core.machine.files import write_whole
from runyard.core.machine.portable import CLOEXEC, NONBLOCK
from runyard.runtime.overflow import OverflowTally, find_folder
from runyard.runtime.values import Cell, Record, Side

LIMIT_BYTES = 64 << 20
_CELL_BYTES = 200  # what a waiting number costs in memory
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | CLOEXEC
_HIGH_NUMBERS = (960, 240)
_OURS = __name__.rpartition(".")[0] + "."
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.001, 0.05
_WAKE_AGAIN_S = 1.0
_EXIT_S = 5.0
_BATCH_BYTES = 1 << 20
_BATCH_RECORDS = 4096
_KEPT_OPEN = 16  # ended segments whose descriptors stay: another thread may be about to write to one


class Backlog:
    """A queue of records. Threads share it without a lock: each step is one call into a deque."""

    def __init__(self) -> None:
        self._records: Deque[Record] = deque()
        self._size = 0
        self.numbers = 0  # how many of the records are numbers
        self.lost = self.lost_numbers = 0

    def __len__(self) -> int:
        return len(self._records)

    def add(self, record: Record) -> bool:
        """Return whether there was room."""
        size = _size_of(record)
        if self._size + size > LIMIT_BYTES:
            self.lost += 1
            self.lost_numbers += isinstance(record, Cell)
            return False
        self._size += size
        self.numbers += isinstance(record, Cell)
        self._records.append(record)
        return True

    def take(self, count: int) -> Deque[Record]:
        """Remove and return up to `count` of the oldest."""
        taken: Deque[Record] = deque()
        while len(taken) < count:
            try:
                taken.append(self._records.popleft())
            except IndexError:
                break
        self._size -= size_of(taken)
        self.numbers -= _count_numbers(taken)
        return taken

    def put_back(self, records: Deque[Record]) -> None:
        self._size += size_of(records)
        self.numbers += _count_numbers(records)
        self._records.extendleft(reversed(records))


def size_of(records: Iterable[Record]) -> int:
    """Return about how much memory the records take."""
    return sum(map(_size_of, records))


def _count_numbers(records: Iterable[Record]) -> int:
    return sum(isinstance(record, Cell) for record in records)


def _size_of(record: Record) -> int:
    if isinstance(record, Cell):
        return _CELL_BYTES
    return len(record.body if isinstance(record, Side) else record) + 100


Write = Callable[[int, bytes], int]
Entry = Tuple[int, int]  # file descriptor and name id: always of the same segment, whatever happens between


class NameTable(Dict[str, Entry]):
    """Where each name is logged. It does not travel: joblib and Ray pickle functions with all that they refer to, and a
    descriptor's number means another file, or none, in the process that unpickles it."""

    wall_offset_ns = 0  # wall clock less monotonic clock, as the segment's HEADER says

    def __reduce__(self) -> Tuple[Type[NameTable], Tuple[()]]:
        return NameTable, ()


class OpenSegment:
    """Raises OSError from every method; `write` may be short, and then the segment must not be used again."""

    def __init__(self, folder: str, writer: str, number: int, *, write: Write) -> None:
        self.writer = writer
        self.number = number
        self.path = f"{folder}/{writer}.{number}.journal"
        self.fd = _high(os.open(self.path, _FLAGS, 0o600))
        self.names = NameTable()
        self.torn = False
        self._ids = itertools.count(1)
        self._sides = itertools.count()
        self._write = write

    def begin(self, header: journal.SegmentHeader) -> None:
        """Write the first record. When the disk is full the empty file stays, and this is called again; so it is when a
        signal's handler raised just after the write.
        """
        if os.fstat(self.fd).st_size == 0:
            self.names.wall_offset_ns = header["wall_ns"] - header["t"]
            self._write_whole(journal.pack_long(journal.HEADER, header))

    def entry(self, name: str) -> Entry:
        """Return where and under which id `name` is logged, after its definition was written."""
        found = self.names.get(name)
        if found is None:
            found = (self.fd, next(self._ids))
            self._write_whole(journal.pack_long(journal.NAME, {"id": found[1], "name": name}))
            self.names[name] = found
        return found

    def write(self, data: bytes) -> int:
        return self._write(self.fd, data)

    def side_path(self) -> str:
        """Return a new path for a payload that is too large for a record."""
        return f"{self.path[: -len('.journal')]}.{next(self._sides)}.side"

    def disown(self) -> None:
        """In a forked child: if interrupted code still defines a name here, its id must not be one of the parent's."""
        self._ids = itertools.count(1 << 31 | int.from_bytes(os.urandom(4), "little") >> 2)

    def close(self) -> None:
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def _write_whole(self, data: bytes) -> None:
        if self._write(self.fd, data) != len(data):
            self.torn = True
            raise OSError(errno.EIO, "short write", self.path)


def _high(fd: int) -> int:
    """Move the descriptor to a high number: a program that closes all of its files and opens others must not
    find its own file under the number that we write to."""
    try:
        import fcntl
    except ImportError:  # Windows
        return fd
    for lowest in _HIGH_NUMBERS:
        try:
            moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, lowest)
        except OSError:  # the limit of open files is below
            continue
        os.close(fd)
        return moved
    return fd


def raise_foreign(error: Exception) -> None:
    """Pass on an exception that is not ours: TimeoutError, which signal handlers raise, is an OSError too."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is not None and not trace.tb_frame.f_globals.get("__name__", "").startswith(_OURS):
        raise error


def wake(run_folder: str) -> None:
    """Put a byte into the supervisor's FIFO, whether the supervisor listens or not."""
    try:
        fd = os.open(f"{run_folder}/wake", os.O_WRONLY | NONBLOCK | CLOEXEC)
    except OSError:
        return
    try:
        os.write(fd, b"\n")
    except OSError:  # full: it is awake already
        pass
    finally:
        os.close(fd)


def wait_for_acks(run_folder: str, segments: Sequence[OpenSegment], *, deadline: float, ended: bool) -> bool:
    """Wait until all whole records that the segments hold now are stored; `deadline` is on time.monotonic().

    The run folder of a run that has `ended` vanishes when the server has everything.
    """
    wanted = {segment.path: _end_of(segment.path, last=segment is segments[-1]) for segment in segments}
    pause = _FIRST_PAUSE_S
    waked = float("-inf")
    while True:
        wanted = _still_wanted(wanted)
        if not wanted or (ended and not os.path.isdir(run_folder)):
            return True
        now = time.monotonic()
        if now >= deadline or not os.path.isdir(run_folder):
            return False
        if now - waked >= _WAKE_AGAIN_S:
            wake(run_folder)
            waked = now
        time.sleep(min(pause, deadline - now))
        pause = min(pause * 2, _LONGEST_PAUSE_S)


def read_ack(segment_path: str) -> int:
    """Return how many bytes of the segment the server has."""
    try:
        with open(f"{segment_path[: -len('.journal')]}.acked", "rb") as file:
            data = file.read(8)
    except OSError:
        return 0
    return int.from_bytes(data, "little") if len(data) == 8 else 0


def _still_wanted(wanted: Dict[str, int]) -> Dict[str, int]:
    return {path: end for path, end in wanted.items() if end > 0 and read_ack(path) < end}


def _end_of(path: str, *, last: bool) -> int:
    """Return the offset after the last whole record; only a segment that was left can have a torn one."""
    try:
        if last:
            return os.stat(path).st_size
        with open(path, "rb") as file:
            return journal.end_of(file.read())
    except OSError:
        return 1  # gone with its records: they will never be stored


UseNames = Callable[[NameTable], None]


class Appender:
    """Appends to segments of one writer. `use_names` is told which name ids the fast path may use now.

    No method raises for what the disk does: what it has no room for goes into the supervisor's folder in memory
    (`overflow.py`), else it waits in this process's own. After a fork the child calls `forget` and is a new writer.
    """

    def __init__(self, run_folder: str, header: journal.SegmentHeader, *, use_names: UseNames, write: Write) -> None:
        self.run_folder = run_folder
        self.folder = f"{run_folder}/journal"
        self.segments: List[OpenSegment] = []
        self.backlog = Backlog()
        self.closed = False
        self._header = header
        self._use_names = use_names
        self._write = write
        self._writer = _new_writer(header)
        self._current: Optional[OpenSegment] = None
        self._inherited: List[OpenSegment] = []
        self._unbegun: Deque[OpenSegment] = deque()  # files whose first record the disk refused
        self._retries_at_exit = False
        self._is_full = False
        self._code = 0  # why records wait: an errno
        self._lane: Optional[Appender] = None  # writes into the folder in memory
        self._spilled = 0
        self._tally: Optional[OverflowTally] = None
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

    def all_segments(self) -> List[OpenSegment]:
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
            self._tally = OverflowTally(self.run_folder, self._writer)
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
                self._use_names(NameTable())
        return not self.backlog

    def end_segment(self, fd: int) -> None:
        """Use the segment of this descriptor no more: a write to it was short."""
        if self._current is not None and self._current.fd == fd:
            self._use_names(NameTable())
            self._current = None

    def names(self) -> NameTable:
        """Return the name ids of the current segment."""
        return NameTable() if self._current is None else self._current.names

    def forget(self) -> None:
        """In a forked child: become another writer.

        The parent's descriptor is closed with our own first record, so that code which the fork interrupted between
        name id and write still hits the file that it meant.
        """
        self._use_names(NameTable())
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
        self._use_names(NameTable())
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

    def _encode(self, segment: OpenSegment, records: Deque[Record]) -> List[bytes]:
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

    def _open(self) -> OpenSegment:
        segment = self._next_segment()
        header: journal.SegmentHeader = {
            **self._header,
            "wall_ns": time.time_ns(),
            "t": time.monotonic_ns(),
            "writer": segment.writer,
            "segment": segment.number,
            "pid": os.getpid(),
        }
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

    def _next_segment(self) -> OpenSegment:
        try:
            return self._unbegun.pop()
        except IndexError:
            segment = self._create()
        self.segments.append(segment)
        for old in self.segments[:-_KEPT_OPEN]:
            old.close()
        return segment

    def _create(self) -> OpenSegment:
        number = len(self.segments)
        while True:
            try:
                return OpenSegment(self.folder, self._writer, number, write=self._write)
            except FileExistsError:
                number += 1
            except FileNotFoundError:
                if os.path.isdir(self.folder):
                    raise
                os.mkdir(self.folder, 0o700)  # raises when the run folder itself is gone

    def _leave(self, segment: Optional[OpenSegment]) -> None:
        if segment is not None and segment is self._current:
            self._use_names(NameTable())
            self._current = None

    def _degrade(self, error: OSError) -> None:
        self._use_names(NameTable())
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


def _ignore(_names: NameTable) -> None:
    """A lane has no fast path."""


def _new_writer(header: journal.SegmentHeader) -> str:
    return f"r{header['rank']}-{os.getpid()}-{os.urandom(4).hex()}"


def _write_side(path: str, side: Side) -> bytes:
    """Write the payload's file and return the record that names it."""
    write_whole(path, side.body)
    named = {"kind": side.kind, "file": os.path.basename(path), "length": len(side.body), "crc": zlib.crc32(side.body)}
    return journal.pack_long(journal.SIDE, named)
