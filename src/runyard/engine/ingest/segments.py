"""How far each journal segment is stored and which names it defined: the store is asked once per segment."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from runyard.store.base import RunStore

MOST_KNOWN = 20_000


class SegmentKey(NamedTuple):
    run_id: str
    attempt: int
    writer: str
    segment: int


@dataclass(frozen=True)
class SegmentState:
    mark: int
    names: dict[int, str]


class SegmentMemory:
    """A cache in front of the store. Whoever stores for a run holds that run's shipping lock."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._known: OrderedDict[SegmentKey, SegmentState] = OrderedDict()

    def get(self, key: SegmentKey) -> SegmentState:
        with self._lock:
            found = self._known.get(key)
            if found is not None:
                self._known.move_to_end(key)
                return found
        found = self._load(key)
        self.put(key, found)
        return found

    def put(self, key: SegmentKey, state: SegmentState) -> None:
        with self._lock:
            self._known[key] = state
            self._known.move_to_end(key)
            if len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)

    def forget(self, keys: Iterable[SegmentKey]) -> None:
        with self._lock:
            for key in keys:
                self._known.pop(key, None)

    def forget_run(self, run_id: str) -> None:
        with self._lock:
            for key in [key for key in self._known if key.run_id == run_id]:
                del self._known[key]

    def _load(self, key: SegmentKey) -> SegmentState:
        mark = self._store.find_mark(*key)
        return SegmentState(0, {}) if mark is None else SegmentState(mark, self._store.list_names(*key))
