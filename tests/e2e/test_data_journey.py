"""Data in and out, in one journey: a mounted dataset, a trained model, an output dataset, event files, TensorBoard."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from azureml.core import Dataset, Experiment, Model, Workspace
from azureml.data import OutputFileDatasetConfig
from tests.e2e.conftest import Submit, finish
from tests.e2e.frameworks import TORCH, interpreter_with
from tests.e2e.test_tensorboard import READER, run_in

TRAIN = """
import json, os, pickle, sys, time
import numpy
from sklearn.linear_model import LogisticRegression
from azureml.core import Dataset, Run
from runyard.core.formats.tfevents import Scalar, first_record, scalar_record

data, features, name = sys.argv[1:]
run = Run.get_context()
tables = [numpy.loadtxt(os.path.join(data, file), delimiter=",") for file in ("negative.csv", "positive.csv")]
x = numpy.concatenate(tables); y = numpy.repeat([0, 1], [len(table) for table in tables])
with open(os.path.join(features, "means.json"), "w") as out:
    json.dump(x.mean(axis=0).tolist(), out)
os.makedirs("logs/fit"); os.makedirs("outputs/model")
with open("logs/fit/events.out.tfevents.1.host", "wb") as events:
    events.write(first_record(time.time()))
    for step in range(3):
        model = LogisticRegression(max_iter=10 ** step).fit(x, y)
        events.write(scalar_record(Scalar("accuracy", step, time.time(), float(model.score(x, y)))))
run.log("rows", len(x))
with open("outputs/model/model.pkl", "wb") as out:
    pickle.dump(model, out)
dataset = Dataset.get_by_name(run.experiment.workspace, name, version=1)
run.register_model(name, "outputs/model", model_framework="ScikitLearn", datasets=[("training", dataset)])
"""


@pytest.mark.external
@pytest.mark.timeout(300)
def test_a_script_trains_on_a_mounted_dataset_and_all_it_made_is_found_again(
    workspace: Workspace, submit: Submit, tmp_path: Path
) -> None:
    name = f"flowers-{tmp_path.name}"
    source = tmp_path / "rows"
    source.mkdir()
    (source / "negative.csv").write_text("".join(f"{-1 - i / 10},{i % 3}\n" for i in range(20)))
    (source / "positive.csv").write_text("".join(f"{1 + i / 10},{i % 3}\n" for i in range(20)))
    datastore = workspace.get_default_datastore()
    dataset = Dataset.File.upload_directory(str(source), (datastore, name), show_progress=False)
    registered = dataset.register(workspace, name, tags={"rows": "40"})
    output = OutputFileDatasetConfig("features").register_on_complete(f"{name}-features")
    run = submit(TRAIN, registered.as_named_input("flowers").as_mount(), output, name)
    details = finish(run)
    [read] = details["inputDatasets"]
    model = Model(workspace, name)
    fitted = Path(model.download(str(tmp_path / "got")))
    features = Dataset.get_by_name(workspace, f"{name}-features")

    assert details["status"] == "Completed", details
    assert (read["facts"]["name"], read["facts"]["version"], read["facts"]["files"]) == (name, 1, 2)
    assert read["facts"]["read"] == "read in place" and len(read["facts"]["fingerprint"]) == 64
    assert run.get_metrics() == {"rows": 40, "accuracy": [1.0, 1.0, 1.0]}
    assert (model.version, model.run_id, model.model_framework) == (1, run.id, "ScikitLearn")
    [training] = model.datasets["training"]
    assert (training.name, training.version, training.id) == (name, 1, registered.id)
    assert [one.id for one in Model.list(workspace, dataset_id=registered.id)] == [model.id]
    with open(fitted / "model.pkl", "rb") as file:
        assert pickle.load(file).predict([[-3, 0], [3, 0]]).tolist() == [0, 1]
    [means] = features.download(str(tmp_path / "features"))
    assert (features.version, json.loads(Path(means).read_text())) == (1, pytest.approx([0.0, 0.95]))


@pytest.mark.external
@pytest.mark.timeout(900)
def test_tensorboard_shows_it(experiment: Experiment, submit: Submit, tmp_path: Path) -> None:
    test_a_script_trains_on_a_mounted_dataset_and_all_it_made_is_found_again(experiment.workspace, submit, tmp_path)
    [run] = experiment.get_runs()

    assert run_in(interpreter_with(TORCH), READER, run.id, str(tmp_path / "root")) == {f"{run.id}/fit": ["accuracy"]}
