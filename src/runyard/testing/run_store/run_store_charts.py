"""What every `RunStore` does for charts: few buckets, exact minima and maxima."""

from __future__ import annotations

import math

import numpy as np
import pytest

from runyard.core.errors import InvalidArgument
from runyard.store.base import TIME, Chart, Rows, RunStore
from runyard.testing.runs import Journal, a_run, points

SIZES = [1, 255, 256, 300, 4096, 4097, 70_000]


def check_exact(chart: Chart, values: np.ndarray, steps: np.ndarray) -> None:
    """Compare each bucket with the points that it says it covers, in order."""
    at = 0
    for index, count in enumerate(chart.count.tolist()):
        covered = values[at : at + count]
        assert chart.minimum[index] == covered.min()
        assert chart.maximum[index] == covered.max()
        assert chart.last[index] == covered[-1]
        assert chart.first_step[index] == steps[at : at + count].min()
        assert chart.last_step[index] == steps[at : at + count].max()
        at += count
    assert at == len(values)


class ChartSuite:
    @pytest.mark.parametrize("size", SIZES)
    @pytest.mark.parametrize("width", [1, 7, 200])
    def test_buckets_cover_every_point_exactly(self, store: RunStore, size: int, width: int) -> None:
        a_run(store, "r1")
        values = np.random.default_rng(size).normal(size=size)
        Journal(store, "r1", wall_offset_ns=5).ship(points("m", values))
        chart = store.chart("r1", "m", width=width)

        assert len(chart.count) <= width
        check_exact(chart, values, np.arange(size))
        assert chart.first_time_ns[0] == 5
        assert chart.last_time_ns[-1] == 5 + size - 1

    @pytest.mark.parametrize(("first", "last"), [(0, 10), (1000, 1999), (5000, 60_000), (69_990, None), (None, 3)])
    def test_a_range_of_steps_is_cut_exactly(self, store: RunStore, first: int | None, last: int | None) -> None:
        a_run(store, "r1")
        values = np.random.default_rng(3).normal(size=70_000)
        Journal(store, "r1").ship(points("m", values))
        chosen = slice(first or 0, None if last is None else last + 1)

        for width in (3, 50, 1000):
            chart = store.chart("r1", "m", width=width, first=first, last=last)
            check_exact(chart, values[chosen], np.arange(70_000)[chosen])

    @pytest.mark.parametrize(("first", "last"), [(0, 40), (9_001, 60_002), (209_980, None), (None, 7)])
    def test_a_range_of_times_is_cut_exactly(self, store: RunStore, first: int | None, last: int | None) -> None:
        """Times are the wall clock's; each attempt has its own distance to it."""
        a_run(store, "r1")
        values, times = np.random.default_rng(4).normal(size=70_000), np.arange(70_000) * 3
        Journal(store, "r1", attempt=1, writer="a", wall_offset_ns=1000).ship(
            points("m", values[:50_000], times=range(0, 150_000, 3))
        )
        Journal(store, "r1", attempt=2, writer="b", wall_offset_ns=151_000).ship(
            points("m", values[50_000:], times=range(0, 60_000, 3))
        )
        times[:] += 1000
        low, high = (None if edge is None else edge + 1000 for edge in (first, last))
        chosen = (times >= (low or 0)) & (times <= (high or 10**9))

        for width in (3, 50, 1000):
            chart = store.chart("r1", "m", width=width, x=TIME, first=low, last=high)
            check_exact(chart, values[chosen], np.arange(70_000)[chosen])
            assert (chart.first_time_ns[0], chart.last_time_ns[-1]) == (times[chosen][0], times[chosen][-1])

    def test_the_edges_of_a_range_get_no_finer_buckets_than_its_middle(self, store: RunStore) -> None:
        a_run(store, "r1")
        Journal(store, "r1").ship(points("m", np.arange(70_000.0)))
        chart = store.chart("r1", "m", width=20, first=2000, last=67_000)

        assert chart.count.sum() == 65_001
        assert chart.count.min() > 65_001 / 20 / 2

    def test_few_points_are_drawn_one_by_one(self, store: RunStore) -> None:
        a_run(store, "r1")
        Journal(store, "r1").ship(points("m", [3, 1, 2], kind="i8", steps=[10, 20, 30], times=[1, 2, 3]))
        chart = store.chart("r1", "m", width=1000)

        assert chart.count.tolist() == [1, 1, 1]
        assert chart.minimum.tolist() == chart.maximum.tolist() == chart.last.tolist() == [3.0, 1.0, 2.0]
        assert chart.first_step.tolist() == [10, 20, 30]

    def test_nan_is_left_out_unless_there_is_nothing_else(self, store: RunStore) -> None:
        a_run(store, "r1")
        values = np.array([math.nan, 2.0, math.inf, -math.inf, math.nan, math.nan, math.nan, math.nan])
        Journal(store, "r1").ship(points("m", values))
        chart = store.chart("r1", "m", width=2)

        assert (chart.minimum[0], chart.maximum[0]) == (-math.inf, math.inf)
        assert math.isnan(chart.minimum[1]) and math.isnan(chart.maximum[1]) and math.isnan(chart.last[1])

    def test_nan_in_long_series_is_left_out_too(self, store: RunStore) -> None:
        a_run(store, "r1")
        values = np.full(20_000, math.nan)
        values[12_345] = 7.0
        Journal(store, "r1").ship(points("m", values))
        chart = store.chart("r1", "m", width=4)

        assert sorted(chart.maximum[~np.isnan(chart.maximum)].tolist()) == [7.0]
        assert chart.count.sum() == 20_000

    def test_steps_in_no_order_are_still_cut_exactly(self, store: RunStore) -> None:
        a_run(store, "r1")
        steps = np.random.default_rng(5).permutation(30_000)
        Journal(store, "r1").ship(points("m", steps * 1.0, steps=steps))
        chart = store.chart("r1", "m", width=10, first=100, last=20_000)

        assert chart.count.sum() == 19_901
        assert (chart.minimum.min(), chart.maximum.max()) == (100.0, 20_000.0)

    def test_no_bucket_reaches_over_a_new_start_of_the_steps(self, store: RunStore) -> None:
        a_run(store, "r1")
        for attempt, value in ((1, 1.0), (2, 2.0)):
            journal = Journal(store, "r1", attempt=attempt, writer=f"w{attempt}")
            journal.ship(points("m", np.full(5000, value), steps=np.arange(5000)))
        chart = store.chart("r1", "m", width=41)

        assert len(chart.count) <= 41 and chart.count.sum() == 10_000
        assert (chart.minimum == chart.maximum).all()
        assert (chart.last_step - chart.first_step).max() < 600

    def test_attempts_and_writers_are_one_line(self, store: RunStore) -> None:
        a_run(store, "r1")
        Journal(store, "r1", attempt=1, writer="a").ship(points("m", np.arange(5000.0)))
        Journal(store, "r1", attempt=2, writer="b").ship(points("m", np.arange(5000.0, 9000.0)))
        for width in (3, 3000):
            chart = store.chart("r1", "m", width=width)
            check_exact(chart, np.arange(9000.0), np.arange(9000))

        Journal(store, "r1", attempt=2, writer="c").ship(points("m", [-1.0], times=[17]))
        chart = store.chart("r1", "m", width=3)
        assert (chart.count.sum(), chart.minimum.min()) == (9001, -1.0)

    def test_a_range_without_points_is_empty(self, store: RunStore) -> None:
        a_run(store, "r1")
        Journal(store, "r1").ship(points("m", [1.0]))

        assert len(store.chart("r1", "m", first=5).count) == 0

    def test_a_tables_column_is_drawn_over_its_rows(self, store: RunStore) -> None:
        a_run(store, "r1")
        Journal(store, "r1").ship(Rows("t", {"x": [1, None, 3]}, [1, 2, 3]))
        chart = store.chart("r1", "t", column="x")

        assert chart.last.tolist() == [1.0, 3.0]
        assert chart.first_step.tolist() == [0, 2]

    def test_text_cannot_be_drawn(self, store: RunStore) -> None:
        a_run(store, "r1")
        Journal(store, "r1").ship(points("m", ["a", 1], kind="json"))

        with pytest.raises(InvalidArgument, match="drawn"):
            store.chart("r1", "m")
