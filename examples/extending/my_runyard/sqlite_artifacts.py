"""The ArtifactStore `sqlite`: all objects and logs in one SQLite file."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from runyard.artifacts.base import ArtifactStore
from runyard.artifacts.content import split_key, split_prefix, unknown_key
from runyard.core.errors import StoreUnavailable

MOST_BYTES = 2**31 - 1  # of one value in SQLite
TABLES = """
CREATE TABLE IF NOT EXISTS objects (key TEXT PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS pieces (key TEXT, start INTEGER, data BLOB NOT NULL, PRIMARY KEY (key, start));
"""


class SqliteArtifacts(ArtifactStore):
    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(path, check_same_thread=False)
        self._connection.execute("PRAGMA synchronous = FULL")  # durable when a call returns
        self._connection.executescript(TABLES)

    def put(self, key: str, data: bytes | list[bytes]) -> None:
        split_key(key)
        whole = data if isinstance(data, bytes) else b"".join(data)
        with self._transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO objects VALUES (?, ?)", (key, whole))

    def get(self, key: str, *, offset: int = 0, length: int | None = None) -> bytes:
        split_key(key)
        most = MOST_BYTES if length is None else length
        found = self._one("SELECT substr(data, ?, ?) FROM objects WHERE key = ?", offset + 1, most, key)
        return bytes(found or b"")  # SQLite has NULL for a part of an empty value

    def size(self, key: str) -> int:
        split_key(key)
        return int(self._one("SELECT length(data) FROM objects WHERE key = ?", key))

    def delete(self, key: str) -> None:
        split_key(key)
        with self._transaction() as connection:
            connection.execute("DELETE FROM objects WHERE key = ?", (key,))
            connection.execute("DELETE FROM pieces WHERE key = ?", (key,))

    def iter_keys(self, prefix: str) -> Iterator[str]:
        split_prefix(prefix)
        keys = "SELECT key FROM objects UNION SELECT key FROM pieces"
        with self._transaction() as connection:
            rows = connection.execute(f"SELECT key FROM ({keys}) ORDER BY key").fetchall()
        yield from (key for (key,) in rows if key.startswith(prefix))

    def append(self, key: str, offset: int, data: bytes) -> int:
        split_key(key)
        with self._transaction() as connection:
            size = _stream_size(connection, key)
            new = data[size - offset :] if offset <= size else b""
            if new:
                connection.execute("INSERT INTO pieces VALUES (?, ?, ?)", (key, size, new))
            return size + len(new)

    def stream_size(self, key: str) -> int:
        split_key(key)
        with self._transaction() as connection:
            return _stream_size(connection, key)

    def read_stream(self, key: str, *, offset: int = 0, length: int | None = None) -> bytes:
        split_key(key)
        with self._transaction() as connection:
            rows = connection.execute("SELECT data FROM pieces WHERE key = ? ORDER BY start", (key,)).fetchall()
        whole = b"".join(data for (data,) in rows)
        return whole[offset:] if length is None else whole[offset : offset + length]

    def close(self) -> None:
        self._connection.close()

    def _one(self, query: str, *values: object) -> Any:
        """Return the one value of the query, whose last parameter is the key."""
        with self._transaction() as connection:
            row = connection.execute(query, values).fetchone()
        if row is None:
            raise unknown_key(str(values[-1]))
        return row[0]

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Commit at the end, or undo. Threads wait for each other: SQLite has one writer."""
        try:
            with self._lock, self._connection:
                yield self._connection
        except sqlite3.OperationalError as error:
            raise StoreUnavailable("The artifact database cannot be used.", why=str(error)) from error


def _stream_size(connection: sqlite3.Connection, key: str) -> int:
    (size,) = connection.execute("SELECT coalesce(sum(length(data)), 0) FROM pieces WHERE key = ?", (key,)).fetchone()
    return int(size)
