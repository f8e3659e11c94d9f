"""Records that the server refused, kept raw in journals of their own until they are tried again.

A skipped record's place in its segment is taken by one that says nothing, so that the records behind it can be stored.
The record itself goes into a segment of its own, behind the header and the names that it needs.
"""

from __future__ import annotations

import os
from typing import Iterator

from runyard.core.formats import journal
from runyard.supervisor.shipping.segments import Segment

_SUFFIX = ".refused"
_WRITER = "-again"
_BLOCK = 8 << 20


def is_again(segment: Segment) -> bool:
    """Whether the segment holds a record that was refused before."""
    return segment.writer.endswith(_WRITER)


def keep_record(segment: Segment, start: int, end: int) -> None:
    """Write the record at [start, end) into a segment of its own, which is shipped after `release`. Repeatable."""
    record = segment.read_from(start, end - start)
    writer = f"{segment.writer[:44]}-{segment.number}{_WRITER}"
    path = os.path.join(os.path.dirname(segment.path), f"{writer}.{start // journal.CELL}{_SUFFIX}")
    data = b"".join((*_iter_needed(segment, start), record))
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with open(fd, "wb") as file:
        file.write(data)


def release(folder: str) -> None:
    """Let the kept records be found as journals."""
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        if name.endswith(_SUFFIX):
            path = os.path.join(folder, name)
            os.rename(path, path[: -len(_SUFFIX)] + ".journal")


def _iter_needed(segment: Segment, start: int) -> Iterator[bytes]:
    """Yield the raw HEADER and NAME records before `start`."""
    at = 0
    while at < start:
        data = segment.read_from(at, min(_BLOCK, start - at))
        end = at
        for part in journal.iter_parts(data, base=at):
            end = part.end
            if isinstance(part, journal.LongRecord) and part.kind in (journal.HEADER, journal.NAME):
                yield data[part.offset - at : part.end - at]
        if end == at:
            return
        at = end
