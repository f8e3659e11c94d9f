"""Make text safe for a terminal: untrusted names and logs must not move its cursor or retitle its window."""

from __future__ import annotations

import codecs
import re
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from runyard.core.secret_values import LineRedactor

# C0 (less tab and newline), DEL, C1, the characters that turn the direction of text or hide it, and those that stand
# for a byte of a file's name (core/names.py), which no font has.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff\uf001-\uf0ff]"
)
# Progress bars return to the line's start and logs may be coloured: neither reaches beyond its own line.
_HARMLESS_IN_LOGS = re.compile("\x1b\\[[0-9;]{0,32}m|\r")
_CUT_OFF = re.compile("\x1b(?:\\[[0-9;]{0,32})?\\Z")


def plain(value: object) -> str:
    """Return one line of text in which everything a terminal would act on is written out, `\\x1b`."""
    return _UNSAFE.sub(_written_out, str(value)).replace("\n", "\\n").replace("\t", " ")


def plain_block(value: object) -> str:
    """The same for text of several lines."""
    return _UNSAFE.sub(_written_out, str(value).replace("\r\n", "\n"))


def print_message(what: str, *, why: str = "", hint: str = "") -> None:
    lines = [f"error: {plain_block(what)}"]
    if why:
        lines.append(plain_block(why))
    if hint:
        lines += ["", f"hint: {plain_block(hint)}"]
    print("\n".join(lines), file=sys.stderr)


class LogPrinter:
    """Writes a run's log: byte for byte into a pipe or file, made harmless on a terminal.

    With `redact` whole lines are written, without what looks like a secret; `finish` writes the last one.
    """

    def __init__(self, stream: TextIO | None = None, *, redact: bool = False) -> None:
        self._stream = stream or sys.stdout
        self._redactor = _make_redactor() if redact else None
        self._unfinished = b""
        self._is_terminal = self._stream.isatty()
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._rest = ""

    def write(self, data: bytes) -> None:
        if self._redactor is not None:
            *lines, self._unfinished = (self._unfinished + data).split(b"\n")
            data = b"".join(self._hidden(line) + b"\n" for line in lines)
        self._write(data)

    def finish(self) -> None:
        if self._unfinished:
            self._write(self._hidden(self._unfinished))
            self._unfinished = b""

    def _hidden(self, line: bytes) -> bytes:
        assert self._redactor is not None
        return self._redactor.hide(line.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def _write(self, data: bytes) -> None:
        if not self._is_terminal:
            self._stream.flush()
            self._stream.buffer.write(data)
        else:
            self._stream.write(self._harmless(self._decode(data)))
        self._stream.flush()

    def _harmless(self, text: str) -> str:
        text = self._rest + text
        cut = _CUT_OFF.search(text)
        self._rest = text[cut.start() :] if cut else ""
        text = text[: cut.start()] if cut else text
        pieces, end = [], 0
        for match in _HARMLESS_IN_LOGS.finditer(text):
            pieces += [_UNSAFE.sub(_written_out, text[end : match.start()]), match.group()]
            end = match.end()
        return "".join([*pieces, _UNSAFE.sub(_written_out, text[end:])])


def _make_redactor() -> LineRedactor:
    from runyard.core.secret_values import LineRedactor  # its patterns take a while, and few ask for them

    return LineRedactor()


def _written_out(match: re.Match[str]) -> str:
    code = ord(match.group())
    code = code - 0xF000 if 0xF000 < code <= 0xF0FF else code
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
