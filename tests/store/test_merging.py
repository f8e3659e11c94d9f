from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from runyard.store.metrics.chunks import Columns
from runyard.store.metrics.merge import Piece, merge


@st.composite
def pieces(draw: st.DrawFn) -> list[Piece]:
    """Several writers, segments and attempts; each value names its point."""
    places = draw(
        st.lists(
            st.tuples(st.sampled_from([0, 0, 7, 9]), st.integers(0, 3), st.sampled_from("abc"), st.integers(0, 1)),
            min_size=1,
            max_size=6,
            unique=True,
        )
    )
    found = []
    for index, (external, attempt, writer, segment) in enumerate(places):
        size = draw(st.integers(1, 12))
        times = np.array(draw(st.lists(st.integers(0, 30), min_size=size, max_size=size)), dtype=np.int64)
        values = np.arange(size, dtype=np.int64) + index * 1000
        columns = Columns("i8", values, np.arange(size, dtype=np.int64), times)
        found.append(Piece(external, attempt, writer, segment, draw(st.integers(0, 5)), True, columns))
    return found


@given(pieces(), st.randoms())
@settings(deadline=None, max_examples=200)
def test_the_merged_order_is_the_one_of_the_rule(parts: list[Piece], random: object) -> None:
    expected = []
    for piece in parts:
        seen = -1
        for position, (value, time) in enumerate(zip(list(piece.columns.values), piece.columns.times.tolist())):
            seen = max(seen, time)
            at = seen + (piece.wall_offset_ns if piece.external_writer else 0)
            key = (
                piece.external_writer != 0,
                piece.attempt,
                at,
                piece.external_writer,
                piece.writer,
                piece.segment,
                position,
            )
            expected.append((key, value, time + piece.wall_offset_ns))
    expected.sort()
    random.shuffle(parts)  # type: ignore[attr-defined]  # a Random
    series = merge(parts, metric="m", column="", rank=0)

    assert list(series.values) == [value for _, value, _ in expected]
    assert series.times_ns.tolist() == [time for _, _, time in expected]
    assert series.steps.tolist() == list(range(len(expected)))


@given(pieces())
@settings(deadline=None)
def test_each_writers_own_order_stays(parts: list[Piece]) -> None:
    merged = list(merge(parts, metric="m", column="", rank=0).values)

    for piece in parts:
        own = [value for value in merged if value in set(piece.columns.values)]
        assert own == list(piece.columns.values)
