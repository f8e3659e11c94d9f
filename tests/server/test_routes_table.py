"""The table of runs over HTTP: windows, columns, groups."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runyard.core.errors import InvalidArgument, NotAllowed, NotFound
from runyard.core.formats.filters import parse_filter
from tests.server.conftest import Served, serve


@pytest.fixture(scope="module")
def filled(session_folder: Path) -> Iterator[Served]:
    with tempfile.TemporaryDirectory(prefix="t", dir=session_folder) as folder, serve(Path(folder)) as found:
        for index, lr in enumerate(["0.1", "auto", "1e-2", 'say "hi"']):
            found.submit(f"exp_{index}", parameters={"lr": lr}, tags={"odd tag": str(index % 2)})
        yield found


def ask(served: Served, path: str, **query: Any) -> Any:
    pairs = [(key, one) for key, value in query.items() for one in (value if isinstance(value, list) else [value])]
    return served.client.transport.request("GET", f"/workspaces/default/{path}", query=pairs).json()


def test_a_window_has_the_count_of_all_and_the_columns_asked_for(filled: Served) -> None:
    found = ask(
        filled, "table", sort="params.lr", descending="false", offset=1, limit=2, column=["params.lr", "tags.x"]
    )

    assert found["total"] == 4
    assert [(row["id"], row["values"]) for row in found["rows"]] == [
        ("exp_0", ["0.1", None]),
        ("exp_1", ["auto", None]),
    ]
    assert set(found["rows"][0]) == {
        "id", "number", "experiment", "display_name", "status", "type", "target", "created_at", "started_at",
        "ended_at", "parent_id", "submitted_by", "archived", "waits_for", "error", "values",
    }  # fmt: skip


def test_columns_say_how_many_of_how_many_runs_have_them(filled: Served) -> None:
    found = ask(filled, "columns")

    assert found["of_runs"] == 4
    assert {"field": "tags", "key": "odd tag", "runs": 4} in found["columns"]


def test_experiments_are_counted_by_status(filled: Served) -> None:
    (found,) = ask(filled, "tally")

    assert (found["experiment"], found["statuses"], found["last"]["id"]) == ("exp", {"Queued": 4}, "exp_3")


@pytest.mark.parametrize("by", ["params.lr", "tags.odd tag", "metrics.loss", "status", "type", "number"])
def test_the_filter_of_a_group_finds_its_runs(filled: Served, by: str) -> None:
    found = ask(filled, "groups", by=by)

    assert found["total"] == len(found["groups"]) >= 1
    for group in found["groups"]:
        parse_filter(group["filter"])
        assert ask(filled, "table", filter=group["filter"])["total"] == group["count"]
    assert sum(group["count"] for group in found["groups"]) == 4


@pytest.mark.parametrize(
    ("path", "query", "says"),
    [
        ("table", {"sort": "colour"}, "no field `colour`"),
        ("table", {"column": "params."}, "no field `params.`"),
        ("table", {"column": ["params.a"] * 51}, "50 is the most"),
        ("table", {"limit": "501"}, "1 to 500"),
        ("table", {"offset": "-1"}, "from 0 on"),
        ("table", {"order": "created", "by": "x"}, "no parameter 'by'"),
        ("table", {"filter": "params.lr <"}, "A value should be here"),
        ("table", {"view": "gone"}, "no view 'gone'"),
        ("groups", {}, "`by` is missing"),
        ("groups", {"by": "created"}, "cannot be grouped"),
        ("columns", {"sort": "created"}, "no parameter 'sort'"),
    ],
)
def test_what_cannot_be_read_is_named(filled: Served, path: str, query: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        ask(filled, path, **query)
    assert says in caught.value.what


def test_the_list_takes_any_order_too(filled: Served) -> None:
    pages = filled.client.runs.iter("default", order="params.lr", descending="false", limit=1)

    assert [run.id for run in pages] == ["exp_2", "exp_0", "exp_1", "exp_3"]


def test_a_runs_token_sees_the_table_of_its_own_children_only(filled: Served) -> None:
    code = filled.as_run("exp_0")

    for path in ("table", "columns", "tally", "groups?by=status"):
        with pytest.raises(NotAllowed):
            code.transport.request("GET", f"/workspaces/default/{path}")
    assert code.transport.request("GET", "/workspaces/default/table?parent=exp_0").status == 200
    with pytest.raises(NotFound):
        filled.client.transport.request("GET", "/workspaces/nowhere/table")
