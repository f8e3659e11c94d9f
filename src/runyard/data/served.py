"""The storage `served`: a folder of the server's machine, reached from another one through the server."""

from __future__ import annotations

from typing import Iterator, Optional

from runyard.data.base import Remote, Storage, StoredFile


class ServedStorage(Storage):
    def __init__(self, remote: Remote) -> None:
        self._remote = remote

    def iter_files(self, path: str = "") -> Iterator[StoredFile]:
        for name, size in self._remote.list(path):
            yield StoredFile(name, size)

    def find_file(self, name: str) -> Optional[StoredFile]:
        return next((file for file in self.iter_files(name) if file.name == name), None)

    def put_file(self, source: str, name: str) -> None:
        self._remote.put(source, name)

    def fetch_file(self, name: str, target: str) -> None:
        self._remote.fetch(name, target)

    def find_local(self, path: str) -> Optional[str]:
        return None
