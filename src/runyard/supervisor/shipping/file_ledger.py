"""Which files of the work folder the server has stored, so that a restarted supervisor need not read them again."""

from __future__ import annotations

import json
import logging
import os
from typing import Dict, Iterator, Mapping, Tuple

from runyard.supervisor.run_folder import RunFolder
from runyard.supervisor.shipping.uploads import Signature

logger = logging.getLogger(__name__)

NAME = "files.jsonl"
BEFORE = "files.json"  # one object, written by supervisors of 0.2 and earlier
SPARE_LINES = 1000


class FileLedger:
    """The stored files of one run folder, one line for each: name, size, mtime, inode.

    Lines are appended. The file is rewritten only when most lines are outdated, so a hundred thousand files cost about
    as many lines. One thread at a time uses it. A lost or torn ledger only costs a second upload of the same content.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._stored: Dict[str, Signature] = {}
        self._lines = 0
        self._is_open = False

    def load(self) -> Dict[str, Signature]:
        """Return the signature that was stored last, by file name."""
        for name, values in self._folder.read_object(BEFORE).items():
            self._stored[name] = Signature(*values)
        for name, found in self._iter_lines():
            self._stored[name] = found
            self._lines += 1
        return dict(self._stored)

    def add(self, stored: Mapping[str, Signature]) -> None:
        """Note files as stored. A write error is ignored."""
        if not stored:
            return
        self._stored.update(stored)
        self._lines += len(stored)
        try:
            if self._lines > 2 * len(self._stored) + SPARE_LINES:
                self._folder.write_bytes(NAME, _lines_of(self._stored))
                self._lines = len(self._stored)
            else:
                self._append(_lines_of(stored))
        except OSError as error:
            logger.debug("%s: %s", NAME, error)

    def _append(self, data: bytes) -> None:
        # A line that was cut off by a kill must not swallow the next one.
        data = data if self._is_open else b"\n" + data
        fd = os.open(
            self._folder.at(NAME), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
        try:
            self._is_open = os.write(fd, data) == len(data)
        finally:
            os.close(fd)

    def _iter_lines(self) -> Iterator[Tuple[str, Signature]]:
        for line in self._folder.read_bytes(NAME).splitlines():
            try:
                name, *values = json.loads(line)
                yield str(name), Signature(*map(int, values))
            except (TypeError, ValueError):
                continue


def _lines_of(stored: Mapping[str, Signature]) -> bytes:
    return "".join(f"{json.dumps([name, *found])}\n" for name, found in stored.items()).encode()
