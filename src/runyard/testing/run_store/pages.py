"""What every `RunStore` does with a RunQuery: filters, orders, pages."""

from __future__ import annotations

import math

import pytest

from runyard.core.errors import InvalidArgument, NotFound
from runyard.core.formats.filters import parse_filter
from runyard.core.records import RunChange
from runyard.core.specs import RunSpec
from runyard.core.statuses import RunStatus
from runyard.store.base import MetricCondition, RunQuery, RunStore
from runyard.testing.runs import Journal, a_run, a_workspace, points


def ids(store: RunStore, **query: object) -> list[str]:
    return [run.id for run in store.list_runs(RunQuery("default", **query)).runs]  # type: ignore[arg-type]  # spread


def all_pages(store: RunStore, limit: int, **query: object) -> list[str]:
    found: list[str] = []
    cursor: str | None = None
    while True:
        page = store.list_runs(RunQuery("default", limit=limit, cursor=cursor, **query))  # type: ignore[arg-type]  # spread
        assert len(page.runs) <= limit
        found += [run.id for run in page.runs]
        cursor = page.next
        if cursor is None:
            return found


def with_metric(store: RunStore, run_id: str, value: float | str | None, **fields: object) -> None:
    a_run(store, run_id, **fields)
    if value is not None:
        kind = "json" if isinstance(value, str) else "f8"
        Journal(store, run_id).ship(points("loss", [5.0]), points("loss", [value], kind=kind))


class PageSuite:
    """Pages of runs: a part of QueriesSuite."""

    def test_the_newest_runs_come_first(self, store: RunStore) -> None:
        for name in ("a", "b", "c"):
            a_run(store, name)

        assert ids(store) == ["c", "b", "a"]
        assert ids(store, descending=False) == ["a", "b", "c"]
        assert ids(store, limit=2) == ["c", "b"]

    def test_pages_hold_every_run_once(self, store: RunStore) -> None:
        names = [f"r{index}" for index in range(7)]
        for name in names:
            a_run(store, name)

        assert all_pages(store, 3) == names[::-1]
        assert all_pages(store, 7) == names[::-1]
        assert all_pages(store, 1, descending=False) == names

    def test_a_page_of_large_runs_ends_early_and_none_is_left_out(self, store: RunStore) -> None:
        names = [f"r{index}" for index in range(7)]
        for index, name in enumerate(names):
            with_metric(store, name, None if index == 3 else float(index), tags={"big": "x" * 20_000})

        assert len(ids(store, max_bytes=65_000)) in (2, 3)
        assert len(ids(store, max_bytes=1)) == 1
        assert ids(store, max_bytes=1 << 30) == names[::-1]
        for order in ("created", "metrics.loss", "tags.big", "name"):
            for most in (1, 50_000, 1 << 30):
                assert sorted(all_pages(store, 5, order=order, max_bytes=most)) == names, (order, most)

    def test_a_run_made_meanwhile_does_not_shift_the_next_page(self, store: RunStore) -> None:
        for name in ("a", "b", "c"):
            a_run(store, name)
        first = store.list_runs(RunQuery("default", limit=2))
        a_run(store, "d")

        assert ids(store, limit=2, cursor=first.next) == ["a"]

    def test_children_are_listed_when_asked_for(self, store: RunStore) -> None:
        a_run(store, "top")
        a_run(store, "child", parent_id="top")
        a_run(store, "grandchild", parent_id="child")

        assert ids(store) == ["top"]
        assert ids(store, include_children=True) == ["grandchild", "child", "top"]
        assert ids(store, parent_id="top") == ["child"]
        assert ids(store, parent_id="nobody") == []

    def test_experiment_status_and_type_narrow_the_list(self, store: RunStore) -> None:
        a_run(store, "a", experiment="one")
        a_run(store, "b", experiment="two", type=None)
        a_run(store, "c", experiment="two")
        store.set_status("c", RunStatus.FAILED)

        assert ids(store, experiment="two") == ["c", "b"]
        assert ids(store, experiment="three") == []
        assert ids(store, statuses=[RunStatus.FAILED, RunStatus.RUNNING]) == ["c"]
        assert ids(store, type="azureml.scriptrun") == ["c", "a"]
        assert ids(store, experiment="two", type="azureml.scriptrun", statuses=[RunStatus.NOT_STARTED]) == []

    def test_an_unknown_workspace_is_not_found_when_listing(self, store: RunStore) -> None:
        with pytest.raises(NotFound, match="nowhere"):
            store.list_runs(RunQuery("nowhere"))

    def test_tags_properties_and_parameters_narrow_the_list(self, store: RunStore) -> None:
        a_run(store, "a", tags={"team": "x", "draft": None}, parameters={"lr": "0.1"})
        a_run(store, "b", tags={"team": "y"}, properties={"git": "c0ffee"}, parameters={"lr": "0.1"})
        a_run(store, "c", parameters={"lr": "0.2"})

        assert ids(store, tags={"team": "x"}) == ["a"]
        assert ids(store, tags={"team": None}) == ["b", "a"]
        assert ids(store, tags={"draft": None}) == ["a"]
        assert ids(store, properties={"git": "c0ffee"}) == ["b"]
        assert ids(store, parameters={"lr": "0.1"}) == ["b", "a"]
        assert ids(store, parameters={"lr": "0.1"}, tags={"team": "y"}) == ["b"]
        assert ids(store, tags={"lr": "0.1"}) == []

    def test_a_changed_tag_is_found_by_its_new_value(self, store: RunStore) -> None:
        a_run(store, "a", tags={"stage": "draft", "gone": "x"})
        store.update_run("a", RunChange(tags_set={"stage": "final"}, tags_remove=["gone"]))

        assert ids(store, tags={"stage": "final"}) == ["a"]
        assert ids(store, tags={"stage": "draft"}) == []
        assert ids(store, tags={"gone": None}) == []

    @pytest.mark.parametrize("text", ["a\0b", "lone \ud800", "x" * 5000], ids=ascii)
    def test_odd_tags_are_found(self, store: RunStore, text: str) -> None:
        a_run(store, "a", tags={text: text})
        a_run(store, "b", tags={text: text + "y"})

        assert ids(store, tags={text: text}) == ["a"]
        assert ids(store, tags={text: None}) == ["b", "a"]

    def test_more_matches_than_a_short_list_are_all_found(self, store: RunStore) -> None:
        store.put_workspace(a_workspace())
        for index in range(1200):
            a_run(store, f"r{index}", tags={"team": "x"} if index % 6 else {"team": "y"})

        assert len(all_pages(store, 300, tags={"team": "x"})) == 1000
        assert len(all_pages(store, 300, tags={"team": "y"})) == 200

    @pytest.mark.parametrize(
        ("op", "expected"),
        [("<", ["a"]), ("<=", ["b", "a"]), (">", ["c"]), (">=", ["c", "b"]), ("=", ["b"]), ("!=", ["c", "a"])],
    )
    def test_the_last_value_of_a_metric_narrows_the_list(self, store: RunStore, op: str, expected: list[str]) -> None:
        for name, value in (("a", 0.1), ("b", 0.2), ("c", 0.3), ("none", None), ("nan", math.nan), ("text", "0.2")):
            with_metric(store, name, value)

        assert ids(store, metrics=[MetricCondition("loss", op, 0.2)]) == expected
        assert ids(store, metrics=[MetricCondition("other", op, 0.2)]) == []

    def test_runs_are_ordered_by_a_metric_and_those_without_it_come_last(self, store: RunStore) -> None:
        values = {"a": 0.3, "b": None, "c": -math.inf, "d": 0.3, "e": math.nan, "f": math.inf, "g": 0.1, "h": "text"}
        for name, value in values.items():
            with_metric(store, name, value)

        assert ids(store, order="metrics.loss") == ["f", "d", "a", "g", "c", "h", "e", "b"]
        assert ids(store, order="metrics.loss", descending=False) == ["c", "g", "a", "d", "f", "b", "e", "h"]
        for limit in (1, 2, 3, 5):
            assert all_pages(store, limit, order="metrics.loss") == ["f", "d", "a", "g", "c", "h", "e", "b"]
            assert all_pages(store, limit, order="metrics.loss", descending=False) == [
                "c",
                "g",
                "a",
                "d",
                "f",
                "b",
                "e",
                "h",
            ]

    def test_order_and_conditions_work_together(self, store: RunStore) -> None:
        for index in range(10):
            with_metric(store, f"r{index}", index / 10, tags={"odd": str(index % 2)}, experiment=f"e{index % 3}")
        odd = [MetricCondition("loss", "<", 0.8)]

        assert ids(store, order="metrics.loss", metrics=odd, tags={"odd": "1"}) == ["r7", "r5", "r3", "r1"]
        assert all_pages(store, 2, order="metrics.loss", metrics=odd, tags={"odd": "1"}) == ["r7", "r5", "r3", "r1"]
        assert ids(store, order="metrics.loss", experiment="e1", descending=False) == ["r1", "r4", "r7"]
        assert ids(store, order="metrics.loss", statuses=[RunStatus.FAILED]) == []

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("metrics.loss < 0.25", ["b", "a"]),
            ("metrics.loss", ["c", "b", "a"]),
            ("not metrics.loss < 0.25", ["text", "none", "c"]),
            ("metrics.loss != 0.1 and params.lr = 0.1", ["c"]),
            ('tags.team = "x" or metrics.loss >= 0.3', ["c", "a"]),
            ("tags.team", ["b", "a"]),
            ("tags.team != x", ["b"]),
            ("not tags.team = x", ["text", "none", "c", "b"]),
            ('tags.draft = ""', ["a"]),
            ("properties.git = c0ffee", ["b"]),
            ("experiment = other", ["c"]),
            ("experiment != other and not status = Failed", ["text", "none", "a"]),
            ("status = failed", ["b"]),
            ("type = azureml.scriptrun and metrics.loss > 0", ["b", "a"]),
            ("not type = azureml.scriptrun", ["c"]),
            ('name = "the first"', ["a"]),
            ("created > 2020-01-01 and name != x", ["text", "none", "c", "b", "a"]),
            ("created < 2020-01-01 or created >= 2999-01-01T00:00Z", []),
            ("(tags.team = x or tags.team = y) and not (metrics.loss < 0.15)", ["b"]),
            ("target = gpu", ["text"]),
            ("target != gpu and name = text", []),
            ("params.lr < 0.2", ["c"]),
            ("params.lr >= 0.1", ["none", "c"]),
            ("params.lr > 9 and params.lr <= 1e1", ["none"]),
            ("not params.lr > 1", ["text", "c", "b", "a"]),
            ("tags.team < 5 or tags.team >= 5", []),
            ("tags.age > 9 or properties.age > 9", ["none", "b"]),
        ],
    )
    def test_a_filter_narrows_the_list(self, store: RunStore, text: str, expected: list[str]) -> None:
        with_metric(store, "a", 0.1, tags={"team": "x", "draft": None}, display_name="the first")
        with_metric(store, "b", 0.2, tags={"team": "y", "age": "1"}, properties={"git": "c0ffee", "age": "10"})
        with_metric(store, "c", 0.3, experiment="other", type=None, parameters={"lr": "0.1"})
        with_metric(store, "none", None, parameters={"lr": "10"}, tags={"age": "11"})
        with_metric(store, "text", "0.2", parameters={"lr": "auto"}, spec=RunSpec(target="gpu"))
        store.set_status("b", RunStatus.FAILED)

        where = parse_filter(text)

        assert ids(store, where=where) == expected
        assert all_pages(store, 1, where=where) == expected
        assert sorted(all_pages(store, 2, where=where, order="metrics.loss")) == sorted(expected)

    def test_a_filter_compares_the_time_of_creation_to_the_microsecond(self, store: RunStore) -> None:
        at = a_run(store, "a").created_at.isoformat()

        assert ids(store, where=parse_filter(f"created = {at}")) == ["a"]
        assert ids(store, where=parse_filter(f"created >= {at} and created <= {at}")) == ["a"]
        assert ids(store, where=parse_filter(f"created < {at} or created > {at} or created != {at}")) == []

    def test_a_filter_finds_a_run_by_the_name_and_the_number_that_it_has_now(self, store: RunStore) -> None:
        a_run(store, "a", display_name="old", tags={"size": "1"})
        store.update_run("a", RunChange(display_name="n" * 300, tags_set={"size": "-2.5"}))

        assert ids(store, where=parse_filter(f"name = {'n' * 300}")) == ["a"]
        assert ids(store, where=parse_filter("name = old or tags.size = 1 or tags.size >= 1")) == []
        assert ids(store, where=parse_filter("tags.size < -2")) == ["a"]
        store.update_run("a", RunChange(tags_set={"size": "large"}))
        assert ids(store, where=parse_filter("tags.size < -2")) == []

    def test_children_are_ordered_by_a_metric(self, store: RunStore) -> None:
        a_run(store, "sweep")
        for index in range(3):
            with_metric(store, f"trial{index}", index * 1.0, parent_id="sweep")

        assert ids(store, parent_id="sweep", order="metrics.loss") == ["trial2", "trial1", "trial0"]
        assert ids(store, order="metrics.loss") == ["sweep"]
        assert ids(store, order="metrics.loss", include_children=True) == ["trial2", "trial1", "trial0", "sweep"]

    def test_an_unknown_order_comparison_or_cursor_is_refused(self, store: RunStore) -> None:
        a_run(store, "a")

        with pytest.raises(InvalidArgument, match="no field `colour`"):
            ids(store, order="colour")
        with pytest.raises(InvalidArgument, match="compared"):
            ids(store, metrics=[MetricCondition("loss", "~", 1.0)])
        for cursor in ("nonsense", "", "c", "c1e5", "c" + "9" * 40, "c" + "9" * 5000, "m1/0x1p9999", "\0", "\ud800"):
            with pytest.raises(InvalidArgument, match="cursor"):
                ids(store, cursor=cursor)
        with pytest.raises(InvalidArgument, match="cursor"):
            ids(store, cursor="m1/0x1p9999", order="metrics.loss")

    def test_a_limit_beyond_all_runs_is_no_mistake(self, store: RunStore) -> None:
        a_run(store, "a")

        assert ids(store, limit=10**30) == ["a"]
        assert ids(store, limit=0) == ["a"]
