"""Finds the records that follow damaged bytes of a journal. Pure; see docs/internals/journal.md.

A payload is compact ASCII JSON, so none of its bytes is below 0x20, while every record begins with a kind below 0x20:
the inside of an intact long record can never be taken for the start of one. A long record is recognised by its CRC,
a number by its fixed zeros, its name id and its time. Loaded only once there is damage.
"""

from __future__ import annotations

import re
from typing import Collection, Iterator, NamedTuple, Optional, Set, Tuple

from runyard.core.formats import journal

# The first four bytes of a record: kind, flags, two zeros. Looked at ahead, so that candidates may overlap.
_START = re.compile(rb"[\x01-\x03\x10-\x1c](?=[\x00\x01]\x00\x00)")
_EARLIEST_NS = 10**16  # a record may have waited in memory since long before its segment was opened
_LATEST_NS = 10**17
_MOST_NEW_NAMES = 4096
_LONG = range(journal.FIRST_LONG + 1, journal.SIDE + 1)


class Clues(NamedTuple):
    """What is known about a segment: the name ids it defined so far, and its HEADER's time (0 when that is lost)."""

    names: Collection[int]
    opened_ns: int


def find_record(data: bytes, clues: Clues, *, after: int, grid: int) -> Optional[int]:
    """Return where the first whole record after position `after` begins, or None.

    Records usually stay a multiple of 32 bytes from `grid`. Where a file was cut at an odd place they do not; such a
    record, and a number whose name was lost, counts only together with a second one right behind it.
    """
    view = memoryview(data)
    for match in _START.finditer(data, after + 1):
        at = match.start()
        end, is_certain = _record_at(view, at, clues)
        if end is None:
            continue
        if is_certain and (at - grid) % journal.CELL == 0:
            return at
        if _record_at(view, end, clues)[0] is not None or (is_certain and end == len(view)):
            return at
    return None


def undefined_names(data: bytes, known: Collection[int]) -> Set[int]:
    """Return the name ids that numbers of `data`, which starts on a record, use although nothing defines them."""
    used: Set[int] = set()
    for part in journal.iter_parts(data):
        if isinstance(part, journal.Span):
            used |= {name for name, _time in iter_numbers(data[part.offset : part.end])}
    return used - set(known) - defined_names(data)


def defined_names(data: bytes) -> Set[int]:
    """Return the name ids that the long records of `data`, which starts on a record, define."""
    parts = journal.iter_parts(data)
    names = (part for part in parts if isinstance(part, journal.LongRecord) and part.kind == journal.NAME)
    ids = (part.payload.get("id") for part in names)
    return {name_id for name_id in ids if isinstance(name_id, int)}


def iter_numbers(cells: bytes) -> Iterator[Tuple[int, int]]:
    """Yield (name id, time) of each cell."""
    for _kind, _flags, _zero, name, _step, time, _value in journal.INTEGER.iter_unpack(cells):
        yield name, time


def _record_at(view: memoryview, at: int, clues: Clues) -> Tuple[Optional[int], bool]:
    """Return the end of the record at `at` (None: there is none) and whether it can be nothing else."""
    if at + journal.CELL > len(view):
        return None, False
    kind = view[at]
    if kind in _LONG:
        record = journal.long_at(view, at)
        return (record.end, True) if record is not None and record.payload else (None, False)
    kind, flags, zero, name, step, time, value = journal.INTEGER.unpack_from(view, at)
    is_number = journal.FLOAT <= kind <= journal.BOOL and flags in (0, journal.HAS_STEP) and not zero
    is_number = is_number and (flags == journal.HAS_STEP or not step) and (kind != journal.BOOL or value in (0, 1))
    if not is_number or not _is_plausible(time, clues.opened_ns):
        return None, False
    if name in clues.names:
        return at + journal.CELL, True
    is_near = 1 <= name <= max(clues.names, default=0) + _MOST_NEW_NAMES
    return (at + journal.CELL, False) if is_near else (None, False)


def _is_plausible(time: int, opened_ns: int) -> bool:
    return time > 0 and (not opened_ns or opened_ns - _EARLIEST_NS < time < opened_ns + _LATEST_NS)
