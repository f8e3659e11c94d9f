"""Reads the end of a log, and finds the lines that show why a process ended."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, List, NamedTuple, Optional, Pattern, Sequence

from runyard.core.formats.error_lines import FATAL, TRACEBACK

if TYPE_CHECKING:
    from runyard.core.formats.documents import EvidenceLine

LAST_LINES = 20
LAST_BYTES = 65536
COUNTED_BYTES = 256 << 20  # lines of a longer log get no numbers, because counting would delay the end
LONGEST_LINE = 1000
MOST_LINES = 6


class Line(NamedTuple):
    """One line of a log; `number` is None in very long logs."""

    number: Optional[int]  # counted from 1
    text: str


class LogTail:
    """The end of one log; empty when there is no log."""

    def __init__(self, name: str, lines: Sequence[Line]) -> None:
        self.name = name
        self.lines = list(lines)

    def last(self, count: int = LAST_LINES) -> List[str]:
        """Return the texts of the last lines."""
        return [line.text for line in self.lines[-count:]]

    def text(self) -> str:
        """Return all lines as one text."""
        return "\n".join(line.text for line in self.lines)

    def matching(self, pattern: Pattern[str]) -> List[Line]:
        """Return the lines that match a pattern."""
        return [line for line in self.lines if pattern.search(line.text)]

    def show(self, lines: Sequence[Line]) -> List[EvidenceLine]:
        """Return lines in the form that a diagnosis has, six at most."""
        return [{"file": self.name, "line": line.number, "text": line.text} for line in lines[:MOST_LINES]]


def read_tail(path: str, name: str) -> LogTail:
    """Return the end of the log at `path`, named `name`; empty when it cannot be read. Links are not followed."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return LogTail(name, [])
    try:
        size = os.fstat(fd).st_size
        start = max(0, size - LAST_BYTES)
        data = os.pread(fd, LAST_BYTES, start)
        before = _count_lines(fd, start)
    except OSError:
        return LogTail(name, [])
    finally:
        os.close(fd)
    texts = data.decode("utf-8", "replace").split("\n")
    if texts and not texts[-1]:
        texts.pop()
    numbers = [None if before is None else before + 1 + index for index in range(len(texts))]
    return LogTail(name, [Line(number, text.rstrip("\r")[:LONGEST_LINE]) for number, text in zip(numbers, texts)])


def find_traceback(tail: LogTail, message: str) -> List[Line]:
    """Return the last frame and the last line of the traceback that ends with `message`; the last of several."""
    first = message.splitlines()[0] if message else ""
    starts = [index for index, line in enumerate(tail.lines) if TRACEBACK in line.text]
    for start in reversed(starts):
        end = _end_of_traceback(tail.lines, start)
        if end is not None and first in tail.lines[end].text:
            frames = [line for line in tail.lines[start + 1 : end] if line.text.strip(" ^~")]
            return [*frames[-2:], tail.lines[end]]
    return []


def find_crash(tail: LogTail) -> List[Line]:
    """Return faulthandler's report of a crash: its first line and the innermost frames of the crashed thread."""
    for index, line in enumerate(tail.lines):
        if FATAL.search(line.text):
            frames = [one for one in tail.lines[index + 1 : index + 12] if one.text.strip()]
            return [line, *frames[: MOST_LINES - 1]]
    return []


def _end_of_traceback(lines: Sequence[Line], start: int) -> Optional[int]:
    """Return the index of the line `Type: message` that ends the traceback."""
    for index in range(start + 1, len(lines)):
        text = lines[index].text
        if text and not text.startswith((" ", "\t")):
            return index
    return None


def _count_lines(fd: int, end: int) -> Optional[int]:
    if end > COUNTED_BYTES:
        return None
    found = position = 0
    while position < end:
        part = os.pread(fd, min(1 << 20, end - position), position)
        if not part:
            break
        found += part.count(b"\n")
        position += len(part)
    return found
