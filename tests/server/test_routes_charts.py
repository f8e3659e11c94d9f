"""Many charts in one request: exact at every zoom, and one that fails leaves the others as they are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from runyard.core.errors import InvalidArgument
from runyard.core.formats.frames import iter_frames
from tests.engine.bench import header, journal_frame, name, number
from tests.server.conftest import Served


def ship(served: Served, *records: bytes, run: str = "exp_1", rank: int = 0) -> None:
    frame = journal_frame(header(rank=rank) + b"".join(records))
    frame[0]["writer"] = f"r{rank}-1-aaaa"
    served.as_run(run).runs.ship(run, [frame])


def draw(served: Served, *series: dict[str, Any], client: Any = None, **body: Any) -> list[Any]:
    """Return each series' columns by name, or its error's code."""
    wanted = {"series": [{"run": "exp_1", "metric": "loss", **one} for one in series], **body}
    answer = (client or served.client).transport.request("POST", "/charts", json=wanted).read()
    found: list[Any] = []
    for head, data in iter_frames(answer):
        values = np.frombuffer(data, "<f8").reshape(len(head["columns"]), head["count"])
        found.append(head["error"]["code"] if "error" in head else dict(zip(head["columns"], values.tolist())))
    return found


@pytest.fixture
def logged(served: Served) -> Served:
    served.submit()
    return served


def test_charts_come_in_the_order_asked_for(logged: Served) -> None:
    ship(logged, name(1, "loss"), name(2, "acc"), number(1, 3.0, step=10), number(1, 1.0, step=20), number(2, 0.5))
    ship(logged, name(1, "loss"), number(1, 7.0), rank=1)

    acc, loss, other = draw(logged, {"metric": "acc"}, {}, {"rank": 1})

    assert acc["last"] == [0.5]
    assert (loss["first_step"], loss["minimum"], loss["maximum"], loss["count"]) == ([10, 20], [3, 1], [3, 1], [1, 1])
    assert other["last"] == [7.0]


def test_zooms_by_step_and_by_time_are_exact(logged: Served) -> None:
    values = np.random.default_rng(1).normal(size=20_000)
    ship(logged, name(1, "loss"), *(number(1, float(v), time=at * 1_000_000) for at, v in enumerate(values)))
    inside = values[5_001:15_003]

    [by_step] = draw(logged, {"first": 5_001, "last": 15_002}, width=40)
    [whole] = draw(logged, {}, width=20_000 // 2, x="time")
    offset = whole["first_ms"][0]
    edges = {"first": int((offset + 5_000.5) * 1e6), "last": int((offset + 15_002.5) * 1e6)}
    [by_time] = draw(logged, edges, width=40, x="time")

    for chart in (by_step, by_time):
        ends = np.cumsum(chart["count"]).astype(int)
        parts = np.split(inside, ends[:-1])
        assert ends[-1] == len(inside) and len(parts) <= 40
        assert chart["minimum"] == [part.min() for part in parts]
        assert chart["maximum"] == [part.max() for part in parts]
    assert by_time["last_ms"][-1] - offset == pytest.approx(15_002)


def test_an_error_stands_in_the_place_of_its_chart(logged: Served) -> None:
    ship(logged, name(1, "loss"), number(1, 1.0))

    codes = draw(logged, {"metric": "nothing"}, {"run": "no_such"}, {"rank": 5}, {"metric": "a\nb"}, {"run": "../x"})
    last = draw(logged, {"run": "no_such"}, {})[1]

    assert codes[:3] == ["NotFound", "NotFound", "NotFound"] and codes[4] == "InvalidArgument"
    assert last["last"] == [1.0]


def test_a_runs_token_draws_its_own_tree_only(logged: Served) -> None:
    logged.submit("exp_2")
    ship(logged, name(1, "loss"), number(1, 1.0))
    ship(logged, name(1, "loss"), number(1, 2.0), run="exp_2")

    found = draw(logged, {}, {"run": "exp_2"}, client=logged.as_run("exp_1"))

    assert found[0]["last"] == [1.0] and found[1] == "NotAllowed"


@pytest.mark.parametrize(
    ("changes", "word"),
    [({"series": []}, "1 to 200"), ({"width": 0}, "width"), ({"width": 10**9}, "width"), ({"x": "epoch"}, "step"),
     ({"series": [{"run": "a", "metric": "b"}] * 201}, "201"), ({"series": [{"run": "a"}]}, "metric")],
)  # fmt: skip
def test_what_cannot_be_drawn_is_refused(shared: Served, changes: dict[str, Any], word: str) -> None:
    body = {"series": [{"run": "exp_1", "metric": "loss"}], **changes}
    with pytest.raises(InvalidArgument, match=word):
        shared.client.transport.request("POST", "/charts", json=body)


def test_json_says_nan_and_infinity_as_text_and_clients_read_numbers(logged: Served) -> None:
    ship(logged, name(1, "a"), name(2, "b"), number(1, math.nan), number(2, 1.0), number(2, -math.inf))

    raw = logged.client.transport.request("GET", "/runs/exp_1/metrics").read()
    first, second = logged.client.runs.metrics("exp_1")

    assert b'"last":"NaN"' in raw and b'"minimum":"-Infinity"' in raw and b":NaN" not in raw
    assert math.isnan(first.last) and (second.last, second.minimum, second.maximum) == (-math.inf, -math.inf, 1.0)
