"""Chunks travel while the walk goes on: whole batches, two at a time, only what the server lacks."""

from __future__ import annotations

import threading
from typing import Dict, Iterable, Iterator, List, Optional, Protocol, Sequence, Set

from runyard.core.errors import RunyardError
from runyard.core.formats.chunks import Batcher, Chunk

IN_FLIGHT = 2
MOMENT_S = 0.003
ASK_ABOVE = 256 << 10  # bytes; below this, sending is cheaper than asking first


class Content(Protocol):
    """What this package needs of a server: `client.content.ContentCalls` has it."""

    def server_id(self) -> str: ...

    def close(self) -> None:
        """Close this thread's connection."""

    def missing(self, ids: Sequence[str]) -> List[str]: ...

    def put(self, chunks: Iterable[Chunk]) -> None: ...

    def release(self, ids: Sequence[str]) -> None: ...

    def fetch(self, ids: Sequence[str]) -> Iterator[Chunk]: ...

    def put_trees(self, trees: Iterable[Chunk]) -> None: ...

    def tree(self, root: str) -> Dict[str, bytes]: ...

    def put_snapshot(self, root: str, files: int, size_bytes: int) -> str: ...


class ChunkSender:
    """Takes chunks from one thread and sends them from others, so that walking, reading and sending overlap.

    Batches go when they are full. The first goes after a moment even if it is not: when little changed, it is on its
    way while the walk still looks at the rest.
    """

    def __init__(self, content: Content) -> None:
        self._content = content
        self._batcher = Batcher()
        self._seen: Set[str] = set()
        self._sent: List[str] = []
        self._full: List[List[Chunk]] = []
        self._change = threading.Condition()
        self._is_closed = False
        self._may_go_early = True
        self._threads: List[threading.Thread] = []
        self._error: Optional[BaseException] = None

    def take(self, name: str, data: bytes) -> None:
        if name in self._seen:
            return
        self._seen.add(name)
        with self._change:
            self._raise_error()
            batch = self._batcher.push(name, data)
            if not self._threads or (batch is not None and len(self._threads) < IN_FLIGHT):
                self._start_thread()
            if batch is not None:
                while self._full and self._error is None:
                    self._change.wait()
                self._full.append(batch)
                self._change.notify_all()

    def finish(self) -> None:
        """Send the rest and wait until everything has arrived; raise what went wrong."""
        with self._change:
            self._may_go_early = False
            rest = self._batcher.flush()
        try:
            if rest and self._error is None:
                self._send(rest)
        finally:
            self.stop()
        self._raise_error()

    def stop(self) -> None:
        """End the threads; what they have taken is still sent. Twice is fine."""
        with self._change:
            self._is_closed = True
            self._change.notify_all()
        threads, self._threads = self._threads, []
        for thread in threads:
            thread.join()

    def release(self) -> None:
        """Take back what was sent, after the snapshot failed: a disk that it filled has room again. After `stop`."""
        try:
            if self._sent:
                self._content.release(self._sent)
        except RunyardError:
            pass  # it is collected later; the error that counts is the caller's

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._work, name="snapshot-sender", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _work(self) -> None:
        try:
            for batch in iter(self._next_batch, None):
                self._send(batch)
        except BaseException as error:
            with self._change:
                self._error = error
                self._change.notify_all()
        finally:
            self._content.close()

    def _next_batch(self) -> Optional[List[Chunk]]:
        with self._change:
            while self._error is None:
                if self._full:
                    self._change.notify_all()
                    return self._full.pop(0)
                if self._is_closed:
                    return None
                if not self._change.wait(MOMENT_S if self._may_go_early else None) and self._may_go_early:
                    self._may_go_early = False
                    return self._batcher.flush()
        return None

    def _send(self, batch: List[Chunk]) -> None:
        if sum(len(data) for _, data in batch) > ASK_ABOVE:
            wanted = set(self._content.missing([name for name, _ in batch]))
            batch = [chunk for chunk in batch if chunk[0] in wanted]
        if batch:
            self._sent += [name for name, _ in batch]
            self._content.put(batch)

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error
