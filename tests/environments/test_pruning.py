"""Getting rid of environments: by key, by last use, by size; never of one in use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runyard.core.errors import Conflict, NotFound
from runyard.environments.cache import CacheEntry, get_place
from runyard.environments.pruning import list_built, prune, remove


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "environments"


def a_place(root: Path, key: str, *, used_at: float, size: int = 100_000) -> CacheEntry:
    place = get_place(root, key)
    place.interpreter.parent.mkdir(parents=True)
    place.interpreter.write_text("#!/bin/sh\n")
    place.interpreter.chmod(0o755)
    (place.prefix / "data").write_bytes(os.urandom(size))
    fd = place.try_lock()
    assert fd is not None
    os.close(fd)
    place.publish({"name": f"env-{key}", "kind": "uv", "python": "3.11.7", "requirements": ["x"], "built_at": 5.0})
    os.utime(place.folder / "ready.json", (used_at, used_at))
    return place


def a_run(tmp_path: Path, name: str = "exp_1") -> Path:
    folder = tmp_path / "runs" / name / "1"
    folder.mkdir(parents=True)
    return folder


def keys(root: Path) -> set[str]:
    return {one.key for one in list_built(root)}


def test_the_list_tells_what_is_there_last_used_first(root: Path, tmp_path: Path) -> None:
    a_place(root, "aa", used_at=100.0)
    place = a_place(root, "bb", used_at=50.0)
    place.take(str(a_run(tmp_path)))
    first, second = list_built(root)

    assert (first.key, first.name, first.kind, first.python) == ("bb", "env-bb", "uv", "3.11.7")
    assert (first.runs, first.is_finished, first.requirements, first.built_at) == (["exp_1"], True, ["x"], 5.0)
    assert (second.key, second.used_at, second.runs) == ("aa", 100.0, [])
    assert first.size_bytes >= 100_000
    assert list_built(tmp_path / "nowhere") == []


def test_those_unused_for_long_go_and_those_in_use_stay(root: Path, tmp_path: Path) -> None:
    for key, used_at in {"aa": 100.0, "bb": 900.0, "cc": 100.0}.items():
        a_place(root, key, used_at=used_at)
    run = a_run(tmp_path)
    CacheEntry(root / "cc").take(str(run))
    os.utime(root / "cc/ready.json", (100.0, 100.0))

    planned = prune(root, unused_s=500.0, now=1000.0, dry_run=True)
    assert [one.key for one in planned] == ["aa"]
    assert keys(root) == {"aa", "bb", "cc"}
    assert prune(root, unused_s=500.0, now=1000.0) == planned
    assert keys(root) == {"bb", "cc"}
    (run / "done").touch()
    assert [one.key for one in prune(root, unused_s=500.0, now=1000.0)] == ["cc"]


def test_the_longest_unused_go_until_the_size_fits(root: Path) -> None:
    for key, used_at in {"aa": 300.0, "bb": 100.0, "cc": 200.0}.items():
        a_place(root, key, used_at=used_at)

    assert prune(root, keep_bytes=10_000_000) == []
    assert [one.key for one in prune(root, keep_bytes=250_000)] == ["bb"]
    assert [one.key for one in prune(root, keep_bytes=0)] == ["cc", "aa"]
    assert list(root.iterdir()) == []


def test_what_killed_builds_and_removals_left_goes_and_a_build_that_goes_on_stays(root: Path) -> None:
    left, building = get_place(root, "aa"), get_place(root, "bb")
    for place in (left, building):
        place.prefix.mkdir(parents=True)
    (root / ".gone-cc-1234").mkdir()
    fd = building.try_lock()
    assert fd is not None

    assert [one.key for one in prune(root)] == ["aa"]
    assert [path.name for path in root.iterdir()] == ["bb"]
    os.close(fd)


def test_one_is_removed_by_the_beginning_of_its_key(root: Path) -> None:
    for key in ("abc1", "abd2"):
        a_place(root, key, used_at=1.0)

    for wrong in ("x", "ab", ""):
        with pytest.raises(NotFound, match="environments list"):
            remove(root, wrong)
    assert remove(root, "abc").key == "abc1"
    assert keys(root) == {"abd2"}


def test_one_in_use_is_not_removed_and_the_run_is_named(root: Path, tmp_path: Path) -> None:
    run = a_run(tmp_path, "exp_7")
    place = a_place(root, "aa", used_at=1.0)
    place.take(str(run))

    with pytest.raises(Conflict, match="exp_7"):
        remove(root, "aa")
    run.rmdir()
    assert remove(root, "aa").key == "aa"


class Late(CacheEntry):
    """Somebody removes it between opening its lock and locking that."""

    def _open_lock(self, *, create: bool) -> int | None:
        fd = super()._open_lock(create=create)
        CacheEntry(self.folder).erase()
        return fd


def test_the_lock_of_a_removed_one_is_nobodys(root: Path) -> None:
    a_place(root, "aa", used_at=1.0)

    assert Late(root / "aa").take(None) is None
    assert Late(root / "bb").try_lock() is None


def test_who_waited_for_the_lock_of_a_removed_one_gets_a_new_one(root: Path) -> None:
    place = a_place(root, "aa", used_at=1.0)
    old = os.open(place.folder / "lock", os.O_RDWR)
    place.erase()
    first, second = place.try_lock(), place.try_lock()

    assert first is not None
    assert second is None
    assert os.fstat(first).st_ino != os.fstat(old).st_ino
    assert place.take(None) is None
    for fd in (old, first):
        os.close(fd)
