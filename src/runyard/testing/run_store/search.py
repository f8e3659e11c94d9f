"""What every `RunStore` does with a RunSearch: conditions, orders of several keys, windows."""

from __future__ import annotations

import math
from typing import Any

import pytest

from runyard.core.formats.filters import PRESENT, Comparison, parse_field
from runyard.core.records import RunChange
from runyard.core.statuses import RunStatus
from runyard.store.base import RunSearch, RunStore, SearchOrder
from runyard.testing.runs import Journal, a_run, points

LONG = "x" * 300


def found(store: RunStore, *conditions: Comparison, by: str = "id", **fields: Any) -> list[str]:
    """Return ids in an order such as `-metrics.loss id`; `id` is no field of filters."""
    search = RunSearch("default", ["e"], conditions, orders=[order_of(word) for word in by.split()], **fields)
    return [run.id for run in store.search_runs(search)]


def order_of(word: str) -> SearchOrder:
    from runyard.core.formats.filters import Field

    name = word.lstrip("-")
    return SearchOrder(parse_field(name) if "." in name else Field(name), word.startswith("-"))


def logged(store: RunStore, run_id: str, **metrics: float) -> None:
    journal = Journal(store, run_id)
    journal.ship(*(points(name, [value]) for name, value in metrics.items()))


class SearchSuite:
    """Searches of runs: a part of QueriesSuite."""

    @pytest.mark.parametrize(
        ("condition", "ids"),
        [
            (Comparison("tags", "=", "Vision", "team"), ["a"]),
            (Comparison("tags", "!=", "Vision", "team"), ["b"]),
            (Comparison("tags", "like", "V%n", "team"), ["a"]),
            (Comparison("tags", "like", "v%n", "team"), ["b"]),
            (Comparison("tags", "ilike", "v_SION", "team"), ["a", "b"]),
            (Comparison("tags", "like", "%*[?]\\%", "odd"), ["c"]),
            (Comparison("tags", "like", "%*[?]\\", "odd"), []),
            (Comparison("tags", "like", "%end", "long"), ["a"]),
            (Comparison("tags", "ilike", "xx%END", "long"), ["a"]),
            (Comparison("tags", "=", LONG + "end", "long"), ["a"]),
            (Comparison("tags", PRESENT, None, "team"), ["a", "b"]),
            (Comparison("tags", "absent", None, "team"), ["c"]),
            (Comparison("params", "absent", None, "x'; DROP TABLE runs; --"), ["a", "b", "c"]),
            (Comparison("params", "=", "1", 'a"b'), ["b"]),
            (Comparison("id", "in", ("a", "c", "nothing")), ["a", "c"]),
            (Comparison("id", "not in", ("a", "c")), ["b"]),
            (Comparison("id", "=", "uri:/b", "uri:/"), ["b"]),
            (Comparison("name", "like", "B%"), ["b"]),
            (Comparison("user", "=", "me' OR '1'='1"), []),
            (Comparison("status", "in", (RunStatus.RUNNING.value,)), ["c"]),
            (Comparison("start", PRESENT), ["c"]),
            (Comparison("parent", "=", "a"), ["c"]),
            (Comparison("parent", "absent"), ["a", "b"]),
        ],
        ids=str,
    )
    def test_a_search_finds_what_fits(self, store: RunStore, condition: Comparison, ids: list[str]) -> None:
        a_run(store, "a", tags={"team": "Vision", "long": LONG + "end"})
        a_run(store, "b", tags={"team": "vision"}, display_name="Bee", parameters={'a"b': "1"})
        a_run(store, "c", tags={"odd": "a*[?]\\b"}, parent_id="a", status=RunStatus.RUNNING)
        a_run(store, "elsewhere", experiment="f", tags={"team": "Vision"})

        assert found(store, condition) == ids

    @pytest.mark.parametrize(
        ("op", "value", "ids"),
        [
            ("=", 1.0, ["one"]),
            ("!=", 1.0, ["minus", "nan", "two"]),
            ("<", 2.0, ["minus", "one"]),
            (">=", 1.0, ["one", "two"]),
            (PRESENT, None, ["minus", "nan", "one", "two"]),
            ("absent", None, ["none"]),
        ],
    )
    def test_nan_fits_unequal_alone(self, store: RunStore, op: str, value: float | None, ids: list[str]) -> None:
        self._with_losses(store)

        assert found(store, Comparison("metrics", op, value, "loss")) == ids

    def test_nan_comes_behind_numbers_and_a_missing_metric_last(self, store: RunStore) -> None:
        self._with_losses(store)

        assert found(store, by="metrics.loss") == ["minus", "one", "two", "nan", "none"]
        assert found(store, by="-metrics.loss") == ["two", "one", "minus", "nan", "none"]
        assert found(store, by="-metrics.other -metrics.loss") == ["two", "one", "minus", "nan", "none"]
        assert found(store, by="status metrics.loss") == ["minus", "one", "two", "nan", "none"]

    def test_windows_of_an_order_follow_each_other(self, store: RunStore) -> None:
        self._with_losses(store)
        whole = found(store, by="-metrics.loss")

        for limit in (1, 2, 3):
            windows = [found(store, by="-metrics.loss", offset=start, limit=limit) for start in range(0, 7, limit)]
            assert [run_id for window in windows for run_id in window] == whole

    def test_equal_keys_are_ordered_by_the_next_then_by_start_and_id(self, store: RunStore) -> None:
        for run_id, tag in (("b", "x"), ("c", "y"), ("a", "x")):
            a_run(store, run_id, tags={"t": tag})
            logged(store, run_id, loss=1.0)
        a_run(store, "d")

        assert found(store, by="metrics.loss -tags.t") == ["c", "a", "b", "d"]
        assert found(store, by="-tags.t id") == ["c", "a", "b", "d"]
        assert found(store, by="") == ["a", "b", "c", "d"]
        store.set_status("b", RunStatus.RUNNING)
        assert found(store, by="") == ["b", "a", "c", "d"]

    def test_a_search_sees_the_runs_of_its_view_and_experiments(self, store: RunStore) -> None:
        a_run(store, "kept")
        a_run(store, "archived")
        a_run(store, "other", experiment="f")
        store.update_run("archived", RunChange(archived=True))

        assert found(store) == ["kept"]
        assert found(store, view="archived") == ["archived"]
        assert found(store, view="all") == ["archived", "kept"]
        assert [run.id for run in store.search_runs(RunSearch("default", ["f", "unknown"]))] == ["other"]
        assert store.search_runs(RunSearch("default", [])) == []

    def _with_losses(self, store: RunStore) -> None:
        for run_id, value in (("two", 2.0), ("one", 1.0), ("nan", math.nan), ("minus", -math.inf)):
            a_run(store, run_id)
            logged(store, run_id, loss=value)
        a_run(store, "none")
