"""Fetch the chunks of a snapshot in a known order, in batches ahead of the writer.

`Known` serves a snapshot whose content came along with another answer: it fetches only what is missing or damaged.
"""

from __future__ import annotations

import queue
import threading
from typing import Any, Dict, Iterator, List, Optional, Protocol, Sequence, Tuple, Union

from runyard.core.errors import ProtocolError
from runyard.core.formats.chunks import BATCH_BYTES, BATCH_COUNT, Chunk, chunk_id
from runyard.core.formats.frames import iter_frames
from runyard.core.formats.tree import CHUNK, TREE, FolderEntry, decode_tree, tree_id

_AHEAD = 1  # batches that wait while one is being written and one is on its way

Batch = Tuple[int, Dict[str, bytes]]  # how many chunks of the order it covers; a repeated chunk travels once


class Source(Protocol):
    """What a restore needs of a server: `client.calls.content.ContentCalls` has it."""

    def close(self) -> None:
        """Close this thread's connection."""

    def fetch(self, ids: Sequence[str]) -> Iterator[Chunk]: ...

    def tree(self, root: str) -> Dict[str, bytes]: ...


class Fetcher:
    """Gives out chunks in exactly the order of `wanted`; every one is checked against its id."""

    def __init__(self, content: Source, wanted: Iterator[Tuple[str, int]]) -> None:
        self._content = content
        self._orders = _batches(wanted)
        self._began = False
        self._ready: queue.Queue[Union[Batch, BaseException]] = queue.Queue(maxsize=_AHEAD)
        self._stopped = False
        self._left = 0
        self._batch: Dict[str, bytes] = {}
        self._thread: Optional[threading.Thread] = None

    def next(self, name: str) -> bytes:
        if not self._left:
            self._left, self._batch = self._take_batch()
        self._left -= 1
        return self._batch[name]

    def stop(self) -> None:
        """End the thread; twice is fine."""
        self._stopped = True
        thread, self._thread = self._thread, None
        while thread is not None and thread.is_alive():
            try:
                self._ready.get_nowait()  # it may be waiting for room
            except queue.Empty:
                thread.join(0.01)

    def _take_batch(self) -> Batch:
        """The first batch, which is all of a small snapshot, needs no thread and no second connection."""
        if not self._began:
            self._began = True
            return self._fetch_order(next(self._orders))
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="snapshot-fetcher", daemon=True)
            self._thread.start()
        found = self._ready.get()
        if isinstance(found, BaseException):
            raise found
        return found

    def _work(self) -> None:
        try:
            for order in self._orders:
                if self._stopped:
                    return
                self._ready.put(self._fetch_order(order))
        except BaseException as error:
            self._ready.put(error)
        finally:
            self._content.close()

    def _fetch_order(self, order: List[str]) -> Batch:
        return len(order), self._fetch(list(dict.fromkeys(order)))

    def _fetch(self, ids: List[str]) -> Dict[str, bytes]:
        found: Dict[str, bytes] = {}
        for name, data in self._content.fetch(ids):
            if chunk_id(data) != name:
                raise ProtocolError(
                    f"The server did not send the content {name}.",
                    why="What came has another SHA-256.",
                    hint="Try again.",
                )
            found[name] = data
        if len(found) != len(ids):
            raise ProtocolError(
                "The server did not send all content.", why=f"{len(ids)} chunks were due, {len(found)} came."
            )
        return found


def _batches(wanted: Iterator[Tuple[str, int]]) -> Iterator[List[str]]:
    batch: List[str] = []
    size = 0
    for name, length in wanted:
        batch.append(name)
        size += length
        if size >= BATCH_BYTES or len(batch) >= BATCH_COUNT:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


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
