"""Lines of a log as a terminal would leave them: the last state of a progress bar, no colours in what is searched."""

from __future__ import annotations

import re
from collections.abc import Iterator

from runyard.server.logs.lines import PIECE, Source

# Colours, cursor moves, titles and links. Each alternative ends where the next escape begins, so it is linear.
_ESCAPES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]?|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[ -/]*[0-Z\\-~]?)")
_RETURNS = re.compile(rb"\r\r+")
OVERLAP = 4096  # bytes of a line longer than a piece that are seen twice, for what lies on the border


class Folding:
    """One line that comes in parts: keeps what stands after the last carriage return, at most `most` bytes of it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept = bytearray()
        self._returned = False
        self.is_cut = False

    def feed(self, part: bytes) -> None:
        text = part.rstrip(b"\r")
        if text:
            at = text.rfind(b"\r")
            if at >= 0 or self._returned:
                self._kept.clear()
                self.is_cut = False
            self._add(text[at + 1 :] if len(text) - at - 1 <= self._most else text[at + 1 : at + 2 + self._most])
            self._returned = False
        if len(text) < len(part):
            self._returned = True

    def take(self, longest: int) -> str:
        """Return the line's text, at most `longest` characters, and begin the next one."""
        text = self._kept.decode("utf-8", "replace")
        if len(text) > longest:
            text, self.is_cut = text[:longest], True
        self._kept.clear()
        self._returned = False
        return text

    def _add(self, text: bytes) -> None:
        room = self._most - len(self._kept)
        self.is_cut = self.is_cut or len(text) > room
        self._kept += text[:room]


def plain_text(data: bytes) -> bytes:
    """Return whole lines without escapes and without what carriage returns wrote over. Newlines stay where they are."""
    if b"\x1b" in data:
        data = _ESCAPES.sub(b"", data)
    if b"\r" not in data:
        return data
    parts = _RETURNS.sub(b"\r", data).replace(b"\r\n", b"\n").split(b"\r")
    kept = [
        part[: part.rfind(b"\n") + 1] if after and not after.startswith(b"\n") else part
        for part, after in zip(parts, parts[1:])
    ]
    return b"".join([*kept, parts[-1]])


def iter_whole_lines(source: Source, start: int) -> Iterator[tuple[int, bytes]]:
    """Yield `(offset, bytes)`: pieces that end with a line's end, or at the log's end; `start` begins a line.

    A line longer than two pieces comes in several, of which all but the last hold no newline; they overlap.
    """
    held = b""
    at = start
    while at + len(held) < source.size:
        read_at = at + len(held)
        held += source.read(read_at, min(PIECE, source.size - read_at))
        if at + len(held) >= source.size:
            break
        end = held.rfind(b"\n") + 1
        if end:
            yield at, held[:end]
            at, held = at + end, held[end:]
        elif len(held) >= 2 * PIECE:
            yield at, held
            at, held = at + len(held) - OVERLAP, held[-OVERLAP:]
    if held:
        yield at, held
