"""What the server refused for its content: told when it happens, tried once more at the run's end, then counted.

Outages are no part of this: whatever may succeed later is repeated until it does (`core.errors.is_later`).
"""

from __future__ import annotations

import logging
import socket
import threading
from typing import Any, Callable, Dict, List

from runyard.core.errors import RunyardError
from runyard.supervisor.run_folder import REFUSED, RunFolder

logger = logging.getLogger(__name__)

Entry = Dict[str, Any]


def is_failure_of_ours(error: RunyardError) -> bool:
    """Whether the server itself failed on this one request. It is repeated for ever, but must not hold up others."""
    return error.status == 500


def explain(error: Exception) -> str:
    """Return an error in one line, without the hint to whoever makes the call."""
    if isinstance(error, RunyardError):
        return " ".join(f"{error.what} {error.why}".split())
    return f"{getattr(error, 'strerror', None) or error}."


class Refusals:
    """Kept in `refused.json`: a restarted supervisor goes on with it, and a person finds it in the kept run folder.

    Shared by the threads that ship.
    """

    def __init__(self, folder: RunFolder, *, warn: Callable[[str, str], None]) -> None:
        self._folder = folder
        self._warn = warn
        self._lock = threading.Lock()
        self._entries: Dict[str, Entry] = folder.read_object(REFUSED)

    def add(self, source: str, what: str, why: str, *, more: int = 0, is_final: bool = False, **about: Any) -> None:
        """Note that `what` was refused. `more`: how many more of it; `about`: what is needed to try it again.

        `is_final`: nobody tries it again.
        """
        with self._lock:
            known = self._entries.get(_key(source, what), {})
            count = int(known.get("count", 0)) + more
            self._entries[_key(source, what)] = {
                "source": source, "what": what, "why": why, "count": count, **about,
            }  # fmt: skip
            self._save()
        if not known and not is_final:
            self._warn(source, f"Not stored so far: {what}. {why} It is tried again at the end of the run.")

    def settle(self, source: str, what: str) -> None:
        """It is stored now, or replaced by something that is."""
        with self._lock:
            if self._entries.pop(_key(source, what), None) is not None:
                self._save()

    def list(self, source: str) -> List[Entry]:
        with self._lock:
            return [entry for entry in self._entries.values() if entry.get("source") == source]

    def is_empty(self) -> bool:
        with self._lock:
            return not self._entries

    def tell(self) -> None:
        """Name in the run what was refused for good, and where it is."""
        with self._lock:
            entries = list(self._entries.values())
        for entry in entries:
            count = f"{entry['count']} " if entry.get("count") else ""
            self._warn(str(entry["source"]), f"Could not be stored: {count}{entry['what']}. {entry['why']}")
        if entries:
            place = f"`{self._folder.path}` on {socket.gethostname()}"
            self._warn("run folder", f"What could not be stored is kept in {place}; remove it when you have it.")

    def _save(self) -> None:
        try:
            self._folder.write(REFUSED, self._entries)
        except OSError as error:  # a full disk, or no folder: it is known as long as this process lives
            logger.warning("%s could not be written: %s", REFUSED, error)


def _key(source: str, what: str) -> str:
    return f"{source}: {what}"
