"""Trees that change while they are read (A28, A32, R21): nothing from outside, no torn file without a warning."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runyard.core.errors import SnapshotRejected
from runyard.snapshots.folder import Folder
from runyard.snapshots.rules import Rules
from runyard.snapshots.take import take_snapshot
from runyard.snapshots.walk import Walk
from runyard.testing.artifact_store import LocalContent
from tests.snapshots.attackers import EXCHANGE, REPLACE, REWRITE, attack, read_naively, remove_links
from tests.snapshots.folders import all_bytes, stored, write

CANARY = b"canary: these bytes are outside"


def test_a_folder_swapped_for_a_link_mid_walk_is_not_entered(tmp_path: Path, project: Path) -> None:
    """The swap happens exactly between listing the folder and opening it."""
    write(tmp_path, {"outside/secret": CANARY})
    write(project, {"first": "read before the folder", "folder/secret": "inside"})
    seen: list[bytes] = []

    def take(name: str, data: bytes) -> None:
        seen.append(data)
        if len(seen) == 1:
            (project / "folder").rename(tmp_path / "away")
            (project / "folder").symlink_to(tmp_path / "outside")

    fd = os.open(project, os.O_RDONLY)
    walk = Walk(Rules(), take)
    root = walk.run(fd, None)
    os.close(fd)

    assert (project / "folder" / "secret").read_bytes() == CANARY, "the control: by path the canary is read"
    assert seen == [b"read before the folder"]
    assert [(note.kind, note.path) for note in walk.notes] == [("swapped", "folder")]
    assert isinstance(root, Folder) and list(root.files) == ["first"] and root.folders == {}


def test_a_folder_that_vanishes_mid_walk_is_noted(tmp_path: Path, project: Path) -> None:
    write(project, {"first": "x", "folder/a": "inside", "folder/b": "inside"})

    def take(name: str, data: bytes) -> None:
        if data == b"x":
            (project / "folder").rename(tmp_path / "away")

    fd = os.open(project, os.O_RDONLY)
    walk = Walk(Rules(), take)
    walk.run(fd, None)
    os.close(fd)

    assert [(note.kind, note.path) for note in walk.notes] == [("vanished", "folder")]


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_ten_thousand_swaps_lead_nowhere(tmp_path: Path, project: Path, kind: str) -> None:
    write(tmp_path, {"outside/secret": CANARY})
    inside, target = (project / "d", "outside") if kind == "folder" else (project / "d" / "secret", "outside/secret")
    write(project, {"d/secret": "inside", "train.py": "code"})
    (tmp_path / "spare").symlink_to(tmp_path / target)
    content, taken, refused = LocalContent(), 0, 0
    with attack(EXCHANGE, inside, tmp_path / "spare") as attacker:
        while not (taken and refused and taken + refused >= 400):
            try:
                take_snapshot(project, content, home=tmp_path / "home")
                taken += 1
            except SnapshotRejected as error:
                assert "out of the source folder" in error.what
                refused += 1
        assert attacker.stdout is not None and attacker.stdout.readline() == "ten thousand\n"
        while CANARY not in list(read_naively(project)):
            pass  # the control: reading by path meets the canary, sooner or later

    assert CANARY not in all_bytes(content)


def test_git_alternates_and_worktrees_are_no_way_out(tmp_path: Path, project: Path) -> None:
    write(tmp_path, {"outside/objects/aa": CANARY})
    write(project, {"a.py": "code", ".git/objects/info/alternates": str(tmp_path / "outside" / "objects")})
    (project / ".git" / "objects" / "link").symlink_to(tmp_path / "outside" / "objects")
    content = LocalContent()
    snapshot = take_snapshot(project, content, home=tmp_path / "home")

    assert stored(content, snapshot.root) == {"a.py": b"code"}
    assert CANARY not in all_bytes(content) and b"alternates" not in all_bytes(content)


def is_torn(data: bytes) -> bool:
    return data.count(data[:1]) != len(data) if data else False


def torn_files(found: dict[str, object], flagged: str) -> list[str]:
    """Return the files that mix two writes and that no warning names."""
    return [
        name for name, data in found.items() if isinstance(data, bytes) and is_torn(data) and f"`{name}`" not in flagged
    ]


@pytest.mark.long
def test_no_torn_file_goes_without_a_warning(tmp_path: Path, project: Path) -> None:
    """A writer fills whole files with one byte, again and again: a file with two different bytes is torn."""
    write(project, {f"f{index}": bytes(1 << 20) for index in range(2)})
    content, torn_naively, flagged = LocalContent(), 0, 0
    with attack(REWRITE, *sorted(project.iterdir())):
        for _ in range(40):
            torn_naively += any(map(is_torn, read_naively(project)))
            snapshot = take_snapshot(project, content, home=tmp_path / "home")
            warned = " ".join(snapshot.warnings)
            flagged += bool(warned)
            assert torn_files(stored(content, snapshot.root), warned) == []
        while not torn_naively:  # the control: plain reads are torn, sooner or later
            torn_naively += any(map(is_torn, read_naively(project)))

    assert flagged
    assert not take_snapshot(project, content, home=tmp_path / "home").warnings, "with the writer gone all is well"


@pytest.mark.parametrize("count", [200, pytest.param(2000, marks=pytest.mark.soak)])
def test_snapshots_of_a_tree_in_turmoil(tmp_path: Path, project: Path, count: int) -> None:
    """R21: files and folders come, go, change and become links to a canary all the time."""
    write(tmp_path, {"outside/secret": CANARY})
    write(project, {f"d{folder}/f{file}": b"\0" * 5000 for folder in range(3) for file in range(4)})
    content, taken = LocalContent(), 0
    with attack(REPLACE, project, tmp_path / "outside" / "secret"):
        for _ in range(count):
            try:
                snapshot = take_snapshot(project, content, home=tmp_path / "home")
            except SnapshotRejected as error:
                assert "out of the source folder" in error.what
                remove_links(project)
                continue
            taken += 1
            assert torn_files(stored(content, snapshot.root), " ".join(snapshot.warnings)) == []

    assert taken
    assert CANARY not in all_bytes(content)
