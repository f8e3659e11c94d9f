"""The interface `Storage`: the files of one datastore. Python 3.8."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Callable, ClassVar, Iterable, Iterator, NamedTuple, Optional, Protocol, Sequence, Tuple, TypeVar

Piece = TypeVar("Piece", bytes, memoryview)
Count = Callable[[int], None]  # is told the bytes of each piece of a file that travels


def count_nothing(_: int) -> None:
    pass


def counted(pieces: Iterable[Piece], count: Count) -> Iterator[Piece]:
    for piece in pieces:
        yield piece
        count(len(piece))


class StoredFile(NamedTuple):
    name: str  # a clean path on the datastore
    size: int


class Remote(Protocol):
    """The files of a datastore behind the server."""

    def list(self, path: str) -> Sequence[Tuple[str, int]]: ...

    def put(self, source: str, name: str, count: Count) -> None: ...

    def fetch(self, name: str, target: str, count: Count) -> None: ...


class Storage(ABC):
    """Where a datastore's bytes lie; names are clean paths (`data.folder.clean_data_path`).

    Made from the datastore's document. One instance may be used by several threads. A file appears whole or not at all,
    however the process that writes it ends.
    """

    at_once: ClassVar[int] = 1  # how many files are best moved at the same time

    @abstractmethod
    def iter_files(self, path: str = "") -> Iterator[StoredFile]:
        """Yield the files below `path`, or the one file that is there; nothing when there is none."""

    @abstractmethod
    def find_file(self, name: str) -> Optional[StoredFile]: ...

    @abstractmethod
    def put_file(self, source: str, name: str, count: Count = count_nothing) -> None:
        """Store the file at `source` as `name`, in place of what was there.

        Raises:
            Conflict: a folder has that name, or a file has the name of one of its folders.
        """

    @abstractmethod
    def fetch_file(self, name: str, target: str, count: Count = count_nothing) -> None:
        """Write the file to the path `target`, in place of what was there."""

    @abstractmethod
    def find_local(self, path: str) -> Optional[str]:
        """Return where `path` lies on this machine, there or not; None when this storage has no such place."""
