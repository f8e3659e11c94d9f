"""The lines of a log that show why a process ended, with their numbers."""

from __future__ import annotations

import os
from typing import Any, Dict, List, NamedTuple, Optional, Pattern, Sequence

from runyard.core.error_lines import FATAL, TRACEBACK

LAST_LINES = 20
LAST_BYTES = 65536
COUNTED_BYTES = 256 << 20  # of a longer log the lines have no numbers: counting them would delay the end
LONGEST_LINE = 1000
MOST_LINES = 6


class Line(NamedTuple):
    number: Optional[int]  # counted from 1
    text: str


class LogTail:
    """The end of one log file; empty when there is none."""

    def __init__(self, name: str, lines: Sequence[Line]) -> None:
        self.name = name
        self.lines = list(lines)

    def last(self, count: int = LAST_LINES) -> List[str]:
        return [line.text for line in self.lines[-count:]]

    def text(self) -> str:
        return "\n".join(line.text for line in self.lines)

    def matching(self, pattern: Pattern[str]) -> List[Line]:
        return [line for line in self.lines if pattern.search(line.text)]

    def show(self, lines: Sequence[Line]) -> List[Dict[str, Any]]:
        """Return lines as the diagnosis holds them."""
        return [{"file": self.name, "line": line.number, "text": line.text} for line in lines[:MOST_LINES]]


def read_tail(path: str, name: str) -> LogTail:
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
    """Return the place and the last line of the traceback that ends with `message`; of several, the last."""
    first = message.splitlines()[0] if message else ""
    starts = [index for index, line in enumerate(tail.lines) if TRACEBACK in line.text]
    for start in reversed(starts):
        end = _end_of_traceback(tail.lines, start)
        if end is not None and first in tail.lines[end].text:
            frames = [line for line in tail.lines[start + 1 : end] if line.text.strip(" ^~")]
            return [*frames[-2:], tail.lines[end]]
    return []


def find_crash(tail: LogTail) -> List[Line]:
    """Return what faulthandler said of a crash: its first line and the innermost frames of the thread that crashed."""
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
