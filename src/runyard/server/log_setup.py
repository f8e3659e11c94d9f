"""The server's log: one file that is rotated when it is large, and that also takes everything the process prints."""

from __future__ import annotations

import logging
import os
from logging.handlers import RotatingFileHandler
from pathlib import Path

MAX_BYTES = 8 << 20
_KEPT = 3
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def set_up_logs(path: Path | None, level: str) -> None:
    """Log to `path`, or to standard error when it is None (a server in the foreground)."""
    handler = _FollowedFile(path) if path is not None else logging.StreamHandler()
    handler.setFormatter(logging.Formatter(_FORMAT))
    root = logging.getLogger()
    root.handlers = [handler]
    known = logging.getLevelName(level.upper())
    root.setLevel(known if isinstance(known, int) else logging.INFO)
    # Its lines say nothing that ours do not.
    logging.getLogger("uvicorn").setLevel("ERROR")


class _FollowedFile(RotatingFileHandler):
    """Standard output and error are this file as well, and follow it to its next one."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, maxBytes=MAX_BYTES, backupCount=_KEPT, encoding="utf-8")
        self._redirect()

    def doRollover(self) -> None:
        super().doRollover()
        self._redirect()

    def _redirect(self) -> None:
        if self.stream is not None:
            os.dup2(self.stream.fileno(), 1)
            os.dup2(self.stream.fileno(), 2)
