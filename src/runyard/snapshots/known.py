"""A snapshot whose content came along with something else: what is known is not fetched."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Sequence, Tuple

from runyard.core.errors import ProtocolError
from runyard.core.formats.chunks import chunk_id
from runyard.core.formats.frames import iter_frames
from runyard.core.formats.tree import CHUNK, TREE, FolderEntry, decode_tree, tree_id
from runyard.snapshots.fetch import Source


class Known:
    """`frames`: the trees and chunks of a whole snapshot. What of it is damaged is fetched after all."""

    def __init__(self, frames: bytes, content: Source) -> None:
        self._content = content
        self._trees: Dict[str, bytes] = {}
        self._chunks: Dict[str, bytes] = {}
        try:
            for head, body in iter_frames(frames):
                self._note(head, bytes(body))
        except ProtocolError:
            pass  # a disk that was full kept a part of them

    def tree(self, root: str) -> Dict[str, bytes]:
        """Return the tree `root` and all trees below it."""
        return self._trees if self._has_all(root) else self._content.tree(root)

    def fetch(self, ids: Sequence[str]) -> Iterator[Tuple[str, bytes]]:
        missing: List[str] = [name for name in ids if name not in self._chunks]
        yield from ((name, self._chunks[name]) for name in ids if name in self._chunks)
        if missing:
            yield from self._content.fetch(missing)

    def close(self) -> None:
        self._content.close()

    def _has_all(self, root: str) -> bool:
        waiting = [root]
        while waiting:
            data = self._trees.get(waiting.pop())
            if data is None:
                return False
            waiting += [entry.tree for entry in decode_tree(data) if isinstance(entry, FolderEntry)]
        return True

    def _note(self, head: Dict[str, Any], data: bytes) -> None:
        if head.get(TREE) == tree_id(data):
            self._trees[head[TREE]] = data
        elif head.get(CHUNK) == chunk_id(data):
            self._chunks[head[CHUNK]] = data
