"""Inside a `with` block of a run: what the program prints is written to a file too."""

from __future__ import annotations

import os
import sys
from typing import Any, Optional, TextIO, cast

from runyard.sdk.config.notices import warn


class OutputCopy:
    """Copies stdout and stderr into the file `path` from `start` to `stop`. A full disk costs the copy only."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd: Optional[int] = None
        self._out: Optional[_Both] = None
        self._err: Optional[_Both] = None

    def start(self) -> None:
        """Begin; a run folder that is gone, or a full disk, leaves the streams as they are."""
        try:
            if not os.path.isdir(os.path.dirname(self._path)):
                os.mkdir(os.path.dirname(self._path), 0o700)  # not makedirs: nobody makes a run folder again
            self._fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            warn(f"What this block prints is not kept with its run: {error}")
            return
        self._out, self._err = _Both(sys.stdout, self), _Both(sys.stderr, self)
        sys.stdout, sys.stderr = cast(TextIO, self._out), cast(TextIO, self._err)

    def stop(self) -> None:
        """Give the streams back. Somebody who replaced ours in the meantime keeps theirs."""
        if self._out is not None and cast(Any, sys.stdout) is self._out:
            sys.stdout = self._out.stream
        if self._err is not None and cast(Any, sys.stderr) is self._err:
            sys.stderr = self._err.stream
        if self._fd is not None:
            fd, self._fd = self._fd, None
            os.close(fd)

    def size(self) -> int:
        try:
            return os.stat(self._path).st_size
        except OSError:
            return 0

    def add(self, text: Any) -> None:
        if self._fd is None or not isinstance(text, str):
            return
        try:
            os.write(self._fd, text.encode("utf-8", "backslashreplace"))
        except OSError:
            pass


class _Both:
    """A text stream that writes to two places; all else is the first one's."""

    def __init__(self, stream: Any, copy: OutputCopy) -> None:
        self.stream = stream
        self._copy = copy

    def write(self, text: str) -> Any:
        written = self.stream.write(text)
        self._copy.add(text)
        return written

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)
