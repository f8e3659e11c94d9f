"""Chunks: up to 4,096 points of one series as bytes, and what is known of them without opening those bytes.

A chunk's bytes are one zstd frame with a checksum: a head (kind, how steps, times and values are packed, where they
start), then these. Whole numbers are kept as differences (values: as they are) less the smallest of them, in as few
bytes as the largest needs; evenly spaced steps take none. The bytes of floats are regrouped (all first bytes, all
second bytes, …), which is what lets zstd find something. This module loads numpy and zstandard: import it when a point
is there.

What a series' values are: f8, i8, b1 (bool as 0 and 1) in arrays, or json, a list of scalars.

Ints become floats once a float is in the series, as Azure does; everything else that does not fit one array is json.
"""

from __future__ import annotations

import json
import struct
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import zstandard

from runyard.store.text import DamagedBytes, dump, scalar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Values = NDArray[np.float64] | NDArray[np.int64] | list[Any]
    Ints = NDArray[np.int64]


F8, I8, B1, JSON = "f8", "i8", "b1", "json"
CODES = {F8: 1, I8: 2, B1: 4, JSON: 8}  # bits, so that a series can say in one number what it holds
NAMES = {code: name for name, code in CODES.items()}
_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1
CHUNK_POINTS = 4096
_VERSION = 1
_LEVEL = 1
# version, kind, bytes per step, time and value; count; first step, steps' base, first time, times' base, values' base
_HEAD = struct.Struct("<BBBBB3xIqqqqq")
_UNSIGNED = {1: "<u1", 2: "<u2", 4: "<u4"}


def join(first: str, second: str) -> str:
    """Return the kind that holds values of both."""
    if first == second:
        return first
    return F8 if {first, second} == {F8, I8} else JSON


def join_codes(codes: int) -> str:
    """Return the kind that holds all kinds of a bit mask."""
    if codes in NAMES:
        return NAMES[codes]
    return F8 if codes == CODES[F8] | CODES[I8] else JSON


def convert(values: Values, kind: str, wanted: str) -> Values:
    """Return `values` of `kind` as `wanted`, a kind that `join` gave."""
    if kind == wanted or isinstance(values, list):
        return values
    if wanted == F8:
        return values.astype("f8")
    return to_python(values, kind)


def to_python(values: Values, kind: str) -> list[Any]:
    """Return values as a list of Python's own scalars."""
    if isinstance(values, list):
        return values
    found: list[Any] = values.tolist()
    return [bool(value) for value in found] if kind == B1 else found


def settle(values: Iterable[Any]) -> tuple[str, Values]:
    """Return scalars in the narrowest kind that holds them all."""
    # Most servers are idle most of the time and never touch a metric; numpy costs them 25 MB.
    import numpy as np

    found = [scalar(value) for value in values]
    types = {type(value) for value in found}
    if types <= {float}:
        return F8, np.array(found, dtype=np.float64)
    if types == {bool}:
        return B1, np.array(found, dtype=np.int64)
    if types == {int} and min(found) >= _INT64_MIN and max(found) <= _INT64_MAX:
        return I8, np.array(found, dtype=np.int64)
    if float in types and int in types:
        found = [_widen(value) for value in found]
        if {type(value) for value in found} == {float}:
            return F8, np.array(found, dtype=np.float64)
    return JSON, found


def as_number(value: Any) -> float | None:
    """Return what a value counts as in filters and order: None for text, NaN and what no float holds."""
    if not isinstance(value, (bool, int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return None if number != number else number


def numbers_among(values: Sequence[Any]) -> list[float]:
    """Return the values that are numbers, as floats."""
    found = (as_number(value) for value in values)
    return [number for number in found if number is not None]


def _widen(value: Any) -> Any:
    if type(value) is not int:
        return value
    try:
        return float(value)
    except OverflowError:
        return value


_local = threading.local()


@dataclass(frozen=True)
class Columns:
    """Points of one series: values of one kind, steps and monotonic times, all of one length."""

    kind: str
    values: Values
    steps: Ints
    times: Ints

    def __len__(self) -> int:
        return len(self.times)

    def part(self, start: int, end: int) -> Columns:
        """Return the points from `start` up to `end`."""
        return Columns(self.kind, self.values[start:end], self.steps[start:end], self.times[start:end])


def concatenate(pieces: Sequence[Columns]) -> Columns:
    """Return the points of all pieces, in the kind that holds them all."""
    if len(pieces) == 1:
        return pieces[0]
    kind = pieces[0].kind
    for piece in pieces[1:]:
        kind = join(kind, piece.kind)
    parts = [convert(piece.values, piece.kind, kind) for piece in pieces]
    values: Any = [value for part in parts for value in part] if kind == JSON else np.concatenate(parts)
    steps = np.concatenate([piece.steps for piece in pieces])
    return Columns(kind, values, steps, np.concatenate([piece.times for piece in pieces]))


def encode(columns: Columns) -> bytes:
    """Return the bytes of at least one point."""
    steps, times = columns.steps, columns.times
    step_width, step_base, step_bytes = _pack(np.diff(steps))
    time_width, time_base, time_bytes = _pack(np.diff(times))
    value_width, value_base, value_bytes = _pack_values(columns)
    head = _HEAD.pack(
        _VERSION,
        CODES[columns.kind],
        step_width,
        time_width,
        value_width,
        len(columns),
        int(steps[0]),
        step_base,
        int(times[0]),
        time_base,
        value_base,
    )
    return _compressor().compress(b"".join((head, step_bytes, time_bytes, value_bytes)))


def decode(data: bytes) -> Columns:
    """Return what `encode` was given.

    Raises:
        Damaged: the bytes are not a whole chunk.
    """
    try:
        return _decode(data)
    except (struct.error, zstandard.ZstdError, ValueError, KeyError, MemoryError) as error:
        raise DamagedBytes(f"a chunk of a metric: {error}") from error


def _decode(data: bytes) -> Columns:
    body = _decompressor().decompress(data)
    (
        version,
        code,
        step_width,
        time_width,
        value_width,
        count,
        first_step,
        step_base,
        first_time,
        time_base,
        value_base,
    ) = _HEAD.unpack_from(body)
    if version != _VERSION:
        raise ValueError(f"chunk format {version} is unknown")
    steps_at = _HEAD.size
    times_at = steps_at + (count - 1) * step_width
    values_at = times_at + (count - 1) * time_width
    steps = _sum_up(first_step, _unpack(step_width, step_base, body, steps_at, count - 1))
    times = _sum_up(first_time, _unpack(time_width, time_base, body, times_at, count - 1))
    kind = NAMES[code]
    values: Any
    if kind == JSON:
        values = json.loads(body[values_at:])
    elif kind == F8:
        values = _regroup(np.frombuffer(body, "u1", count * 8, values_at).reshape(8, count).T).view("<f8")
    else:
        values = _unpack(value_width, value_base, body, values_at, count)
    if len(values) != count:
        raise ValueError(f"{len(values)} values where {count} should be")
    return Columns(kind, values, steps, times)


def _pack_values(columns: Columns) -> tuple[int, int, bytes]:
    values: Any = columns.values
    if columns.kind == JSON:
        return 0, 0, dump(values).encode("ascii")
    if columns.kind == F8:
        plain = np.ascontiguousarray(values, "<f8").view("u1").reshape(len(columns), 8)
        return 8, 0, plain.T.tobytes()
    return _pack(values)


def _pack(numbers: Ints) -> tuple[int, int, bytes]:
    if not len(numbers):
        return 0, 0, b""
    low, high = int(numbers.min()), int(numbers.max())
    if low == high:
        return 0, low, b""
    for width, limit in ((1, 1 << 8), (2, 1 << 16), (4, 1 << 32)):
        if high - low < limit:
            return width, low, (numbers - low).astype(_UNSIGNED[width]).tobytes()
    return 8, 0, numbers.astype("<i8").tobytes()


def _unpack(width: int, base: int, body: bytes, at: int, count: int) -> Ints:
    if width == 0:
        return np.full(max(count, 0), base, dtype=np.int64)
    if width == 8:
        return np.frombuffer(body, "<i8", count, at).astype(np.int64)
    numbers = np.frombuffer(body, _UNSIGNED[width], count, at).astype(np.int64)
    numbers += base
    return numbers


def _sum_up(first: int, differences: Ints) -> Ints:
    """Undo `np.diff`. Both wrap around at 64 bits, so every int64 comes back."""
    numbers = np.empty(len(differences) + 1, dtype=np.int64)
    numbers[0] = first
    numbers[1:] = differences
    return np.cumsum(numbers, out=numbers)


def _regroup(matrix: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(matrix).reshape(-1)


def _compressor() -> zstandard.ZstdCompressor:
    found: zstandard.ZstdCompressor | None = getattr(_local, "compressor", None)
    if found is None:
        found = _local.compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
    return found


def _decompressor() -> zstandard.ZstdDecompressor:
    found: zstandard.ZstdDecompressor | None = getattr(_local, "decompressor", None)
    if found is None:
        found = _local.decompressor = zstandard.ZstdDecompressor()
    return found
