"""What the server refuses for its content: shown at once, tried again at the run's end, then named for good.

Outages do not belong here: what may succeed later is repeated until it does (`core.errors.is_later`).

A refused record is replaced in its segment by an empty record of the same size, so that the records behind it can be
stored. The record itself is kept in a segment of its own, behind the header and the names that it needs.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from typing import Callable, Dict, Iterator, List, Optional, TypedDict

from runyard.core.errors import RunyardError
from runyard.core.formats import journal
from runyard.supervisor.run_folder import REFUSED, RunFolder
from runyard.supervisor.shipping.segments import Segment

logger = logging.getLogger(__name__)

_SUFFIX = ".refused"
_WRITER = "-again"
_BLOCK = 8 << 20


class Refusal(TypedDict, total=False):
    """An entry of `refused.json`: what the server refused for its content, and why."""

    source: str  # "files", "logs", "journal" or "data"
    what: str
    why: str
    count: int  # how many items of it
    run: str  # of an upload
    upload: journal.Payload  # the FILE record's


def is_failure_of_ours(error: RunyardError) -> bool:
    """Return whether the server itself failed on this one request. It is repeated, but must not hold up others."""
    return error.status == 500


def explain(error: Exception) -> str:
    """Return an error in one line, without its hint for the caller."""
    if isinstance(error, RunyardError):
        return " ".join(f"{error.what} {error.why}".split())
    return f"{getattr(error, 'strerror', None) or error}."


class Refusals:
    """The refusals of a run, kept in `refused.json` for a restarted supervisor and for the user.

    All threads that ship use it; `_lock` guards the entries.
    """

    def __init__(self, folder: RunFolder, *, warn: Callable[[str, str], None]) -> None:
        self._folder = folder
        self._warn = warn
        self._lock = threading.Lock()
        self._entries: Dict[str, Refusal] = folder.read_object(REFUSED)

    def add(
        self,
        source: str,
        what: str,
        why: str,
        *,
        more: int = 0,
        is_final: bool = False,
        run: str = "",
        upload: Optional[journal.Payload] = None,
    ) -> None:
        """Note that `what` was refused, and warn on the first refusal.

        `more`: how many more items of it; `run` and `upload`: what the repetition of an upload needs; `is_final`: there
        is no repetition.
        """
        with self._lock:
            known = self._entries.get(_key(source, what))
            count = more + (known.get("count", 0) if known else 0)
            entry: Refusal = {"source": source, "what": what, "why": why, "count": count}
            if upload is not None:
                entry.update({"run": run, "upload": upload})
            self._entries[_key(source, what)] = entry
            self._save()
        if not known and not is_final:
            self._warn(source, f"Not stored so far: {what}. {why} It is tried again at the end of the run.")

    def settle(self, source: str, what: str) -> None:
        """Remove an entry: `what` is stored now, or replaced by something that is. May be repeated."""
        with self._lock:
            if self._entries.pop(_key(source, what), None) is not None:
                self._save()

    def list(self, source: str) -> List[Refusal]:
        """Return the entries of one source: "files", "logs", "journal" or "data"."""
        with self._lock:
            return [entry for entry in self._entries.values() if entry.get("source") == source]

    def is_empty(self) -> bool:
        """Return whether nothing is refused."""
        with self._lock:
            return not self._entries

    def tell(self) -> None:
        """Name on the run, at its end, what was refused for good and where it is kept."""
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
        except OSError as error:  # a full disk or no folder: the entries are kept in memory
            logger.warning("%s could not be written: %s", REFUSED, error)


def _key(source: str, what: str) -> str:
    return f"{source}: {what}"


def is_again(segment: Segment) -> bool:
    """Return whether the segment holds a record that was refused before."""
    return segment.writer.endswith(_WRITER)


def keep_record(segment: Segment, start: int, end: int) -> None:
    """Copy the record at [start, end) into a segment of its own, which is shipped after `release`. May be repeated."""
    record = segment.read_from(start, end - start)
    writer = f"{segment.writer[:44]}-{segment.number}{_WRITER}"
    path = os.path.join(os.path.dirname(segment.path), f"{writer}.{start // journal.CELL}{_SUFFIX}")
    data = b"".join((*_iter_needed(segment, start), record))
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with open(fd, "wb") as file:
        file.write(data)


def release(folder: str) -> None:
    """Rename the kept records so that they are found as journals. May be repeated."""
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        if name.endswith(_SUFFIX):
            path = os.path.join(folder, name)
            os.rename(path, path[: -len(_SUFFIX)] + ".journal")


def _iter_needed(segment: Segment, start: int) -> Iterator[bytes]:
    """Yield the raw HEADER and NAME records before `start`."""
    at = 0
    while at < start:
        data = segment.read_from(at, min(_BLOCK, start - at))
        end = at
        for part in journal.iter_parts(data, base=at):
            end = part.end
            if isinstance(part, journal.LongRecord) and part.kind in (journal.HEADER, journal.NAME):
                yield data[part.offset - at : part.end - at]
        if end == at:
            return
        at = end
