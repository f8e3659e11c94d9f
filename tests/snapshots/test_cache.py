"""What is read and what travels when little changed, and that the cache never makes a snapshot wrong."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runyard.core.errors import MissingContent, ServerUnreachable, StoreUnavailable
from runyard.core.formats.chunks import chunk_id
from runyard.core.formats.tree import FolderEntry, decode_tree
from runyard.snapshots.cache import SourceCache
from runyard.snapshots.take import Snapshot, take_snapshot
from runyard.testing.artifact_store import LocalContent
from tests.snapshots.folders import later, stored, write

Take = Callable[..., Snapshot]


def fresh_cache(tmp_path: Path, project: Path) -> SourceCache:
    """The cache as another process would read it."""
    return SourceCache(tmp_path / "cache.stat", os.path.realpath(project))


def test_one_changed_file_sends_itself_and_its_ancestors(project: Path, content: LocalContent, take: Take) -> None:
    write(project, {f"d{folder}/s/f{file}": f"{folder} {file}" for folder in range(10) for file in range(20)})
    take()
    content.calls.clear()
    (project / "d3" / "s" / "f7").write_text("changed")
    snapshot = take()

    assert content.calls == [("put", 1), ("put_trees", 3), ("put_snapshot", 1)]
    assert snapshot.changed_files == 1 and snapshot.files == 200
    assert stored(content, snapshot.root)["d3/s/f7"] == b"changed"


def test_an_unchanged_tree_asks_for_its_id_and_nothing_else(project: Path, content: LocalContent, take: Take) -> None:
    write(project, {"a/b/c": "x", "d": "y"})
    first = take()
    content.calls.clear()
    second = take()

    assert content.calls == [("put_snapshot", 1)]
    assert (second.id, second.changed_files) == (first.id, 0)


def test_unchanged_files_are_not_opened(project: Path, content: LocalContent, take: Take) -> None:
    write(project, {"a": "1", "sub/b": "2"})
    take()
    before = {name: (project / name).stat().st_atime_ns for name in ("a", "sub/b")}
    for name in before:  # relatime updates an access time that is older than the last change
        os.utime(project / name, ns=(0, (project / name).stat().st_mtime_ns))
    take()
    for name in before:
        os.utime(project / name, ns=(0, (project / name).stat().st_mtime_ns))
    take()
    status = {name: (project / name).stat().st_atime_ns for name in before}
    take()

    assert {name: (project / name).stat().st_atime_ns for name in before} == status


@pytest.mark.parametrize(
    "change",
    [
        "content",
        "same size",
        "same size and mtime",
        "mode",
        "removed",
        "renamed",
        "added",
        "link",
        "folder mode",
        "swap",
    ],
)
def test_every_change_is_seen(project: Path, content: LocalContent, take: Take, tmp_path: Path, change: str) -> None:
    write(project, {"sub/one": "AAAA", "sub/two": "BBBB", "top": "CCCC"})
    (project / "sub" / "link").symlink_to("one")
    first = take()
    one = project / "sub" / "one"
    status = one.stat()
    if change == "content":
        one.write_text("longer than before")
    elif change.startswith("same size"):
        one.write_text("DDDD")
        if change.endswith("mtime"):
            os.utime(one, ns=(status.st_atime_ns, status.st_mtime_ns))
    elif change == "mode":
        one.chmod(0o700)
    elif change == "removed":
        one.unlink()
    elif change == "renamed":
        one.rename(project / "sub" / "three")
    elif change == "added":
        write(project, {"sub/deep/new": "x"})
    elif change == "link":
        (project / "sub" / "link").unlink()
        (project / "sub" / "link").symlink_to("two")
    elif change == "folder mode":
        (project / "sub").chmod(0o711)
    else:
        one.rename(tmp_path / "x")
        (project / "sub" / "two").rename(one)
        (tmp_path / "x").rename(project / "sub" / "two")
    second = take()
    clean = take_snapshot(project, LocalContent(), home=tmp_path / "another home")

    assert second.id == clean.id != first.id
    assert stored(content, second.root).keys() == {
        str(p.relative_to(project)) + "/" * p.is_dir() for p in project.rglob("*")
    }


def test_the_next_process_knows_what_this_one_found(tmp_path: Path, project: Path, content: LocalContent) -> None:
    write(project, {"a": "1", "sub/b": "2", os.fsdecode(b"od\xff\nd"): "3"})
    (project / "link").symlink_to("sub/../a")
    first = take_snapshot(project, content, home=tmp_path, cache=fresh_cache(tmp_path, project), clock=later)
    content.calls.clear()
    second = take_snapshot(project, content, home=tmp_path, cache=fresh_cache(tmp_path, project), clock=later)

    assert content.calls == [("put_snapshot", 1)]
    assert (second.id, second.changed_files) == (first.id, 0)
    assert (tmp_path / "cache.stat").stat().st_mode & 0o777 == 0o600


def test_the_next_process_sends_only_what_changed(tmp_path: Path, project: Path, content: LocalContent) -> None:
    write(project, {f"d{index}/f": str(index) for index in range(5)})
    take_snapshot(project, content, home=tmp_path, cache=fresh_cache(tmp_path, project), clock=later)
    for round_ in range(3):
        (project / "d2" / "f").write_text(f"round {round_}")
        content.calls.clear()
        cache = fresh_cache(tmp_path, project)
        snapshot = take_snapshot(project, content, home=tmp_path, cache=cache, clock=later)

        assert content.calls == [("put", 1), ("put_trees", 2), ("put_snapshot", 1)]
        assert stored(content, snapshot.root)["d2/f"] == f"round {round_}".encode()


def test_a_file_that_was_just_written_is_not_trusted_by_its_stat(
    tmp_path: Path, project: Path, content: LocalContent
) -> None:
    """Racily clean: a change in the same clock tick as the snapshot keeps size, time stamps and inode."""
    write(project, {"a": "1"})
    cache = fresh_cache(tmp_path, project)
    take_snapshot(project, content, home=tmp_path, cache=cache)
    assert cache.root is not None and cache.root.files["a"].stamp is None
    content.calls.clear()
    second = take_snapshot(project, content, home=tmp_path, cache=cache)

    assert content.calls == [("put_snapshot", 1)], "it is read again, but what the server has does not travel again"
    assert second.changed_files == 0
    take_snapshot(project, content, home=tmp_path, cache=cache, clock=later)
    assert cache.root.files["a"].stamp is not None, "two seconds later its stat says enough"


def test_the_same_file_changed_at_full_speed_is_never_stale(
    tmp_path: Path, project: Path, content: LocalContent, take: Take
) -> None:
    for number in range(60):
        (project / "a").write_text(f"{number:04}")

        assert stored(content, take(clock=time.time_ns).root)["a"] == f"{number:04}".encode()


def damage(path: Path, how: str) -> None:
    data = bytearray(path.read_bytes())
    if how == "flipped":
        for at in random.Random(5).sample(range(len(data)), 5):
            data[at] ^= 0x10
    elif how == "cut":
        del data[len(data) // 2 :]
    elif how == "empty":
        data.clear()
    elif how == "garbage":
        data[:] = os.urandom(500)
    path.write_bytes(data)


@pytest.mark.parametrize("how", ["flipped", "cut", "empty", "garbage"])
def test_a_damaged_cache_file_is_ignored_and_made_anew(
    tmp_path: Path, project: Path, content: LocalContent, how: str
) -> None:
    write(project, {f"d{index}/f": str(index) for index in range(20)})
    first = take_snapshot(project, content, home=tmp_path, cache=fresh_cache(tmp_path, project), clock=later)
    damage(tmp_path / "cache.stat", how)
    second = take_snapshot(project, content, home=tmp_path, cache=fresh_cache(tmp_path, project), clock=later)
    content.calls.clear()
    take_snapshot(project, content, home=tmp_path, cache=fresh_cache(tmp_path, project), clock=later)

    assert second.id == first.id
    assert content.calls == [("put_snapshot", 1)]


def test_a_cache_file_of_another_folder_is_not_used(tmp_path: Path, project: Path, content: LocalContent) -> None:
    write(project, {"a": "1"})
    take_snapshot(project, content, home=tmp_path, cache=fresh_cache(tmp_path, project), clock=later)

    assert SourceCache(tmp_path / "cache.stat", "/some/other/folder").root is None


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path, project: Path, content: LocalContent) -> None:
    write(project, {"a": "1"})
    (tmp_path / "home").write_text("a file where the home should be")

    assert take_snapshot(project, content, home=tmp_path / "home").files == 1


def test_the_cache_file_does_not_grow_for_ever(tmp_path: Path, project: Path, content: LocalContent) -> None:
    write(project, {f"f{index}": "x" for index in range(300)})
    cache = fresh_cache(tmp_path, project)
    sizes = []
    for number in range(60):
        (project / "f0").write_text(str(number))
        take_snapshot(project, content, home=tmp_path, cache=cache, clock=later)
        sizes.append((tmp_path / "cache.stat").stat().st_size)

    assert max(sizes) < 2 * sizes[0] + (1 << 20) + 100_000
    assert fresh_cache(tmp_path, project).root is not None


def test_two_processes_that_share_a_cache_file_do_not_confuse_each_other(tmp_path: Path, project: Path) -> None:
    """Records of both are mixed in the file: ids are computed from what was read, never taken from a record."""
    write(project, {"a/x": "1", "b/y": "1"})
    one, other = LocalContent(), LocalContent()
    caches = [fresh_cache(tmp_path, project), fresh_cache(tmp_path, project)]
    take_snapshot(project, one, home=tmp_path, cache=caches[0], clock=later)
    take_snapshot(project, other, home=tmp_path, cache=caches[1], clock=later)
    for number in range(6):
        (project / "ab"[number % 2] / "xy"[number % 2]).write_text(f"round {number}")
        content = (one, other)[number % 2]
        take_snapshot(project, content, home=tmp_path, cache=caches[number % 2], clock=later)
        third = take_snapshot(project, one, home=tmp_path, cache=fresh_cache(tmp_path, project), clock=later)
        clean = take_snapshot(project, LocalContent(), home=tmp_path / "clean")

        assert third.id == clean.id
        assert stored(one, third.root)["a/x"] == (project / "a" / "x").read_bytes()


def test_another_server_is_asked_and_gets_everything(
    project: Path, tmp_path: Path, content: LocalContent, take: Take
) -> None:
    write(project, {f"d{index}/f": str(index) for index in range(5)})
    first = take()
    other = LocalContent()
    second = take_snapshot(project, other, home=tmp_path / "home", clock=later)

    assert second.id == first.id and stored(other, second.root) == stored(content, first.root)
    assert other.calls[0] == ("missing", 5)
    other.calls.clear()
    take_snapshot(project, other, home=tmp_path / "home", clock=later)
    assert other.calls == [("put_snapshot", 1)]


def test_a_server_that_has_the_files_gets_only_trees(
    project: Path, tmp_path: Path, content: LocalContent, take: Take
) -> None:
    write(project, {f"d{index}/f": str(index) for index in range(5)})
    first = take()
    other = LocalContent(content.artifacts, content.index)
    second = take_snapshot(project, other, home=tmp_path / "home", clock=later)

    assert second.id == first.id
    assert other.calls == [("missing", 5), ("put_trees", 6), ("put_snapshot", 1)]


@pytest.mark.parametrize("lost", ["a chunk", "a tree", "the root", "all"])
def test_content_that_the_server_lost_is_sent_again(
    project: Path, content: LocalContent, take: Take, lost: str
) -> None:
    """A tree on the server stands for all below it; what a changed folder or the root itself names is checked again."""
    write(project, {f"d{index}/{name}": f"{index}{name}" for index in range(5) for name in "fg"})
    first = take()
    trees = {e.name: e.tree for e in decode_tree(content.tree(first.root)[first.root]) if isinstance(e, FolderEntry)}
    gone = {"a chunk": [chunk_id(b"1g")], "a tree": [inverted(trees["d3"])], "the root": [inverted(first.root)]}
    for name in gone.get(lost, list(content.index.rows)):
        del content.index.rows[name]
    if lost != "the root":
        (project / "d1" / "f").write_text("changed")
    snapshot = take()

    assert stored(content, snapshot.root) == {
        **{f"d{index}/": None for index in range(5)},
        **{str(path.relative_to(project)): path.read_bytes() for path in project.rglob("?")},
    }
    content.calls.clear()
    assert take().id == snapshot.id and content.calls == [("put_snapshot", 1)]


def inverted(tree: str) -> str:
    """The index's key of a checked tree."""
    return bytes(byte ^ 0xFF for byte in bytes.fromhex(tree)).hex()


class StubbornServer(LocalContent):
    def put_trees(self, trees: object) -> None:
        raise MissingContent("Something is missing.", details={"missing": ["f" * 64]})


def test_a_server_that_always_misses_something_is_an_error(project: Path, tmp_path: Path) -> None:
    write(project, {"a": "1"})

    with pytest.raises(MissingContent):
        take_snapshot(project, StubbornServer(), home=tmp_path / "home")


class DyingServer(LocalContent):
    """Goes away after a number of requests, and comes back when told."""

    left = 0

    def put(self, chunks: object) -> None:
        self.left -= 1
        if self.left < 0:
            raise ServerUnreachable("The server does not answer.")
        super().put(chunks)  # type: ignore[arg-type]


@pytest.mark.parametrize("left", [0, 1, 3])
def test_a_server_that_goes_away_meanwhile_loses_nothing(project: Path, tmp_path: Path, left: int) -> None:
    for index in range(10):
        (project / f"f{index}").write_bytes(os.urandom(3 << 20))
    content = DyingServer()
    content.left = left

    with pytest.raises(ServerUnreachable):
        take_snapshot(project, content, home=tmp_path / "home", clock=later)
    content.left = 1000
    snapshot = take_snapshot(project, content, home=tmp_path / "home", clock=later)
    assert stored(content, snapshot.root) == {f"f{i}": (project / f"f{i}").read_bytes() for i in range(10)}


names = st.sampled_from(["a", "b", "c/d", "c/e", "f/g/h"])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), names, st.text("xyz", max_size=3)),
        st.tuples(st.just("remove"), names, st.just("")),
        st.tuples(st.just("folder"), st.sampled_from(["c", "f", "new"]), st.just("")),
        st.tuples(st.just("rules"), st.sampled_from(["", "a\n", "c/\n", "*\n!b\n"]), st.just("")),
        st.tuples(st.just("snapshot"), st.just(""), st.just("")),
        st.tuples(st.just("process"), st.just(""), st.just("")),
    ),
    max_size=25,
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(steps)
def test_a_snapshot_with_a_cache_is_the_snapshot_without(
    tmp_path_factory: pytest.TempPathFactory, history: list[tuple[str, str, str]]
) -> None:
    base = tmp_path_factory.mktemp("history")
    project, content = base / "p", LocalContent()
    project.mkdir()
    cache = fresh_cache(base, project)
    for what, name, text in [*history, ("snapshot", "", "")]:
        path = project / (".amlignore" if what == "rules" else name)
        if what == "rules":
            path.write_text(name)
        elif what == "write" and not path.is_dir():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        elif what == "remove" and path.is_file():
            path.unlink()
        elif what == "folder":
            path.mkdir(exist_ok=True)
        elif what == "process":
            cache = fresh_cache(base, project)
        elif what == "snapshot":
            # On the true clock everything is fresh and read again; on this one nothing is, unless its stat changed.
            with_cache = take_snapshot(project, content, home=base, cache=cache, clock=later)
            without = take_snapshot(project, LocalContent(), home=base / "clean", cache=SourceCache(base / "no", "x"))
            assert with_cache.root == without.root
            assert (with_cache.files, with_cache.size_bytes) == (without.files, without.size_bytes)


class FullServer(LocalContent):
    """Has room for two batches."""

    def put(self, chunks: Iterable[tuple[str, bytes]]) -> None:
        if sum(name == "put" for name, _ in self.calls) == 2:
            raise StoreUnavailable("The disk is full.")
        items = list(chunks)
        self.calls.append(("put", len(items)))
        self.store.put_chunks(items)

    def release(self, ids: Sequence[str]) -> None:
        super().release(ids)
        for pack in self.store.unnamed.take(ids, ""):
            self.artifacts.delete(pack)


def test_a_snapshot_that_did_not_fit_takes_back_what_it_sent(tmp_path: Path) -> None:
    """M7: the disk has its room back when the error is shown."""
    source = tmp_path / "source"
    source.mkdir()
    for at in range(10):
        (source / f"{at}.bin").write_bytes(os.urandom(4 << 20))
    content = FullServer()
    with pytest.raises(StoreUnavailable, match="full"):
        take_snapshot(source, content, home=tmp_path / "home")

    assert list(content.artifacts.iter_keys("packs/")) == []
