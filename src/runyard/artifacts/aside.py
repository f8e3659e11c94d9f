"""Packs that seem to be unused are set aside for some days before they are freed.

An index can be wrong: an old copy of the database was restored, or it lost rows. Until its time is over, a pack that
the index turns out to know is put back.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta, timezone

from runyard.artifacts.base import ArtifactStore
from runyard.artifacts.packs import PREFIX

ASIDE = "aside/"
KEEP = timedelta(days=7)
_STAMP = "%Y%m%dT%H%M%SZ"


class Aside:
    """Packs below `aside/<time>/`. Called by one thread at a time."""

    def __init__(self, artifacts: ArtifactStore) -> None:
        self._artifacts = artifacts

    def put(self, packs: Iterable[str], now: datetime) -> int:
        """Set packs aside; return their bytes."""
        folder = ASIDE + now.astimezone(timezone.utc).strftime(_STAMP)
        size = 0
        for pack in packs:
            size += self._artifacts.size(pack)
            self._artifacts.move(pack, f"{folder}/{pack.removeprefix(PREFIX)}")
        return size

    def put_back(self, packs: Iterable[str]) -> list[str]:
        """Put those of `packs` back that lie here; return them."""
        wanted = set(packs)
        found = []
        for key in list(self._artifacts.iter_keys(ASIDE)) if wanted else ():
            pack = PREFIX + key.rpartition("/")[2]
            if pack in wanted:
                self._artifacts.move(key, pack)
                wanted.discard(pack)
                found.append(pack)
        return found

    def size(self) -> int:
        return sum(self._artifacts.size(key) for key in self._artifacts.iter_keys(ASIDE))

    def free(self, now: datetime | None = None) -> int:
        """Delete what has lain here for long enough at `now`, without it everything; return the bytes."""
        freed = 0
        for key in list(self._artifacts.iter_keys(ASIDE)):
            if now is None or _is_over(key, now):
                freed += self._artifacts.size(key)
                self._artifacts.delete(key)
        return freed


def _is_over(key: str, now: datetime) -> bool:
    try:
        since = datetime.strptime(key.split("/")[1], _STAMP).replace(tzinfo=timezone.utc)
    except ValueError:
        return False  # not made here: only a person's word frees it
    return since + KEEP <= now
