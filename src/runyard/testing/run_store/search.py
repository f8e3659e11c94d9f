"""What every `RunStore` does with a RunSearch: conditions, orders of several keys, windows."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from runyard.core.formats.filters import PRESENT, Comparison, parse_field
from runyard.core.formats.run_inputs import CONTEXT, DatasetInput, dataset_property
from runyard.core.records import MLFLOW_RUN, USER_TAG, RunChange
from runyard.core.statuses import RunStatus
from runyard.store.base import RunQuery, RunSearch, RunStore, SearchOrder
from runyard.testing.runs import Journal, a_run, points

LONG = "x" * 300


def found(store: RunStore, *conditions: Comparison, by: str = "id", **fields: Any) -> list[str]:
    """Return ids in an order such as `-metrics.loss id`; `id` is no field of filters."""
    search = RunSearch(
        "default", ids_of(store, "e"), conditions, orders=[order_of(word) for word in by.split()], **fields
    )
    return [run.id for run in store.search_runs(search)]


def ids_of(store: RunStore, *names: str) -> list[str]:
    return [found.id for found in store.list_experiments("default", view="All") if found.name in names]


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

    def test_a_metric_counts_by_its_highest_step(self, store: RunStore) -> None:
        for run_id, values in (("a", [1.0, 9.0]), ("b", [2.0, 8.0]), ("c", [math.nan, 7.0]), ("d", [3.0, math.nan])):
            a_run(store, run_id)
            Journal(store, run_id).ship(points("m", values, steps=[2, 1]))

        assert found(store, by="-metrics.m") == ["d", "b", "a", "c"]
        assert found(store, by="status metrics.m") == ["a", "b", "d", "c"]
        assert found(store, Comparison("metrics", "<", 3.0, "m")) == ["a", "b"]

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
        assert [run.id for run in store.search_runs(RunSearch("default", [*ids_of(store, "f"), "unknown"]))] == [
            "other"
        ]
        assert store.search_runs(RunSearch("default", [])) == []
        store.update_experiment("default", "f", archived=True)
        for view, runs in (("active", ["kept"]), ("archived", ["archived", "other"]), ("all", ["other"])):
            search = RunSearch("default", ids_of(store, *("f" if view == "all" else "ef")), view=view)
            assert sorted(run.id for run in store.search_runs(search)) == runs

    @pytest.mark.parametrize(
        ("op", "ms", "ids"),
        [(">", 1000, ["b"]), (">=", 1000, ["a", "b"]), ("=", 1000, ["a"]), ("<", 1001, ["a"]), ("!=", 1001, ["a"])],
    )
    def test_times_are_compared_in_whole_milliseconds(self, store: RunStore, op: str, ms: int, ids: list[str]) -> None:
        for run_id, start in (("a", 1_000_400), ("b", 1_001_000)):
            started = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=start)
            a_run(store, run_id, type=MLFLOW_RUN, status=RunStatus.RUNNING, started_at=started)
            store.report_status(run_id, RunStatus.COMPLETED, ended_at=started)

        for field in ("start", "end"):
            assert found(store, Comparison(field, op, float(ms))) == ids

    def test_the_user_of_a_run_of_mlflow_is_who_its_client_tells(self, store: RunStore) -> None:
        a_run(store, "a", type=MLFLOW_RUN, tags={USER_TAG: "ann"}, submitted_by="server")
        a_run(store, "b", type=MLFLOW_RUN, submitted_by="bob")
        a_run(store, "c", tags={USER_TAG: "ann"}, submitted_by="zoe")

        assert found(store, Comparison("user", "=", "ann")) == ["a"]
        assert found(store, Comparison("user", "like", "%o%")) == ["b", "c"]
        assert found(store, by="-user") == ["c", "b", "a"]

    def _with_losses(self, store: RunStore) -> None:
        for run_id, value in (("two", 2.0), ("one", 1.0), ("nan", math.nan), ("minus", -math.inf)):
            a_run(store, run_id)
            logged(store, run_id, loss=value)
        a_run(store, "none")

    def test_runs_are_found_by_the_datasets_that_they_read(self, store: RunStore) -> None:
        def read(run_id: str, *datasets: DatasetInput, experiment: str = "e") -> None:
            a_run(store, run_id, experiment=experiment)
            for dataset in datasets:
                store.update_run(run_id, RunChange(properties_add=dict([dataset_property(dataset)])))

        iris, wine = DatasetInput("iris", "d1", tags={CONTEXT: "training"}), DatasetInput("Wine", "d2")
        read("a", iris, wine)
        read("b", DatasetInput("iris", "d3", tags={CONTEXT: "Test"}))
        read("c")
        read("d", replace(iris, schema="{}"), DatasetInput("n" * 300, "d4"), experiment="f")
        a_run(store, "e", properties={"mlflow.input.x.y": "{", "mlflow.input.model.m-1": "", "mlflow.input.z": "[]"})

        for op, value, key, ids in (
            ("=", "iris", "name", ["a", "b"]),
            ("!=", "iris", "name", ["a"]),
            ("like", "%i%", "name", ["a", "b"]),
            ("ilike", "WIN_", "name", ["a"]),
            ("in", ("d2", "d3"), "digest", ["a", "b"]),
            ("not in", ("d1", "d2"), "digest", ["b"]),
            ("=", "training", "context", ["a"]),
            ("like", "T%", "context", ["b"]),
            ("=", "none", "name", []),
        ):
            assert found(store, Comparison("datasets", op, value, key)) == ids, (op, value, key)
        both = [Comparison("datasets", "=", "iris", "name"), Comparison("datasets", "=", "d2", "digest")]
        assert found(store, *both) == ["a"]
        (e,), (f,) = ids_of(store, "e"), ids_of(store, "f")
        listed = store.list_datasets("default", [e, f, "unknown"])
        assert [(id, dataset.name, dataset.digest, dataset.context) for id, dataset in listed] == [
            (e, "Wine", "d2", None),
            (e, "iris", "d1", "training"),
            (e, "iris", "d3", "Test"),
            (f, "iris", "d1", "training"),
            (f, "n" * 300, "d4", None),
        ]
        assert store.list_datasets("default", [f], limit=1) == [(f, replace(iris, schema="{}"))]
        assert store.list_datasets("default", []) == []
        columns = store.list_columns(RunQuery("default"))[0]
        assert {column.field.name for column in columns} == {"properties"}
