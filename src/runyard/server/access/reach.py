"""What content a run's token reaches: its own snapshot and its own files, nothing by a guessed hash."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence

from runyard.artifacts.content import ContentStore
from runyard.core.errors import NotFound
from runyard.server.access.permissions import Principal, RunPrincipal
from runyard.store.base import RunStore

MAX_KNOWN_IDS = 500_000


class Reach:
    """Remembers the ids of the snapshots it was last asked about: a restore asks many times."""

    def __init__(self, store: RunStore, content: ContentStore) -> None:
        self._store = store
        self._content = content
        self._lock = threading.Lock()
        self._by_root: OrderedDict[str, frozenset[str]] = OrderedDict()

    def check(self, principal: Principal, ids: Sequence[str]) -> None:
        """Raise NotFound unless `principal` may read all of `ids` (chunks or trees)."""
        if not isinstance(principal, RunPrincipal):
            return
        left = set(ids) - self._snapshot_ids(principal)
        if left:
            left.difference_update(chunk for file in self._store.list_files(principal.run_id) for chunk in file.chunks)
        if left:
            raise NotFound(f"There is no stored content with the id {min(left)[:64]} in reach of this run.")

    def check_root(self, principal: Principal, root: str) -> None:
        """Raise NotFound unless `principal` may read the snapshot with that root tree."""
        if isinstance(principal, RunPrincipal) and root != self._root(principal):
            self.check(principal, [root])

    def _snapshot_ids(self, principal: RunPrincipal) -> frozenset[str]:
        root = self._root(principal)
        if root is None:
            return frozenset()
        with self._lock:
            known = self._by_root.get(root)
            if known is not None:
                self._by_root.move_to_end(root)
                return known
        known = frozenset(self._content.iter_content_ids(root))
        with self._lock:
            self._by_root[root] = known
            while len(self._by_root) > 1 and sum(map(len, self._by_root.values())) > MAX_KNOWN_IDS:
                self._by_root.popitem(last=False)
        return known

    def _root(self, principal: RunPrincipal) -> str | None:
        run = self._store.find_run(principal.run_id)
        return run.snapshot_root if run is not None else None
