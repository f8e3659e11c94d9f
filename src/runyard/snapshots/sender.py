"""Chunks travel while the walk goes on: whole batches, two at a time, only what the server lacks."""

from __future__ import annotations

import queue
import threading
from typing import Dict, Iterable, Iterator, List, Optional, Protocol, Sequence, Set

from runyard.core.chunks import Batcher, Chunk

IN_FLIGHT = 2
ASK_ABOVE = 256 << 10  # bytes; below this, sending is cheaper than asking first


class Content(Protocol):
    """What this package needs of a server: `client.content.ContentCalls` has it."""

    def server_id(self) -> str: ...

    def close(self) -> None:
        """Close this thread's connection."""

    def missing(self, ids: Sequence[str]) -> List[str]: ...

    def put(self, chunks: Iterable[Chunk]) -> None: ...

    def fetch(self, ids: Sequence[str]) -> Iterator[Chunk]: ...

    def put_trees(self, trees: Iterable[Chunk]) -> None: ...

    def tree(self, root: str) -> Dict[str, bytes]: ...

    def put_snapshot(self, root: str, files: int, size_bytes: int) -> str: ...


class ChunkSender:
    """Takes chunks from one thread; sends full batches from others, so that reading and sending overlap."""

    def __init__(self, content: Content) -> None:
        self._content = content
        self._batcher = Batcher()
        self._seen: Set[str] = set()
        self._waiting: queue.Queue[Optional[List[Chunk]]] = queue.Queue(maxsize=1)
        self._threads: List[threading.Thread] = []
        self._error: Optional[BaseException] = None
        self.sent_bytes = 0

    def take(self, name: str, data: bytes) -> None:
        if name in self._seen:
            return
        self._seen.add(name)
        batch = self._batcher.push(name, data)
        if batch is not None:
            self._raise_error()
            if len(self._threads) < IN_FLIGHT:
                self._start_thread()
            self._waiting.put(batch)

    def finish(self) -> None:
        """Send the rest and wait until everything has arrived; raise what went wrong."""
        rest = self._batcher.flush()
        try:
            if rest and self._error is None:
                self._send(rest)
        finally:
            self.stop()
        self._raise_error()

    def stop(self) -> None:
        """End the threads; what they have taken is still sent. Twice is fine."""
        threads, self._threads = self._threads, []
        for _ in threads:
            self._waiting.put(None)
        for thread in threads:
            thread.join()

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._work, name="snapshot-sender", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _work(self) -> None:
        while True:
            batch = self._waiting.get()
            if batch is None:
                self._content.close()
                return
            if self._error is None:
                try:
                    self._send(batch)
                except BaseException as error:
                    self._error = error  # the queue is still emptied, so that nobody waits for room for ever

    def _send(self, batch: List[Chunk]) -> None:
        if sum(len(data) for _, data in batch) > ASK_ABOVE:
            wanted = set(self._content.missing([name for name, _ in batch]))
            batch = [chunk for chunk in batch if chunk[0] in wanted]
        if batch:
            self._content.put(batch)
            self.sent_bytes += sum(len(data) for _, data in batch)

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error
