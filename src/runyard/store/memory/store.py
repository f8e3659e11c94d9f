"""RunStore in memory: for tests, and to read what a store must do. Nothing survives the process."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone

from runyard.store.base import RunStore
from runyard.store.memory.assets import MemoryAssets, MemoryUsers
from runyard.store.memory.files import MemoryFiles
from runyard.store.memory.query import MemoryQueries
from runyard.store.memory.runs import MemoryRunRecords
from runyard.store.memory.series import MemoryMetricSeries
from runyard.store.memory.tables import MemoryTables
from runyard.store.memory.workspaces import MemoryWorkspaces


def open_memory(_place: str = "") -> MemoryRunStore:
    """Return a new, empty store. Called by `open_store`."""
    return MemoryRunStore()


class MemoryRunStore(
    MemoryWorkspaces,
    MemoryRunRecords,
    MemoryMetricSeries,
    MemoryFiles,
    MemoryAssets,
    MemoryUsers,
    MemoryQueries,
    RunStore,
):
    """The parts over one set of tables."""

    def __init__(self, *, clock: Callable[[], datetime] = lambda: datetime.now(timezone.utc)) -> None:
        super().__init__(MemoryTables(clock))

    def close(self) -> None:
        pass

    def find_value(self, key: str) -> str | None:
        return self._tables.values.get(key)

    def set_value(self, key: str, value: str) -> None:
        self._tables.values[key] = value
