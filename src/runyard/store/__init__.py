"""Where runs are remembered: `open_store` gives a RunStore by path or URL."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from runyard.core.plugins import load_plugin

if TYPE_CHECKING:
    from runyard.store.base import RunStore

STORES = {
    "memory": "runyard.store.memory.store:open_memory",
    "postgresql": "runyard.store.postgres:open_postgres",
    "sqlite": "runyard.store.sqlite:open_sqlite",
}


def is_new_database(place: str | Path) -> bool:
    """Whether `open_store` would make a new database there; False for stores of plug-ins, which only opening tells.

    Raises:
        StoreUnavailable: it cannot be reached.
    """
    name, rest = _split(place)
    if name == "sqlite":
        try:
            return Path(rest).stat().st_size == 0
        except FileNotFoundError:
            return True
    if name == "postgresql":
        from runyard.store.postgres import is_empty  # psycopg is an extra

        return is_empty(f"{name}:{rest}")
    return False


def open_store(place: str | Path) -> RunStore:
    """Open `memory:`, `sqlite:<path>`, `postgresql://…`, `<plug-in>:<rest>`, or a path, which is a SQLite file.

    Raises:
        NotFound: no store of that name; the known ones are listed.
        StoreUnavailable: it cannot be opened.
    """
    name, rest = _split(place)
    store: RunStore = load_plugin("store", name, STORES)(rest)
    return store


def _split(place: str | Path) -> tuple[str, str]:
    """Return the store's name and what it opens."""
    name, separator, rest = str(place).partition(":")
    if isinstance(place, Path) or not separator or "/" in name:
        return "sqlite", str(place)
    return name, rest
