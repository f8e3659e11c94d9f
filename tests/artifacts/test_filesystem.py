"""The folder store under attack (A18, A19) and under faults. Each control shows that the attack bites the naive way."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runyard.artifacts.filesystem import FilesystemStore
from runyard.core.errors import NotFound, StoreUnavailable

CANARY = b"canary bytes"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "artifacts"


@pytest.fixture
def store(root: Path) -> Iterator[FilesystemStore]:
    opened = FilesystemStore(root)
    yield opened
    opened.close()


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_bytes(CANARY)
    return folder / "secret"


def plant_link(root: Path, canary: Path) -> str:
    (root / "packs" / "evil").symlink_to(canary)
    return "packs/evil"


def plant_folder_link(root: Path, canary: Path) -> str:
    (root / "packs" / "evil").symlink_to(canary.parent)
    return "packs/evil/secret"


def plant_hard_link(root: Path, canary: Path) -> str:
    os.link(canary, root / "packs" / "evil")
    return "packs/evil"


def plant_descriptor_link(root: Path, canary: Path) -> str:
    (root / "packs" / "evil").symlink_to(f"/proc/self/fd/{os.open(canary, os.O_RDWR)}")
    return "packs/evil"


PLANTS = [plant_link, plant_folder_link, plant_hard_link, plant_descriptor_link]


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_nothing_planted_below_the_root_reaches_outside(
    store: FilesystemStore, root: Path, canary: Path, plant: Callable[[Path, Path], str]
) -> None:
    store.put("packs/good", b"ours")
    key = plant(root, canary)
    assert (root / key).read_bytes() == CANARY, "the control: a plain open is led outside"

    for call in (
        lambda: store.get(key),
        lambda: store.read_stream(key),
        lambda: store.stream_size(key),
        lambda: store.append(key, 0, b"overwritten by the store"),
    ):
        with pytest.raises(StoreUnavailable, match="packs/evil") as caught:
            call()
        assert "ls -l" in caught.value.hint
    assert CANARY not in [store.get(name) for name in store.iter_keys("packs/") if name != key]
    try:
        store.delete(key)
    except StoreUnavailable:
        pass

    assert canary.read_bytes() == CANARY
    assert store.get("packs/good") == b"ours"


def test_a_planted_link_is_no_key(store: FilesystemStore, root: Path, canary: Path) -> None:
    store.put("packs/good", b"ours")
    plant_folder_link(root, canary)
    (root / "packs" / "link").symlink_to(canary)

    assert list(store.iter_keys("packs/")) == ["packs/good"]


def test_putting_onto_a_planted_link_replaces_the_link(store: FilesystemStore, root: Path, canary: Path) -> None:
    store.put("packs/good", b"ours")
    key = plant_link(root, canary)
    store.put(key, b"new")

    assert canary.read_bytes() == CANARY
    assert store.get(key) == b"new"


def test_files_and_folders_are_for_the_owner_only(store: FilesystemStore, root: Path) -> None:
    store.put("packs/one", b"x")
    store.append("logs/run/std.txt", 0, b"x")

    modes = {path.relative_to(root).as_posix(): path.stat().st_mode & 0o777 for path in root.rglob("*")}
    assert modes == {
        "packs": 0o700,
        "packs/one": 0o600,
        "logs": 0o700,
        "logs/run": 0o700,
        "logs/run/std.txt": 0o600,
        "tmp": 0o700,
    }
    assert root.stat().st_mode & 0o777 == 0o700


def test_half_written_files_of_a_crash_are_removed_at_the_next_start(root: Path) -> None:
    FilesystemStore(root).close()
    (root / "tmp" / "half").write_bytes(b"half of a pack")
    store = FilesystemStore(root)

    assert os.listdir(root / "tmp") == []
    assert list(store.iter_keys("")) == []
    store.close()


def run_with_full_disk(root: Path, code: str) -> str:
    """Run `code` where no file can grow beyond 64 KiB: the write fails in the middle, as on a full disk."""
    script = f"""
        import resource
        from pathlib import Path
        from runyard.artifacts.filesystem import FilesystemStore
        from runyard.core.errors import StoreUnavailable
        store = FilesystemStore(Path({str(root)!r}))
        store.put("packs/before", b"b")
        store.append("logs/s", 0, b"abc")
        resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
        try:
            {code}
        except StoreUnavailable as error:
            print(error)
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_full_disk_leaves_no_part_of_an_object(root: Path) -> None:
    said = run_with_full_disk(root, 'store.put("packs/big", bytes(1 << 20))')

    assert "could not write" in said and str(root / "packs" / "big") in said and "df -h" in said
    assert os.listdir(root / "tmp") == [] and os.listdir(root / "packs") == ["before"]
    store = FilesystemStore(root)
    with pytest.raises(NotFound):
        store.get("packs/big")
    store.put("packs/big", bytes(1 << 20))
    assert store.get("packs/big") == bytes(1 << 20)
    store.close()


def test_a_full_disk_leaves_a_stream_as_it_was(root: Path) -> None:
    said = run_with_full_disk(root, 'store.append("logs/s", 3, bytes(1 << 20))')

    assert "could not write" in said
    store = FilesystemStore(root)
    assert store.read_stream("logs/s") == b"abc"
    assert store.append("logs/s", 3, b"def") == 6
    store.close()


def test_without_the_limit_the_same_write_succeeds(root: Path) -> None:
    """The control of the two tests above."""
    assert run_with_full_disk(root, 'store.put("packs/small", bytes(1 << 10))') == ""
    store = FilesystemStore(root)
    assert len(store.get("packs/small")) == 1 << 10
    store.close()


def test_a_root_that_is_no_folder_says_what_to_look_at(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(StoreUnavailable, match="could not open") as caught:
        FilesystemStore(tmp_path / "file")
    assert str(tmp_path / "file") in caught.value.what
