"""Experiments over MLflow's door: names of any text, renaming, tags, the one called Default, where files go."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.mlflow.conftest import Door

ODD = "50 % of\nall / \u00e9" + "x" * 480


def experiment(door: Door, id: str) -> dict[str, Any]:
    status, answer = door.get(f"experiments/get?experiment_id={id}")
    assert status == 200, answer
    found: dict[str, Any] = answer["experiment"]
    return found


def test_a_name_may_be_any_text_and_both_doors_find_it(door: Door) -> None:
    made = door.post("experiments/create", name=ODD, tags=[{"key": "a", "value": "1"}])[1]["experiment_id"]
    found = experiment(door, made)

    assert (found["name"], found["tags"]) == (ODD, [{"key": "a", "value": "1"}])
    kept = door.served.services.store.get_experiment("default", ODD)
    assert (kept.id, kept.title) == (made, ODD)
    assert door.served.client.experiments.get("default", kept.name).shown_name == ODD
    assert door.post("experiments/create", name=ODD)[1]["error_code"] == "RESOURCE_ALREADY_EXISTS"
    for name, words in (
        ("y" * 501, "'name' exceeds the maximum length of 500 characters"),
        (" ", "Invalid experiment"),
    ):
        status, answer = door.post("experiments/create", name=name)
        assert status == 400 and words in answer["message"]


def test_an_experiment_is_renamed_and_its_runs_stay(door: Door) -> None:
    made = door.post("experiments/create", name="a")[1]["experiment_id"]
    before = experiment(door, made)
    run = door.post("runs/create", experiment_id=made)[1]["run"]["info"]["run_id"]
    assert door.post("experiments/update", experiment_id=made, new_name="b") == (200, {})
    renamed = experiment(door, made)

    assert (renamed["name"], renamed["experiment_id"]) == ("b", made)
    assert renamed["last_update_time"] > renamed["creation_time"] == before["last_update_time"]
    assert door.get("experiments/get-by-name?experiment_name=b")[1]["experiment"] == renamed
    assert door.get("experiments/get-by-name?experiment_name=a")[0] == 404
    assert door.get(f"runs/get?run_id={run}")[1]["run"]["info"]["experiment_id"] == made
    assert [one.name for one in door.served.client.experiments.list("default", name="b")] == ["a"]
    again = door.post("experiments/create", name="a")[1]["experiment_id"]
    assert again != made
    status, answer = door.post("experiments/update", experiment_id=again, new_name="b")
    assert (status, answer["error_code"]) == (400, "RESOURCE_ALREADY_EXISTS")
    door.post("experiments/delete", experiment_id=again)
    status, answer = door.post("experiments/update", experiment_id=again, new_name="c")
    assert (status, answer["error_code"]) == (400, "INVALID_STATE")


def test_a_title_finds_the_experiment_in_the_sdk(door: Door) -> None:
    made = door.post("experiments/create", name="a")[1]["experiment_id"]
    door.served.client.experiments.update("default", "a", title="Training: 2026")

    assert experiment(door, made)["name"] == "Training: 2026"
    assert door.served.client.experiments.put("default", "Training: 2026").name == "a"


def test_a_new_workspace_shows_default_and_stores_it_when_it_is_used(door: Door) -> None:
    store = door.served.services.store
    _, answer = door.post("experiments/search", max_results=5)
    (shown,) = answer["experiments"]

    assert (shown["experiment_id"], shown["name"], shown["lifecycle_stage"]) == ("0", "Default", "active")
    assert (
        experiment(door, "0") == shown == door.get("experiments/get-by-name?experiment_name=Default")[1]["experiment"]
    )
    assert store.list_experiments("default", view="All") == []
    assert door.post("experiments/create", name="Default")[1]["error_code"] == "RESOURCE_ALREADY_EXISTS"
    assert door.post("experiments/set-experiment-tag", experiment_id="0", key="t", value="1") == (200, {})
    run = door.post("runs/create", experiment_id="0")[1]["run"]["info"]
    assert (run["experiment_id"], experiment(door, "0")["tags"]) == ("0", [{"key": "t", "value": "1"}])
    _, found = door.post("runs/search", experiment_ids=["0"])
    assert [one["info"]["run_id"] for one in found["runs"]] == [run["run_id"]]


def test_tags_are_set_and_removed(door: Door) -> None:
    made = door.post("experiments/create", name="a")[1]["experiment_id"]
    for value in ("1", "2"):
        assert door.post("experiments/set-experiment-tag", experiment_id=made, key="t", value=value)[0] == 200
    assert experiment(door, made)["tags"] == [{"key": "t", "value": "2"}]

    assert door.post("experiments/delete-experiment-tag", experiment_id=made, key="t") == (200, {})
    assert experiment(door, made)["tags"] == []
    status, answer = door.post("experiments/delete-experiment-tag", experiment_id=made, key="t")
    assert (status, answer["error_code"]) == (404, "RESOURCE_DOES_NOT_EXIST")


def test_an_artifact_location_is_where_clients_put_the_files_of_their_runs(door: Door) -> None:
    def run_in(location: str) -> tuple[str, dict[str, Any]]:
        made = door.post("experiments/create", name=location, artifact_location=location)[1]["experiment_id"]
        assert experiment(door, made)["artifact_location"] == location
        info = door.post("runs/create", experiment_id=made)[1]["run"]["info"]
        return info["run_id"], info

    run_id, info = run_in("s3://bucket/place?x=1")
    assert info["artifact_uri"] == f"s3://bucket/place/{run_id}/artifacts?x=1"
    assert door.get(f"runs/get?run_id={run_id}")[1]["run"]["info"] == info
    status, answer = door.get(f"artifacts/list?run_id={run_id}")
    assert (status, answer["error_code"]) == (501, "NOT_IMPLEMENTED") and "s3://bucket" in answer["message"]
    run_id, info = run_in("mlflow-artifacts:/mine")
    assert info["artifact_uri"] == f"mlflow-artifacts:/runs/{run_id}"
    assert door.get(f"artifacts/list?run_id={run_id}") == (
        200,
        {"root_uri": f"mlflow-artifacts:/runs/{run_id}", "files": []},
    )


@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("runs:/x", "Artifact location cannot be a runs:/ URI"),
        ("s3://b/x#f", "can't include fragments or params"),
        ("s3://b/x?p=../..", "Invalid query string"),
        ("s3://" + "b" * 2048, "exceeds the maximum length of 2048"),
    ],
)
def test_a_location_that_mlflow_refuses_is_refused(door: Door, location: str, words: str) -> None:
    status, answer = door.post("experiments/create", name="a", artifact_location=location)

    assert (status, answer["error_code"]) == (400, "INVALID_PARAMETER_VALUE") and words in answer["message"]
    assert door.get("experiments/get-by-name?experiment_name=a")[0] == 404
