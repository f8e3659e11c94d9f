"""The ArtifactStore in a dict, for tests and as the simplest implementation of the contract."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock

from runyard.artifacts.base import ArtifactStore
from runyard.artifacts.content import split_key, split_prefix, unknown_key


class MemoryStore(ArtifactStore):
    def __init__(self) -> None:
        self._objects: dict[str, bytes] = {}
        self._streams: dict[str, bytearray] = {}
        self._lock = Lock()

    def put(self, key: str, data: bytes | list[bytes]) -> None:
        split_key(key)
        whole = data if isinstance(data, bytes) else b"".join(data)
        with self._lock:
            self._objects[key] = whole

    def get(self, key: str, *, offset: int = 0, length: int | None = None) -> bytes:
        split_key(key)
        found = self._objects.get(key)
        if found is None:
            raise unknown_key(key)
        return found[offset : None if length is None else offset + length]

    def size(self, key: str) -> int:
        return len(self.get(key))

    def delete(self, key: str) -> None:
        split_key(key)
        with self._lock:
            self._objects.pop(key, None)
            self._streams.pop(key, None)

    def iter_keys(self, prefix: str) -> Iterator[str]:
        split_prefix(prefix)
        with self._lock:
            found = sorted(key for key in {*self._objects, *self._streams} if key.startswith(prefix))
        yield from found

    def append(self, key: str, offset: int, data: bytes) -> int:
        split_key(key)
        with self._lock:
            stream = self._streams.setdefault(key, bytearray())
            if offset <= len(stream):
                stream += data[len(stream) - offset :]
            return len(stream)

    def stream_size(self, key: str) -> int:
        split_key(key)
        return len(self._streams.get(key, b""))

    def read_stream(self, key: str, *, offset: int = 0, length: int | None = None) -> bytes:
        split_key(key)
        stream = self._streams.get(key, bytearray())
        return bytes(stream[offset : None if length is None else offset + length])
