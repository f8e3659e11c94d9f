"""A journal read one record at a time in plain Python: slow, short, and what the fast reader must agree with."""

from __future__ import annotations

import struct
from typing import Any

from runyard.core.formats import journal


def read_series(data: bytes) -> dict[str, list[tuple[Any, int, int | None]]]:
    """Return {metric: [(value, time, step)…]} in journal order; values keep their Python type."""
    names: dict[int, str] = {}
    found: dict[str, list[tuple[Any, int, int | None]]] = {}
    at = 0
    while at < len(data):
        kind = data[at]
        if kind in (journal.FLOAT, journal.INT, journal.BOOL):
            _kind, flags, _zero, name_id, step, time, value = journal.NUMBER.unpack_from(data, at)
            if kind != journal.FLOAT:
                (value,) = struct.unpack_from("<q", data, at + 24)
            if name_id in names:
                point = (bool(value) if kind == journal.BOOL else value, time, step if flags & 1 else None)
                found.setdefault(names[name_id], []).append(point)
            at += journal.CELL
            continue
        record = next(iter(journal.iter_parts(data[at:], base=at)))
        assert isinstance(record, journal.LongRecord)
        payload = record.payload
        if record.kind == journal.NAME:
            names.setdefault(payload["id"], payload["name"])
        elif record.kind == journal.VALUES:
            points = found.setdefault(payload["name"], [])
            points += [(value, payload["t"], payload["step"]) for value in payload["values"]]
        at = record.end
    return found
