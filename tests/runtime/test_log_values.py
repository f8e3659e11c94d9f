"""What values, steps and names become in the journal, and what is refused."""

from __future__ import annotations

import enum
import math
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runyard.core.errors import InvalidArgument
from runyard.core.formats import journal
from runyard.runtime.values import UseLogList
from runyard.runtime.writer import JournalWriter
from tests.runtime.journals import make_run_folder, read_points, read_records, read_values


def shown(value: object) -> str:
    """A test id that is the same in every worker: without addresses."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


class Level(enum.IntEnum):
    HIGH = 9


class TorchLike:
    """A scalar of a library that is not numpy: a shape, a dtype without kind, item()."""

    shape = ()
    dtype = "torch.bfloat16"

    def __init__(self, value: object) -> None:
        self._value = value

    def item(self) -> object:
        return self._value


class TensorFlowLike:
    shape = ()
    dtype = "tf.float32"

    def numpy(self) -> np.float32:
        return np.float32(0.25)


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (0.5, 0.5),
        (7, 7),
        (-(1 << 63), -(1 << 63)),
        ((1 << 63) - 1, (1 << 63) - 1),
        (1 << 63, 1 << 63),
        (-(10**40), -(10**40)),
        (True, True),
        (False, False),
        (None, None),
        ("text", "text"),
        ("", ""),
        ("naïve \U0001f600 \x00 \ud800", "naïve \U0001f600 \x00 \ud800"),
        (1e308, 1e308),
        (5e-324, 5e-324),
        (math.inf, math.inf),
        (-math.inf, -math.inf),
        (np.float64(0.1), 0.1),
        (np.float32(0.5), 0.5),
        (np.float16(0.5), 0.5),
        (np.longdouble(0.5), 0.5),
        (np.int8(-4), -4),
        (np.int64(4), 4),
        (np.uint64((1 << 64) - 1), (1 << 64) - 1),
        (np.bool_(True), True),
        (np.str_("words"), "words"),
        (np.array(3.5), 3.5),
        (Level.HIGH, 9),
        (TorchLike(1.5), 1.5),
        (TorchLike(3), 3),
        (TorchLike(True), True),
        (TensorFlowLike(), 0.25),
    ],
    ids=shown,
)
def test_a_scalar_comes_back_as_the_plain_value_that_was_logged(
    writer: JournalWriter, run_folder: Path, value: object, stored: object
) -> None:
    for _ in range(3):  # the second call may take the fast path
        writer.log("metric", value)
    writer.log("metric", value, step=5)

    found = read_points(run_folder)
    assert [point.value for point in found] == [stored] * 4
    assert {type(point.value) for point in found} == {type(stored)}
    assert [point.step for point in found] == [None, None, None, 5]


def test_nan_stays_nan_bit_for_bit(writer: JournalWriter, run_folder: Path) -> None:
    odd = struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000123))[0]
    writer.log("loss", math.nan)
    writer.log("loss", odd)

    plain, strange = read_values(run_folder, "loss")
    assert math.isnan(plain)
    assert struct.pack("<d", strange) == struct.pack("<d", odd)


@pytest.mark.parametrize("value", [[1, 2], range(3), (n for n in range(3))], ids=["list", "range", "generator"])
def test_a_list_given_to_log_says_to_use_log_list(writer: JournalWriter, run_folder: Path, value: object) -> None:
    with pytest.raises(UseLogList, match=r"log_list\('loss', values\)"):
        writer.log("loss", value)

    assert read_points(run_folder) == []


def test_the_sdk_decides_which_exception_log_raises(run_folder: Path) -> None:
    class Translated(Exception):
        pass

    writer = JournalWriter(run_folder, "run", translate=lambda error: Translated(type(error).__name__))

    with pytest.raises(Translated, match="UseLogList"):
        writer.log("loss", [1])
    with pytest.raises(Translated, match="InvalidArgument"):
        writer.log("", 1.0)
    writer.close()


@pytest.mark.parametrize(
    "value",
    [(1, 2), {"a": 1}, np.arange(3), 1 + 2j, np.datetime64("2020-01-01", "ns"), np.complex128(1), b"x", object],
    ids=shown,
)
def test_anything_else_is_stored_as_its_repr_with_a_warning(
    writer: JournalWriter, run_folder: Path, value: object
) -> None:
    with pytest.warns(UserWarning, match="`odd` was given a .*; its repr"):
        writer.log("odd", value)

    assert read_values(run_folder, "odd") == [repr(value)]


def test_the_warning_points_at_the_users_own_line(writer: JournalWriter) -> None:
    with pytest.warns(UserWarning) as caught:
        writer.log("odd", (1, 2))

    assert caught[0].filename == __file__


def test_a_value_whose_repr_raises_does_not_end_the_training(writer: JournalWriter, run_folder: Path) -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError("no")

        def __getattr__(self, name: str) -> Any:
            raise RuntimeError(name)

    with pytest.warns(UserWarning, match="Broken"):
        writer.log("odd", Broken())

    assert "Broken object at" in read_values(run_folder, "odd")[0]


@pytest.mark.parametrize("step", [0, -5, 3, (1 << 63) - 1, -(1 << 63)])
def test_steps_may_be_negative_and_repeat_and_go_back(writer: JournalWriter, run_folder: Path, step: int) -> None:
    for given_step in (10, step, step, np.int32(4), 7.0):
        writer.log("loss", 0.5, step=given_step)

    assert [point.step for point in read_points(run_folder)] == [10, step, step, 4, 7]


@pytest.mark.parametrize("step", [1 << 63, 2.5, "3", math.nan, [1]], ids=shown)
def test_a_step_that_is_no_64_bit_integer_is_refused_with_the_metrics_name(
    writer: JournalWriter, run_folder: Path, step: object
) -> None:
    writer.log("loss", 0.5)

    with pytest.raises(InvalidArgument, match="step of the metric `loss`"):
        writer.log("loss", 0.5, step=step)
    assert len(read_points(run_folder)) == 1


@given(
    st.lists(
        st.one_of(
            st.floats(allow_nan=False),
            st.integers(min_value=-(1 << 70), max_value=1 << 70),
            st.booleans(),
            st.none(),
            st.text(),
        ),
        max_size=30,
    )
)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
def test_every_scalar_comes_back_exactly_by_log_list_row_and_table(
    tmp_path_factory: pytest.TempPathFactory, values: list[Any]
) -> None:
    folder = make_run_folder(tmp_path_factory.mktemp("values") / "run")
    writer = JournalWriter(folder, "run")
    writer.log_list("list", iter(values))
    for value in values:
        writer.log("single", value)
        writer.log_row("row", column=value)
    writer.log_table("table", {"column": values})
    writer.close()

    rows = [payload["columns"]["column"] for kind, payload in read_records(folder) if kind == journal.ROW]
    tables = [payload["columns"]["column"] for kind, payload in read_records(folder) if kind == journal.TABLE]
    for found in (read_values(folder, "list"), read_values(folder, "single"), rows, *(tables or [[]])):
        assert list(map(repr, found)) == list(map(repr, values))  # repr tells -0.0 from 0.0, 1 from 1.0 and True


def test_numbers_of_a_list_are_cells_in_one_write(run_folder: Path) -> None:
    import os

    writes: list[int] = []

    def counting(fd: int, data: bytes) -> int:
        writes.append(len(data))
        return os.write(fd, data)

    writer = JournalWriter(run_folder, "run", write=counting)
    writer.log("warm", 1.0)
    writer.log_list("warm", [])
    writes.clear()
    writer.log_list("warm", np.arange(1000.0))
    writer.close()

    assert writes == [32_000]
    assert read_values(run_folder, "warm") == [1.0, *range(1000)]


@pytest.mark.parametrize("items", [[1, [2]], [object()], [np.arange(2)]], ids=shown)
def test_a_list_with_an_item_that_is_no_scalar_records_nothing(
    writer: JournalWriter, run_folder: Path, items: list[object]
) -> None:
    with pytest.raises(InvalidArgument, match="`list` was given a"):
        writer.log_list("list", items)

    assert read_points(run_folder) == []


def test_log_list_needs_something_to_iterate(writer: JournalWriter) -> None:
    with pytest.raises(InvalidArgument, match="holds no items"):
        writer.log_list("list", 5)  # type: ignore[arg-type]


def test_rows_take_description_as_second_positional_and_refuse_lists(writer: JournalWriter, run_folder: Path) -> None:
    writer.log_row("cosine", "a description", angle=np.float64(1.5), count=np.int64(2))

    with pytest.raises(InvalidArgument, match="`cosine`"):
        writer.log_row("cosine", angle=[1, 2])
    with pytest.raises(InvalidArgument, match="no columns"):
        writer.log_row("cosine")
    [(kind, payload)] = read_records(run_folder)
    assert (kind, payload["name"], payload["columns"]) == (journal.ROW, "cosine", {"angle": 1.5, "count": 2})
    assert payload["t"] > 0


def test_tables_are_columns_of_one_length(writer: JournalWriter, run_folder: Path) -> None:
    writer.log_table("many", {"x": [1, 2], "y": np.array([0.5, 1.5])})
    writer.log_table("one", {"x": 1, "y": "text"})
    writer.log_table("none", {"x": [], "y": []})

    with pytest.raises(InvalidArgument, match="`x` has 1, `y` has 2"):
        writer.log_table("bad", {"x": [1], "y": [1, 2]})
    with pytest.raises(InvalidArgument, match="dict of columns"):
        writer.log_table("bad", [1, 2])  # type: ignore[arg-type]
    tables = [(payload["name"], payload["columns"]) for _kind, payload in read_records(run_folder)]
    assert tables == [("many", {"x": [1, 2], "y": [0.5, 1.5]}), ("one", {"x": [1], "y": ["text"]})]


@pytest.mark.parametrize(
    "name", ["loss", "a/b", "../../etc/passwd", "\U0001f600", "אבג", "with space", "-", "a" * 255], ids=shown
)
def test_names_are_text_and_never_a_path(writer: JournalWriter, run_folder: Path, name: str) -> None:
    before = sorted(run_folder.parent.rglob("*"))
    for _ in range(3):
        writer.log(name, 1.0)

    assert [point.name for point in read_points(run_folder)] == [name] * 3
    after = [path for path in sorted(run_folder.parent.rglob("*")) if path not in before]
    assert [path.suffix for path in after] == [".journal"]


def test_composed_and_decomposed_names_are_one_metric(writer: JournalWriter, run_folder: Path) -> None:
    for name in ("e\u0301", "\u00e9") * 2:
        writer.log(name, 1.0)

    assert [point.name for point in read_points(run_folder)] == ["\u00e9"] * 4


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "a\0b", "a" * 256, "\ud800", None, 5, ["x"], b"loss"], ids=shown)
def test_a_name_that_cannot_be_one_is_refused_with_the_reason(
    writer: JournalWriter, run_folder: Path, name: Any
) -> None:
    for record, value in ((writer.log, 1.0), (writer.log_list, [1]), (writer.log_table, {"x": [1]})):
        with pytest.raises(InvalidArgument, match="metric name"):
            record(name, value)

    assert read_points(run_folder) == []
