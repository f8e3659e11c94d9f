"""A look at a folder says what a snapshot of it would hold, and reads no file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runyard.core.errors import SnapshotRejected
from runyard.core.machine.progress import Progress
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


def test_a_large_folder_is_warned_of_before_it_is_sent(project: Path, take: Take, content: LocalContent) -> None:
    """The warning used to come after minutes of sending what nobody wanted to send."""
    write(project, {"train.py": "code", "data/large.bin": os.urandom(3 << 20)})
    with open(project / "data/huge.bin", "wb") as file:
        file.truncate(400 << 20)
    said: list[tuple[str, int]] = []
    progress = Progress("storing the source folder")
    snapshot = take(say=lambda line: said.append((line, len(content.index.rows))), progress=progress)
    again: list[str] = []
    take(say=again.append)

    assert [line for line, _ in said] == snapshot.warnings
    assert len(again) == 1 and "0 new or changed" in again[0]
    assert said[0][0].startswith(
        "The snapshot is large: 422.6 MB in 3 files, 3 new or changed. Biggest: `data/` 422.6 MB"
    )
    assert said[0][1] <= 1  # of the chunks: train.py may have been on its way
    assert progress.total == snapshot.size_bytes == progress.done


def test_it_refuses_what_a_snapshot_would_refuse(tmp_path: Path, project: Path) -> None:
    (project / "out").symlink_to("../elsewhere")

    with pytest.raises(SnapshotRejected, match="leads out"):
        survey(project, home=tmp_path / "home")
    with pytest.raises(SnapshotRejected, match="cannot be opened"):
        survey(tmp_path / "none", home=tmp_path / "home")
