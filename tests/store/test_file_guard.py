"""H5: a database file that is removed, replaced or cut under the server ends its acknowledgements at once."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard.core.errors import StoreUnavailable
from runyard.store.sqlite import SqliteStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home/runyard.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(path)
    opened.set_value("acknowledged", "before")
    yield opened
    opened.close()


def another(path: Path) -> Path:
    """Return a database of the same program, larger than an empty one."""
    found = path.parent.parent / "other.db"
    other = SqliteStore(found)
    other.set_value("acknowledged", "elsewhere" * 10_000)
    other.close()
    return found


def remove(path: Path) -> None:
    for name in path.parent.iterdir():
        name.unlink()


def remove_file_alone(path: Path) -> None:
    path.unlink()


def move(path: Path) -> None:
    os.rename(path, path.with_name("moved"))


def move_folder(path: Path) -> None:
    os.rename(path.parent, path.parent.with_name("moved"))


def remove_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


def replace(path: Path) -> None:
    os.rename(another(path), path)


def replace_by_link(path: Path) -> None:
    other = another(path)
    path.unlink()
    path.symlink_to(other)


def restore_a_copy(path: Path) -> None:
    shutil.copy(path, path.with_name("copy"))
    os.rename(path.with_name("copy"), path)


def truncate(path: Path) -> None:
    os.truncate(path, 0)


def overwrite(path: Path) -> None:
    shutil.copyfile(another(path), path)


def remove_journal(path: Path) -> None:
    Path(f"{path}-wal").unlink()


def replace_journal(path: Path) -> None:
    Path(f"{path}-wal").unlink()
    Path(f"{path}-wal").write_bytes(b"")


FAULTS = [
    remove,
    remove_file_alone,
    move,
    move_folder,
    remove_folder,
    replace,
    replace_by_link,
    restore_a_copy,
    truncate,
    overwrite,
    remove_journal,
    replace_journal,
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_nothing_is_acknowledged_after_the_files_are_gone(path: Path, store: SqliteStore, fault) -> None:
    fault(path)
    left = sorted(path.parent.glob("*")) if path.parent.exists() else None

    for _ in range(3):
        with pytest.raises(StoreUnavailable, match=r"runyard\.db") as caught:
            store.set_value("acknowledged", "after")
        assert "Nothing is stored meanwhile" in caught.value.why and caught.value.hint
    with pytest.raises(StoreUnavailable):
        store.find_value("acknowledged")
    trouble = store.find_fault()
    assert trouble is not None and trouble.why == caught.value.why
    now = sorted(one for one in path.parent.glob("*") if "rescued" not in one.name) if path.parent.exists() else None
    assert now == left, "no new database was made"


@pytest.mark.parametrize("fault", [remove, move, replace, restore_a_copy], ids=lambda fault: fault.__name__)
def test_what_was_acknowledged_before_is_saved(path: Path, store: SqliteStore, fault) -> None:
    fault(path)
    trouble = store.find_fault()
    copies = list(path.parent.glob("*.rescued-*"))

    assert trouble is not None and len(copies) == 1 and str(copies[0]) in trouble.hint
    saved = SqliteStore(copies[0])
    assert saved.find_value("acknowledged") == "before"
    saved.close()


def test_a_journal_that_was_removed_costs_nothing_even_when_the_server_is_killed(
    path: Path, store: SqliteStore
) -> None:
    remove_journal(path)
    assert store.find_fault() is not None
    copy = path.with_name("as-a-kill-leaves-it")
    shutil.copy(path, copy)

    with sqlite3.connect(copy) as found:
        assert found.execute("SELECT value FROM server_values WHERE key = 'acknowledged'").fetchone() == ("before",)
    found.close()


def test_a_file_that_comes_back_is_used_again(path: Path, store: SqliteStore) -> None:
    move(path)
    assert store.find_fault() is not None
    os.rename(path.with_name("moved"), path)

    assert store.find_fault() is None
    store.set_value("acknowledged", "after")
    assert store.find_value("acknowledged") == "after"


def test_another_process_may_write_and_checkpoint(path: Path, store: SqliteStore) -> None:
    with sqlite3.connect(path) as other:
        other.execute("INSERT INTO server_values VALUES ('by hand', '1')")
    other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    other.close()

    assert store.find_fault() is None and store.find_value("by hand") == "1"
    store.set_value("acknowledged", "after")


def test_a_linked_database_is_watched_where_it_lies(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    link = tmp_path / "runyard.db"
    link.symlink_to("disk/runyard.db")
    store = SqliteStore(link)
    store.set_value("a", "b")
    assert store.find_fault() is None
    (tmp_path / "disk/runyard.db-wal").unlink()
    with pytest.raises(StoreUnavailable, match="journal"):
        store.set_value("a", "c")
    store.close()
