"""Goes on behind damage in a journal. Loaded only when a journal is damaged."""

from __future__ import annotations

import time
from typing import Iterator, List, NamedTuple, Optional, Set, Tuple, Union

from runyard.core.formats import journal
from runyard.core.formats.journal_damage import Clues, defined_names, find_record, iter_numbers, undefined_names
from runyard.supervisor.shipping.segments import Jump, Segment, silence

_WINDOW = 8 << 20
_OVERLAP = 2 << 20  # more than the longest record, which may lie across the end of a window
_MOST_UNNAMED = 100


class Gap(NamedTuple):
    """Damaged bytes at `position` of the file and `offset` of the segment.

    `unnamed` are the names that metrics get whose own names were lost with the bytes.
    """

    offset: int
    position: int
    size: int
    unnamed: List[str]


def bridge(segment: Segment, offset: int, *, header: journal.Payload) -> Optional[Gap]:
    """Let the segment go on with the first record behind the damage at `offset`; None while there is none.

    The number right before `offset` may be half a number, completed by the start of the next record: then it is lost,
    too. Raises OSError.
    """
    known = _names_before(segment, offset)
    suspect = offset - journal.CELL if offset - journal.CELL >= segment.offset else offset
    found = _search(segment, segment.course.position_of(suspect), Clues(known, _time_of(header)))
    if found is None:
        return None
    if found >= segment.course.position_of(offset):
        suspect = offset
    return _go_on_at(segment, suspect, found, known=known, header=header)


def restart(segment: Segment) -> bool:
    """Let a segment whose file was cut below what is stored go on with what was written since; False: nothing was.

    Raises OSError.
    """
    assert segment.rewound_ns is not None
    position = _find_younger(segment, segment.rewound_ns)
    if position is None:
        return False
    segment.jump(Jump(segment.offset, b"", position))
    return True


def _go_on_at(segment: Segment, offset: int, found: int, *, known: Set[int], header: journal.Payload) -> Gap:
    position = segment.course.position_of(offset)
    ids = sorted(undefined_names(segment.read_file(found, _WINDOW), known))[:_MOST_UNNAMED]
    unnamed = {name_id: f"unnamed-{name_id}" for name_id in ids}
    fill = _header(header) if offset == 0 else b""
    for name_id, name in unnamed.items():
        fill += journal.pack_long(journal.NAME, {"id": name_id, "name": name})
    segment.jump(Jump(offset, _filled(fill, found - position), found))
    return Gap(offset, position, found - position, list(unnamed.values()))


def _search(segment: Segment, position: int, clues: Clues) -> Optional[int]:
    at = max(position, segment.searched - _OVERLAP)
    while True:
        data = segment.read_file(at, _WINDOW)
        found = find_record(data, clues, after=0 if at == position else -1, grid=(position - at) % journal.CELL)
        if found is not None:
            return at + found
        segment.searched = at + len(data)
        if len(data) < _WINDOW:
            return None
        at += _WINDOW - _OVERLAP


def _find_younger(segment: Segment, since_ns: int) -> Optional[int]:
    """Return where the first record made after `since_ns` begins, with the names and tags just before it."""
    clues = Clues(_names_before(segment, segment.offset), _time_of(segment.header))
    at = start = 0
    while True:
        data = segment.read_file(at, _WINDOW)
        end = at
        for part in journal.iter_parts(data, base=at):
            for place, made_ns in _times(data, part, at):
                if made_ns > since_ns:
                    return start
                start = place
            end = part.end
        if end > at:
            at = end
            continue
        suspect = max(0, at - journal.CELL)  # see `bridge`
        found = find_record(segment.read_file(suspect, _WINDOW), clues, after=0, grid=0)
        if found is None and len(data) < _WINDOW:
            return None
        following = suspect + (_WINDOW - _OVERLAP if found is None else found)
        start = min(start, suspect) if following < at else start
        at = following


def _times(data: bytes, part: Union[journal.LongRecord, journal.Span], base: int) -> Iterator[Tuple[int, int]]:
    """Yield (end, time of recording) of each record that has a time."""
    if isinstance(part, journal.Span):
        cells = iter_numbers(data[part.offset - base : part.end - base])
        for number, (_name, made_ns) in enumerate(cells, 1):
            yield part.offset + number * journal.CELL, made_ns
    else:
        made = part.payload.get("t")
        if isinstance(made, int):
            yield part.end, made


def _names_before(segment: Segment, offset: int) -> Set[int]:
    names: Set[int] = set()
    at = 0
    while at < offset:
        data = segment.read_from(at, min(_WINDOW, offset - at))
        names |= defined_names(data)
        size = journal.end_of(data)
        if not size:
            break
        at += size
    return names


def _time_of(header: journal.Payload) -> int:
    opened = header.get("t")
    return opened if isinstance(opened, int) else 0


def _header(known: journal.Payload) -> bytes:
    """Return a HEADER in place of a lost one, with clocks of now: they still relate its records to the wall clock."""
    clocks = {"wall_ns": time.time_ns(), "t": time.monotonic_ns()}
    return journal.pack_long(journal.HEADER, {"format": journal.FORMAT, **known, **clocks})


def _filled(fill: bytes, size: int) -> bytes:
    """Return `fill` at the size of the lost bytes where possible, so that offsets stay places in the file."""
    left = size - len(fill)
    if 0 <= left <= journal.MAX_PAYLOAD and left % journal.CELL == 0:
        return fill + silence(left) if left else fill
    return fill or silence(journal.CELL)
