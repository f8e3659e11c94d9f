"""What every store does with metrics: parts of journals in; series, charts and summaries out."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from runyard.core.errors import Conflict, InvalidArgument, NotAllowed, NotFound
from runyard.core.records import Mark, Run, RunChange
from runyard.store.base import (
    ALL_RANKS,
    TIME,
    ArtifactMetric,
    Chart,
    MetricSummary,
    Points,
    Rows,
    RunQuery,
    RunStore,
    SegmentPart,
    SegmentState,
    Series,
)
from runyard.testing.runs import Journal, a_run, points

MS = 1_000_000  # ns
SIZES = [1, 255, 256, 300, 4096, 4097, 70_000]


def values_of(store: RunStore, metric: str, **which: Any) -> list[Any]:
    series = store.read_series("r1", metric, **which)
    found = series.values if isinstance(series.values, list) else series.values.tolist()
    return [bool(value) for value in found] if series.kind == "b1" else found


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


class MetricSeriesSuite:
    """The contract of `MetricSeries`."""

    def test_points_without_a_journal_are_stored_once(self, store: RunStore) -> None:
        a_run(store, "r1")
        steps = np.arange(300)
        sent = Points("m", "f8", steps / 2, steps * 1_000_000, steps)
        for _ in range(2):
            store.log("r1", [sent], RunChange())
        for value, at in ((7.0, 5), (7.0, 5), (2.5, 5), (149.5, 299), (np.nan, 299), (np.nan, 299)):
            one = Points("m", "f8", np.array([value]), np.array([at * 1_000_000]), np.array([at]))
            store.log("r1", [one], RunChange())

        kept = values_of(store, "m")
        assert sorted(value for value in kept if value == value) == sorted([*(steps / 2).tolist(), 7.0])
        assert store.summarize_metrics(["r1"])["r1"]["m"].count == len(kept) == 302

    def test_a_refused_parameter_keeps_the_points_out(self, store: RunStore) -> None:
        a_run(store, "r1")
        run = store.log("r1", [], RunChange(parameters_log={"p": "1"}))
        one = Points("m", "f8", np.array([1.0]), np.array([1]), np.array([1]))

        assert (run.logged_parameters, run.parameters) == ({"p": "1"}, {"p": "1"})
        assert store.log("r1", [], RunChange(parameters_log={"p": "1"})).logged_parameters == {"p": "1"}
        with pytest.raises(Conflict, match="parameter"):
            store.log("r1", [one], RunChange(parameters_log={"p": "2"}, tags_set={"t": "1"}))
        assert store.list_metrics("r1") == []
        assert store.get_run("r1").tags == {}

    def test_a_run_that_fails_a_check_takes_nothing(self, store: RunStore) -> None:
        a_run(store, "r1")
        store.log("r1", [], RunChange(tags_set={"t": "1"}))
        one = Points("m", "f8", np.array([1.0]), np.array([1]), np.array([1]))

        seen: list[bool] = []

        def check(run: Run, is_archived: bool) -> None:
            assert run.tags == {"t": "1"}
            seen.append(is_archived)
            raise NotAllowed("Not this run.")

        for archived in (False, True):
            store.update_experiment(store.get_run("r1").workspace, store.get_run("r1").experiment, archived=archived)
            with pytest.raises(NotAllowed, match="Not this run"):
                store.log("r1", [one], RunChange(tags_set={"t": "2"}), check=check)
        assert seen == [False, True]
        assert store.list_metrics("r1") == []
        assert store.get_run("r1").tags == {"t": "1"}

    def test_points_alone_leave_the_record_as_it_is(self, store: RunStore) -> None:
        before = a_run(store, "r1")

        assert store.log("r1", [Points("m", "f8", [1.0], np.array([1]), np.array([1]))], RunChange()) == before

    def test_logged_parameters_of_journals_keep_their_first_value(self, store: RunStore) -> None:
        a_run(store, "r1")
        parts = [
            SegmentPart("w", 0, 0, 10, parameters_add={"p": "argument"}),
            SegmentPart("w", 0, 10, 20, parameters_log={"p": "1"}),
            SegmentPart("v", 0, 0, 10, rank=1, parameters_log={"p": "2"}),
        ]
        store.ingest("r1", 1, parts)
        run = store.get_run("r1")

        assert (run.parameters, run.logged_parameters) == ({"p": "1"}, {"p": "1"})
        assert [warning["source"] for warning in run.warnings] == ["parameters"]

    def test_points_come_back_with_steps_and_times(self, store: RunStore) -> None:
        a_run(store, "r1")
        journal = Journal(store, "r1", wall_offset_ns=1000)
        journal.ship(points("loss", [0.5, 0.25], times=[10, 20]))
        journal.ship(points("loss", [0.125], times=[30]))
        series = store.read_series("r1", "loss")

        assert (series.metric, series.column, series.rank, series.kind) == ("loss", "", 0, "f8")
        assert series.values == pytest.approx([0.5, 0.25, 0.125])
        assert series.steps.tolist() == [0, 1, 2]
        assert series.times_ns.tolist() == [1010, 1020, 1030]

    def test_steps_that_were_given_are_kept(self, store: RunStore) -> None:
        a_run(store, "r1")
        Journal(store, "r1").ship(points("loss", [1, 2, 3], steps=[7, 5, -3]), points("loss", [4]))

        assert store.read_series("r1", "loss").steps.tolist() == [7, 5, -3, 3]

    def test_a_part_is_stored_exactly_once(self, store: RunStore) -> None:
        a_run(store, "r1")
        journal = Journal(store, "r1")
        first, second, third = (journal.part(points("loss", [value])) for value in (1.0, 2.0, 3.0))

        assert store.ingest("r1", 1, [first]) == [Mark("r0-1-aa", 0, 32)]
        assert store.ingest("r1", 1, [first]) == [Mark("r0-1-aa", 0, 32)]
        assert store.ingest("r1", 1, [third]) == [Mark("r0-1-aa", 0, 32)]
        assert store.ingest("r1", 1, [first, second, second, third]) == [Mark("r0-1-aa", 0, 96)]
        assert values_of(store, "loss") == [1.0, 2.0, 3.0]
        assert store.list_marks("r1", 1) == [Mark("r0-1-aa", 0, 96)]
        assert store.list_marks("r1", 2) == []
        assert store.find_segment("r1", 1, "r0-1-aa", 0) == SegmentState(96, {}, 0, "worker", 0)
        assert store.find_segment("r1", 1, "r0-1-aa", 1) is None and store.find_segment("r1", 2, "r0-1-aa", 0) is None

    def test_marks_are_told_for_the_segments_named_alone(self, store: RunStore) -> None:
        a_run(store, "r1")
        Journal(store, "r1", writer="a").ship(points("loss", [1]))
        b = Journal(store, "r1", writer="b")

        assert store.ingest("r1", 1, [b.part(points("loss", [2]))]) == [Mark("b", 0, 32)]
        assert store.list_marks("r1", 1) == [Mark("a", 0, 32), Mark("b", 0, 32)]

    def test_names_and_origin_are_kept_per_segment(self, store: RunStore) -> None:
        a_run(store, "r1")
        journal = Journal(store, "r1", rank=3, role="ps", wall_offset_ns=-5)
        journal.ship(names={1: "loss"})
        journal.ship(names={2: "acc"})
        Journal(store, "r1", segment=1).ship(names={1: "other"})

        assert store.find_segment("r1", 1, "r0-1-aa", 0) == SegmentState(64, {1: "loss", 2: "acc"}, 3, "ps", -5)
        assert store.find_segment("r1", 1, "r0-1-aa", 1) == SegmentState(32, {1: "other"}, 0, "worker", 0)
        assert store.find_segment("r1", 2, "r0-1-aa", 0) is None

    def test_external_writers_have_journals_of_their_own_and_follow_all_attempts_in_order_of_time(
        self, store: RunStore
    ) -> None:
        a_run(store, "r1")
        earlier = Journal(store, "r1", attempt=0, external_writer=9, wall_offset_ns=1000)
        later = Journal(store, "r1", attempt=0, external_writer=7, wall_offset_ns=5000)  # its machine started later
        later.ship(points("m", [7], times=[1]), names={1: "m"})
        earlier.ship(points("m", [5, 6], times=[10, 20]))
        Journal(store, "r1", attempt=2).ship(points("m", [3, 4], times=[100, 200]))
        Journal(store, "r1", attempt=0).ship(points("m", [1, 2], times=[300, 400]))

        assert values_of(store, "m") == [1, 2, 3, 4, 5, 6, 7]
        assert [info.last for info in store.list_metrics("r1")] == [7]
        assert store.chart("r1", "m").last.tolist() == [1, 2, 3, 4, 5, 6, 7]
        assert store.list_marks("r1", 0, external_writer=7) == [Mark("r0-1-aa", 0, 32)]
        assert store.find_segment("r1", 0, "r0-1-aa", 0, external_writer=7) == SegmentState(
            32, {1: "m"}, 0, "worker", 5000
        )
        assert store.find_segment("r1", 0, "r0-1-aa", 0) == SegmentState(32, {}, 0, "worker", 0)
        assert store.find_segment("r1", 2, "r0-1-aa", 0, external_writer=7) is None

    def test_metrics_are_listed_as_first_logged_with_their_summary(self, store: RunStore) -> None:
        a_run(store, "r1")
        journal = Journal(store, "r1")
        journal.ship(points("z", [3.0, math.nan, 1.0, 2.0]), points("a", [7], kind="i8"))
        journal.ship(points("a", [9], kind="i8"), points("m", ["text"], kind="json"), points("b", [1], kind="b1"))
        z, a, m, b = store.list_metrics("r1")

        assert (z.name, z.kind, z.columns, z.ranks, z.count) == ("z", "scalar", [""], [0], 4)
        assert (z.last, z.minimum, z.maximum) == (2.0, 1.0, 3.0)
        assert (a.name, a.last, a.count, type(a.last)) == ("a", 9, 2, int)
        assert (m.name, m.last, m.minimum) == ("m", "text", None)
        assert (b.name, b.last) == ("b", True)
        assert store.list_metrics("r1", name="a") == [a]
        assert store.list_metrics("r1", name="none") == []

    def test_metrics_of_many_runs_are_summarized_at_once(self, store: RunStore) -> None:
        for run_id in ("r1", "r2", "bare"):
            a_run(store, run_id)
        Journal(store, "r1").ship(points("loss", [3.0, 1.0, 2.0]), points("word", ["a"], kind="json"))
        Journal(store, "r1", writer="t").ship(
            Rows("table", {"c": [1]}, [1]), ArtifactMetric("plot", "image", "p.png", 1)
        )
        Journal(store, "r2").ship(points("loss", [math.nan]), points("_system/cpu", [50.0]))
        runs = ["r2", "bare", "nobody", "r1"] + [f"other{number}" for number in range(1200)]
        found = store.summarize_metrics(runs)

        assert set(found) == {"r1", "r2"} and set(found["r2"]) == {"loss"}
        loss = found["r1"]["loss"]
        assert (loss.latest_step, found["r1"]["word"].latest_step) == (2, None)
        assert loss.latest_ms is not None
        assert {name: replace(one, latest_step=None, latest_ms=None) for name, one in found["r1"].items()} == {
            "loss": MetricSummary(2.0, 1.0, 3.0, 3, 2.0),
            "word": MetricSummary("a", None, None, 1, None),
        }
        nan = found["r2"]["loss"]
        assert math.isnan(nan.last) and (nan.minimum, nan.maximum, nan.count) == (None, None, 1)
        cpu = store.summarize_metrics(runs, names=["_system/cpu", "none"])
        assert [list(summaries) for summaries in cpu.values()] == [["_system/cpu"]]
        assert cpu["r2"]["_system/cpu"].latest == 50.0
        assert store.summarize_metrics([]) == {}

    @pytest.mark.parametrize(
        ("pieces", "latest"),
        [
            ([points("m", [1, 2, 3], steps=[5, 9, 7])], 2),
            ([points("m", [1], steps=[9]), points("m", [2], steps=[8])], 1),
            ([points("m", [1, 2], steps=[9, 9], times=[3 * MS, 2 * MS])], 1),
            ([points("m", [2, 1], steps=[9, 9], times=[MS, MS + 1])], 2),  # one millisecond
            ([points("m", [2, math.nan, 1], steps=[9] * 3, times=[MS] * 3)], 2),
            ([points("m", [math.nan], steps=[9]), points("m", [-math.inf], steps=[9])], -math.inf),
            ([points("m", [2, math.nan], steps=[8, 9])], math.nan),
            ([points("m", [3, 4], steps=[-3, -5])], 3),
            ([points("m", [True, False], kind="b1", steps=[2, 1])], 1),
            ([points("m", [7, "a", 8, "b"], kind="json", steps=[3, 4, 2, 1])], 7),
            ([points("m", ["a"], kind="json", steps=[3]), points("m", [5.0], steps=[1])], 5),
            ([points("m", ["a"], kind="json")], None),
            ([points("m", [3, 1, 2]), points("m", [5, 4], times=[3, 4])], 4),
            ([points("m", [3, 1, "a"], kind="json")], 1),
        ],
    )  # fmt: skip
    def test_the_latest_number_has_the_highest_step(
        self, store: RunStore, pieces: list[Points], latest: float | None
    ) -> None:
        for run_id, batches in (("apart", [[piece] for piece in pieces]), ("together", [pieces])):
            a_run(store, run_id)
            journal = Journal(store, run_id)
            for batch in batches:
                journal.ship(*batch)
        found = [summary["m"].latest for summary in store.summarize_metrics(["apart", "together"]).values()]

        assert repr(found) == repr([None if latest is None else float(latest)] * 2)

    def test_the_latest_number_is_among_the_points_of_every_process(self, store: RunStore) -> None:
        a_run(store, "r1")

        def latest() -> float | None:
            return store.summarize_metrics(["r1"])["r1"]["m"].latest

        Journal(store, "r1", wall_offset_ns=5 * MS).ship(points("m", [1.0], steps=[10]))
        Journal(store, "r1", attempt=2).ship(points("m", [2.0], steps=[9]))
        assert latest() == 1
        store.log("r1", [points("m", [3.0], steps=[10], times=[4 * MS])], RunChange())
        assert latest() == 1
        store.log("r1", [points("m", [4.0], steps=[10], times=[6 * MS])], RunChange())
        assert latest() == 4
        Journal(store, "r1", attempt=3, rank=1).ship(points("m", [9.0], steps=[99]))
        assert latest() == 4

    def test_points_without_steps_count_on_from_those_before_them(self, store: RunStore) -> None:
        a_run(store, "r1")
        first, second = Journal(store, "r1"), Journal(store, "r1", attempt=2)
        first.ship(points("m", [1.0, 2.0, 3.0]))
        second.ship(points("m", [4.0]))
        first.ship(points("m", [5.0]))  # it arrives late
        summary = store.summarize_metrics(["r1"])["r1"]["m"]

        assert summary.latest == summary.last == 4 == values_of(store, "m")[-1]
        second.ship(points("m", [6.0], times=[1]))
        second.ship(points("m", [7.0], times=[2], steps=[4]))
        assert store.summarize_metrics(["r1"])["r1"]["m"].latest == 6
        second.ship(points("m", [7.0], times=[3], steps=[6]))
        assert store.summarize_metrics(["r1"])["r1"]["m"].latest == 7

    @pytest.mark.parametrize(
        ("batches", "kind", "expected"),
        [
            ([("f8", [1.5, math.inf, -math.inf])], "f8", [1.5, math.inf, -math.inf]),
            ([("i8", [1, -(2**63), 2**63 - 1])], "i8", [1, -(2**63), 2**63 - 1]),
            ([("b1", [1, 0])], "b1", [True, False]),
            ([("i8", [1]), ("f8", [2.5])], "f8", [1.0, 2.5]),
            ([("f8", [2.5]), ("i8", [1])], "f8", [2.5, 1.0]),
            ([("json", [2**63]), ("f8", [0.5])], "f8", [2.0**63, 0.5]),
            ([("json", [2**63, -(2**70)])], "json", [2**63, -(2**70)]),
            ([("b1", [1]), ("i8", [7])], "json", [True, 7]),
            ([("i8", [7]), ("json", ["a", None])], "json", [7, "a", None]),
            ([("f8", [0.5]), ("b1", [0]), ("json", ["a"])], "json", [0.5, False, "a"]),
            ([("json", [1.0, 2.0])], "f8", [1.0, 2.0]),
            ([("json", [None])], "json", [None]),
            ([("json", ["a\0b", "\ud800", "é"])], "json", ["a\0b", "\ud800", "é"]),
            ([("json", [10**400, 0.5])], "json", [10**400, 0.5]),
        ],
        ids=ascii,
    )
    def test_values_come_back_as_azure_gives_them(
        self, store: RunStore, batches: list[tuple[str, list[Any]]], kind: str, expected: list[Any]
    ) -> None:
        a_run(store, "r1")
        journal = Journal(store, "r1")
        for batch_kind, values in batches:
            journal.ship(points("m", values, kind=batch_kind))
        found = values_of(store, "m")

        assert store.read_series("r1", "m").kind == kind
        assert found == expected
        assert [type(value) for value in found] == [type(value) for value in expected]

    def test_nan_stays_nan(self, store: RunStore) -> None:
        a_run(store, "r1")
        Journal(store, "r1").ship(points("m", [math.nan, 1.0]), points("j", [math.nan, "a"], kind="json"))

        assert math.isnan(values_of(store, "m")[0])
        assert math.isnan(values_of(store, "j")[0])
        assert [info.minimum for info in store.list_metrics("r1")] == [1.0, None]

    def test_a_number_that_no_json_can_hold_is_kept_as_text(self, store: RunStore) -> None:
        a_run(store, "r1")
        huge = 1 << 50_000
        Journal(store, "r1").ship(points("m", [huge], kind="json"), Rows("t", {"c": [huge]}, [1]))

        assert values_of(store, "m") == [hex(huge)] == values_of(store, "t", column="c")

    @pytest.mark.parametrize(
        "sizes",
        [[1] * 600, [100_000], [255, 1, 255, 4000, 96, 5000], [4096, 4096, 1]],
        ids=["one by one", "at once", "around borders", "whole chunks"],
    )
    def test_series_of_any_length_come_back_whole(self, store: RunStore, sizes: list[int]) -> None:
        a_run(store, "r1")
        journal = Journal(store, "r1")
        numbers = np.random.default_rng(1).normal(size=sum(sizes))
        at = 0
        for size in sizes:
            part = numbers[at : at + size]
            journal.ship(points("m", part, times=range(at * 7, (at + size) * 7, 7)))
            at += size
        series = store.read_series("r1", "m")
        info = store.list_metrics("r1")[0]

        assert np.array_equal(np.asarray(series.values), numbers)
        assert np.array_equal(series.steps, np.arange(len(numbers)))
        assert np.array_equal(series.times_ns, np.arange(len(numbers)) * 7)
        assert (info.count, info.last) == (len(numbers), numbers[-1])
        assert (info.minimum, info.maximum) == (numbers.min(), numbers.max())

    def test_kinds_may_change_in_a_long_series(self, store: RunStore) -> None:
        a_run(store, "r1")
        journal = Journal(store, "r1")
        journal.ship(points("m", ["start"], kind="json"))
        journal.ship(points("m", np.arange(10_000) * 0.5))
        journal.ship(points("m", ["end", None], kind="json"))
        journal.ship(points("m", range(300), kind="i8"))
        numbers = (np.arange(10_000) * 0.5).tolist()

        assert values_of(store, "m") == ["start", *numbers, "end", None, *map(float, range(300))]
        assert store.read_series("r1", "m").steps.tolist() == list(range(10_303))

    def test_extreme_steps_and_times_are_kept(self, store: RunStore) -> None:
        a_run(store, "r1")
        edges = [-(2**63), 2**63 - 1, 0, -(2**63)]
        Journal(store, "r1").ship(points("m", [1, 2, 3, 4], steps=edges, times=edges))
        series = store.read_series("r1", "m")

        assert series.steps.tolist() == edges
        assert series.times_ns.tolist() == edges

    def test_writers_of_a_rank_are_merged_by_time(self, store: RunStore) -> None:
        a_run(store, "r1")
        Journal(store, "r1", writer="b").ship(points("m", [1, 3, 6], times=[10, 30, 40]))
        Journal(store, "r1", writer="a").ship(points("m", [2, 5, 4], times=[20, 40, 35]))
        series = store.read_series("r1", "m")

        assert values_of(store, "m") == [1, 2, 3, 5, 4, 6]
        assert series.steps.tolist() == list(range(6))
        assert series.times_ns.tolist() == [10, 20, 30, 40, 35, 40]
        assert store.list_metrics("r1")[0].count == 6

    def test_attempts_follow_one_another_whatever_the_clock_says(self, store: RunStore) -> None:
        a_run(store, "r1")
        Journal(store, "r1", attempt=2).ship(points("m", [3, 4], times=[1, 2]))
        Journal(store, "r1", attempt=1).ship(points("m", [1, 2], times=[100, 200]))

        assert values_of(store, "m") == [1, 2, 3, 4]
        assert store.list_metrics("r1")[0].last == 4

    def test_segments_that_arrive_in_the_wrong_order_are_read_in_the_right_one(self, store: RunStore) -> None:
        a_run(store, "r1")
        Journal(store, "r1", segment=1, wall_offset_ns=500).ship(points("m", [3], times=[30]))
        Journal(store, "r1", segment=0, wall_offset_ns=100).ship(points("m", [1, 2], times=[10, 20]))

        assert values_of(store, "m") == [1, 2, 3]
        assert store.read_series("r1", "m").times_ns.tolist() == [110, 120, 530]

    def test_the_lowest_rank_speaks_for_the_metric(self, store: RunStore) -> None:
        a_run(store, "r1")
        Journal(store, "r1", writer="ps", rank=0, role="ps").ship(points("m", [99.0]))
        Journal(store, "r1", writer="r3", rank=3).ship(points("m", [3.0, 30.0]))

        assert values_of(store, "m") == [3.0, 30.0]
        Journal(store, "r1", writer="r2", rank=2).ship(points("m", [2.0]))
        Journal(store, "r1", writer="r3b", rank=3).ship(points("m", [300.0], times=[9]))
        (info,) = store.list_metrics("r1")
        assert values_of(store, "m") == [2.0]
        assert (info.ranks, info.count, info.last, info.maximum) == ([2, 3, 0], 1, 2.0, 2.0)
        assert values_of(store, "m", rank=3) == [3.0, 30.0, 300.0]
        assert values_of(store, "m", rank=0) == [99.0]
        with pytest.raises(NotFound, match="Rank 7"):
            store.read_series("r1", "m", rank=7)

    def test_all_ranks_are_read_in_order_of_the_wall_clock(self, store: RunStore) -> None:
        a_run(store, "r1")
        Journal(store, "r1", writer="a", rank=1, wall_offset_ns=1000).ship(points("m", [2, 4], times=[20, 40]))
        Journal(store, "r1", writer="b", rank=0, wall_offset_ns=0).ship(points("m", [1.5, 3.5], times=[1010, 1030]))
        Journal(store, "r1", writer="c", rank=1).ship(Rows("t", {"x": [20], "y": ["u"]}, [20]))
        Journal(store, "r1", writer="d", rank=0).ship(Rows("t", {"x": [10]}, [10]))

        assert values_of(store, "m", rank=ALL_RANKS) == [1.5, 2.0, 3.5, 4.0]
        assert store.read_series("r1", "m", rank=ALL_RANKS).times_ns.tolist() == [1010, 1020, 1030, 1040]
        assert values_of(store, "m") == [1.5, 3.5]
        assert values_of(store, "t", column="x", rank=ALL_RANKS) == [10, 20]
        assert values_of(store, "t", column="y", rank=ALL_RANKS) == [None, "u"]
        with store.read_values("r1", "m", rank=ALL_RANKS) as found:
            assert isinstance(found, Series) and list(found.values) == [1.5, 2.0, 3.5, 4.0]

    def test_a_table_is_its_columns_with_none_where_a_row_has_none(self, store: RunStore) -> None:
        a_run(store, "r1")
        journal = Journal(store, "r1")
        journal.ship(Rows("t", {"x": [1, 2], "y": ["a", "b"]}, [1, 2]))
        journal.ship(Rows("t", {"x": [3.5], "z": [True]}, [3]), Rows("t", {"empty": [None]}, [4]))
        (info,) = store.list_metrics("r1")

        assert (info.kind, info.columns, info.count, info.last) == ("table", ["x", "y", "z", "empty"], 4, None)
        assert values_of(store, "t", column="x") == [1.0, 2.0, 3.5, None]
        assert values_of(store, "t", column="y") == ["a", "b", None, None]
        assert values_of(store, "t", column="z") == [None, None, True, None]
        assert values_of(store, "t", column="empty") == [None] * 4
        assert store.read_series("r1", "t", column="y").times_ns.tolist() == [1, 2, 3, 4]

    def test_a_full_column_of_numbers_stays_an_array(self, store: RunStore) -> None:
        a_run(store, "r1")
        journal = Journal(store, "r1")
        for index in range(300):
            journal.ship(Rows("t", {"x": [index], "y": [index / 2]}, [index]))

        assert store.read_series("r1", "t", column="x").kind == "i8"
        assert store.read_series("r1", "t", column="y").kind == "f8"
        assert values_of(store, "t", column="x") == list(range(300))

    def test_rows_of_several_writers_stay_rows(self, store: RunStore) -> None:
        a_run(store, "r1")
        Journal(store, "r1", writer="b").ship(Rows("t", {"x": [1, 4]}, [10, 40]))
        Journal(store, "r1", writer="a").ship(Rows("t", {"x": [2, None], "y": ["u", "v"]}, [20, 30]))

        assert values_of(store, "t", column="x") == [1, 2, None, 4]
        assert values_of(store, "t", column="y") == [None, "u", "v", None]

    def test_odd_column_names_are_columns(self, store: RunStore) -> None:
        a_run(store, "r1")
        Journal(store, "r1").ship(Rows("t", {"": [1], "a\0b": [2], "\ud800": [3]}, [1]))
        (info,) = store.list_metrics("r1")

        assert [values_of(store, "t", column=name) for name in info.columns] == [[1], [2], [3]]

    def test_a_file_can_be_a_metric(self, store: RunStore) -> None:
        a_run(store, "r1")
        journal = Journal(store, "r1")
        journal.ship(ArtifactMetric("plot", "image", "plot_1.png", 5))
        journal.ship(ArtifactMetric("plot", "image", "plot_2.png", 6))
        (info,) = store.list_metrics("r1")

        assert (info.kind, info.artifact, info.count) == ("artifact", "plot_2.png", 2)
        with pytest.raises(InvalidArgument, match="file"):
            store.read_series("r1", "plot")

    def test_a_second_kind_under_one_name_is_left_out_and_noted_once(self, store: RunStore) -> None:
        a_run(store, "r1")
        journal = Journal(store, "r1")
        journal.ship(points("m", [1.0]), Rows("m", {"x": [1]}, [1]), points("n", [1.0]))
        journal.ship(Rows("m", {"x": [2]}, [2]), ArtifactMetric("m", "image", "f", 3), points("m", [2.0]))
        warnings = store.get_run("r1").warnings

        assert values_of(store, "m") == [1.0, 2.0]
        assert [(info.name, info.kind) for info in store.list_metrics("r1")] == [("m", "scalar"), ("n", "scalar")]
        assert len(warnings) == 2
        assert "`m`" in warnings[0]["message"] and "table" in warnings[0]["message"]

    def test_tags_and_properties_of_a_journal_reach_the_run(self, store: RunStore) -> None:
        a_run(store, "r1", tags={"old": "1"}, properties={"p": "1"})
        journal = Journal(store, "r1")
        journal.ship(tags_set={"a": "1", "b": None}, tags_remove=["old"], properties_add={"q": "2"})
        journal.ship(tags_set={"a": "2"}, properties_add={"p": "9", "q": "2", "s": "3"})
        journal.ship(properties_add={"p": "9"})
        run = store.get_run("r1")

        assert run.tags == {"a": "2", "b": None}
        assert run.properties == {"p": "1", "q": "2", "s": "3"}
        assert len(run.warnings) == 1 and "`p`" in run.warnings[0]["message"]

    def test_parameters_of_a_journal_reach_the_run_and_change_none(self, store: RunStore) -> None:
        a_run(store, "r1", parameters={"lr": "0.5"})
        journal = Journal(store, "r1")
        journal.ship(parameters_add={"lr": "9", "width": "32"})
        journal.ship(parameters_add={"width": "64"})

        assert store.get_run("r1").parameters == {"lr": "0.5", "width": "32"}
        assert [run.id for run in store.list_runs(RunQuery("default", parameters={"width": "32"})).runs] == ["r1"]

    def test_a_logged_parameter_hides_an_argument_and_the_first_value_stays(self, store: RunStore) -> None:
        a_run(store, "r1", parameters={"lr": "0.5", "depth": "2"})
        journal = Journal(store, "r1")
        journal.ship(parameters_log={"lr": "0.1", "width": "32"})
        journal.ship(parameters_log={"lr": "0.1", "width": "64"}, parameters_add={"lr": "9"})
        run = store.get_run("r1")

        assert run.parameters == {"lr": "0.1", "depth": "2", "width": "32"}
        assert run.logged_parameters == {"lr": "0.1", "width": "32"}
        assert [warning["source"] for warning in run.warnings] == ["parameters"]
        assert "`width` is '32'" in run.warnings[0]["message"] and "'64'" in run.warnings[0]["message"]
        assert [found.id for found in store.list_runs(RunQuery("default", parameters={"lr": "0.1"})).runs] == ["r1"]

    def test_a_finished_run_takes_late_metrics(self, store: RunStore) -> None:
        from runyard.core.statuses import RunStatus

        a_run(store, "r1")
        store.set_status("r1", RunStatus.COMPLETED)
        Journal(store, "r1").ship(points("m", [1.0]), quarantine=[{"reason": "odd", "kind": 99}])

        assert values_of(store, "m") == [1.0]

    def test_unknown_metrics_and_columns_are_not_found(self, store: RunStore) -> None:
        a_run(store, "r1")
        Journal(store, "r1").ship(Rows("t", {"x": [1]}, [1]))

        with pytest.raises(NotFound, match="`loss`"):
            store.read_series("r1", "loss")
        with pytest.raises(NotFound, match="'y'"):
            store.read_series("r1", "t", column="y")
        with pytest.raises(NotFound, match="`loss`"):
            store.chart("r1", "loss")

    def test_nothing_of_an_empty_batch_is_kept(self, store: RunStore) -> None:
        a_run(store, "r1")
        Journal(store, "r1").ship(points("m", []), Rows("t", {}, []))

        assert store.list_metrics("r1") == []
        assert store.list_marks("r1", 1) == [Mark("r0-1-aa", 0, 32)]

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

    def test_a_history_is_in_order_of_time_step_and_value_and_read_by_windows(self, store: RunStore) -> None:
        a_run(store, "r1")
        journal = Journal(store, "r1", wall_offset_ns=5_000_000)
        count = 10_000
        times = [1_000_000 * (at // 3) for at in range(count)]  # three points share a millisecond
        times[9000], times[100] = 0, 2_000_000 * count
        values = [float(-at) for at in range(count)]
        values[7] = math.nan
        for start in range(0, count, 1000):
            steps = [at // 2 for at in range(start, start + 1000)]
            part = slice(start, start + 1000)
            journal.ship(points("loss", values[part], times=times[part], steps=steps))

        rows = [(5 + time // 1_000_000, at // 2, value) for at, (time, value) in enumerate(zip(times, values))]
        rows.sort(key=lambda row: (row[0], row[1], 0.0 if math.isnan(row[2]) else row[2], math.isnan(row[2])))
        wanted = [repr(row) for row in rows]

        def read(**window: int) -> list[str]:
            found = store.read_history("r1", "loss", **window)
            rows = zip(found.ms.tolist(), found.steps.tolist(), found.values.tolist())
            return [repr(row) for row in rows]

        assert read() == wanted
        for offset, limit in ((0, 10), (5, 1), (4090, 20), (count - 5, 100), (count, 5), (0, count)):
            assert read(offset=offset, limit=limit) == wanted[offset : offset + limit]

    def test_a_history_has_the_numbers_of_a_metric_alone(self, store: RunStore) -> None:
        a_run(store, "r1")
        mixed = [1, "two", 3.5, None, True]
        Journal(store, "r1").ship(points("m", mixed, kind="json"), points("flag", [1, 0], kind="b1"))

        assert store.read_history("r1", "m").values.tolist() == [1.0, 3.5, 1.0]
        assert store.read_history("r1", "m", offset=1, limit=1).steps.tolist() == [2]
        assert store.read_history("r1", "flag").values.tolist() == [1.0, 0.0]
        with pytest.raises(NotFound):
            store.read_history("r1", "none")
