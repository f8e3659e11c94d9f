from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard.artifacts import KNOWN, find_artifact_store
from runyard.artifacts.base import ArtifactStore
from runyard.artifacts.filesystem import FilesystemStore
from runyard.artifacts.memory import MemoryStore
from runyard.core.errors import NotFound
from runyard.testing.artifact_store import ArtifactStoreSuite


@pytest.fixture(params=["memory", "filesystem"])
def artifacts(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ArtifactStore]:
    if request.param == "memory":
        yield MemoryStore()
        return
    store = FilesystemStore(tmp_path / "artifacts")
    yield store
    store.close()


class TestArtifactStore(ArtifactStoreSuite): ...


def test_each_known_name_loads_and_an_unknown_one_answers_with_them() -> None:
    assert {name: find_artifact_store(name).__name__ for name in KNOWN} == {
        "filesystem": "FilesystemStore",
        "memory": "MemoryStore",
    }
    with pytest.raises(NotFound, match="filesystem, memory"):
        find_artifact_store("floppy")
