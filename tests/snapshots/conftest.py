from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from runyard.snapshots.take import Snapshot, take_snapshot
from runyard.testing.artifact_store import LocalContent
from tests.snapshots.folders import later


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def content() -> LocalContent:
    return LocalContent()


@pytest.fixture
def take(tmp_path: Path, project: Path, content: LocalContent) -> Callable[..., Snapshot]:
    """Take a snapshot of `project` on a settled clock, with the stat cache below a home of this test."""

    def call(**options: object) -> Snapshot:
        arguments = {"home": tmp_path / "home", "clock": later, **options}
        return take_snapshot(project, content, **arguments)  # type: ignore[arg-type]

    return call
