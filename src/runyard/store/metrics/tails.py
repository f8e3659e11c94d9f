"""Tails: the newest points of a series, few and not compressed, so that one more is a matter of microseconds.

A tail is a head (kind, CRC of kind and rest), then 24 bytes per point (step, time, value); of JSON, a chunk.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from runyard.store.damage import Damaged
from runyard.store.metrics.chunks import Columns, decode, encode
from runyard.store.metrics.growth import TAIL_POINTS
from runyard.store.metrics.kinds import CODES, F8, JSON, NAMES

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HEAD = struct.Struct("<B3xI")
_POINT = 24


def append(tail: bytes | None, new: Columns) -> bytes | None:
    """Return the tail with `new` behind it, or None when it would be too long or of two kinds."""
    if new.kind == JSON:
        return None
    if tail is None:
        return pack(new) if len(new) < TAIL_POINTS else None
    code, crc = _HEAD.unpack_from(tail)
    if code != CODES[new.kind] or len(tail) // _POINT + len(new) >= TAIL_POINTS:
        return None
    cells = _cells(new)
    return _HEAD.pack(code, zlib.crc32(cells, crc)) + tail[_HEAD.size :] + cells


def pack(columns: Columns) -> bytes:
    code = CODES[columns.kind]
    body = encode(columns) if columns.kind == JSON else _cells(columns)
    return _HEAD.pack(code, zlib.crc32(body, code)) + body


def unpack(tail: bytes) -> Columns:
    """Return what `pack` was given.

    Raises:
        Damaged: the bytes are not a tail.
    """
    code, crc = _HEAD.unpack_from(tail) if len(tail) >= _HEAD.size else (0, 0)
    body = tail[_HEAD.size :]
    if code not in NAMES or zlib.crc32(body, code) != crc:
        raise Damaged(f"the tail of a metric, {len(tail)} bytes")
    kind = NAMES[code]
    if kind == JSON:
        return decode(body)
    cells = np.frombuffer(body, "<i8").reshape(-1, 3).T
    steps, times, values = (np.ascontiguousarray(row) for row in cells)
    return Columns(kind, values.view("<f8") if kind == F8 else values, steps, times)


def _cells(columns: Columns) -> bytes:
    values: Any = columns.values
    cells: NDArray[np.int64] = np.empty((len(columns), 3), dtype="<i8")
    cells[:, 0] = columns.steps
    cells[:, 1] = columns.times
    cells[:, 2] = np.ascontiguousarray(values).view("i8")
    return cells.tobytes()
