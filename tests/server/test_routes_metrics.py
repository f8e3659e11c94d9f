"""Metrics over HTTP: packed columns in, packed columns out, bit for bit."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import pytest

from runyard.core.errors import InvalidArgument, NotFound
from runyard.core.formats import journal
from tests.engine.bench import header, journal_frame, name, number
from tests.server.conftest import Served


def ship(served: Served, *records: bytes, rank: int = 0, writer: str = "r0-1-aaaa") -> None:
    frame = journal_frame(header(rank=rank) + b"".join(records))
    frame[0]["writer"] = writer
    answer = served.as_run("exp_1").runs.ship("exp_1", [frame])
    assert answer.marks[0].offset == len(frame[1])


def pack(kind: int, /, **payload: Any) -> bytes:
    return journal.pack_long(kind, payload)


@pytest.fixture
def logged(served: Served) -> Served:
    served.submit()
    return served


def test_every_kind_of_value_comes_back_as_it_was_logged(logged: Served) -> None:
    odd = struct.unpack("<d", b"\x01\x02\x03\x04\x05\x06\xf8\x7f")[0]
    floats = [0.1, -0.0, math.inf, -math.inf, 5e-324, 1e308, odd]
    ints = [0, -1, 2**63 - 1, -(2**63)]
    ship(
        logged,
        name(1, "floats"), name(2, "ints"), name(3, "bools"),
        *(number(1, value) for value in floats),
        *(number(2, value) for value in ints),
        number(3, True), number(3, False),
        pack(journal.VALUES, name="words", values=["a", "ü", "😀", "\0", None, 2**70, 1.5], step=None, t=1),
        pack(journal.ROW, name="table", columns={"x": 1, "y": "one"}, t=2),
        pack(journal.ROW, name="table", columns={"x": 2, "z": 0.5}, t=3),
        pack(journal.ARTIFACT, name="plot", kind="image", file="plot_1.png", t=4),
    )  # fmt: skip

    series = {(one.metric, one.column): one for one in logged.client.runs.metric_values("exp_1")}

    assert struct.pack("<7d", *series["floats", ""].to_list()) == struct.pack("<7d", *floats)
    assert series["ints", ""].to_list() == ints and series["ints", ""].type == "i8"
    assert series["bools", ""].to_list() == [True, False] and series["bools", ""].type == "b1"
    assert series["words", ""].to_list() == ["a", "ü", "😀", "\0", None, 2**70, 1.5]
    assert series["table", "x"].to_list() == [1, 2] and series["table", "x"].kind == "table"
    assert series["table", "y"].to_list() == ["one", None] and series["table", "z"].to_list() == [None, 0.5]
    assert (series["plot", ""].kind, series["plot", ""].file) == ("artifact", "plot_1.png")
    assert list(dict.fromkeys(metric for metric, _ in series)) == ["floats", "ints", "bools", "words", "table", "plot"]


def test_one_metric_or_one_rank_alone(logged: Served) -> None:
    ship(logged, name(1, "loss"), name(2, "acc"), number(1, 1.0), number(2, 2.0))
    ship(logged, name(1, "loss"), number(1, 9.0), rank=1, writer="r1-2-bbbb")
    found = logged.client.runs

    assert [one.metric for one in found.metric_values("exp_1", "acc")] == ["acc"]
    assert [one.to_list() for one in found.metric_values("exp_1", "loss")] == [[1.0, 9.0]]
    assert [one.to_list() for one in found.metric_values("exp_1", "loss", rank="lowest")] == [[1.0]]
    assert list(found.metric_series("exp_1", "loss").values) == [1.0, 9.0]
    assert list(found.metric_series("exp_1", "loss", rank="lowest").values) == [1.0]
    assert [one.to_list() for one in found.metric_values("exp_1", "loss", rank=1)] == [[9.0]]
    assert found.metric_values("exp_1", "nothing") == []


def test_the_summary_of_a_metric(logged: Served) -> None:
    ship(logged, name(1, "loss"), *(number(1, value) for value in (3.0, 1.0, 2.0)))

    [info] = logged.client.runs.metrics("exp_1")
    assert (info.name, info.kind, info.count, info.last, info.minimum, info.maximum) == (
        "loss", "scalar", 3, 2.0, 1.0, 3.0,
    )  # fmt: skip


def test_steps_and_times_of_a_series(logged: Served) -> None:
    ship(logged, name(1, "loss"), number(1, 1.0, time=10, step=5), number(1, 2.0, time=20, step=7))

    series = logged.client.runs.metric_series("exp_1", "loss")

    assert [list(column) for column in (series.steps, series.times, series.values)] == [
        [5, 7], [4_010, 4_020], [1.0, 2.0],
    ]  # fmt: skip


def test_a_chart_has_exact_minima_and_maxima(logged: Served) -> None:
    values = np.sin(np.arange(20_000) / 7) * np.linspace(1, 3, 20_000)
    ship(logged, name(1, "wave"), *(number(1, float(value), time=at) for at, value in enumerate(values)))

    chart = logged.client.runs.chart("exp_1", "wave", width=100)

    assert len(chart["minimum"]) <= 100 and sum(chart["count"]) == 20_000
    assert min(chart["minimum"]) == values.min() and max(chart["maximum"]) == values.max()


@pytest.mark.parametrize("width", [0, -1, 10**9])
def test_a_chart_of_an_impossible_width_is_refused(logged: Served, width: int) -> None:
    ship(logged, name(1, "wave"), number(1, 1.0))

    with pytest.raises(InvalidArgument, match="width"):
        logged.client.runs.chart("exp_1", "wave", width=width)


def test_unknown_metrics_and_odd_parameters_are_said(logged: Served) -> None:
    with pytest.raises(NotFound):
        logged.client.runs.metric_series("exp_1", "nothing")
    with pytest.raises(InvalidArgument, match="rank"):
        logged.client.transport.request("GET", "/runs/exp_1/metrics/values", query={"rank": "first"})
    with pytest.raises(InvalidArgument):
        logged.client.runs.metrics("exp_1", name="a\0b")


@pytest.mark.parametrize(
    "query", [{"rank": 2**70}, {"rank": -1}, {"first": 2**63}, {"last": -(2**70)}, {"width": 2**70}]
)
def test_numbers_beyond_64_bits_are_refused(logged: Served, query: dict[str, int]) -> None:
    ship(logged, name(1, "wave"), number(1, 1.0))

    with pytest.raises(InvalidArgument):
        logged.client.runs.chart("exp_1", "wave", **query)


def test_what_the_machine_did_is_left_out_unless_it_is_asked_for(logged: Served) -> None:
    ship(logged, name(1, "loss"), number(1, 0.5))
    ship(logged, name(1, "_system/cpu_percent"), number(1, 99.0), number(1, 98.0), writer="s-1-aaaa")
    runs = logged.client.runs

    assert [info.name for info in runs.metrics("exp_1")] == ["loss"]
    assert [info.name for info in runs.metrics("exp_1", system=True)] == ["_system/cpu_percent"]
    assert [series.metric for series in runs.metric_values("exp_1")] == ["loss"]
    assert [series.to_list() for series in runs.metric_values("exp_1", "_system/cpu_percent")] == [[99.0, 98.0]]
    assert list(runs.metric_series("exp_1", "_system/cpu_percent").values) == [99.0, 98.0]
