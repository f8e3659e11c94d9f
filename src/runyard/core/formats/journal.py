"""The journal's bytes: how a record is written and how it is found again. Pure; see docs/internals/journal.md.

A segment is a sequence of 32-byte cells. A number (float, int, bool) is one cell. Everything else is a *long* record: a
16-byte head (kind, length, CRC) and a JSON payload, filled up with zeros to whole cells. Kind 0 is never written, so
a zero-filled tail (power loss) reads as the end.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from typing import Iterator, Mapping, NamedTuple, TypedDict

CELL = 32
FLOAT, INT, BOOL = 1, 2, 3
HAS_STEP = 1  # flag of a number record

# Long kinds. The payload is a JSON object; `t` is CLOCK_MONOTONIC in ns.
HEADER = 16  # SegmentHeader: first of a segment
NAME = 17  # {id, name}: defines a metric's name id for the rest of this segment
VALUES = 18  # {name, values: [scalar…], step, t}: scalars that are no number cell (str, None, ints beyond 64 bits)
ROW = 19  # {name, columns: {column: scalar}, t}
TABLE = 20  # {name, columns: {column: [scalar…]}, t}
ARTIFACT = 21  # {name, kind: image|confusion_matrix|…, file, t}: a metric that is a file of the run
TAGS = 22  # {set: {key: str|null}, remove: [key]}
PROPERTIES = 23  # {add: {key: str}, parameters?: {name: str}}: a parameter that the run has stays
FILE = 24  # {name, path, size, source?}: the supervisor uploads `path`, below the run folder; a copy of `source`
CHILD = 25  # {run_id, name, tags, …}: a child run, made by the client
END = 26  # {status, error, t}: the end of a run that we did not launch
FAIL = 27  # {error_details, error_code}: `run.fail()` inside a submitted run
SIDE = 28  # {kind, file, length, crc}: a payload over 1 MiB, kept in a side file beside the segment
PARAM = 29  # {key, value}: a parameter that the script logged; the first value of a key stays

# A long record's payload has the keys of its kind. A program wrote it, so whoever reads it checks each value.
Payload = Mapping[str, object]

FIRST_LONG = 16
MAX_PAYLOAD = 1 << 20
FORMAT = 1

NUMBER = struct.Struct("<BBHIqqd")  # kind, flags, 0, name id, step, time, value
INTEGER = struct.Struct("<BBHIqqq")  # the same with a 64-bit integer
HEAD = struct.Struct("<BBHIII")  # kind, flags, 0, payload length, CRC of the first 8 bytes and the payload, 0
pack_number = NUMBER.pack
pack_integer = INTEGER.pack

# What the first four bytes of a number are not: kind, flags, two zeros.
_NOT_A_NUMBER = tuple(map(re.compile, (rb"[^\x01-\x03]", rb"[^\x00\x01]", rb"[^\x00]", rb"[^\x00]")))


class SegmentHeader(TypedDict, total=False):
    """The payload of a HEADER."""

    format: int
    run: str
    attempt: int
    writer: str
    segment: int
    rank: int
    role: str
    pid: int
    boot_id: str
    wall_ns: int
    t: int


class LongRecord(NamedTuple):
    """One long record found in a segment; `end` is the offset of what follows it."""

    offset: int
    end: int
    kind: int
    payload: Payload


class Span(NamedTuple):
    """A run of number cells: bytes [offset, end) of the segment."""

    offset: int
    end: int


def pack_long(kind: int, payload: Payload) -> bytes:
    """Return the record's bytes, whole cells."""
    return pack_payload(kind, dump(payload))


def pack_payload(kind: int, body: bytes) -> bytes:
    head = struct.pack("<BBHI", kind, 0, 0, len(body))
    crc = zlib.crc32(body, zlib.crc32(head))
    size = HEAD.size + len(body)
    return head + struct.pack("<II", crc, 0) + body + b"\0" * (-size % CELL)


def dump(payload: Payload) -> bytes:
    return json.dumps(payload, separators=(",", ":"), ensure_ascii=True).encode("ascii")


def iter_parts(data: bytes | memoryview, *, base: int = 0) -> Iterator[LongRecord | Span]:
    """Walk `data`, which starts on a record at segment offset `base`; stop before a torn, corrupt or unwritten record.

    Finding what is no number looks at four bytes of every 32, so a million numbers are one Span.
    """
    raw = data if isinstance(data, bytes) else bytes(data)  # to take every 32nd byte of it is ten times as fast
    view = memoryview(raw)
    whole = len(raw) // CELL
    columns = [raw[at : whole * CELL : CELL] for at in range(len(_NOT_A_NUMBER))]
    # Where each column next differs from a number's; nearly always the last three hold nothing but zeros.
    odd = [-1, *(whole if column == bytes(whole) else -1 for column in columns[1:])]
    position = 0
    while position < whole:
        for at, column in enumerate(columns):
            if odd[at] < position:
                match = _NOT_A_NUMBER[at].search(column, position, whole)
                odd[at] = match.start() if match else whole
        found = min(odd)
        if found > position:
            yield Span(base + position * CELL, base + found * CELL)
        if found == whole:
            return
        record = long_at(view, found * CELL, base)
        if record is None:
            return
        yield record
        position = (record.end - base) // CELL


def end_of(data: bytes | memoryview, *, base: int = 0) -> int:
    """Return the segment offset after the last whole record of `data`."""
    end = base
    for part in iter_parts(data, base=base):
        end = part.end
    return end


def is_beginning(tail: bytes, size: int) -> bool:
    """Whether `tail`, the first bytes of `size` left, begins a long record that does not fit into them."""
    if len(tail) < HEAD.size:
        return False
    kind, flags, zero, length, _crc, zero2 = HEAD.unpack_from(tail)
    is_head = FIRST_LONG <= kind <= PARAM and not (flags or zero or zero2)
    return is_head and length <= MAX_PAYLOAD and HEAD.size + length > size


def long_at(view: memoryview, at: int, base: int = 0) -> LongRecord | None:
    """Return the long record that begins at `at`; None when it is torn, corrupt or something else."""
    if at + HEAD.size > len(view):
        return None
    kind, _flags, _zero, length, crc, _zero2 = HEAD.unpack_from(view, at)
    size = HEAD.size + length
    stop = at + size + -size % CELL
    if kind < FIRST_LONG or length > MAX_PAYLOAD or stop > len(view):
        return None
    body = view[at + HEAD.size : at + HEAD.size + length]
    if zlib.crc32(body, zlib.crc32(view[at : at + 8])) != crc:
        return None
    try:
        payload = json.loads(bytes(body))
    except (ValueError, RecursionError):
        payload = None
    return LongRecord(base + at, base + stop, kind, payload if isinstance(payload, dict) else {})
