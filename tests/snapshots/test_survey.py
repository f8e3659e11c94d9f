"""A look at a folder says what a snapshot of it would hold, and reads no file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runyard.core.errors import SnapshotRejected
from runyard.snapshots.take import Snapshot, survey
from runyard.testing.artifact_store import LocalContent
from tests.snapshots.folders import write
from tests.snapshots.test_ignore import Take


def test_it_finds_what_a_snapshot_would_hold(tmp_path: Path, project: Path, take: Take, content: LocalContent) -> None:
    write(project, {".amlignore": "skipped/\n", "train.py": "code", "skipped/x": "x", ".env": "secret"})
    write(project, {f"data/{size}.bin": bytes(size) for size in (1000, 3, 20, 500, 40_000, 0)})
    (project / "link").symlink_to("train.py")
    os.mkfifo(project / "pipe")
    found = survey(project, home=tmp_path / "home")
    snapshot: Snapshot = take()

    assert (found.files, found.size_bytes, found.notes) == (snapshot.files, snapshot.size_bytes, snapshot.notes)
    assert found.biggest == [
        ("data/40000.bin", 40_000),
        ("data/1000.bin", 1000),
        ("data/500.bin", 500),
        ("data/20.bin", 20),
        (".amlignore", 9),
    ]


def test_it_reads_no_file(tmp_path: Path, project: Path) -> None:
    """A sparse file of a terabyte would take hours."""
    with open(project / "huge.bin", "wb") as file:
        file.truncate(1 << 40)
    found = survey(project, home=tmp_path / "home")

    assert (found.files, found.size_bytes) == (1, 1 << 40)
    assert not (tmp_path / "home").exists()


def test_it_refuses_what_a_snapshot_would_refuse(tmp_path: Path, project: Path) -> None:
    (project / "out").symlink_to("../elsewhere")

    with pytest.raises(SnapshotRejected, match="leads out"):
        survey(project, home=tmp_path / "home")
    with pytest.raises(SnapshotRejected, match="cannot be opened"):
        survey(tmp_path / "none", home=tmp_path / "home")
