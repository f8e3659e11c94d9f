"""A script that logs with a stock MLflow client, submitted without any setting: all of it is in the run."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from azureml.core import Environment, Experiment, Run, ScriptRunConfig
from azureml.core.conda_dependencies import CondaDependencies
from tests.e2e.conftest import finish, log_of

pytestmark = [pytest.mark.external, pytest.mark.timeout(600)]

CLIENTS = ["mlflow-skinny==2.22.5", "mlflow-skinny==3.17.2"]
SCRIPT = """
import json, os, mlflow
mlflow.set_experiment("another name")
told = {"token": "MLFLOW_TRACKING_TOKEN" in os.environ}
with mlflow.start_run() as run:
    told["run"] = run.info.run_id
    mlflow.log_param("lr", 0.1)
    mlflow.log_params({"depth": 3, "kind": "x y"})
    mlflow.log_param("lr", 0.1)
    try:
        mlflow.log_param("lr", 0.2)
    except mlflow.exceptions.MlflowException as error:
        told["conflict"] = error.error_code
    for i in range(5):
        mlflow.log_metric("loss", 1.0 / (i + 1), step=i * 10)
    client = mlflow.MlflowClient()
    client.log_metric(run.info.run_id, "old", 5.0, timestamp=1234567890123, step=7)
    mlflow.log_metrics({"acc": 0.5, "system/cpu use": 3.0, "nan": float("nan"), "inf": float("-inf")}, step=2)
    mlflow.set_tag("who", "me")
    mlflow.set_tags({"a": "1", "b": "2"})
    mlflow.delete_tag("a")
    mlflow.set_tags({"mlflow.runName": "a name", "mlflow.note.content": "what it does"})
    mlflow.log_text("hello", "notes/hello.txt")
    mlflow.log_dict({"k": 1}, "d.json")
    os.makedirs("made/below", exist_ok=True)
    open("made/one.txt", "w").write("1")
    open("made/below/two.txt", "w").write("22")
    mlflow.log_artifacts("made", "folder")
    told["listed"] = [file.path for file in client.list_artifacts(run.info.run_id)]
    told["below"] = [file.path for file in client.list_artifacts(run.info.run_id, "folder")]
    with mlflow.start_run(nested=True, run_name="inner") as child:
        mlflow.log_metric("inner", 3.0, step=1)
        mlflow.log_param("p", "q")
        mlflow.log_text("of the child", "c.txt")
        told["child"] = child.info.run_id
    below = f"tags.mlflow.parentRunId = '{run.info.run_id}'"
    found = client.search_runs([run.info.experiment_id], f"{below} and metrics.inner = 3 and params.p = 'q'")
    told["found"] = [one.info.run_id for one in found]
    with mlflow.start_run(nested=True, run_name="gone") as gone:
        mlflow.log_metric("m", 1.0)
    client.delete_run(gone.info.run_id)
    told["stages"] = [client.get_run(gone.info.run_id).info.lifecycle_stage]
    told["left"] = [one.info.run_id for one in client.search_runs([run.info.experiment_id], below)]
    client.restore_run(gone.info.run_id)
    told["stages"].append(client.get_run(gone.info.run_id).info.lifecycle_stage)
    client.delete_run(gone.info.run_id)
    try:
        client.delete_run(run.info.run_id)
    except mlflow.exceptions.MlflowException as error:
        told["own"] = error.error_code
    from mlflow.entities import Dataset, DatasetInput, InputTag
    for digest in ("d1", "d2", "d1"):
        data = Dataset("iris", digest, "local", "{}")
        client.log_inputs(run.info.run_id, [DatasetInput(data, [InputTag("mlflow.data.context", "training")])])
        told["inputs"] = [one.dataset.digest for one in client.get_run(run.info.run_id).inputs.dataset_inputs]
    if mlflow.__version__ >= "3":
        from mlflow.entities import LoggedModelInput, LoggedModelOutput
        model = client.create_logged_model(
            run.info.experiment_id, "net", run.info.run_id, tags={"t": "1"}, params={"p": "2"}, model_type="cnn"
        )
        client.set_logged_model_tags(model.model_id, {"u": "3"})
        client.finalize_logged_model(model.model_id, "READY")
        client.log_outputs(run.info.run_id, [LoggedModelOutput(model.model_id, step=4)])
        client.log_inputs(run.info.run_id, models=[LoggedModelInput("m-other")])
        told["model"] = model.model_id
    told["read"] = mlflow.artifacts.load_text(run.info.artifact_uri + "/notes/hello.txt")
    whole = mlflow.artifacts.download_artifacts(artifact_uri=run.info.artifact_uri)
    told["whole"] = [open(os.path.join(whole, name)).read() for name in ("notes/hello.txt", "folder/below/two.txt")]
    told["history"] = [point.value for point in client.get_metric_history(run.info.run_id, "loss")]
    mlflow.set_experiment("a third")
    apart = client.create_run(client.create_experiment("elsewhere"), run_name="apart")
    client.log_text(apart.info.run_id, "apart", "a/b.txt")
    client.set_terminated(apart.info.run_id, "FAILED")
    data = mlflow.get_run(run.info.run_id).data
    told["data"] = [data.params, data.metrics["loss"], data.tags["who"], mlflow.get_run(run.info.run_id).info.run_name]
try:
    with mlflow.start_run(run_id=told["run"]):
        raise ValueError("boom")
except ValueError:
    pass
print("TOLD " + json.dumps(told))
"""
OWN_STORE = """
import mlflow
with mlflow.start_run(run_name="a name"):
    mlflow.log_param("depth", 3)
    for i in range(3):
        mlflow.log_metric("loss", 1.0 / (i + 1), step=i * 10)
    mlflow.set_tag("who", "me")
    mlflow.log_text("hello", "notes/hello.txt")
    with mlflow.start_run(nested=True, run_name="inner"):
        mlflow.log_metric("inner", 3.0)
        mlflow.log_text("of the child", "c.txt")
"""


def submit(experiment: Experiment, project: Path, script: str, *packages: str, **variables: str) -> Run:
    (project / "train.py").write_text(script)
    env = Environment("with-mlflow")
    env.python.conda_dependencies = CondaDependencies.create(pip_packages=list(packages))
    env.environment_variables = variables
    return experiment.submit(
        ScriptRunConfig(source_directory=str(project), script="train.py", environment=env, arguments=["--lr", "0.5"])
    )


def check_model(properties: dict[str, str], model: str) -> None:
    found = {key: value for key, value in properties.items() if ".model." in key}
    assert found == {
        f"mlflow.model.{model}": "net",
        f"mlflow.model.{model}.type": "cnn",
        f"mlflow.model.{model}.tag.t": "1",
        f"mlflow.model.{model}.tag.u": "3",
        f"mlflow.model.{model}.param.p": "2",
        f"mlflow.model.{model}.status": "READY",
        f"mlflow.output.model.{model}": "4",
        "mlflow.input.model.m-other": "",
    }


@pytest.mark.parametrize("client", CLIENTS)
def test_what_a_stock_client_logs_is_in_the_run(experiment: Experiment, project: Path, client: str) -> None:
    run = submit(experiment, project, SCRIPT, client)
    details = finish(run)
    log = log_of(run)

    assert details["status"] == "Completed", log
    told = json.loads(log.partition("TOLD ")[2].splitlines()[0])
    model = told.pop("model", None)
    assert (model is None) == (client < "mlflow-skinny==3")
    if model is not None:
        check_model(run.get_properties(), model)
    assert told == {
        "token": False,
        "run": run.id,
        "conflict": "INVALID_PARAMETER_VALUE",
        "listed": ["azureml-logs", "d.json", "folder", "notes", "system_logs", "user_logs"],
        "below": ["folder/below", "folder/one.txt"],
        "child": told["child"],
        "found": [told["child"]],
        "stages": ["deleted", "active"],
        "left": [told["child"]],
        "own": "PERMISSION_DENIED",
        "inputs": ["d1", "d2"],
        "read": "hello",
        "whole": ["hello", "22"],
        "history": [1.0, 0.5, 1 / 3, 0.25, 0.2],
        "data": [{"lr": "0.1", "depth": "3", "kind": "x y"}, 0.2, "me", "a name"],
    }
    assert log.count("experiment `another name` is not used") == 1
    metrics = run.get_metrics()
    assert math.isnan(metrics.pop("nan"))
    assert metrics == {
        "loss": [1.0, 0.5, 1 / 3, 0.25, 0.2],
        "old": 5.0,
        "acc": 0.5,
        "system/cpu use": 3.0,
        "inf": float("-inf"),
    }
    assert {key: run.get_tags()[key] for key in ("who", "b")} == {"who": "me", "b": "2"}
    assert "a" not in run.get_tags()
    assert (run.display_name, run.description) == ("a name", "what it does")
    assert run.get_properties()["mlflow.status"] == "FAILED"
    for name, text in {
        "notes/hello.txt": "hello", "folder/one.txt": "1", "folder/below/two.txt": "22",
    }.items():  # fmt: skip
        run.download_file(name, str(project / "got"))
        assert (project / "got").read_text() == text
    [apart] = [child for child in run.get_children() if child.display_name not in ("inner", "gone")]
    assert (apart.display_name, apart.get_status(), apart.get_file_names()) == ("apart", "Failed", ["a/b.txt"])
    [child] = [child for child in run.get_children() if child.id == told["child"]]
    assert (child.id, child.get_status(), child.get_metrics()) == (told["child"], "Completed", {"inner": 3.0})
    assert child.display_name == "inner"
    assert child.get_file_names() == ["c.txt"]


@pytest.mark.parametrize(
    ("uri", "packages"),
    [("file:./mlruns", CLIENTS[:1]), ("sqlite:///mlflow.db", [CLIENTS[1], "sqlalchemy<2.1", "alembic"])],
    ids=["files", "database"],
)
def test_a_store_that_the_script_made_is_in_the_run_at_its_end(
    experiment: Experiment, project: Path, uri: str, packages: list[str]
) -> None:
    run = submit(experiment, project, OWN_STORE, *packages, MLFLOW_TRACKING_URI=uri)
    details = finish(run)

    assert details["status"] == "Completed", log_of(run)
    assert run.get_metrics() == {"loss": [1.0, 0.5, 1 / 3]}
    assert run.get_tags()["who"] == "me"
    assert run.display_name == "a name"
    run.download_file("notes/hello.txt", str(project / "got"))
    assert (project / "got").read_text() == "hello"
    [child] = run.get_children()
    assert (child.display_name, child.get_status(), child.get_metrics()) == ("inner", "Completed", {"inner": 3.0})
    child.download_file("c.txt", str(project / "got"))
    assert (project / "got").read_text() == "of the child"
    [warning] = [one["message"] for one in details["warnings"]]
    assert "brought into this run at its end: 1 parameter, 4 metric values, 2 files." in warning


def test_mlflow_is_left_alone_when_it_is_switched_off(experiment: Experiment, project: Path) -> None:
    script = "import os\nprint(sorted(n for n in os.environ if n.startswith('MLFLOW_')))\n"
    (project / "train.py").write_text(script)
    env = Environment("plain")
    env.python.user_managed_dependencies = True
    env.environment_variables = {"RUNYARD_MLFLOW": "off"}
    run = experiment.submit(ScriptRunConfig(source_directory=str(project), script="train.py", environment=env))
    finish(run)

    assert log_of(run).strip() == "[]"
