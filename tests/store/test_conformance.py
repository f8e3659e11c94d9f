from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard.core.errors import NotFound
from runyard.store import open_store
from runyard.store.base import RunStore
from runyard.store.memory.store import MemoryRunStore
from runyard.store.sqlite import SqliteStore
from runyard.testing.run_store import RunStoreSuite
from tests.store.postgres import new_schema


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.external)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunStore]:
    place = f"{request.param}:{tmp_path / 'runyard.db'}"
    if request.param == "postgres":
        place = new_schema(request.getfixturevalue("postgres"))
    found = open_store(place)
    yield found
    found.close()


class TestRunStore(RunStoreSuite): ...


def test_a_path_is_a_sqlite_file_and_unknown_names_are_answered_with_the_known(tmp_path: Path) -> None:
    store = open_store(tmp_path / "deep" / "runyard.db")
    store.close()

    assert isinstance(store, SqliteStore)
    assert isinstance(open_store("memory:"), MemoryRunStore)
    with pytest.raises(NotFound, match="memory, postgresql, sqlite"):
        open_store("floppy:disk")
