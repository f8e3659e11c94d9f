"""Reads what can be read of a damaged SQLite file, row by row, and writes it into a new one with the same schema.

Whole rows only: a row that cannot be read, or whose document or points are not what was stored, is left out and
counted. The damaged file is opened for reading alone.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import struct
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from runyard.core.errors import StoreUnavailable
from runyard.core.records import Experiment, Run, RunFile, Workspace
from runyard.store.metrics import arrivals
from runyard.store.metrics.chunks import decode
from runyard.store.repair.mending import mend
from runyard.store.sql.rows import record_of
from runyard.store.sql.schema import metadata
from runyard.store.sqlite import SqliteStore
from runyard.store.text import DamagedBytes

_AT_ONCE = 500
_MOST_ID = 1 << 62
_HEADER_BYTES, _PAGE_BYTES = 100, 4096
_COUNTER_AT, _PAGES_AT, _FREE_AT, _VALID_FOR_AT = 24, 28, 32, 92
_FAILURES = (sqlite3.DatabaseError, UnicodeDecodeError)
Row = tuple[object, ...]


@dataclass
class SavedTable:
    """How many rows of a table could be read."""

    name: str
    saved: int = 0
    refused: int = 0  # read, and not what was stored
    gaps: int = 0  # places where rows could not be read
    expected: int | None = None  # None: nobody knows

    @property
    def lost(self) -> int | None:
        """How many rows are not there any more; None: some."""
        if self.expected is not None:
            return max(self.refused, self.expected - self.saved)
        return None if self.gaps else self.refused


@dataclass
class Salvage:
    """What could be read of a damaged file."""

    tables: list[SavedTable] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)  # in SQLite's words

    @property
    def is_sound(self) -> bool:
        """Whether nothing is damaged or missing."""
        return not self.problems and all(table.lost == 0 for table in self.tables)


def salvage(source: Path, target: Path) -> Salvage:
    """Write all that can be read of `source` into the new file `target`, without its indexes' damage.

    Raises:
        StoreUnavailable: nothing can be read.
    """
    found = Salvage()
    opened = _Opened(source, beside=target)
    with opened as old, closing(sqlite3.connect(target, isolation_level=None)) as new:
        found.problems = [*opened.problems, *_problems(old)]
        new.execute("PRAGMA foreign_keys=OFF")
        new.execute("BEGIN")
        tables, indexes = _schema(old, target)
        for _, sql in tables:
            new.execute(sql)
        for name in _ordered([name for name, _ in tables]):
            found.tables.append(_copy(old, new, name))
        for sql in indexes:
            new.execute(sql)
        with suppress(*_FAILURES):  # ids that were given once are not given again
            for name, last in old.execute("SELECT name, seq FROM sqlite_sequence").fetchall():
                new.execute("UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = ?", (last, name))
        mend(new)
        new.execute("COMMIT")
    return found


class _Opened:
    """The damaged file, for reading; where its header is gone, a copy with a new one."""

    def __init__(self, path: Path, *, beside: Path) -> None:
        self._path, self._copy = path, beside.with_name(f"{beside.name}.copy")
        self._connection: sqlite3.Connection | None = None
        self.problems: list[str] = []

    def __enter__(self) -> sqlite3.Connection:
        for path in (self._path, self._copy):
            if path == self._copy:
                _mend_header(self._path, self._copy)
            self._connection = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, isolation_level=None)
            try:
                self._connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
                return self._connection
            except sqlite3.DatabaseError as error:
                self._connection.close()
                self.problems.append(str(error))
        self._remove_copy()
        raise StoreUnavailable(
            f"Nothing can be read of the database `{self._path}`.",
            why=f"SQLite: {self.problems[-1]}.",
            hint="Restore a backup of it. The stored files of runs are in `artifacts/` and are kept.",
        )

    def __exit__(self, *_: object) -> None:
        if self._connection is not None:
            self._connection.close()
        self._remove_copy()

    def _remove_copy(self) -> None:
        for ending in ("", "-wal", "-shm"):
            Path(f"{self._copy}{ending}").unlink(missing_ok=True)


def _mend_header(path: Path, copy: Path) -> None:
    """Copy the file and give it the header of a database of ours: the rest of its first page may be whole."""
    model = copy.with_name(f"{copy.name}.model")
    SqliteStore(model).close()
    header = bytearray(model.read_bytes()[:_HEADER_BYTES])
    model.unlink()
    shutil.copyfile(path, copy)
    for at, value in (
        (_PAGES_AT, os.path.getsize(copy) // _PAGE_BYTES),
        (_FREE_AT, 0),
        (_FREE_AT + 4, 0),
        (_VALID_FOR_AT, struct.unpack_from(">I", header, _COUNTER_AT)[0]),
    ):
        struct.pack_into(">I", header, at, value)
    with open(copy, "r+b") as file:
        file.write(header)


def _problems(old: sqlite3.Connection) -> list[str]:
    try:
        found = [str(row[0]) for row in old.execute("PRAGMA integrity_check(20)")]
    except _FAILURES as error:
        return [str(error)]
    return [] if found == ["ok"] else found


def _schema(old: sqlite3.Connection, target: Path) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the tables (name, SQL) and the SQL of the indexes: the file's own; this program's where it lost some."""
    try:
        found = _read_schema(old)
    except _FAILURES:
        found = ([], [])
    if len(found[0]) > len(metadata.tables):  # ours and Alembic's
        return found
    model = target.with_name(f"{target.name}.model")
    SqliteStore(model).close()
    try:
        with closing(sqlite3.connect(model)) as connection:
            return _read_schema(connection)
    finally:
        for ending in ("", "-wal", "-shm"):
            Path(f"{model}{ending}").unlink(missing_ok=True)


def _read_schema(connection: sqlite3.Connection) -> tuple[list[tuple[str, str]], list[str]]:
    rows = connection.execute(
        "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'"
    ).fetchall()
    tables = [(str(name), str(sql)) for kind, name, sql in rows if kind == "table"]
    return tables, [str(sql) for kind, _, sql in rows if kind == "index"]


def _ordered(names: Sequence[str]) -> list[str]:
    """Return the tables with those first that others refer to."""
    known = [table.name for table in metadata.sorted_tables]
    return sorted(names, key=lambda name: known.index(name) if name in known else -1)


def _copy(old: sqlite3.Connection, new: sqlite3.Connection, name: str) -> SavedTable:
    table = SavedTable(name)
    columns = [str(row[1]) for row in new.execute(f'PRAGMA table_info("{name}")')]
    check = _CHECKS.get(name, _anything)
    insert = f'INSERT OR IGNORE INTO "{name}" VALUES ({", ".join("?" * len(columns))})'
    for row in _iter_rows(old, new, table, columns):
        values = dict(zip(columns, row, strict=True))
        try:
            check(values)
        except (DamagedBytes, ValueError, TypeError, KeyError):
            table.refused += 1
            if name != "series":
                continue
            values["tail"] = None  # the rest of its points are in rows of their own
        table.saved += new.execute(insert, list(values.values())).rowcount
    try:
        table.expected = int(old.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0])  # by any index that is whole
    except _FAILURES:
        table.expected = None
    return table


def _iter_rows(
    old: sqlite3.Connection, new: sqlite3.Connection, table: SavedTable, columns: Sequence[str]
) -> Iterator[Row]:
    names = ", ".join(f'"{column}"' for column in columns)
    key = _key_without_rowid(new, table.name)
    if not key:
        yield from _iter_by_rowid(old, table, names)
        return
    select = f'SELECT {names} FROM "{table.name}"'
    if (yield from _iter_until_damage(old, f"{select} ORDER BY {', '.join(key)}", ())):
        return
    table.gaps += 1
    for condition, values in _parts(new, table.name, key[0]):
        part = f"{select} WHERE {condition}"
        if not (yield from _iter_until_damage(old, f"{part} ORDER BY {', '.join(key)}", values)):
            backwards = ", ".join(f"{column} DESC" for column in key)
            yield from _iter_until_damage(old, f"{part} ORDER BY {backwards}", values)


def _iter_until_damage(old: sqlite3.Connection, sql: str, values: Row) -> Generator[Row, None, bool]:
    """Yield rows; return whether all came."""
    try:
        cursor = old.execute(sql, values)
        while rows := cursor.fetchmany(_AT_ONCE):
            yield from rows
    except _FAILURES:
        return False
    return True


def _key_without_rowid(new: sqlite3.Connection, name: str) -> list[str]:
    """Return the quoted columns of the key of a table that has no row ids; [] for others."""
    sql = str(new.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (name,)).fetchone()[0])
    if "WITHOUT ROWID" not in sql.upper():
        return []
    rows = new.execute(f'PRAGMA table_info("{name}")').fetchall()
    return [f'"{row[1]}"' for row in sorted(rows, key=lambda row: row[5]) if row[5]]


def _parts(new: sqlite3.Connection, name: str, first: str) -> Iterator[tuple[str, Row]]:
    """Yield conditions that cut a table into small parts: by what its key refers to, or by how an id begins."""
    for row in new.execute(f'PRAGMA foreign_key_list("{name}")').fetchall():
        if f'"{row[3]}"' == first:
            for (value,) in new.execute(f'SELECT "{row[4]}" FROM "{row[2]}"').fetchall():
                yield f"{first} = ?", (value,)
            return
    for number in range(0x1000):
        yield f"{first} >= ? AND {first} < ?", (f"{number:03x}", f"{number:03x}g")


def _iter_by_rowid(old: sqlite3.Connection, table: SavedTable, names: str) -> Iterator[Row]:
    sql = f'SELECT rowid, {names} FROM "{table.name}" NOT INDEXED WHERE rowid > ? ORDER BY rowid LIMIT ?'
    last, limit = -1, _AT_ONCE
    while True:
        try:
            rows = old.execute(sql, (last, limit)).fetchall()
            if rows and not all(before[0] < after[0] for before, after in zip([(last,), *rows], rows)):
                raise sqlite3.DatabaseError("rows out of order")
        except _FAILURES:
            if limit > 1:
                limit = max(1, limit // 8)
                continue
            table.gaps += 1
            last = _find_past_damage(lambda at: old.execute(sql, (at, 1)).fetchall(), last)
            if last >= _MOST_ID:
                return
            continue
        if not rows:
            return
        yield from (row[1:] for row in rows)
        last, limit = rows[-1][0], min(_AT_ONCE, limit * 2)


def _find_past_damage(read: Callable[[int], object], last: int) -> int:
    """Return the least id behind `last` after which a row can be read again, or none is left."""

    def fails(at: int) -> bool:
        try:
            read(at)
        except _FAILURES:
            return True
        return False

    step = 1
    while last + step < _MOST_ID and fails(last + step):
        step *= 2
    low, high = last + step // 2, min(last + step, _MOST_ID)
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (middle, high) if fails(middle) else (low, middle)
    return high


def _anything(row: Mapping[str, object]) -> None:
    """Nothing is known about the rows of this table."""


def _is_json(column: str) -> Callable[[Mapping[str, object]], object]:
    return lambda row: json.loads(str(row[column]))


def _document(cls: type) -> Callable[[Mapping[str, object]], object]:
    return lambda row: record_of(cls, str(row["document"]))


def _points(row: Mapping[str, object]) -> None:
    data = row["data"]
    if not isinstance(data, bytes) or len(decode(data)) != row["count"]:
        raise DamagedBytes("a chunk of a metric")


def _tail(row: Mapping[str, object]) -> None:
    if row["tail"] is not None:
        arrivals.unpack(row["tail"])  # type: ignore[arg-type]  # bytes, or it is not ours


_CHECKS: dict[str, Callable[[Mapping[str, object]], object]] = {
    "workspaces": _document(Workspace),
    "experiments": _document(Experiment),
    "runs": _document(Run),
    "files": _document(RunFile),
    "asset_versions": _is_json("document"),
    "run_events": _is_json("document"),
    "segments": _is_json("names"),
    "metric_chunks": _points,
    "series": _tail,
}
