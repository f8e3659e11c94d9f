"""The files below a folder. Links to folders are followed, and a folder that contains itself is entered once."""

from __future__ import annotations

import os
import stat
from operator import attrgetter
from typing import Iterator, NamedTuple, Set, Tuple


class FoundFile(NamedTuple):
    name: str  # relative, `/` between folders
    path: str
    size: int


def iter_files(folder: str) -> Iterator[FoundFile]:
    """Yield the regular files below `folder`, sorted within each folder."""
    return _iter_below(folder, "", set())


def _iter_below(folder: str, prefix: str, seen: Set[Tuple[int, int]]) -> Iterator[FoundFile]:
    status = os.stat(folder)
    if (status.st_dev, status.st_ino) in seen:
        return
    seen.add((status.st_dev, status.st_ino))
    with os.scandir(folder) as entries:
        found = sorted(entries, key=attrgetter("name"))
    for entry in found:
        try:
            about = entry.stat()
        except FileNotFoundError:  # a link to nowhere, or removed meanwhile
            continue
        if stat.S_ISDIR(about.st_mode):
            yield from _iter_below(entry.path, f"{prefix}{entry.name}/", seen)
        elif stat.S_ISREG(about.st_mode):
            yield FoundFile(prefix + entry.name, entry.path, about.st_size)
