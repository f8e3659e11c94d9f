"""Journal segments on disk: how far each is stored, where its bytes stand in its file, and which runs it ended.

Shipped offsets are positions in the file, except behind damage: there a `Course` translates. `ChildRunLedger` keeps the
child runs and ends that passed through the journals, because the end of a run depends on them.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import struct
import time
from dataclasses import field
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

from runyard.core.formats import journal
from runyard.core.lazy_dataclass import dataclass
from runyard.core.machine.files import write_whole
from runyard.supervisor.run_folder import RunFolder

_NAME = re.compile(r"([a-z0-9][a-z0-9\-]{0,63})\.(\d{1,9})\.journal")
_ACKED = struct.Struct("<Q")
_HEADER_BYTES = 1 << 16
_UNREADABLE = (errno.ELOOP, errno.EISDIR, errno.EACCES, errno.EPERM, errno.ENXIO)


class ChildRunLedger:
    """The child runs that were made and the ends that were recorded, kept in `seen.json` for a restarted supervisor."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        known = folder.read_object("seen.json")
        self._children: List[str] = list(known.get("children", ()))
        self._ends: Dict[str, journal.Payload] = dict(known.get("ends", {}))

    def note(self, run_id: str, record: journal.LongRecord) -> None:
        """Note a CHILD or END record of the run `run_id`. May be repeated: the first one counts. Raises OSError."""
        child = str(record.payload.get("run_id", ""))
        if record.kind == journal.CHILD and child not in self._children:
            self._children.append(child)
        elif record.kind == journal.END and run_id not in self._ends:
            self._ends[run_id] = record.payload
        else:
            return
        self._folder.write("seen.json", {"children": self._children, "ends": self._ends})

    def is_child(self, run_id: str) -> bool:
        """Return whether the server has the record that made the run."""
        return run_id in self._children

    def find_end(self, run_id: str) -> Optional[journal.Payload]:
        """Return the payload of the run's END record, None when it has recorded no end."""
        return self._ends.get(run_id)

    def open_children(self) -> List[str]:
        """Return the child runs without an end, newest first."""
        return [child for child in reversed(self._children) if child not in self._ends]


class Jump(NamedTuple):
    """From `offset` of the segment on, the server gets `fill`, and then the file from `position` on."""

    offset: int
    fill: bytes
    position: int

    @property
    def end(self) -> int:
        """The segment's offset behind the fill."""
        return self.offset + len(self.fill)


class Course:
    """The jumps of one segment, in order; kept in `<segment>.mended`, so that a restart reads the same bytes."""

    def __init__(self) -> None:
        self._jumps: List[Jump] = []

    @classmethod
    def read(cls, segment_path: str) -> Course:
        """Return the course that was kept beside the segment, an empty one when there is none."""
        course = cls()
        try:
            with open(os.open(_beside(segment_path), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW), "rb") as file:
                course._jumps = [Jump(int(o), bytes.fromhex(fill), int(at)) for o, fill, at in json.load(file)]
        except (OSError, ValueError, TypeError):
            course._jumps = []
        return course

    def write(self, segment_path: str) -> None:
        """Keep the course beside the segment. Raises OSError."""
        jumps = [(jump.offset, jump.fill.hex(), jump.position) for jump in self._jumps]
        write_whole(_beside(segment_path), json.dumps(jumps).encode())

    def add(self, jump: Jump) -> None:
        """Add a jump; it replaces those at its offset and behind."""
        self._jumps = [one for one in self._jumps if one.offset < jump.offset] + [jump]

    def position_of(self, offset: int) -> int:
        """Return the file position of the byte at `offset`; inside a fill, of what follows it."""
        for jump in reversed(self._jumps):
            if jump.offset <= offset:
                return jump.position + max(0, offset - jump.end)
        return offset

    def offset_of(self, position: int) -> int:
        """Return the segment's offset of a file position behind all jumps so far."""
        if not self._jumps:
            return position
        last = self._jumps[-1]
        return last.end + position - last.position if position >= last.position else last.offset

    def stretches(self, offset: int, limit: int) -> Iterator[Tuple[bytes, int, int]]:
        """Yield (fill, position, size) of the pieces that make up the `limit` bytes from `offset` on."""
        if not self._jumps:
            yield b"", offset, limit
            return
        stop = offset + limit
        ends = [*(jump.offset for jump in self._jumps), stop]
        for jump, end in zip([Jump(0, b"", 0), *self._jumps], ends):
            start, until = max(offset, jump.end), min(end, stop)
            fill = jump.fill[max(0, offset - jump.offset) :] if jump.offset < stop and offset < jump.end else b""
            if fill or start < until:
                yield fill, jump.position + start - jump.end, max(0, until - start)


def _beside(segment_path: str) -> str:
    return segment_path[: -len("journal")] + "mended"


Key = Tuple[str, int]


@dataclass()
class Segment:
    """One journal file. `offset` is the mark: the server has stored the bytes before it.

    Offsets are those of the segment as it is shipped. They are file positions, too, except behind damage, where
    `course` translates. While `fd` is open, a removed file can still be read to its end.
    """

    path: str
    writer: str
    number: int
    offset: int = 0
    size: int = 0
    end: Optional[int] = None  # end of the last whole record, known after everything was read
    header: journal.Payload = field(default_factory=dict)
    is_given_up: bool = False  # the file cannot be read
    refusal: str = ""  # why the server refuses the rest of it
    skipped: List[Tuple[int, int]] = field(default_factory=list)
    course: Course = field(default_factory=Course)
    fd: int = -1
    is_removed: bool = False
    searched: int = 0  # position in the file up to which no record was found behind damage
    cut: Optional[Tuple[int, int]] = None  # sizes before and after the program shortened the file, until it was noted
    rewound_ns: Optional[int] = None  # the file was cut below what is stored: only records younger than this are new
    _file_size: int = 0
    _seen_ns: int = 0

    @property
    def key(self) -> Key:
        """The writer and the number, which identify the segment."""
        return (self.writer, self.number)

    @property
    def name(self) -> str:
        """The file's name, for messages."""
        return os.path.basename(self.path)

    @property
    def is_behind(self) -> bool:
        """Whether there may be whole records that the server lacks and does not refuse."""
        return not self.is_given_up and not self.refusal and self.offset < (self.size if self.end is None else self.end)

    def look(self) -> None:
        """Take the file's size, and note when the file was cut. Raises OSError when it is gone."""
        now_ns = time.monotonic_ns()
        file_size = self._stat().st_size
        if file_size < self._file_size:
            self.cut = (self._file_size, file_size)
            if file_size < self.course.position_of(self.offset) and self.rewound_ns is None:
                self.rewound_ns = self._seen_ns
        if file_size != self._file_size:
            self._file_size, self.end = file_size, None
        self._seen_ns = now_ns
        self.size = self.course.offset_of(file_size) if self.rewound_ns is None else self.offset + file_size
        if not self.header and file_size:
            self.header = read_header(self.read_file(0, _HEADER_BYTES))

    def hold(self) -> bool:
        """Open the file, so that it can be read even after its removal; False when that fails. May be repeated."""
        if self.fd >= 0:
            return True
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return False
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            return False
        self.fd = fd
        return True

    def let_go(self) -> None:
        """Close the file."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def moved(self, offset: int) -> None:
        """Take the server's mark, and tell the writer, which may wait for it in `flush`."""
        self.end = None
        if offset == self.offset:
            return
        self.offset = offset
        try:
            self._write_acked(self.course.position_of(offset))
        except OSError:  # a full disk: the next answer writes it again
            pass

    def jump(self, jump: Jump) -> None:
        """Let the shipped bytes go on at another position of the file."""
        self.course.add(jump)
        self.end, self.searched, self.rewound_ns = None, 0, None
        self.size = self.course.offset_of(self._file_size)
        try:
            self.course.write(self.path)
        except OSError:  # a full disk: only a restarted supervisor needs it, and it finds most damage again
            pass

    def read(self, limit: int) -> bytes:
        """Return up to `limit` bytes from `offset` on; refused records are replaced by empty ones of the same size."""
        data = self.read_from(self.offset, limit)
        for start, end in self.skipped:
            at = start - self.offset
            if 0 <= at < len(data):
                data = data[:at] + silence(end - start) + data[end - self.offset :]
        return data

    def read_from(self, offset: int, limit: int) -> bytes:
        """Return up to `limit` bytes of the segment as it is shipped."""
        data = b""
        for fill, position, size in self.course.stretches(offset, limit):
            data += fill
            piece = self.read_file(position, size) if size else b""
            data += piece
            if len(piece) < size:
                break
        return data[:limit]

    def read_file(self, position: int, limit: int) -> bytes:
        """Return up to `limit` bytes of the file, from the open descriptor if there is one. Raises OSError."""
        if self.fd >= 0:
            return os.pread(self.fd, limit, position)
        return read_part(self.path, position, limit)

    def _stat(self) -> os.stat_result:
        if self.fd < 0:
            return os.stat(self.path, follow_symlinks=False)
        status = os.fstat(self.fd)
        if not self.is_removed:
            try:
                self.is_removed = not os.path.samestat(status, os.stat(self.path, follow_symlinks=False))
            except (FileNotFoundError, NotADirectoryError):
                self.is_removed = True
            except OSError:  # a passing error does not mean that the file was removed
                pass
        return status

    def _write_acked(self, offset: int) -> None:
        path = self.path[: -len("journal")] + "acked"
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.pwrite(fd, _ACKED.pack(offset), 0)
        finally:
            os.close(fd)


def iter_segments(folder: str) -> Iterator[Segment]:
    """Yield the segments in a journal folder, those of one writer in order."""
    try:
        names = os.listdir(folder)
    except OSError:
        return
    matches = [match for match in map(_NAME.fullmatch, names) if match]
    for match in sorted(matches, key=lambda one: (one.group(1), int(one.group(2)))):
        path = os.path.join(folder, match.group())
        yield Segment(path, match.group(1), int(match.group(2)))


def recall(segment: Segment) -> None:
    """Take up what an earlier supervisor noted beside the file; the server's next answer corrects the offset."""
    segment.course = Course.read(segment.path)
    try:
        acked = int(_ACKED.unpack(read_part(segment.path[: -len("journal")] + "acked", 0, _ACKED.size))[0])
    except (OSError, struct.error):
        return
    segment.offset = segment.course.offset_of(acked)


def find_orphans(folder: str) -> List[str]:
    """Return the names of journals that are gone, although a part of each is stored."""
    try:
        names = set(os.listdir(folder))
    except OSError:
        return []
    stems = [name[: -len("acked")] for name in names if name.endswith(".acked")]
    return sorted(f"{stem}journal" for stem in stems if f"{stem}journal" not in names)


def read_header(start: bytes) -> journal.Payload:
    """Return the HEADER's payload from the first bytes of a segment, {} when it is not whole."""
    for part in journal.iter_parts(start):
        return part.payload if isinstance(part, journal.LongRecord) and part.kind == journal.HEADER else {}
    return {}


def read_part(path: str, offset: int, limit: int) -> bytes:
    """Read from a file that the program controls: links are not followed, and a FIFO does not block. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        return os.pread(fd, limit, offset)
    finally:
        os.close(fd)


def is_unreadable(error: OSError) -> bool:
    """Return whether the program made its file unreadable for good; other errors of a disk may pass."""
    return error.errno in _UNREADABLE


def silence(size: int) -> bytes:
    """Return a record of `size` bytes that changes nothing, to replace one that the server refuses."""
    body = b'{"set":{}}'
    return journal.pack_payload(journal.TAGS, body + b" " * (size - journal.HEAD.size - len(body)))
