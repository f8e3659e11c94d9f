"""Searches of runs and experiments over HTTP: filters, orders, pages, and what is refused."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import pytest

from runyard.core.records import RunChange
from runyard.core.statuses import RunStatus
from runyard.testing.runs import Journal, a_run, points
from tests.server.mlflow.conftest import Door


@pytest.fixture
def runs(door: Door) -> Door:
    store = door.served.services.store
    for run_id, loss, team in (("r1", 2.0, "Vision"), ("r2", 1.0, "speech"), ("r3", math.nan, "vision")):
        a_run(store, run_id, tags={"team": team}, parameters={"lr": f"0.{run_id[1]}"}, display_name=run_id)
        Journal(store, run_id).ship(points("loss", [loss]), points("val/acc x", [1.0]))
    a_run(store, "r4", parent_id="r1", submitted_by="ann")
    a_run(store, "away", experiment="other", tags={"team": "Vision"})
    store.set_status("r2", RunStatus.RUNNING)
    store.set_status("r2", RunStatus.COMPLETED)
    return door


def experiment_id(door: Door, name: str = "e") -> str:
    return door.served.services.store.get_experiment("default", name).id


def found(door: Door, filter: str = "", **fields: Any) -> list[str]:
    fields = {"experiment_ids": [experiment_id(door)], "order_by": ["run_id"], **fields}
    status, answer = door.post("runs/search", filter=filter, **fields)
    assert status == 200, answer
    return [run["info"]["run_id"] for run in answer.get("runs", [])]


@pytest.mark.parametrize(
    ("filter", "ids"),
    [
        ("", ["r1", "r2", "r3", "r4"]),
        ("metrics.loss < 2", ["r2"]),
        ("metric.loss != 2 and params.lr LIKE '0.%'", ["r2", "r3"]),
        ('metrics.`val/acc x` = 1 AND metrics."loss" >= 1.0', ["r1", "r2"]),
        ('tags.team ILIKE "VIS%"', ["r1", "r3"]),
        ("tags.team LIKE 'vis%'", ["r3"]),
        ("tags.team != 'vision'", ["r1", "r2"]),
        ("tags.team IS NULL", ["r4"]),
        ("params.lr IS NOT NULL and param.lr != '0.1'", ["r2", "r3"]),
        ("status = 'FINISHED'", ["r2"]),
        ("attributes.status != 'FINISHED'", ["r1", "r3", "r4"]),
        ("attr.status LIKE 'FIN%'", ["r2"]),
        ("run_id IN ('r1', \"r4\")", ["r1", "r4"]),
        ("run_id NOT IN ('r1', 'r4')", ["r2", "r3"]),
        ("`Run name` = 'r3'", ["r3"]),
        ("tags.mlflow.parentRunId = 'r1'", ["r4"]),
        ("tags.`mlflow.user` = 'ann' and user_id = 'ann'", ["r4"]),
        ("artifact_uri LIKE 'mlflow-artifacts:/runs/r1%'", ["r1"]),
        ("start_time > 0 AND end_time > 0", ["r2"]),
        ("datasets.name = 'd'", []),
        ("tags.`a b` = '`'", []),
        ("tags.`x' OR '1'='1` = 'y'", []),
        ("params.lr = '0.1\\'; DROP TABLE runs; --'", []),
        ("tags.\"x`; DELETE FROM runs\" LIKE '%'", []),
    ],
)
def test_a_filter_finds_the_runs_that_fit(runs: Door, filter: str, ids: list[str]) -> None:
    assert found(runs, filter) == ids
    assert len(found(runs)) == 4


def test_orders_have_several_keys_and_missing_values_last(runs: Door) -> None:
    assert found(runs, order_by=["metrics.loss"]) == ["r2", "r1", "r3", "r4"]
    assert found(runs, order_by=["metrics.loss DESC"]) == ["r1", "r2", "r3", "r4"]
    assert found(runs, order_by=["metrics.`val/acc x`", "params.lr desc"]) == ["r3", "r2", "r1", "r4"]
    assert found(runs, order_by=[]) == ["r2", "r1", "r3", "r4"]


def test_pages_follow_each_other_by_tokens(runs: Door) -> None:
    fields: dict[str, Any] = {"experiment_ids": [experiment_id(runs)], "order_by": ["metrics.loss"], "max_results": 3}
    _, first = runs.post("runs/search", **fields)
    _, second = runs.post("runs/search", **fields, page_token=first["next_page_token"])

    assert [run["info"]["run_id"] for run in first["runs"]] == ["r2", "r1", "r3"]
    assert [run["info"]["run_id"] for run in second["runs"]] == ["r4"]
    assert "next_page_token" not in second


def test_views_and_experiments_choose_the_runs(runs: Door) -> None:
    runs.served.services.store.update_run("r1", RunChange(archived=True))
    both = [experiment_id(runs), experiment_id(runs, "other"), "unknown"]

    assert found(runs) == ["r2", "r3", "r4"]
    assert found(runs, run_view_type="DELETED_ONLY") == ["r1"]
    assert found(runs, run_view_type=3) == ["r1", "r2", "r3", "r4"]
    assert found(runs, "tags.team = 'Vision'", experiment_ids=both, run_view_type="ALL") == ["away", "r1"]
    assert found(runs, experiment_ids=[]) == []


def test_a_run_is_shown_with_its_values(runs: Door) -> None:
    _, answer = runs.post("runs/search", experiment_ids=[experiment_id(runs)], filter="run_id = 'r3'")
    (run,) = answer["runs"]

    assert run["info"]["status"] == "SCHEDULED"
    assert {item["key"]: item["value"] for item in run["data"]["metrics"]} == {"loss": "NaN", "val/acc x": 1.0}
    assert run["data"]["params"] == [{"key": "lr", "value": "0.3"}]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"filter": "metrics.x > 1 OR metrics.y > 1"}, "Invalid clause(s) in filter string: 'OR metrics.y > 1'"),
        ({"filter": "metrics.x > '1'"}, "Expected numeric value type for metric. Found '1'"),
        ({"filter": "params.x = 1"}, "Expected a quoted string value for parameter (e.g. 'my-value'). Got value 1"),
        ({"filter": "params.x > 'a'"}, "Invalid comparator '>' not one of"),
        ({"filter": "nothing.x = 'a'"}, "Invalid entity type 'nothing'"),
        ({"filter": "nothing = 'a'"}, "Invalid attribute key 'nothing' specified"),
        ({"filter": "status IN ('a')"}, "Only ['run_id'] attributes support comparison with a list"),
        ({"filter": "run_id IN ()"}, "expected a non-empty list of string values, but got empty list"),
        ({"filter": "metrics.x IS NULL"}, "IS NULL / IS NOT NULL is only supported for tags and params"),
        ({"filter": "x" * 200_000}, "The filter has 200000 characters"),
        ({"filter": " and ".join(["tags.a = 'b'"] * 201)}, "more than 200 comparisons"),
        ({"order_by": ["metrics.x sideways"]}, "Invalid ordering key in order_by clause 'metrics.x sideways'."),
        ({"order_by": ["metrics.x; DROP TABLE runs"]}, "Invalid order_by clause"),
        ({"order_by": ["tags.a", "tag.a desc"]}, "`order_by` contains duplicate fields"),
        ({"max_results": 0}, "Invalid value 0 for parameter 'max_results' supplied. It must be a positive integer"),
        ({"max_results": 50001}, "Invalid value 50001 for parameter 'max_results' supplied. It must be at most 50000"),
        ({"page_token": "a"}, "Invalid page token, could not base64-decode"),
        ({"page_token": base64.b64encode(b"[").decode()}, "Invalid page token, decoded value="),
        ({"page_token": base64.b64encode(json.dumps({"offset": -1}).encode()).decode()}, "Invalid page token, parsed"),
        ({"run_view_type": "NONE"}, "Invalid value 'NONE' for parameter 'run_view_type' supplied."),
    ],
)
def test_what_mlflow_refuses_is_refused_in_its_words(runs: Door, fields: dict[str, Any], message: str) -> None:
    status, answer = runs.post("runs/search", experiment_ids=[experiment_id(runs)], **fields)

    assert (status, answer["error_code"]) == (400, "INVALID_PARAMETER_VALUE")
    assert message in answer["message"]


def test_the_longest_allowed_filter_is_answered(runs: Door) -> None:
    assert found(runs, " and ".join(["run_id != 'x'", "tags.none IS NULL"] * 100)) == ["r1", "r2", "r3", "r4"]


def test_an_order_has_at_most_as_many_keys_as_a_database_joins(runs: Door) -> None:
    assert found(runs, order_by=[f"metrics.m{number}" for number in range(30)]) == ["r2", "r1", "r3", "r4"]
    orders = [f"metrics.m{number}" for number in range(31)]
    status, answer = runs.post("runs/search", experiment_ids=["0"], order_by=orders)
    assert (status, answer["error_code"]) == (400, "INVALID_PARAMETER_VALUE")


def names(door: Door, **fields: Any) -> list[str]:
    status, answer = door.post("experiments/search", **{"max_results": 100, **fields})
    assert status == 200, answer
    return [experiment["name"] for experiment in answer.get("experiments", [])]


def test_experiments_are_searched_by_name_tags_and_time(door: Door) -> None:
    for name, tags in (("a", {"t": "1"}), ("B", {"t": "2"}), ("c", {})):
        door.post("experiments/create", name=name, tags=[{"key": key, "value": value} for key, value in tags.items()])
    door.served.services.store.update_experiment("default", "c", archived=True)

    assert names(door, order_by=["name"]) == ["B", "Default", "a"]
    assert names(door, filter="name ILIKE 'b%'") == ["B"]
    assert names(door, filter="tags.t != '1' and creation_time > 0") == ["B"]
    assert names(door, filter="tag.t IS NULL", view_type="ALL") == ["c", "Default"]
    assert names(door, view_type="DELETED_ONLY") == ["c"]
    assert names(door, filter=f"experiment_id IN ('{experiment_id(door, 'a')}')") == ["a"]
    _, page = door.get("experiments/search?max_results=1&order_by=name%20DESC")
    assert [experiment["name"] for experiment in page["experiments"]] == ["a"]
    assert names(door, order_by=["name DESC"], page_token=page["next_page_token"]) == ["Default", "B"]
    status, answer = door.post("experiments/search", filter="name > 'a'", max_results=5)
    assert (status, answer["error_code"]) == (400, "INVALID_PARAMETER_VALUE")


def test_the_user_that_a_client_tells_is_searched_as_it_is_shown(door: Door) -> None:
    made = [door.post("runs/create", experiment_id="0", user_id=user)[1]["run"]["info"] for user in ("ann", "bob")]
    by_user = {"experiment_ids": ["0"], "filter": "user_id = 'bob'"}
    ordered = {"experiment_ids": ["0"], "order_by": ["attributes.user_id DESC"]}

    assert [run["info"]["run_id"] for run in door.post("runs/search", **by_user)[1]["runs"]] == [made[1]["run_id"]]
    assert [run["info"]["user_id"] for run in door.post("runs/search", **ordered)[1]["runs"]] == ["bob", "ann"]


def test_experiments_are_ordered_by_id_as_they_were_made(door: Door) -> None:
    for name in ("y", "x", "z"):
        door.post("experiments/create", name=name)

    assert [
        [found["name"] for found in door.post("experiments/search", order_by=[by])[1]["experiments"]]
        for by in ("experiment_id", "experiment_id DESC")
    ] == [["Default", "y", "x", "z"], ["z", "x", "y", "Default"]]


@pytest.mark.parametrize(
    ("filter", "ids"),
    [
        ("tags.mlflow.note.content = 'a note'", ["note"]),
        ("tags.mlflow.note.content LIKE 'a%'", ["note"]),
        ("tags.mlflow.note.content IS NULL", ["git", "tag"]),
        ("tags.mlflow.source.git.commit = 'abc'", ["git", "tag"]),
        ("tags.`mlflow.source.git.commit` LIKE 'ab%' AND run_id = 'git'", ["git"]),
        ("tags.mlflow.source.git.branch IS NULL", ["note", "tag"]),
        ("tags.mlflow.source.git.branch = 'main'", ["git"]),
    ],
)
def test_tags_that_are_made_on_reading_are_searched(door: Door, filter: str, ids: list[str]) -> None:
    store = door.served.services.store
    a_run(store, "note", description="a note")
    a_run(store, "git", properties={"azureml.git.commit": "abc", "azureml.git.branch": "main"})
    a_run(store, "tag", tags={"mlflow.source.git.commit": "abc"}, properties={"azureml.git.commit": "other"})

    assert found(door, filter) == ids


def test_runs_are_ordered_by_mlflows_words_for_their_status(door: Door) -> None:
    words = {"a": "KILLED", "b": "FAILED", "c": "FINISHED", "d": "RUNNING"}
    for name, word in words.items():
        _, made = door.post("runs/create", experiment_id="0", run_name=name, start_time=1)
        door.post("runs/update", run_id=made["run"]["info"]["run_id"], status=word)
    orders = [["status"], ["status DESC"]]
    pages = [door.post("runs/search", experiment_ids=["0"], order_by=order)[1]["runs"] for order in orders]

    assert [[run["info"]["run_name"] for run in page] for page in pages] == [["b", "c", "a", "d"], ["d", "a", "c", "b"]]
