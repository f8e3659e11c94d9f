"""Every row of azureml's rules for what `get_metrics()` returns."""

from __future__ import annotations

import math
from array import array
from typing import Any

import pytest

from runyard.client.decoding import SeriesValues
from runyard.sdk.runs.metrics import artifact_address, format_metrics

TYPES = {"d": "f8", "q": "i8"}


def series(
    metric: str, values: Any, *, kind: str = "scalar", column: str = "", file: str | None = None
) -> SeriesValues:
    if isinstance(values, array):
        return SeriesValues(metric, kind, column, 0, TYPES[values.typecode], len(values), memoryview(values), file)
    of_bools = bool(values) and all(type(value) is bool for value in values)
    return SeriesValues(metric, kind, column, 0, "b1" if of_bools else "json", len(values), values, file)


def formatted(*found: SeriesValues) -> dict[str, Any]:
    return format_metrics(found, address=lambda file: artifact_address("run_1", file))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param(array("d", [0.5]), 0.5, id="log once: the scalar itself"),
        pytest.param(array("q", [3]), 3, id="an int stays an int"),
        pytest.param(array("d", [1.0, 2.5, 3.0]), [1.0, 2.5, 3.0], id="log repeatedly: a list in order"),
        pytest.param(array("q", [1, 2]), [1, 2], id="ints: a list of ints"),
        pytest.param([1, None, 2.5], [1.0, None, 2.5], id="once a float is among them, ints are floats"),
        pytest.param([1, None], [1, None], id="no float: ints stay"),
        pytest.param([True, 2, 0.5], [True, 2.0, 0.5], id="a bool is no int"),
        pytest.param(["a", 1, 2.0], ["a", 1.0, 2.0], id="texts stay"),
        pytest.param([True], True, id="one bool"),
        pytest.param([True, False], [True, False], id="bools"),
        pytest.param(["text"], "text", id="one text"),
        pytest.param([None], None, id="None is a value"),
        pytest.param([2**63], 2**63, id="an int beyond 64 bits"),
        pytest.param([10**400, 0.5], [10**400, 0.5], id="an int no float can hold stays"),
    ],
)
def test_a_scalar_metric_collapses_when_it_has_one_value(values: Any, expected: Any) -> None:
    found = formatted(series("m", values))

    assert found == {"m": expected}
    assert repr(found["m"]) == repr(expected)


def test_nan_and_infinity_stay_floats() -> None:
    found = formatted(series("m", array("d", [math.nan, math.inf, -math.inf])))["m"]

    assert math.isnan(found[0]) and found[1:] == [math.inf, -math.inf]


def test_one_row_is_a_dict_of_scalars() -> None:
    columns = [series("row", array("q", [1]), kind="table", column="x"), series("row", ["a"], kind="table", column="y")]

    assert formatted(*columns) == {"row": {"x": 1, "y": "a"}}


def test_several_rows_are_a_dict_of_lists() -> None:
    columns = [
        series("rows", array("q", [1, 2]), kind="table", column="x"),
        series("rows", array("d", [0.5, 1.5]), kind="table", column="y"),
    ]

    assert formatted(*columns) == {"rows": {"x": [1, 2], "y": [0.5, 1.5]}}


def test_rows_with_different_columns_are_filled_with_none() -> None:
    columns = [
        series("holes", [1, None], kind="table", column="a"),
        series("holes", [None, 2], kind="table", column="b"),
    ]

    assert formatted(*columns) == {"holes": {"a": [1, None], "b": [None, 2]}}


def test_a_file_is_its_artifact_address() -> None:
    found = formatted(series("plot", [], kind="artifact", file="plot_1700000000.png"))

    assert found == {"plot": "aml://artifactId/ExperimentRun/dcid.run_1/plot_1700000000.png"}


def test_several_files_under_one_name_are_a_list() -> None:
    found = formatted(series("plot", ["a.png", "b.png"], kind="artifact"))

    assert found == {
        "plot": [
            "aml://artifactId/ExperimentRun/dcid.run_1/a.png",
            "aml://artifactId/ExperimentRun/dcid.run_1/b.png",
        ]
    }


def test_metrics_come_in_the_order_they_were_first_logged() -> None:
    found = formatted(series("z", [1]), series("a", [2]), series("m", [3]))

    assert list(found) == ["z", "a", "m"]
