"""Logged models of MLflow 3: in the files of their run, or with files of their own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runyard.client.calls.workspace import ModelCalls
from runyard.core.records import RunChange
from runyard.core.statuses import RunStatus
from runyard.testing.runs import a_run
from tests.server.mlflow.asking import ask, refused
from tests.server.mlflow.conftest import Door

AT = "/api/2.0/mlflow-artifacts/artifacts"


@pytest.fixture
def run(door: Door) -> Door:
    """The server has a running run `r1`."""
    a_run(door.served.services.store, "r1")
    door.served.services.store.set_status("r1", RunStatus.RUNNING)
    return door


def experiment_of(door: Door, run_id: str = "r1") -> str:
    return str(ask(door, "GET", "runs/get", run_id=run_id)["run"]["info"]["experiment_id"])


def log_model(door: Door, **fields: Any) -> dict[str, Any]:
    fields = {"experiment_id": "0", **fields}
    info: dict[str, Any] = ask(door, "POST", "logged-models", **fields)["model"]["info"]
    return info


def put(door: Door, uri: str, name: str, body: bytes) -> None:
    status, answer = door.raw("PUT", f"{AT}/{uri.partition(':/')[2]}/{name}", body)
    assert status == 200, answer


def found(door: Door, **fields: Any) -> list[str]:
    answer = ask(door, "POST", "logged-models/search", **{"experiment_ids": ["0"], **fields})
    return [model["info"]["name"] for model in answer.get("models", [])]


def test_a_model_of_a_run_is_in_the_runs_own_files(run: Door) -> None:
    info = log_model(run, name="model", source_run_id="r1", experiment_id=experiment_of(run), model_type="sk")
    put(run, info["artifact_uri"], "MLmodel", b"flavors")
    second = log_model(run, name="model", source_run_id="r1", experiment_id=experiment_of(run))
    put(run, second["artifact_uri"], "MLmodel", b"second")
    names = [file.name for file in run.served.services.store.list_files("r1")]
    directories = ask(run, "GET", f"logged-models/{second['model_id']}/artifacts/directories")

    assert info["artifact_uri"] == "mlflow-artifacts:/runs/r1/model"
    assert second["artifact_uri"] == f"mlflow-artifacts:/runs/r1/models/{second['model_id']}"
    assert names == ["model/MLmodel", f"models/{second['model_id']}/MLmodel"]
    assert directories == {
        "root_uri": second["artifact_uri"], "files": [{"path": "MLmodel", "is_dir": False, "file_size": 6}]
    }  # fmt: skip
    for model, body in ((info, b"flavors"), (second, b"second")):
        path = f"/api/2.0/mlflow/logged-models/{model['model_id']}/artifacts/files?artifact_file_path=MLmodel"
        assert run.raw("GET", path) == (200, body)
        assert run.raw("GET", f"{AT}/models/{model['model_id']}/MLmodel") == (200, body)


def test_a_second_model_of_a_name_never_overwrites_the_first(run: Door) -> None:
    """Two are made before either has a file, and one where a file is already."""
    put(run, "mlflow-artifacts:/runs/r1", "taken/notes.txt", b"mine")
    places = {
        name: [log_model(run, name=name, source_run_id="r1")["artifact_uri"] for _ in range(2)]
        for name in ("model", "taken")
    }

    assert places["model"][0] == "mlflow-artifacts:/runs/r1/model"
    others = [*places["model"][1:], *places["taken"]]
    assert all(place.startswith("mlflow-artifacts:/runs/r1/models/m-") for place in others)
    assert len(set(others)) == 3


def test_a_model_without_a_run_keeps_its_files_itself(door: Door) -> None:
    info = log_model(door, name="free")
    put(door, info["artifact_uri"], "MLmodel", b"one")
    put(door, info["artifact_uri"], "data/w.bin", b"weights")
    put(door, info["artifact_uri"], "MLmodel", b"newer")
    ask(door, "POST", "registered-models/create", name="net")
    ask(door, "POST", "model-versions/create", name="net", source=f"models:/{info['model_id']}")
    status, listed = door.raw("GET", f"/api/2.0/mlflow-artifacts/artifacts?path=models/{info['model_id']}")
    model = ModelCalls(door.served.client.transport).get("default", "net")

    assert info["artifact_uri"] == f"mlflow-artifacts:/models/{info['model_id']}"
    assert (status, [file["path"] for file in json.loads(listed)["files"]]) == (200, ["MLmodel", "data"])
    assert (model.spec.path, [file.name for file in model.spec.files]) == ("free", ["free/MLmodel", "free/data/w.bin"])
    assert door.raw("GET", f"{AT}/registered/net/1/MLmodel") == (200, b"newer")
    in_use = door.served.services.store.read_references().chunks
    assert {chunk for asset_file in files_of(door, info["model_id"]) for chunk in asset_file["chunks"]} <= set(in_use)
    ask(door, "DELETE", f"logged-models/{info['model_id']}")
    assert door.raw("GET", f"{AT}/models/{info['model_id']}/MLmodel")[0] == 404
    assert door.raw("GET", f"{AT}/registered/net/1/MLmodel") == (200, b"newer")


def files_of(door: Door, model_id: str) -> list[dict[str, Any]]:
    files: list[dict[str, Any]] = door.served.services.store.get_asset("default", "logged_model", model_id).document[
        "files"
    ]
    return files


def test_status_tags_and_parameters(run: Door) -> None:
    info = log_model(run, name="m", tags=[{"key": "a", "value": "1"}], params=[{"key": "p", "value": "2"}])
    place = f"logged-models/{info['model_id']}"
    ask(run, "PATCH", f"{place}/tags", tags=[{"key": "a", "value": "x"}, {"key": "b/c", "value": ""}])
    ask(run, "DELETE", f"{place}/tags/b/c")
    ask(run, "POST", f"{place}/params", params=[{"key": "q", "value": "3"}, {"key": "p", "value": "2"}])
    ready = ask(run, "PATCH", place, model_id=info["model_id"], status="LOGGED_MODEL_READY")["model"]

    assert info["status"] == "LOGGED_MODEL_PENDING"
    assert ready["info"]["status"] == "LOGGED_MODEL_READY"
    assert ready["info"]["tags"] == [{"key": "a", "value": "x"}]
    assert ready["data"]["params"] == [{"key": "p", "value": "2"}, {"key": "q", "value": "3"}]
    assert "Changing param values is not allowed" in refused(
        run, "POST", f"{place}/params", params=[{"key": "p", "value": "other"}]
    )[1]  # fmt: skip
    assert refused(run, "DELETE", f"{place}/tags/none") == (
        "RESOURCE_DOES_NOT_EXIST", f"No tag with key 'none' found for model with ID '{info['model_id']}'."
    )  # fmt: skip
    ask(run, "DELETE", place)
    assert refused(run, "GET", place) == (
        "RESOURCE_DOES_NOT_EXIST", f"Logged model with ID '{info['model_id']}' not found."
    )  # fmt: skip
    assert ask(run, "GET", place, allow_deleted="true")["model"]["info"]["name"] == "m"
    assert found(run) == []
    assert "cannot contain the following" in refused(run, "POST", "logged-models", experiment_id="0", name="a/b")[1]


def test_metrics_are_the_runs_and_the_models(run: Door) -> None:
    info = log_model(run, name="m", experiment_id=experiment_of(run))
    point = {"key": "acc", "value": 0.5, "timestamp": 7, "step": 1, "model_id": info["model_id"]}
    for _ in range(2):
        ask(run, "POST", "runs/log-metric", run_id="r1", **point, dataset_name="d", dataset_digest="1")
    ask(run, "POST", "runs/log-batch", run_id="r1", metrics=[{**point, "value": "NaN", "step": 2}])
    metrics = ask(run, "GET", f"logged-models/{info['model_id']}")["model"]["data"]["metrics"]
    history = ask(run, "GET", "metrics/get-history", run_id="r1", metric_key="acc")["metrics"]

    assert metrics == [
        {**point, "run_id": "r1", "dataset_name": "d", "dataset_digest": "1"},
        {**point, "value": "NaN", "step": 2, "run_id": "r1"},
    ]
    assert [row["step"] for row in history] == [1, 2]
    unknown = {**point, "model_id": "m-none", "step": 9}
    assert refused(run, "POST", "runs/log-metric", run_id="r1", **unknown)[0] == "RESOURCE_DOES_NOT_EXIST"
    assert len(ask(run, "GET", "metrics/get-history", run_id="r1", metric_key="acc")["metrics"]) == 2


def test_many_points_of_a_model_keep_the_latest_of_each_metric(run: Door) -> None:
    info = log_model(run, name="m")
    for start in (0, 1000):
        points = [
            {"key": f"k{step % 2}", "value": step, "timestamp": step, "step": step, "model_id": info["model_id"]}
            for step in range(start, start + 1000)
        ]
        ask(run, "POST", "runs/log-batch", run_id="r1", metrics=points)
    metrics = ask(run, "GET", f"logged-models/{info['model_id']}")["model"]["data"]["metrics"]

    assert [(metric["key"], metric["step"]) for metric in metrics] == [("k0", 1998), ("k1", 1999)]
    assert len(ask(run, "GET", "metrics/get-history", run_id="r1", metric_key="k0")["metrics"]) == 1000


def test_models_are_found_by_filters_datasets_and_orders(run: Door) -> None:
    for name, value, digest in (("a", 3.0, "1"), ("b", 1.0, "2"), ("c", 2.0, "2")):
        info = log_model(run, name=name, params=[{"key": "p", "value": name}], tags=[{"key": "t", "value": "x"}])
        point = {"key": "acc", "value": value, "timestamp": 1, "model_id": info["model_id"]}
        ask(run, "POST", "runs/log-metric", run_id="r1", **point, dataset_name="d", dataset_digest=digest)
    log_model(run, name="d", model_type="keras")
    by_acc = {"field_name": "metrics.acc", "ascending": True}

    for fields, names in (
        ({}, ["d", "c", "b", "a"]),
        ({"filter": "name = 'a'"}, ["a"]),
        ({"filter": "name IN ('a', 'b')"}, ["b", "a"]),
        ({"filter": "metrics.acc >= 2"}, ["c", "a"]),
        ({"filter": "params.p = 'b' AND tags.t = 'x'"}, ["b"]),
        ({"filter": "model_type = 'keras'"}, ["d"]),
        ({"filter": "status = 'PENDING' AND name LIKE 'c%'"}, ["c"]),
        ({"datasets": [{"dataset_name": "d", "dataset_digest": "2"}]}, ["c", "b"]),
        ({"datasets": [{"dataset_name": "d", "dataset_digest": "2"}], "filter": "metrics.acc > 1.5"}, ["c"]),
        ({"order_by": [by_acc]}, ["b", "c", "a", "d"]),
        ({"order_by": [{**by_acc, "dataset_name": "d", "dataset_digest": "2"}]}, ["b", "c", "d", "a"]),
        ({"order_by": [{"field_name": "name", "ascending": True}]}, ["a", "b", "c", "d"]),
    ):
        assert found(run, **fields) == names, fields  # type: ignore[arg-type]  # fields of a request
    assert found(run, experiment_ids=["none"]) == []
    assert refused(run, "POST", "logged-models/search", experiment_ids=[])[0] == "INVALID_PARAMETER_VALUE"
    assert "must be specified" in refused(
        run, "POST", "logged-models/search", experiment_ids=["0"], datasets=[{"dataset_digest": "2"}]
    )[1]  # fmt: skip


def test_what_the_clients_plug_in_noted_on_a_run_is_a_logged_model(run: Door) -> None:
    store, model_id = run.served.services.store, f"m-{'1' * 32}"
    facts = {"": "model", ".type": "sk", ".tag.t": "x", ".param.p": "1"}
    store.update_run("r1", RunChange(properties_add={f"mlflow.model.{model_id}{key}": facts[key] for key in facts}))
    put(run, "mlflow-artifacts:/runs/r1", "model/MLmodel", b"flavors")
    ask(run, "POST", "registered-models/create", name="net")
    ask(run, "POST", "model-versions/create", name="net", source=f"models:/{model_id}", model_id=model_id)
    store.update_run("r1", RunChange(properties_add={f"mlflow.model.{model_id}.status": "READY"}))
    model = ask(run, "GET", f"logged-models/{model_id}")["model"]
    version = ask(run, "GET", "model-versions/get", name="net", version="1")["model_version"]

    assert model["info"]["artifact_uri"] == "mlflow-artifacts:/runs/r1/model"
    assert (model["info"]["status"], model["info"]["model_type"]) == ("LOGGED_MODEL_READY", "sk")
    assert {tag["key"]: tag["value"] for tag in model["info"]["tags"]} == {
        "t": "x", "mlflow.modelVersions": '[{"name": "net", "version": 1}]'
    }  # fmt: skip
    assert model["data"]["params"] == [{"key": "p", "value": "1"}]
    assert (version["model_id"], version["run_id"]) == (model_id, "r1")
    assert run.raw("GET", f"{AT}/registered/net/1/MLmodel") == (200, b"flavors")
