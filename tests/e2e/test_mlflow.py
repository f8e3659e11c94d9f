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
    data = mlflow.get_run(run.info.run_id).data
    told["data"] = [data.params, data.metrics["loss"], data.tags["who"]]
try:
    with mlflow.start_run(run_id=told["run"]):
        raise ValueError("boom")
except ValueError:
    pass
print("TOLD " + json.dumps(told))
"""


def submit(experiment: Experiment, project: Path, script: str, *packages: str) -> Run:
    (project / "train.py").write_text(script)
    env = Environment("with-mlflow")
    env.python.conda_dependencies = CondaDependencies.create(pip_packages=list(packages))
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
        "listed": ["d.json", "folder", "notes"],
        "below": ["folder/below", "folder/one.txt"],
        "child": told["child"],
        "data": [{"lr": "0.1", "depth": "3", "kind": "x y"}, 0.2, "me"],
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
    assert run.get_properties()["mlflow.status"] == "FAILED"
    for name, text in {
        "notes/hello.txt": "hello", "folder/one.txt": "1", "folder/below/two.txt": "22",
    }.items():  # fmt: skip
        run.download_file(name, str(project / "got"))
        assert (project / "got").read_text() == text
    [child] = list(run.get_children())
    assert (child.id, child.get_status(), child.get_metrics()) == (told["child"], "Completed", {"inner": 3.0})
    assert child.get_file_names() == ["c.txt"]


def test_mlflow_is_left_alone_when_it_is_switched_off(experiment: Experiment, project: Path) -> None:
    script = "import os\nprint(sorted(n for n in os.environ if n.startswith('MLFLOW_')))\n"
    (project / "train.py").write_text(script)
    env = Environment("plain")
    env.python.user_managed_dependencies = True
    env.environment_variables = {"RUNYARD_MLFLOW": "off"}
    run = experiment.submit(ScriptRunConfig(source_directory=str(project), script="train.py", environment=env))
    finish(run)

    assert log_of(run).strip() == "[]"
