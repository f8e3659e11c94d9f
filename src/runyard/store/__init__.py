"""Where runs are remembered: `open_store` gives a RunStore by path or URL."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from runyard.core.plugins import load_plugin

if TYPE_CHECKING:
    from runyard.store.base import RunStore

STORES = {
    "memory": "runyard.store.memory:open_memory",
    "postgresql": "runyard.store.postgres:open_postgres",
    "sqlite": "runyard.store.sqlite:open_sqlite",
}


def open_store(place: str | Path) -> RunStore:
    """Open `memory:`, `sqlite:<path>`, `postgresql://…`, `<plug-in>:<rest>`, or a path, which is a SQLite file.

    Raises:
        NotFound: no store of that name; the known ones are listed.
        StoreUnavailable: it cannot be opened.
    """
    name, separator, rest = str(place).partition(":")
    if isinstance(place, Path) or not separator or "/" in name:
        name, rest = "sqlite", str(place)
    store: RunStore = load_plugin("store", name, STORES)(rest)
    return store
