"""Packs of uploads that nothing names yet: no tree, no file, and no other upload that asked for their content.

The uploader may take them back, so that an upload which did not fit leaves no full disk behind.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class _Upload:
    uploader: str
    ids: frozenset[str]
    at_s: float


class Unnamed:
    """Shared between threads; in memory only, so a restart forgets them and the collector finds them later."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._packs: dict[str, _Upload] = {}
        self._pack_of: dict[str, str] = {}

    def note(self, pack: str, uploader: str, ids: Collection[str]) -> None:
        with self._lock:
            self._packs[pack] = _Upload(uploader, frozenset(ids), self._clock())
            self._pack_of.update(dict.fromkeys(ids, pack))

    def forget(self, ids: Iterable[str]) -> None:
        """Forget the packs that hold this content: another caller counts on it from now on."""
        with self._lock:
            if self._pack_of:
                for pack in {self._pack_of[id] for id in ids if id in self._pack_of}:
                    self._drop(pack)

    def take(self, ids: Collection[str], uploader: str) -> dict[str, frozenset[str]]:
        """Return, and forget, the uploader's packs that hold nothing but `ids`."""
        given = set(ids)
        with self._lock:
            packs = {self._pack_of[id] for id in given if id in self._pack_of}
            found = {
                pack: self._packs[pack].ids
                for pack in packs
                if self._packs[pack].uploader == uploader and self._packs[pack].ids <= given
            }
            for pack in found:
                self._drop(pack)
        return found

    def forget_old(self, older_than_s: float) -> int:
        """Forget uploads that came to no end for so long; return how many packs they left."""
        with self._lock:
            before = self._clock() - older_than_s
            old = [pack for pack, upload in self._packs.items() if upload.at_s < before]
            for pack in old:
                self._drop(pack)
        return len(old)

    def _drop(self, pack: str) -> None:
        for id in self._packs.pop(pack).ids:
            self._pack_of.pop(id, None)
