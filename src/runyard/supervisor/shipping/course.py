"""Where the bytes of a shipped segment stand in its file: at the same place, except behind damage."""

from __future__ import annotations

import json
import os
from typing import Iterator, List, NamedTuple, Tuple

from runyard.core.machine.whole_files import write_whole


class Jump(NamedTuple):
    """From `offset` of the segment on the server gets `fill`, and then the file from `position` on."""

    offset: int
    fill: bytes
    position: int

    @property
    def end(self) -> int:
        return self.offset + len(self.fill)


class Course:
    """The jumps of one segment, in order. Kept in `<segment>.mended`, because a restart must read the same bytes."""

    def __init__(self) -> None:
        self._jumps: List[Jump] = []

    @classmethod
    def read(cls, segment_path: str) -> Course:
        course = cls()
        try:
            with open(os.open(_beside(segment_path), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW), "rb") as file:
                course._jumps = [Jump(int(o), bytes.fromhex(fill), int(at)) for o, fill, at in json.load(file)]
        except (OSError, ValueError, TypeError):
            course._jumps = []
        return course

    def write(self, segment_path: str) -> None:
        """Raises OSError."""
        jumps = [(jump.offset, jump.fill.hex(), jump.position) for jump in self._jumps]
        write_whole(_beside(segment_path), json.dumps(jumps).encode())

    def add(self, jump: Jump) -> None:
        self._jumps = [one for one in self._jumps if one.offset < jump.offset] + [jump]

    def position_of(self, offset: int) -> int:
        """Return where in the file the byte at `offset` of the segment stands, or what follows a fill."""
        for jump in reversed(self._jumps):
            if jump.offset <= offset:
                return jump.position + max(0, offset - jump.end)
        return offset

    def offset_of(self, position: int) -> int:
        """Return the segment's offset of a place in the file that lies behind all jumps so far."""
        if not self._jumps:
            return position
        last = self._jumps[-1]
        return last.end + position - last.position if position >= last.position else last.offset

    def stretches(self, offset: int, limit: int) -> Iterator[Tuple[bytes, int, int]]:
        """Yield (fill, position, size) of what makes up the `limit` bytes from `offset` on."""
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
