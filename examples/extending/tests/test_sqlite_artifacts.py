from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard.artifacts import find_artifact_store
from runyard.artifacts.base import ArtifactStore
from runyard.testing.artifact_store import ArtifactStoreSuite


@pytest.fixture
def artifacts(tmp_path: Path) -> Iterator[ArtifactStore]:
    store = find_artifact_store("sqlite")(tmp_path / "artifacts.db")  # type: ignore[call-arg]  # its own arguments
    yield store
    store.close()  # type: ignore[attr-defined]


class TestSqliteArtifacts(ArtifactStoreSuite):
    """Every test of the suite, with the fixture above."""
