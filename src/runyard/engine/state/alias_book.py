"""The alias file of this server, read again when it changes."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

from runyard.core.aliases import FILE, MOST_BYTES, read_aliases
from runyard.core.errors import InvalidArgument

logger = logging.getLogger(__name__)


class AliasBook:
    """Shared between threads. A file that cannot be read stands for no alias, and says why to who asks for one."""

    def __init__(self, home: Path) -> None:
        self._path = home / FILE
        self._lock = threading.Lock()
        self._seen: object = None
        self._aliases: dict[str, str] = {}
        self._fault: InvalidArgument | None = None

    def get(self) -> dict[str, str]:
        """Return name → target.

        Raises:
            InvalidArgument: the file is none; its line is named.
        """
        self._look()
        if self._fault is not None:
            raise self._fault
        return dict(self._aliases)

    def find(self, name: str) -> str | None:
        """Return what a name stands for; None when it stands for itself, or nobody can tell."""
        self._look()
        return self._aliases.get(name)

    def _look(self) -> None:
        with self._lock:
            seen = self._signature()
            if seen != self._seen:
                self._seen = seen
                self._read()

    def _signature(self) -> object:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _read(self) -> None:
        self._aliases, self._fault = {}, None
        if self._seen is None:
            return
        try:
            with open(self._path, encoding="utf-8") as file:
                self._aliases = read_aliases(file.read(MOST_BYTES), path=str(self._path))
        except InvalidArgument as error:
            self._fault = error
        except (OSError, ValueError) as error:
            self._fault = InvalidArgument(f"The alias file {self._path} cannot be read.", why=f"{error}.")
        if self._fault is not None:
            logger.warning("%s", self._fault)
