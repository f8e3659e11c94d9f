"""The seam `ArtifactStore`: bytes by key, plus logs that grow."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol


class ArtifactStore(ABC):
    """Keeps immutable objects under keys such as `packs/ab12…`. Shared between threads.

    An object is visible whole or not at all, and durable when `put` returns. Keys are made by us, never by a client.
    Unknown keys raise NotFound; a full disk raises StoreUnavailable.
    """

    @abstractmethod
    def put(self, key: str, data: bytes | list[bytes]) -> None:
        """Store under a new key; the same key again with the same bytes is harmless."""

    @abstractmethod
    def get(self, key: str, *, offset: int = 0, length: int | None = None) -> bytes: ...

    @abstractmethod
    def size(self, key: str) -> int: ...

    @abstractmethod
    def delete(self, key: str) -> None:
        """Remove; a missing key is not an error."""

    def move(self, key: str, to: str) -> None:
        """Give an object another key, which is new. Stores that can rename do so: the disk may be full."""
        self.put(to, self.get(key))
        self.delete(key)

    @abstractmethod
    def iter_keys(self, prefix: str) -> Iterator[str]: ...

    # Streams: logs that grow while a run lives. `key` is made by us.
    @abstractmethod
    def append(self, key: str, offset: int, data: bytes) -> int:
        """Write `data` at `offset` and return the stream's size. Bytes already there are skipped, a gap writes nothing.

        Durable when it returns.
        """

    @abstractmethod
    def stream_size(self, key: str) -> int:
        """0 when there is none."""

    @abstractmethod
    def read_stream(self, key: str, *, offset: int = 0, length: int | None = None) -> bytes: ...


class ChunkIndex(Protocol):
    """Where each chunk lies in which pack: three methods of `store.base.RunStore`, which says what they mean."""

    def find_chunks(self, ids: Sequence[str]) -> dict[str, tuple[str, int, int, int, str]]: ...

    def add_chunks(self, pack: str, places: Mapping[str, tuple[int, int, int, str]]) -> None: ...

    def iter_packs(self) -> Iterator[str]: ...
