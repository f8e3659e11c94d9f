"""What runs read and made over MLflow's door: datasets, models, and the searches by them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runyard.core.formats.run_inputs import DatasetInput, dataset_property
from runyard.core.records import RunChange
from runyard.testing.runs import a_run
from tests.server.mlflow.conftest import Door

IRIS = {"name": "iris", "digest": "d1", "source_type": "local", "source": "{}", "schema": "[]", "profile": "{}"}
TRAINING = [{"key": "mlflow.data.context", "value": "training"}]


def made_run(door: Door, experiment_id: str = "0") -> str:
    return str(door.post("runs/create", experiment_id=experiment_id)[1]["run"]["info"]["run_id"])


def shown(door: Door, run_id: str) -> dict[str, Any]:
    found: dict[str, Any] = door.get(f"runs/get?run_id={run_id}")[1]["run"]
    return found


def test_datasets_are_shown_with_the_run_and_stay_as_they_came_first(door: Door) -> None:
    run = made_run(door)
    wine = {key: text for key, text in {**IRIS, "name": "wine"}.items() if key not in ("schema", "profile")}
    given = [{"tags": TRAINING, "dataset": IRIS}, {"dataset": wine}, {"dataset": {**wine, "source": "second"}}]
    assert door.post("runs/log-inputs", run_id=run, datasets=given, models=[{"model_id": "m-1"}]) == (200, {})
    again = [{"dataset": {**IRIS, "source": "other"}}]
    assert door.post("runs/log-inputs", run_id=run, datasets=again, models=[{"model_id": "m-1"}]) == (200, {})

    inputs = shown(door, run)["inputs"]
    assert sorted(inputs["dataset_inputs"], key=lambda one: one["dataset"]["name"]) == [
        {"tags": TRAINING, "dataset": IRIS},
        {"tags": [], "dataset": wine},
    ]
    assert inputs["model_inputs"] == [{"model_id": "m-1"}]
    _, found = door.post("runs/search", experiment_ids=["0"], filter="datasets.name = 'iris'")
    assert found["runs"][0]["inputs"] == inputs


def test_models_that_a_run_made_have_their_steps(door: Door) -> None:
    run = made_run(door)
    for models in ([{"model_id": "m-1", "step": 1}], [{"model_id": "m-1", "step": 1}, {"model_id": "m-1", "step": 2}]):
        assert door.post("runs/outputs", run_id=run, models=models) == (200, {})

    assert shown(door, run)["outputs"] == {
        "model_outputs": [{"model_id": "m-1", "step": 1}, {"model_id": "m-1", "step": 2}]
    }
    assert door.post("runs/outputs", run_id=run)[1]["error_code"] == "INVALID_PARAMETER_VALUE"


def test_datasets_that_the_script_itself_logged_are_found_too(door: Door) -> None:
    store = door.served.services.store
    a_run(store, "own")
    dataset = DatasetInput("iris", "d1", "local", "{}", tags={"mlflow.data.context": "eval"})
    store.update_run("own", RunChange(properties_add=dict([dataset_property(dataset)])))
    experiment_id = store.get_experiment("default", "e").id
    _, found = door.post(
        "runs/search",
        experiment_ids=[experiment_id],
        filter="dataset.digest IN ('d1', 'd2') AND datasets.context LIKE 'ev%'",
    )

    assert [run["info"]["run_id"] for run in found["runs"]] == ["own"]
    assert found["runs"][0]["inputs"]["dataset_inputs"][0]["dataset"]["name"] == "iris"


def test_the_datasets_of_experiments_are_listed_once_for_each_context(door: Door) -> None:
    for context in ("training", "training", "eval"):
        tags = [{"key": "mlflow.data.context", "value": context}]
        door.post("runs/log-inputs", run_id=made_run(door), datasets=[{"tags": tags, "dataset": IRIS}])
    door.post("runs/log-inputs", run_id=made_run(door), datasets=[{"dataset": IRIS}])
    iris = {"experiment_id": "0", "name": "iris", "digest": "d1"}

    assert door.post("experiments/search-datasets", experiment_ids=["0"]) == (
        200,
        {"dataset_summaries": [{**iris, "context": "training"}, {**iris, "context": "eval"}, iris]},
    )
    for ids, words in (([], "at least one experiment_id"), (["0"] * 21, "more than 20 experiment_ids. Received 21")):
        status, answer = door.post("experiments/search-datasets", experiment_ids=ids)
        assert (status, answer["error_code"]) == (400, "INVALID_PARAMETER_VALUE") and words in answer["message"]


@pytest.mark.parametrize(
    ("dataset", "words"),
    [
        ({"name": None}, "Dataset name cannot be None"),
        ({"source": None}, "Dataset source cannot be None"),
        ({"name": "n" * 501}, "'name' exceeds the maximum length of 500 characters"),
        ({"digest": "d" * 37}, "'digest' exceeds the maximum length of 36 characters"),
        ({"source": "s" * 65536}, "'source' exceeds the maximum length of 65535 characters"),
        ({"schema": "s" * (1 << 20)}, "'schema' exceeds the maximum length of 1048575 characters"),
    ],
)
def test_a_dataset_that_mlflow_refuses_is_refused(door: Door, dataset: dict[str, Any], words: str) -> None:
    run = made_run(door)
    status, answer = door.post("runs/log-inputs", run_id=run, datasets=[{"dataset": {**IRIS, **dataset}}])

    assert (status, answer["error_code"]) == (400, "INVALID_PARAMETER_VALUE") and words in answer["message"]
    assert shown(door, run)["inputs"] == {}


def test_models_of_mlflow_2_are_in_the_runs_tag(door: Door) -> None:
    run = made_run(door)
    model = {"artifact_path": "a", "flavors": {"f": {}}, "utc_time_created": "t", "run_id": run}
    for path in ("a", "b"):
        text = json.dumps({**model, "artifact_path": path})
        assert door.post("runs/log-model", run_id=run, model_json=text) == (200, {})

    tags = {tag["key"]: tag["value"] for tag in shown(door, run)["data"]["tags"]}
    assert [one["artifact_path"] for one in json.loads(tags["mlflow.log-model.history"])] == ["a", "b"]
    for text, words in (("{", "Malformed model info."), ("{}", "Model json is missing mandatory fields")):
        status, answer = door.post("runs/log-model", run_id=run, model_json=text)
        assert (status, answer["error_code"]) == (400, "INVALID_PARAMETER_VALUE") and words in answer["message"]
