"""Whether the files of an open SQLite database are still those that were opened.

SQLite goes on with files that were removed or replaced, and what it writes then is lost with the process. This looks at
names, sizes and times only: to open and close the file here would drop the locks that SQLite holds on it (POSIX).
"""

from __future__ import annotations

import os
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

_HEADER_BYTES = 100
_COUNTER_AT, _ID_AT = 24, 60  # of SQLite's header: its change counter, and `user_version`, where our id is
_READ_PATIENCE_S = 10


@dataclass(frozen=True)
class Fault:
    what: str  # completes "The file `…` "
    is_final: bool = True  # otherwise all is well as soon as the file is back
    keeps_content: bool = False  # the open file still has everything


class FileGuard:
    """Used under a lock of its database."""

    def __init__(self, path: Path, id: int, *, counter: int) -> None:
        """`counter` is what `read_counter` said before the database was opened."""
        self._path = str(path)
        self._journal = os.path.realpath(path) + "-wal"
        self._id = id
        found = os.stat(path)
        self._file = _identity(found)
        self._size, self._written_ns = found.st_size, found.st_mtime_ns
        self._counter = counter
        self._journal_file: tuple[int, int] | None = None
        self._final: Fault | None = None

    def note_journal(self) -> None:
        """Call when a connection that stays open has the journal open: from then on nobody else may remove it."""
        try:
            self._journal_file = _identity(os.stat(self._journal))
        except OSError:
            self._journal_file = None

    def forget_journal(self) -> None:
        """Call before that connection is closed: the last one to close removes the journal."""
        self._journal_file = None

    def note_commit(self) -> None:
        """Call after a commit: it may have written to the file."""
        try:
            found = os.stat(self._path)
        except OSError:
            return
        self._size, self._written_ns = max(self._size, found.st_size), found.st_mtime_ns

    def look(self, *, after_commit: bool = False) -> Fault | None:
        """Return what happened to the files since; two calls of stat where all is well."""
        if self._final is None:
            found = self._look(after_commit)
            if found is None or not found.is_final:
                return found
            self._final = found
        return self._final

    def _look(self, after_commit: bool) -> Fault | None:
        try:
            found = os.stat(self._path)
        except OSError as error:
            return Fault(f"is gone ({error.strerror})", is_final=False, keeps_content=True)
        if _identity(found) != self._file:
            return Fault("is another file than the one that the server opened", is_final=False, keeps_content=True)
        if found.st_size < self._size:
            return Fault(f"was cut from {self._size} to {found.st_size} bytes")
        if found.st_mtime_ns != self._written_ns and not after_commit:
            fault = self._look_inside()
            if fault is not None:
                return fault
            self._written_ns = found.st_mtime_ns
        if self._journal_file is not None and _identity_of(self._journal) != self._journal_file:
            return Fault("lost its journal (`-wal`), which was removed or replaced", keeps_content=True)
        return None

    def _look_inside(self) -> Fault | None:
        """Somebody else wrote to the file. Another SQLite process may; another database must not be copied into it."""
        header = _read_elsewhere(self._path)
        if len(header) < _HEADER_BYTES:
            return None  # no answer is no proof
        counter, id = _parse_header(header)
        if id != self._id or (counter - self._counter) % (1 << 32) >= 1 << 31:
            return Fault("was overwritten by another program")
        return None


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _identity_of(path: str) -> tuple[int, int] | None:
    try:
        return _identity(os.stat(path))
    except OSError:
        return None


def read_counter(path: Path) -> int:
    """Return the change counter in a database file's header, 0 without one. Only before this process opens it."""
    try:
        with open(path, "rb") as file:
            return _parse_header(file.read(_HEADER_BYTES))[0]
    except OSError:
        return 0


def _read_elsewhere(path: str) -> bytes:
    """Return the header, read by another process, as is said above."""
    command = ["head", "-c", str(_HEADER_BYTES), "--", path]
    try:
        return subprocess.run(command, capture_output=True, timeout=_READ_PATIENCE_S, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return b""


def _parse_header(header: bytes) -> tuple[int, int]:
    """Return the change counter and our id."""
    if len(header) < _HEADER_BYTES:
        return 0, 0
    return struct.unpack_from(">I", header, _COUNTER_AT)[0], struct.unpack_from(">I", header, _ID_AT)[0]
