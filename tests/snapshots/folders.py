"""Folders made and looked at by the snapshot tests."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

import zstandard

from runyard.core.formats.tree import FileEntry, FolderEntry, LinkEntry, decode_tree
from runyard.snapshots import cache
from runyard.testing.artifact_store import LocalContent


def later() -> int:
    """A clock that runs a minute ahead: every file of a test looks settled."""
    return time.time_ns() + 60_000_000_000


def forget_process() -> None:
    """Let the next snapshot read its cache from the file, as the next process does."""
    cache._processes.clear()


def write(root: Path, files: Mapping[str, str | bytes | None]) -> None:
    """Write files by their paths; None makes an empty folder."""
    for name, data in files.items():
        path = root / name
        if data is None:
            path.mkdir(parents=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)


def stored(content: LocalContent, root: str) -> dict[str, object]:
    """Return what a snapshot holds: path → bytes, `-> target` of a link, None for a folder."""
    trees = content.tree(root)

    def below(tree: str, path: str) -> dict[str, object]:
        found: dict[str, object] = {}
        for entry in decode_tree(trees[tree]):
            name = path + entry.name
            if isinstance(entry, FileEntry):
                found[name] = b"".join(data for _, data in content.store.iter_chunks(entry.chunks))
            elif isinstance(entry, FolderEntry):
                found[name + "/"] = None
                found.update(below(entry.tree, f"{name}/"))
            elif isinstance(entry, LinkEntry):
                found[name] = f"-> {entry.target}"
        return found

    return below(root, "")


def all_bytes(content: LocalContent) -> bytes:
    """Return every stored chunk and tree, decompressed: what an attack must not have reached."""
    pieces = []
    for name, row in content.index.rows.items():
        data = content.artifacts.get(row[0], offset=row[1], length=row[2])
        if row[4] == "zstd":
            data = zstandard.ZstdDecompressor().decompress(data, max_output_size=row[3])
        pieces.append(data)
        assert len(name) == 64
    return b"\n".join(pieces)


def on_disk(root: Path) -> dict[str, object]:
    """Return a folder as (mode, bytes or target) by its path in bytes: what a restore must bring back."""
    found: dict[str, object] = {}
    for folder, folders, files in os.walk(os.fsencode(root)):
        for name in folders + files:
            path = os.path.join(folder, name)
            key = os.path.relpath(path, os.fsencode(root)).decode("utf-8", "surrogateescape")
            status = os.lstat(path)
            if os.path.islink(path):
                found[key] = ("link", os.readlink(path))
            elif os.path.isdir(path):
                found[key] = ("folder", status.st_mode & 0o7777)
            else:
                with open(path, "rb") as file:
                    found[key] = ("file", status.st_mode & 0o7777, file.read())
    return found
