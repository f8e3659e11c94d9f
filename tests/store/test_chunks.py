from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runyard.store.metrics import arrivals, charts
from runyard.store.metrics.arrivals import TAIL_POINTS, grow
from runyard.store.metrics.chunks import CHUNK_POINTS, Columns, concatenate, decode, encode, settle
from runyard.store.text import DamagedBytes

INT64 = st.integers(-(2**63), 2**63 - 1)
SCALARS = st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.floats() | st.text(max_size=5)
VALUES = {
    "f8": st.floats(),
    "i8": INT64 | st.integers(-3, 300),
    "b1": st.integers(0, 1),
    "json": SCALARS,
}


@st.composite
def columns(draw: st.DrawFn, kind: str | None = None) -> Columns:
    found = kind or draw(st.sampled_from(sorted(VALUES)))
    size = draw(st.integers(1, 40))
    values: Any = draw(st.lists(VALUES[found], min_size=size, max_size=size))
    if found != "json":
        values = np.array(values, dtype="f8" if found == "f8" else "i8")
    steps, times = (np.array(draw(st.lists(INT64, min_size=size, max_size=size)), dtype="i8") for _ in range(2))
    if draw(st.booleans()):
        steps = np.arange(size, dtype=np.int64) * draw(st.integers(-9, 9))
    return Columns(found, values, steps, times)


def same(first: Columns, second: Columns) -> bool:
    if first.kind != second.kind or len(first) != len(second):
        return False
    if isinstance(first.values, list) or isinstance(second.values, list):
        values = [repr(value) for value in first.values] == [repr(value) for value in second.values]
    else:
        values = first.values.tobytes() == second.values.tobytes()
    return values and np.array_equal(first.steps, second.steps) and np.array_equal(first.times, second.times)


@given(columns())
@settings(deadline=None, max_examples=200)
def test_what_is_encoded_is_decoded(points: Columns) -> None:
    assert same(decode(encode(points)), points)


@given(columns(), st.data())
@settings(deadline=None, max_examples=100)
def test_a_flipped_byte_is_refused_or_changes_nothing(points: Columns, data: st.DataObject) -> None:
    whole = bytearray(encode(points))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))

    try:
        found = decode(bytes(whole))
    except DamagedBytes:
        return
    assert same(found, points)


@pytest.mark.long
@given(st.lists(columns(), min_size=1, max_size=8))
@settings(deadline=None, max_examples=100)
def test_a_tail_grows_by_points_of_its_kind_and_comes_back(pieces: list[Columns]) -> None:
    tail: bytes | None = None
    kept: list[Columns] = []
    for piece in pieces:
        longer = arrivals.append(tail, piece)
        if longer is None:
            assert piece.kind == "json" or kept[0].kind != piece.kind or sum(map(len, [*kept, piece])) >= TAIL_POINTS
            continue
        tail = longer
        kept.append(piece)

    assert (tail is None) == (not kept)
    if tail is not None:
        assert same(arrivals.unpack(tail), concatenate(kept))


@given(columns(), st.data())
@settings(deadline=None, max_examples=100)
def test_a_flipped_byte_of_a_tail_is_refused(points: Columns, data: st.DataObject) -> None:
    whole = bytearray(arrivals.pack(points))
    at = data.draw(st.sampled_from([place for place in range(len(whole)) if place not in (1, 2, 3)]))
    whole[at] ^= data.draw(st.integers(1, 255))

    with pytest.raises(DamagedBytes, match="tail"):
        arrivals.unpack(bytes(whole))


@pytest.mark.parametrize("tail", [b"", b"\1", b"\1\0\0\0\0\0\0", b"\7\0\0\0\0\0\0\0"])
def test_bytes_that_are_no_tail_are_refused(tail: bytes) -> None:
    with pytest.raises(DamagedBytes, match="tail"):
        arrivals.unpack(tail)


@pytest.mark.parametrize("cut", [0, 4, 10, 60, -1])
def test_bytes_that_are_cut_off_are_refused(cut: int) -> None:
    steps = np.arange(100, dtype=np.int64)
    whole = encode(Columns("f8", np.random.default_rng(0).normal(size=100), steps, steps))

    with pytest.raises(DamagedBytes, match="chunk"):
        decode(whole[:cut])


def test_evenly_spaced_steps_take_no_room() -> None:
    size = CHUNK_POINTS
    flat = np.zeros(size)
    even, times = np.arange(size, dtype=np.int64) * 10, np.arange(size, dtype=np.int64) * 1_000_000
    uneven = np.random.default_rng(0).integers(0, 1 << 40, size=size)

    assert len(encode(Columns("f8", flat, even, times))) < 200
    assert len(encode(Columns("f8", flat, uneven, times))) > size * 5


@pytest.mark.long
@given(st.lists(columns("f8") | columns("i8"), min_size=1, max_size=6))
@settings(deadline=None)
def test_concatenated_numbers_keep_their_order(pieces: list[Columns]) -> None:
    whole = concatenate(pieces)
    expected = np.concatenate([np.asarray(piece.values, dtype=np.float64) for piece in pieces])

    assert np.array_equal(np.asarray(whole.values, dtype=np.float64), expected, equal_nan=True)


@given(
    sizes=st.lists(st.integers(1, 9000) | st.integers(1, 300), min_size=1, max_size=25),
    texts=st.sets(st.integers(0, 24), max_size=3),
)
@settings(deadline=None, max_examples=60)
def test_a_series_grows_without_losing_or_moving_a_point(sizes: list[int], texts: set[int]) -> None:
    rows: dict[int, Columns] = {}
    tail: Columns | None = None
    chunks = opened = total = 0
    expected: list[Any] = []
    for index, size in enumerate(sizes):
        numbers = np.arange(total, total + size, dtype=np.int64)
        values: Any = [f"t{number}" for number in numbers] if index in texts else numbers * 1.0
        new = Columns("json" if index in texts else "f8", values, numbers, numbers)
        growth = grow(new, tail=tail, chunks=chunks, open_count=opened, load_open=lambda: rows[chunks - 1])  # noqa: B023
        rows.update(growth.rows)
        tail, chunks, opened = growth.tail, growth.chunks, growth.open_count
        total += size
        expected += list(values)
        assert sorted(rows) == list(range(chunks))
        assert all(len(row) <= CHUNK_POINTS for row in rows.values())
        assert tail is None or len(tail) < TAIL_POINTS
        assert opened == 0 or len(rows[chunks - 1]) == opened

    pieces = [rows[sequence] for sequence in sorted(rows)] + ([] if tail is None else [tail])
    whole = concatenate(pieces)
    assert list(whole.values) == expected
    assert whole.steps.tolist() == list(range(total))


def test_a_single_point_rewrites_only_the_tail() -> None:
    numbers = np.arange(3000, dtype=np.int64)
    first = grow(Columns("i8", numbers, numbers, numbers), tail=None, chunks=0, open_count=0, load_open=_never)
    one = Columns("i8", numbers[:1], numbers[:1], numbers[:1])
    second = grow(one, tail=first.tail, chunks=first.chunks, open_count=first.open_count, load_open=_never)

    assert [len(row) for _, row in first.rows] == [3000]
    assert second.rows == []
    assert second.tail is not None and len(second.tail) == 1


def _never() -> Columns:
    raise AssertionError("nothing had to be read")


@given(st.lists(st.floats(), min_size=1, max_size=2000), st.integers(1, 50))
@settings(deadline=None, max_examples=50)
def test_blocks_hold_the_extremes_of_their_points(values: list[float], width: int) -> None:
    numbers = np.array(values)
    at = np.arange(len(values), dtype=np.int64)
    found = charts.sum_up(Columns("f8", numbers, at, at))
    stored = charts.from_bytes([charts.to_bytes(found)], [len(values)])
    gathered = charts.gather(stored, width)

    start = 0
    for index, count in enumerate(gathered.count.tolist()):
        covered = [value for value in values[start : start + count] if not math.isnan(value)]
        if covered:
            assert (gathered.minimum[index], gathered.maximum[index]) == (min(covered), max(covered))
        else:
            assert math.isnan(gathered.minimum[index])
        start += count
    assert start == len(values)


@given(st.lists(SCALARS, max_size=20))
def test_settled_values_equal_the_given_ones(values: list[Any]) -> None:
    kind, settled = settle(values)
    found = settled if isinstance(settled, list) else settled.tolist()

    assert len(found) == len(values)
    for before, after in zip(values, found):
        if isinstance(before, float) and math.isnan(before):
            assert math.isnan(after)
        elif isinstance(before, int) and not isinstance(before, bool) and isinstance(after, float):
            assert after == float(before)
            assert any(isinstance(value, float) for value in values)
        else:
            assert after == before or (kind == "b1" and bool(after) is before)
