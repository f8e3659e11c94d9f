"""Byte for byte back, and a hostile server (A26, A27) writes nothing outside.

A29 and A30 (hostile archives) have no target: content travels as chunks and trees, and no archive is ever unpacked.
"""

from __future__ import annotations

import ast
import json
import os
import random
import resource
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

import runyard
from runyard.core.errors import (
    Conflict,
    InvalidArgument,
    ProtocolError,
    ServerUnreachable,
    StoreUnavailable,
)
from runyard.core.formats.chunks import chunk_id
from runyard.core.formats.tree import Entry, FileEntry, FolderEntry, LinkEntry, encode_tree, tree_id
from runyard.snapshots.plan import ZEROS
from runyard.snapshots.restore import restore
from runyard.snapshots.take import Snapshot, take_snapshot
from runyard.testing.artifact_store import LocalContent
from tests.snapshots.folders import later, on_disk, write

Take = Callable[..., Snapshot]


def test_a_folder_comes_back_byte_for_byte(tmp_path: Path, project: Path, content: LocalContent, take: Take) -> None:
    noise = random.Random(3).randbytes
    write(
        project,
        {"big.bin": noise((9 << 20) + 17), "empty": "", "void/deep": None, "a/b/c.py": "code", "a/same": "code"},
    )
    write(project, {os.fsdecode(b"caf\xe9\n"): noise(100), "-rf": "x", "a/$(touch x)": "y"})
    (project / "run.sh").write_text("#!/bin/sh\n")
    (project / "run.sh").chmod(0o751)
    (project / "a" / "same").chmod(0o400)
    (project / "void").chmod(0o500)
    (project / "a" / "b").chmod(0o777)
    (project / "link").symlink_to("a/b/c.py")
    (project / "a" / "up").symlink_to("../run.sh")
    (project / "a" / "dangling").symlink_to("../not there")
    restore(take().root, content, tmp_path / "out")

    assert on_disk(tmp_path / "out") == on_disk(project)
    (project / "void").chmod(0o700)


def test_chunks_of_zeros_are_holes_that_do_not_travel(
    tmp_path: Path, project: Path, content: LocalContent, take: Take
) -> None:
    (project / "sparse.bin").write_bytes(b"head" + bytes((12 << 20) - 4) + b"tail")
    (project / "zeros.bin").write_bytes(bytes(8 << 20))
    root = take().root
    content.calls.clear()
    restore(root, content, tmp_path / "out")

    assert chunk_id(bytes(4 << 20)) == ZEROS
    assert on_disk(tmp_path / "out") == on_disk(project)
    assert content.calls == [("fetch", 2)]  # the first and the last chunk of sparse.bin
    assert (tmp_path / "out" / "zeros.bin").stat().st_blocks == 0


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o777])
def test_modes_do_not_depend_on_the_umask(
    tmp_path: Path, project: Path, content: LocalContent, take: Take, umask: int
) -> None:
    write(project, {"a/x": "1", "a/y": "2"})
    (project / "a" / "x").chmod(0o666)
    (project / "a" / "y").chmod(0o640)
    (project / "a").chmod(0o775)
    root = take().root
    before = os.umask(umask)
    try:
        restore(root, content, tmp_path / "out")
    finally:
        os.umask(before)
    (tmp_path / "out").chmod(0o755)

    assert on_disk(tmp_path / "out") == on_disk(project)


def test_an_empty_folder_may_be_the_target(tmp_path: Path, project: Path, content: LocalContent, take: Take) -> None:
    write(project, {"a": "1"})
    (tmp_path / "out").mkdir(mode=0o700)
    restore(take().root, content, tmp_path / "out")

    assert (tmp_path / "out" / "a").read_text() == "1"
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o700


def test_a_folder_that_holds_something_is_not_touched(
    tmp_path: Path, project: Path, content: LocalContent, take: Take
) -> None:
    write(project, {"a": "new"})
    write(tmp_path, {"out/a": "old", "file": "x"})
    root = take().root

    for name in ("out", "file"):
        with pytest.raises(Conflict, match=f"`{tmp_path / name}`"):
            restore(root, content, tmp_path / name)
    assert (tmp_path / "out" / "a").read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["file", "home", "out", "project"]


def test_a_repeated_chunk_of_a_batch_travels_once(
    tmp_path: Path, project: Path, content: LocalContent, take: Take
) -> None:
    write(project, {f"f{index}": "the same" for index in range(50)})
    root = take().root
    content.calls.clear()
    restore(root, content, tmp_path / "out")

    assert content.calls == [("fetch", 1)]
    assert {(tmp_path / "out" / f"f{index}").read_text() for index in range(50)} == {"the same"}


class Hostile(LocalContent):
    """A server that sends the trees and chunks it was given."""

    def __init__(self, trees: dict[str, bytes], chunks: dict[str, bytes] | None = None) -> None:
        super().__init__()
        self._trees, self._chunks = trees, chunks or {}

    def tree(self, root: str) -> dict[str, bytes]:
        return self._trees

    def fetch(self, ids: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        return ((name, self._chunks[name]) for name in ids)


PAYLOAD = b"written by a hostile server"


def a_tree(*entries: Entry) -> tuple[str, bytes]:
    data = encode_tree(entries)
    return tree_id(data), data


def hostile(name: str) -> tuple[str, bytes]:
    """A tree whose only file has a name that leads elsewhere."""
    entry = {"n": name, "t": "f", "m": 420, "s": len(PAYLOAD), "c": [chunk_id(PAYLOAD)]}
    data = json.dumps({"entries": [entry]}, separators=(",", ":"), ensure_ascii=True).encode()
    return tree_id(data), data


def restore_naively(root: str, content: Hostile, folder: Path) -> None:
    """The control: trust what came, join paths, open."""
    folder.mkdir(parents=True, exist_ok=True)
    for entry in json.loads(content.tree(root)[root])["entries"]:
        if entry["t"] == "l":
            os.symlink(entry["l"], os.path.join(folder, entry["n"]))
        elif entry["t"] == "d":
            restore_naively(entry["i"], content, Path(os.path.join(folder, entry["n"])))
        else:
            Path(os.path.join(folder, entry["n"])).write_bytes(next(content.fetch(entry["c"][:1]))[1])


@pytest.mark.parametrize("name", ["../evil", "../../evil", "sub/../../evil", "{absolute}", "./evil", "a/b"])
def test_a_name_that_leads_out_writes_nothing(tmp_path: Path, name: str) -> None:
    work = tmp_path / "work" / "deep"
    (work / "naive" / "sub").mkdir(parents=True)
    (work / "naive" / "a").mkdir()
    root, data = hostile(name.format(absolute=tmp_path / "evil"))
    content = Hostile({root: data}, {chunk_id(PAYLOAD): PAYLOAD})
    restore_naively(root, content, work / "naive")
    planted = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path.read_bytes() for path in planted] == [PAYLOAD], "the control is led where the server wants"
    planted[0].unlink()

    with pytest.raises(InvalidArgument, match="tree object"):
        restore(root, content, work / "out")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert os.listdir(work) == ["naive"]


def test_a_link_that_leads_out_is_not_made(tmp_path: Path) -> None:
    write(tmp_path, {"outside/x": "old"})
    for target in (str(tmp_path / "outside"), "../outside", "sub/../../outside", "/"):
        root, data = a_tree(LinkEntry("l", target))

        with pytest.raises(ProtocolError, match="`l` leads out"):
            restore(root, Hostile({root: data}), tmp_path / "out")
        assert sorted(os.listdir(tmp_path)) == ["outside"]


def test_links_that_lead_out_together_are_not_made(tmp_path: Path) -> None:
    below = a_tree(LinkEntry("up", "../.."))
    middle = a_tree(FolderEntry("a", 0o755, below[0]))
    root = a_tree(FolderEntry("deep", 0o755, middle[0]), LinkEntry("escape", "deep/a/up/../../x"))

    with pytest.raises(ProtocolError, match="`escape` leads out"):
        restore(root[0], Hostile(dict([below, middle, root])), tmp_path / "out")


def test_a_file_cannot_be_written_through_a_link_of_the_same_name(tmp_path: Path) -> None:
    """Link, then file through it: one name twice is no tree, so the pair cannot even be said."""
    entries = [{"n": "d", "t": "l", "l": "x"}, {"n": "d", "t": "f", "m": 420, "s": 0, "c": []}]
    data = json.dumps({"entries": entries}, separators=(",", ":")).encode()
    root = tree_id(data)

    with pytest.raises(InvalidArgument, match="tree object"):
        restore(root, Hostile({root: data}), tmp_path / "out")


def test_names_that_differ_only_in_case_or_accents_stay_apart(
    tmp_path: Path, project: Path, content: LocalContent, take: Take
) -> None:
    names = ["README", "readme", "caf\u00e9", "cafe\u0301", "a", "a ", "a."]
    write(project, dict.fromkeys(names, "x"))
    for name in names:
        (project / name).write_text(name)
    restore(take().root, content, tmp_path / "out")

    assert {name: (tmp_path / "out" / name).read_text() for name in names} == {name: name for name in names}


@pytest.mark.parametrize("fault", ["other bytes", "too short", "missing tree", "other tree", "wrong size"])
def test_what_is_not_the_snapshot_leaves_nothing_behind(tmp_path: Path, fault: str) -> None:
    good = b"x" * 100
    size = 99 if fault == "wrong size" else 100
    below = a_tree(FileEntry("data", 0o644, size, (chunk_id(good),)))
    root = a_tree(FolderEntry("d", 0o755, below[0]), FileEntry("first", 0o644, size, (chunk_id(good),)))
    trees, chunks = dict([below, root]), {chunk_id(good): good}
    if fault == "other bytes":
        chunks[chunk_id(good)] = b"y" * 100
    elif fault == "too short":
        chunks[chunk_id(good)] = b"x" * 10
    elif fault == "missing tree":
        del trees[below[0]]
    elif fault == "other tree":
        trees[below[0]] = encode_tree([])

    with pytest.raises(ProtocolError):
        restore(root[0], Hostile(trees, chunks), tmp_path / "out")
    assert os.listdir(tmp_path) == []


def test_a_few_trees_that_stand_for_billions_of_files_are_refused(tmp_path: Path) -> None:
    trees = [a_tree(*[FileEntry(f"f{index}", 0o644, 0, ()) for index in range(100)])]
    for _ in range(8):
        trees.append(a_tree(*[FolderEntry(f"d{index}", 0o755, trees[-1][0]) for index in range(100)]))

    with pytest.raises(ProtocolError, match="too large"):
        restore(trees[-1][0], Hostile(dict(trees)), tmp_path / "out")
    assert os.listdir(tmp_path) == []


def test_trees_that_are_too_deep_are_refused(tmp_path: Path) -> None:
    trees = [a_tree()]
    for _ in range(1500):
        trees.append(a_tree(FolderEntry("d", 0o755, trees[-1][0])))

    with pytest.raises(ProtocolError, match="levels of folders"):
        restore(trees[-1][0], Hostile(dict(trees)), tmp_path / "out")


class Dying(LocalContent):
    def fetch(self, ids: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        raise ServerUnreachable("The server does not answer.")


def test_a_server_that_goes_away_leaves_nothing_behind(tmp_path: Path, project: Path, content: LocalContent) -> None:
    write(project, {"a": "1", "void": None})
    (project / "void").chmod(0o500)
    dying = Dying()
    snapshot = take_snapshot(project, dying, home=tmp_path / "home", clock=later)

    with pytest.raises(ServerUnreachable):
        restore(snapshot.root, dying, tmp_path / "out")
    assert sorted(os.listdir(tmp_path)) == ["home", "project"]
    assert [thread.name for thread in threading.enumerate() if "snapshot" in thread.name] == []
    (project / "void").chmod(0o700)


def test_a_full_disk_is_explained_and_leaves_nothing_behind(
    tmp_path: Path, project: Path, content: LocalContent, take: Take
) -> None:
    write(project, {"a": "1", "big": os.urandom(1 << 20)})
    root = take().root
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, hard))  # a write ends in the middle, as on a full disk
    try:
        with pytest.raises(StoreUnavailable, match="could not be restored") as caught:
            restore(root, content, tmp_path / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert f"df -h {tmp_path}" in caught.value.hint and "File too large" in caught.value.why
    assert sorted(os.listdir(tmp_path)) == ["home", "project"]
    restore(root, content, tmp_path / "out")
    assert on_disk(tmp_path / "out") == on_disk(project)


def test_no_archive_is_unpacked_anywhere() -> None:
    """A29, A30: nothing of ours reads tar or zip, so no archive crosses a trust line; one file writes zips."""
    root = Path(runyard.__file__).parent
    folders = [root / name for name in ("snapshots", "artifacts", "server")]
    readers = {"tarfile", "zipfile", "zipimport", "lzma", "bz2", "gzip"}
    found = []
    for path in (path for folder in folders for path in folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if readers & {name.split(".")[0] for name in names}:
                found.append(str(path))

    assert found == [str(root / "server" / "http" / "answers.py")]
    uses = [node for node in ast.walk(ast.parse(Path(found[0]).read_text())) if isinstance(node, ast.Call)]
    opened = [ast.literal_eval(use.args[1]) for use in uses if getattr(use.func, "id", "") == "ZipFile"]
    assert opened == ["w"]
