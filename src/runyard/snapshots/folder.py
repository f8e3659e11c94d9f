"""One folder as the last walk found it: the next walk compares with it, and its tree is made from it."""

from __future__ import annotations

import os
from operator import attrgetter
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple, Union

from runyard.core.formats.tree import FolderEntry, entry_bytes, join_entries, name_text, tree_id

Stamp = Tuple[int, int, int, int, int]
stamp_of: Callable[[os.stat_result], Stamp] = attrgetter("st_mtime_ns", "st_ctime_ns", "st_size", "st_ino", "st_mode")


class KeptEntry(NamedTuple):
    """A file or link of the snapshot. `stamp` None: look at it again next time, whatever its stat says."""

    stamp: Optional[Stamp]
    piece: bytes  # its entry in the tree
    size: int
    target: Optional[str] = None  # of a link


class Folder:
    """An unchanged folder is the same object in the next walk, so a sealed one keeps what its tree is made of."""

    __slots__ = ("files", "folders", "largest", "mode", "rules", "size", "skipped", "tree", "uplinks")

    def __init__(
        self,
        mode: int,
        files: Dict[str, KeptEntry],
        folders: Dict[str, Folder],
        skipped: Optional[Dict[str, int]] = None,
        rules: str = "",
    ) -> None:
        self.mode = mode
        self.files = files
        self.folders = folders
        self.skipped = skipped if skipped is not None else {}  # name → decision * 2 + is a folder
        self.rules = rules  # digest of the rules that it was walked with
        self.tree = ""
        self.size = sum([kept.size for kept in files.values()])
        self.largest = max([(kept.size, name) for name, kept in files.items()], default=(0, ""))
        self.uplinks = [name for name, kept in files.items() if kept.target is not None and ".." in kept.target]

    def seal(self) -> bytes:
        """Return the tree object and remember its id. The folders below must be sealed."""
        pieces = [(os.fsencode(name), kept.piece) for name, kept in self.files.items()]
        for name, folder in self.folders.items():
            raw = os.fsencode(name)
            pieces.append((raw, entry_bytes(FolderEntry(name_text(raw), folder.mode, folder.tree))))
        pieces.sort()
        data = join_entries([piece for _, piece in pieces])
        self.tree = tree_id(data)
        return data

    def iter_below(self, path: str = "") -> Iterator[Tuple[str, Folder]]:
        """Yield (path, folder) of all folders, children first, this one last."""
        for name, folder in self.folders.items():
            yield from folder.iter_below(f"{path}/{name}" if path else name)
        yield path, self

    def entry(self, name: str) -> Optional[Union[Folder, str]]:
        """Return what `name` is, for `links.leaves_tree`."""
        found = self.folders.get(name)
        if found is not None:
            return found
        kept = self.files.get(name)
        return kept.target if kept is not None else None


def chunks_of(kept: KeptEntry) -> List[str]:
    """Return the chunk ids in a file's entry; a link has none."""
    if kept.target is not None:
        return []
    ids = kept.piece[kept.piece.rindex(b"[") + 1 : -2].decode("ascii")
    return [item[1:-1] for item in ids.split(",")] if ids else []
