"""One line per request, at most a hundred a second; what is left out is counted."""

from __future__ import annotations

import os
import time
from pathlib import Path

_PER_SECOND = 100
_MOST_BYTES = 32 << 20


class AccessLog:
    """The log of one service. Lines are kept until `flush`, which the gateway calls once a second."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines: list[str] = []
        self._second = 0
        self._count = 0
        self._left_out = 0
        self._stamp = ""

    def add(self, method: str, target: str, status: int, seconds: float, size: int, request_id: str) -> None:
        now = int(time.time())
        if now != self._second:
            self._turn(now)
        self._count += 1
        if self._count > _PER_SECOND:
            self._left_out += 1
            return
        self._lines.append(f"{self._stamp} {method} {target} {status} {seconds * 1e3:.3f}ms {size} {request_id}\n")

    def flush(self) -> None:
        """Append what was kept; at 32 MiB the file becomes `.1`."""
        if self._left_out and int(time.time()) != self._second:
            self._turn(int(time.time()))
        if not self._lines:
            return
        text, self._lines = "".join(self._lines), []
        try:
            with open(self._path, "a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
                is_full = file.tell() > _MOST_BYTES
            if is_full:
                os.replace(self._path, f"{self._path}.1")
        except OSError:
            pass  # a full disk takes no request down

    def forget(self) -> None:
        """Remove the log: its service is gone."""
        self._lines, self._left_out = [], 0
        for path in (self._path, Path(f"{self._path}.1")):
            path.unlink(missing_ok=True)

    def _turn(self, now: int) -> None:
        if self._left_out:
            self._lines.append(f"{self._stamp} … {self._left_out} more requests in this second\n")
        self._second, self._count, self._left_out = now, 0, 0
        self._stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
