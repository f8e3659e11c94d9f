"""The door itself: addresses, tokens, rights, errors, and experiments by id and name."""

from __future__ import annotations

import json

import pytest

from runyard.server.access.permissions import RIGHTS
from runyard.server.mlflow.endpoints import TABLE, find_endpoint
from tests.server.mlflow.conftest import Door

LONG = "/mlflow/v2.0/subscriptions/s/resourceGroups/g/providers/Microsoft.MachineLearningServices/workspaces/default"


def test_an_experiment_is_made_and_found_by_id_and_name(door: Door) -> None:
    status, made = door.post("experiments/create", name="a/b: c", tags=[{"key": "team", "value": "x"}])
    by_id = door.get(f"experiments/get?experiment_id={made['experiment_id']}")
    by_name = door.get("experiments/get-by-name?experiment_name=a%2Fb%3A%20c")

    assert status == 200
    assert by_id == by_name
    assert by_id[1]["experiment"]["name"] == "a/b: c"
    assert by_id[1]["experiment"]["lifecycle_stage"] == "active"
    assert by_id[1]["experiment"]["tags"] == [{"key": "team", "value": "x"}]
    assert [found.name for found in door.served.services.store.list_experiments("default")] == ["a/b: c"]


def test_a_name_that_is_taken_is_refused_as_mlflow_does(door: Door) -> None:
    door.post("experiments/create", name="one")
    status, answer = door.post("experiments/create", name="one")

    assert (status, answer["error_code"]) == (400, "RESOURCE_ALREADY_EXISTS")


def test_experiment_zero_is_the_default_one(door: Door) -> None:
    status, answer = door.get("experiments/get?experiment_id=0")

    assert (status, answer["experiment"]["name"]) == (200, "Default")


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("experiments/get?experiment_id=nothing", 404, "RESOURCE_DOES_NOT_EXIST"),
        ("experiments/get-by-name?experiment_name=nothing", 404, "RESOURCE_DOES_NOT_EXIST"),
        ("experiments/get", 400, "INVALID_PARAMETER_VALUE"),
        ("traces/search", 404, "ENDPOINT_NOT_FOUND"),
    ],
)
def test_errors_have_mlflows_body(door: Door, path: str, status: int, code: str) -> None:
    found, answer = door.get(path)

    assert (found, answer["error_code"]) == (status, code)
    assert answer["message"]


def test_a_body_that_is_no_json_object_is_a_bad_request(door: Door) -> None:
    for body in (b"{", b"[]", b"1"):
        status, answer = door.raw("POST", "/api/2.0/mlflow/experiments/create", body)

        assert (status, json.loads(answer)["error_code"]) == (400, "BAD_REQUEST")


def test_azures_long_address_and_the_other_prefixes_mean_the_same(door: Door) -> None:
    _, made = door.post("experiments/create", name="one")
    path = f"/mlflow/experiments/get?experiment_id={made['experiment_id']}"

    assert door.at(LONG).raw("GET", f"/api/2.0{path}") == door.raw("GET", f"/ajax-api/3.0{path}")
    assert door.raw("GET", f"/api/3.0{path}")[0] == 200


def test_health_and_version_answer_text(door: Door) -> None:
    assert door.raw("GET", "/health") == (200, b"OK")
    assert door.raw("GET", "/version") == (200, b"3.3.0")


def test_a_token_as_password_is_as_good_as_a_bearer(door: Door) -> None:
    token = door.served.client.users.add("alice", role="user").token

    assert door.as_password(token).post("experiments/create", name="hers")[0] == 200
    assert door.served.services.store.get_experiment("default", "hers").owner == "alice"


def test_without_a_good_token_the_answer_has_mlflows_body(door: Door) -> None:
    for who in (door.as_token("wrong"), door.as_password("wrong"), Door(door.served, authorization="Basic %%%")):
        status, answer = who.get("experiments/get?experiment_id=0")

        assert (status, answer["error_code"]) == (401, "UNAUTHENTICATED")


def test_a_reader_reads_and_makes_nothing(door: Door) -> None:
    reader = door.as_token(door.served.client.users.add("rita", role="reader").token)
    door.post("experiments/create", name="one")

    assert reader.get("experiments/get-by-name?experiment_name=one")[0] == 200
    assert reader.post("experiments/create", name="two")[1]["error_code"] == "PERMISSION_DENIED"
    assert reader.at("/mlflow/another").get("experiments/get?experiment_id=0")[0] == 404


def test_a_run_reaches_its_own_workspace_alone(door: Door) -> None:
    door.served.client.workspaces.put("elsewhere")
    door.served.submit("exp_1")
    run = door.as_token(door.served.job_of("exp_1").token)

    assert run.get("experiments/get-by-name?experiment_name=exp")[0] == 200
    refused = run.at("/mlflow/elsewhere").get("experiments/get-by-name?experiment_name=exp")
    assert (refused[0], refused[1]["error_code"]) == (403, "PERMISSION_DENIED")


def test_every_endpoint_names_rights_that_are_there() -> None:
    assert all(found.verbs and set(found.verbs) <= set(RIGHTS) for found in TABLE.values())


def test_a_path_or_method_beside_the_table_finds_nothing() -> None:
    assert find_endpoint("GET", "mlflow/experiments/get/more") is None
    assert find_endpoint("POST", "mlflow/experiments/get") is None


def test_a_workspace_is_made_on_first_use(door: Door) -> None:
    assert door.at("/mlflow/fresh").post("experiments/create", name="one")[0] == 200
    assert "fresh" in [found.name for found in door.served.services.store.list_workspaces()]
