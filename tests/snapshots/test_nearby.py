"""A work folder comes from the source folder itself where that is unchanged, and never mixes with it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from runyard.snapshots.nearby import Nearby, find_nearby
from runyard.snapshots.restore import restore
from runyard.snapshots.take import Snapshot, take_snapshot
from runyard.testing.artifact_store import LocalContent
from tests import debian
from tests.snapshots.folders import later, write
from tests.snapshots.test_ignore import Take

FILES = {"train.py": "code", "data/a.bin": os.urandom(5 << 20), "data/deep/b.bin": os.urandom(1000), "empty": None}
PACKAGES = {"xfs": "xfsprogs", "btrfs": "btrfs-progs"}


class Watched(LocalContent):
    """Notes what is fetched."""

    def __init__(self, content: LocalContent) -> None:
        self.__dict__.update(content.__dict__)
        self.fetched: list[str] = []

    def fetch(self, ids: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        self.fetched += ids
        return super().fetch(ids)


@pytest.fixture
def snapshot(project: Path, take: Take) -> Snapshot:
    write(project, FILES)
    (project / "data/deep/b.bin").chmod(0o555)
    (project / "link").symlink_to("train.py")
    return take()


def near_of(tmp_path: Path, snapshot: Snapshot) -> Nearby:
    near = find_nearby(tmp_path / "home", snapshot.root)
    assert near is not None
    return near


def test_an_unchanged_source_is_copied_and_nothing_is_fetched(
    tmp_path: Path, project: Path, snapshot: Snapshot, content: LocalContent
) -> None:
    watched, work, told = Watched(content), tmp_path / "work", []
    restore(
        snapshot.root,
        watched,
        work,
        near=near_of(tmp_path, snapshot),
        tell=lambda done, total: told.append((done, total)),
    )
    subprocess.run(["diff", "-r", str(project), str(work)], check=True)

    assert watched.fetched == []
    assert (work / "data/deep/b.bin").stat().st_mode & 0o777 == 0o555
    assert (work / "empty").is_dir() and os.readlink(work / "link") == "train.py"
    assert told[-1] == (snapshot.size_bytes, snapshot.size_bytes)
    assert [done for done, _ in told] == sorted({done for done, _ in told})


def test_what_changed_since_is_fetched_as_it_was(
    tmp_path: Path, project: Path, snapshot: Snapshot, content: LocalContent
) -> None:
    (project / "train.py").write_text("edit")  # of the same length
    os.utime(project / "train.py", ns=(0, 0))
    shutil.rmtree(project / "data/deep")
    watched = Watched(content)
    restore(snapshot.root, watched, tmp_path / "work", near=near_of(tmp_path, snapshot))

    assert (tmp_path / "work/train.py").read_text() == "code"
    assert (tmp_path / "work/data/deep/b.bin").read_bytes() == FILES["data/deep/b.bin"]
    assert len(watched.fetched) == 2


def test_a_file_that_is_being_written_to_is_fetched(
    tmp_path: Path, project: Path, snapshot: Snapshot, content: LocalContent
) -> None:
    """Pages that a process has mapped change without a change of the stat."""
    watched = Watched(content)
    with open(project / "train.py", "r+b"):
        restore(snapshot.root, watched, tmp_path / "work", near=near_of(tmp_path, snapshot))

    assert len(watched.fetched) == 1


def test_a_source_that_was_snapshotted_again_still_gives_what_is_the_same(
    tmp_path: Path, project: Path, snapshot: Snapshot, take: Take, content: LocalContent
) -> None:
    (project / "train.py").write_text("new code")
    assert take().root != snapshot.root
    watched = Watched(content)
    restore(snapshot.root, watched, tmp_path / "work", near=near_of(tmp_path, snapshot))

    assert (tmp_path / "work/train.py").read_text() == "code"
    assert len(watched.fetched) == 1


def test_a_source_that_is_gone_is_fetched_whole(
    tmp_path: Path, project: Path, snapshot: Snapshot, content: LocalContent
) -> None:
    shutil.rmtree(project)
    restore(snapshot.root, content, tmp_path / "work", near=near_of(tmp_path, snapshot))

    assert (tmp_path / "work/data/a.bin").read_bytes() == FILES["data/a.bin"]
    assert find_nearby(tmp_path / "home", "0" * 64) is None


def test_what_a_script_writes_into_its_work_folder_stays_there(
    tmp_path: Path, project: Path, snapshot: Snapshot, content: LocalContent
) -> None:
    near = near_of(tmp_path, snapshot)
    for name in ("one", "two"):
        restore(snapshot.root, Watched(content), tmp_path / name, near=near)
    with open(tmp_path / "one/data/a.bin", "r+b") as file:
        file.write(b"written by the script")

    assert (project / "data/a.bin").read_bytes() == FILES["data/a.bin"] == (tmp_path / "two/data/a.bin").read_bytes()


@pytest.mark.external
@pytest.mark.parametrize("kind", PACKAGES)
def test_where_the_file_system_can_the_blocks_are_shared(tmp_path: Path, kind: str) -> None:
    image, disk = tmp_path / "image", tmp_path / "disk"
    with open(image, "wb") as file:
        file.truncate(512 << 20)
    disk.mkdir()
    if shutil.which(f"mkfs.{kind}") is None:
        debian.install(PACKAGES[kind])
    subprocess.run([f"mkfs.{kind}", "-q", str(image)], check=True)
    subprocess.run(["mount", "-o", "loop", str(image), str(disk)], check=True)
    try:
        project, content = disk / "project", LocalContent()
        write(project, {"a.bin": os.urandom(64 << 20)})
        root = take_snapshot(project, content, home=tmp_path / "home", clock=later).root
        os.sync()
        used = shutil.disk_usage(disk).used
        near = find_nearby(tmp_path / "home", root)
        for name in ("one", "two", "three"):
            restore(root, Watched(content), disk / name, near=near)
        os.sync()
        with open(disk / "one/a.bin", "r+b") as file:
            file.write(b"written by the script")

        assert shutil.disk_usage(disk).used - used < 64 << 20
        assert (project / "a.bin").read_bytes() == (disk / "two/a.bin").read_bytes()
        assert (disk / "one/a.bin").read_bytes() != (disk / "two/a.bin").read_bytes()
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
