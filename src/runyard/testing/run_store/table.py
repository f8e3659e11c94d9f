"""What every `RunStore` does with the table of runs: windows in any order, columns, groups."""

from __future__ import annotations

import math
from typing import Any

import pytest

from runyard.core.errors import InvalidArgument, NotFound
from runyard.core.formats.filters import Field, parse_field, parse_filter
from runyard.core.records import RunChange
from runyard.core.specs import RunSpec
from runyard.core.statuses import RunStatus
from runyard.store.base import MetricCondition, RunQuery, RunStore
from runyard.testing.run_store.pages import PageSuite, all_pages, ids, with_metric
from runyard.testing.run_store.search import SearchSuite
from runyard.testing.runs import Journal, a_run, a_workspace, points

ORDERS = {
    "created": ("abcde", "edcba"),
    "metrics.loss": ("cadbe", "daceb"),
    "metrics.other": ("abcde", "edcba"),
    "params.lr": ("cadbe", "acbde"),
    "tags.size": ("cdeab", "dceba"),
    "properties.none": ("abcde", "edcba"),
    "status": ("dbcea", "aecbd"),
    "experiment": ("cdbae", "eabdc"),
    "name": ("eabcd", "aedcb"),
    "type": ("abdec", "edbac"),
    "target": ("bacde", "edcab"),
    "user": ("dabce", "adecb"),
    "number": ("abcde", "edcba"),
    "duration": ("abcde", "aedcb"),
}  # field → ids of a_mixture ascending, descending
FILTERS = (
    "metrics.loss < 0.25",
    "not metrics.loss",
    "params.lr > 0.05 or params.lr = auto",
    "params.lr != auto",
    "tags.size >= 10",
    "not (tags.size and status = Failed)",
    "experiment = y and not status = Running",
    "experiment != y",
    "type",
    "not type",
    "user",
    "user != eve",
    "not user = eve",
    "number >= 2",
    "number = 1 and name",
    "target != local",
    "name = m or user = bob",
    "created > 2020-01-01 and not created > 2999-01-01",
    "duration",
    "not duration",
    "duration < 1h",
    "duration > 1d or status = NotStarted",
)


def table(store: RunStore, *, columns: tuple[str, ...] = (), offset: int = 0, **query: Any) -> list[str]:
    """Return the ids of a window, having checked that its total is the list's length."""
    asked = RunQuery("default", **query)
    found = store.read_table(asked, columns=[parse_field(name) for name in columns], offset=offset)
    assert found.total == len(all_pages(store, 50, **{key: query[key] for key in query if key != "limit"}))
    return [row.id for row in found.rows]


def groups(store: RunStore, by: str, **query: Any) -> list[tuple[Any, int]]:
    found = store.group_runs(RunQuery("default", **query), parse_field(by))
    assert found.total == len(found.groups)
    return [(group.value, group.count) for group in found.groups]


def a_mixture(store: RunStore) -> None:
    with_metric(store, "a", 0.3, parameters={"lr": "0.1"}, experiment="y", submitted_by="eve", display_name="m")
    with_metric(store, "b", None, parameters={"lr": "auto"}, experiment="x", spec=RunSpec(target="gpu"))
    with_metric(store, "c", 0.1, parameters={"lr": "1e-2"}, type=None, tags={"size": "9"})
    with_metric(store, "d", 0.3, parameters={"lr": "adaptive"}, submitted_by="bob", tags={"size": "10"})
    with_metric(store, "e", math.nan, experiment="y", display_name="b", tags={"size": ""})
    store.set_status("d", RunStatus.FAILED, error={"code": "UserError", "message": "it broke\nand more"})
    store.set_status("a", RunStatus.RUNNING)


class QueriesSuite(PageSuite, SearchSuite):
    """The contract of `Queries`: pages, and tables of runs."""

    def test_a_window_is_read_from_any_place_with_the_count_of_all(self, store: RunStore) -> None:
        names = [f"r{index}" for index in range(7)]
        for name in names:
            a_run(store, name)

        assert table(store, offset=0, limit=3) == ["r6", "r5", "r4"]
        assert table(store, offset=5, limit=3) == ["r1", "r0"]
        assert table(store, offset=7) == table(store, offset=10**9) == []
        assert table(store, offset=2, limit=2, descending=False) == ["r2", "r3"]

    def test_runs_are_sorted_by_any_field_numbers_first_and_those_without_it_last(self, store: RunStore) -> None:
        a_mixture(store)

        for order, (ascending, descending) in ORDERS.items():
            assert "".join(table(store, order=order, descending=False)) == ascending, order
            assert "".join(table(store, order=order)) == descending, order
            assert "".join(table(store, order=order, offset=1, limit=3)) == descending[1:4], order
            assert "".join(all_pages(store, 2, order=order)) == descending, order

    def test_a_row_says_what_is_short_of_a_run(self, store: RunStore) -> None:
        a_mixture(store)
        row = store.read_table(RunQuery("default", where=parse_filter("status = Failed"))).rows[0]
        run = store.get_run("d")

        assert (row.id, row.number, row.experiment, row.status, row.target) == ("d", 2, "e", RunStatus.FAILED, "local")
        assert (row.created_at, row.started_at, row.ended_at) == (run.created_at, run.started_at, run.ended_at)
        assert (row.type, row.submitted_by, row.display_name) == ("azureml.scriptrun", "bob", "")
        assert row.error == {"code": "UserError", "line": "it broke"}
        assert not row.archived and row.parent_id is None and row.values == []

    def test_columns_are_given_in_the_order_asked_for(self, store: RunStore) -> None:
        a_mixture(store)
        Journal(store, "c", writer="r0-2-bb").ship(points("odd", [math.inf]), points("word", ["hi"], kind="json"))
        fields = [Field("metrics", "loss"), Field("params", "lr"), Field("tags", "size"), Field("metrics", "odd")]
        found = store.read_table(RunQuery("default", descending=False), columns=[*fields, Field("metrics", "word")])

        assert [row.values for row in found.rows] == [
            [0.3, "0.1", None, None, None],
            [None, "auto", None, None, None],
            [0.1, "1e-2", "9", "Infinity", "hi"],
            [0.3, "adaptive", "10", None, None],
            ["NaN", None, "", None, None],
        ]

    def test_a_long_text_is_cut_in_a_row(self, store: RunStore) -> None:
        a_run(store, "a", tags={"t": "x" * 5000}, display_name="y" * 5000)
        row = store.read_table(RunQuery("default"), columns=[Field("tags", "t")]).rows[0]

        assert row.values == ["x" * 299 + "…"] and row.display_name == "y" * 299 + "…"

    def test_the_table_holds_what_the_list_holds(self, store: RunStore) -> None:
        a_mixture(store)

        for text in FILTERS:
            where = parse_filter(text)
            found = ids(store, where=where)
            assert table(store, where=where) == found, text
            assert sorted(table(store, where=where, order="params.lr")) == sorted(found), text

    def test_new_fields_of_filters_find_the_right_runs(self, store: RunStore) -> None:
        a_mixture(store)

        assert ids(store, where=parse_filter("user = eve")) == ["a"]
        assert ids(store, where=parse_filter("not user")) == ["e", "c", "b"]
        assert ids(store, where=parse_filter("not type")) == ["c"]
        assert ids(store, where=parse_filter("name")) == ["e", "a"]
        assert ids(store, where=parse_filter("number = 2")) == ["e", "d"]
        assert ids(store, where=parse_filter("duration < 1h")) == ["a"]
        assert ids(store, where=parse_filter("not duration")) == ["e", "d", "c", "b"]

    def test_every_condition_of_a_query_narrows_the_table(self, store: RunStore) -> None:
        a_mixture(store)
        a_run(store, "child", parent_id="a", tags={"size": "9"})

        assert table(store, include_children=True, tags={"size": "9"}) == ["child", "c"]
        assert table(store, parent_id="a") == ["child"] and table(store, parent_id="nobody") == []
        assert table(store, experiment="y") == ["e", "a"] and table(store, experiment="none") == []
        assert table(store, statuses=[RunStatus.FAILED, RunStatus.RUNNING]) == ["d", "a"]
        assert table(store, type="azureml.scriptrun", tags={"size": None}) == ["e", "d"]
        assert table(store, metrics=[MetricCondition("loss", "<", 0.2)]) == ["c"]
        assert table(store, parameters={"lr": "0.1"}, properties={}) == ["a"]
        with pytest.raises(InvalidArgument, match="compared"):
            store.read_table(RunQuery("default", metrics=[MetricCondition("loss", "~", 1.0)]))

    def test_a_change_is_seen_by_the_next_window(self, store: RunStore) -> None:
        a_mixture(store)
        loss: dict[str, Any] = {"order": "metrics.loss"}
        failed: dict[str, Any] = {"where": parse_filter("status = Failed")}
        before = [table(store), table(store, **loss), table(store, **failed), table(store, order="tags.size")]
        with_metric(store, "f", 0.2)
        store.set_status("b", RunStatus.FAILED)
        store.update_run("b", RunChange(tags_set={"size": "11"}))

        assert before == [[*"edcba"], [*"daceb"], ["d"], [*"dceba"]]
        assert table(store) == [*"fedcba"] and table(store, **loss) == [*"dafceb"]
        assert table(store, **failed) == ["d", "b"]
        assert table(store, order="tags.size", limit=3) == ["b", "d", "c"]
        store.delete_run("d")
        assert table(store, **failed) == ["b"] and table(store, **loss) == [*"afceb"]

    def test_archived_runs_are_in_their_own_view(self, store: RunStore) -> None:
        a_mixture(store)
        store.update_run("d", RunChange(archived=True))

        assert table(store) == ["e", "c", "b", "a"]
        assert table(store, view="archived") == ["d"]
        assert table(store, view="all", order="user", descending=False) == ["d", "a", "b", "c", "e"]
        assert [row.archived for row in store.read_table(RunQuery("default", view="archived")).rows] == [True]

    def test_columns_are_counted_most_used_first(self, store: RunStore) -> None:
        a_mixture(store)
        Journal(store, "c", writer="r0-2-bb").ship(points("_system/cpu", [1.0]))
        columns, looked_at = store.list_columns(RunQuery("default"))

        assert looked_at == 5
        assert [(column.field.title, column.runs) for column in columns] == [
            ("metrics.loss", 4),
            ("params.lr", 4),
            ("tags.size", 3),
        ]
        columns, looked_at = store.list_columns(RunQuery("default", experiment="x"))
        assert [(column.field.title, column.runs) for column in columns] == [("params.lr", 1)] and looked_at == 1

    def test_runs_are_grouped_by_a_value_and_those_without_it_come_last(self, store: RunStore) -> None:
        a_mixture(store)

        assert groups(store, "params.lr") == [("1e-2", 1), ("0.1", 1), ("adaptive", 1), ("auto", 1), (None, 1)]
        assert groups(store, "tags.size") == [("9", 1), ("10", 1), ("", 1), (None, 2)]
        assert groups(store, "metrics.loss") == [(0.1, 1), (0.3, 2), (None, 2)]
        assert groups(store, "status") == [("Failed", 1), ("NotStarted", 3), ("Running", 1)]
        assert groups(store, "experiment", tags={"size": None}) == [("e", 2), ("y", 1)]
        assert groups(store, "user") == [("bob", 1), ("eve", 1), (None, 3)]
        assert groups(store, "type") == [("azureml.scriptrun", 4), (None, 1)]
        assert groups(store, "number", experiment="y") == [(1, 1), (2, 1)]
        cut = store.group_runs(RunQuery("default"), Field("params", "lr"), limit=2)
        assert [group.value for group in cut.groups] == ["1e-2", "0.1"] and cut.total == 5

    def test_the_runs_of_each_experiment_are_counted_by_status(self, store: RunStore) -> None:
        a_mixture(store)
        found = store.count_by_experiment(RunQuery("default"))

        assert [(one.experiment, one.statuses, one.last.id) for one in found] == [
            ("e", {"NotStarted": 1, "Failed": 1}, "d"),
            ("x", {"NotStarted": 1}, "b"),
            ("y", {"Running": 1, "NotStarted": 1}, "e"),
        ]
        assert [one.experiment for one in store.count_by_experiment(RunQuery("default", tags={"size": "9"}))] == ["e"]

    def test_an_unknown_order_group_or_workspace_is_refused(self, store: RunStore) -> None:
        store.put_workspace(a_workspace())

        with pytest.raises(InvalidArgument, match="no field"):
            store.read_table(RunQuery("default", order="colour"))
        with pytest.raises(InvalidArgument, match="grouped"):
            store.group_runs(RunQuery("default"), Field("created"))
        with pytest.raises(NotFound, match="nowhere"):
            store.read_table(RunQuery("nowhere"))
        assert store.read_table(RunQuery("default")).total == 0
        assert store.group_runs(RunQuery("default"), Field("status")).groups == []
