"""Check that the stored content belongs to the database.

A database has an id (`server_id`), and the folder of its content holds the same id in `database.json`. The server
refuses to start with a database and content that do not belong together, before it writes, moves or deletes anything.
Packs that a wrong or empty index does not know are a user's files, not garbage.

The first database of a home has `artifacts/`. Another one, which a user chose knowingly (`--force`), gets
`artifacts/databases/<id>/`, so that the first database finds its content again.
"""

from __future__ import annotations

import json
import logging
import os
import time
from contextlib import suppress
from pathlib import Path

from runyard.artifacts.packs import PREFIX
from runyard.core.config.database_change import forbid_new_database, is_new_database_allowed
from runyard.core.config.logins import hide_database_password
from runyard.core.config.paths import artifact_folder
from runyard.core.errors import StoreUnavailable
from runyard.core.machine.files import replace_private
from runyard.core.names import make_uuid
from runyard.store import is_new_database
from runyard.store.base import RunStore

logger = logging.getLogger(__name__)
DATABASE_ID = "server_id"  # the database's value
OWNER_FILE = "database.json"
OTHERS = "databases"
_STREAMS = "streams/"
_COMPANIONS = ("-wal", "-shm")


def check_database(home: Path, place: str | Path) -> None:
    """Call before the database is opened: opening a missing or empty one makes a new one, and removes its journal.

    Raises:
        StoreUnavailable: the home has content of another database, or a SQLite journal whose database is gone.
    """
    journal = Path(f"{place}-wal") if isinstance(place, Path) else None
    has_journal = journal is not None and _size(journal) > 0
    folder = artifact_folder(home)
    if not (has_journal or _has_content(folder)) or not is_new_database(place):
        return
    if not is_new_database_allowed(home):
        raise _refused(place, folder, _why_new(place, has_journal), home)
    if isinstance(place, Path):
        _keep_leftovers(place)


def find_content_folder(home: Path, store: RunStore, place: str | Path) -> Path:
    """Return the folder of the database's content, which has its id from now on. Deletes and moves nothing.

    Raises:
        StoreUnavailable: the content of this home belongs to another database, or to none that is known.
    """
    found = store.find_value(DATABASE_ID)
    main = artifact_folder(home)
    if found is not None:
        own = main / OTHERS / found
        for folder in (own, main):
            if _read_owner(folder) == found:
                return folder
    owner = _read_owner(main)
    folder = main
    if _has_content(main) and not (owner is None and _knows(store, main)):
        if not is_new_database_allowed(home):
            raise _refused(place, main, _why_other(owner, found), home)
        if not _knows(store, main):
            folder = main / OTHERS / database_id(store)
    _write_owner(folder, database_id(store))
    forbid_new_database(home)
    return folder


def database_id(store: RunStore) -> str:
    """Return the id of the database, made on the first call."""
    found = store.find_value(DATABASE_ID)
    if found is None:
        found = make_uuid().replace("-", "")[:12]
        store.set_value(DATABASE_ID, found)
    return found


def find_owner(home: Path) -> str | None:
    """Return the id of the database that the content in `artifacts/` belongs to."""
    return _read_owner(artifact_folder(home))


def _knows(store: RunStore, folder: Path) -> bool:
    """Whether the database refers to any of the content: names of packs are random, so one is proof."""
    packs = set(_names(folder / PREFIX))
    if packs and any(name.removeprefix(PREFIX) in packs for name in store.iter_packs()):
        return True
    return any(store.find_run(run) or store.find_hidden(run) for run in _names(folder / _STREAMS))


def _has_content(folder: Path) -> bool:
    return any(_names(folder / PREFIX)) or any(_names(folder / _STREAMS))


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _read_owner(folder: Path) -> str | None:
    try:
        return str(json.loads((folder / OWNER_FILE).read_bytes())["id"])
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        logger.warning("%s cannot be read (%s); whose content it is shows in its packs.", folder / OWNER_FILE, error)
        return None


def _write_owner(folder: Path, id: str) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_private(folder / OWNER_FILE, json.dumps({"id": id}).encode() + b"\n")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _keep_leftovers(place: Path) -> None:
    """Rename what is left of a SQLite database: a new one in its place would remove the journal."""
    name = f"{place.name}.left-{time.strftime('%Y%m%d-%H%M%S')}"
    for ending in ("", *_COMPANIONS):
        with suppress(FileNotFoundError):
            os.rename(f"{place}{ending}", place.with_name(name + ending))


def _why_new(place: str | Path, has_journal: bool) -> str:
    if not isinstance(place, Path):
        return "The database is empty."
    state = "is empty" if place.exists() else "is missing"
    journal = f", although its journal `{place.name}-wal` is there" if has_journal else ""
    return f"The file `{place}` {state}{journal}."


def _why_other(owner: str | None, found: str | None) -> str:
    this = "The database is new" if found is None else f"The database has the id {found}"
    whose = f"belongs to the database {owner}" if owner else "is in none of its rows"
    return f"{this}; the content {whose}."


def _refused(place: str | Path, folder: Path, why: str, home: Path) -> StoreUnavailable:
    hint = "Bring the database of this home back: a copy of it, or its address"
    hint += " (`runyard server set server.database …`)." if not isinstance(place, Path) else "."
    if isinstance(place, Path):
        saved = sorted(place.parent.glob(f"{place.name}.rescued-*[0-9]"))
        if saved:
            hint = f"The server saved the database when its file was removed: `mv {saved[-1]} {place}` brings it back."
    shown = hide_database_password(str(place))
    return StoreUnavailable(
        f"The database `{shown}` does not belong to the files that are stored in `{folder}`.",
        why=f"{why} Nothing was changed.",
        hint=f"{hint} To start anew with this database and keep those files where they are: "
        f"`RUNYARD_HOME={home} runyard server start --force`.",
    )
