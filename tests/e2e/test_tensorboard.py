"""Real TensorBoard: what frameworks write is followed and becomes metrics, and what runs logged becomes event files."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from azureml.core import Experiment, Run
from azureml.tensorboard.export import export_to_tensorboard
from runyard.core.config.settings import read_settings
from tests.e2e.conftest import finish
from tests.e2e.frameworks import TENSORFLOW, TORCH, interpreter_with, submit_to

pytestmark = [pytest.mark.external, pytest.mark.timeout(900)]

TORCH_WRITER = """
    import torch
    from torch.utils.tensorboard import SummaryWriter
    with SummaryWriter() as writer:  # runs/<date>_<host>
        for step in range(10):
            writer.add_scalar("train/loss", 1 / (step + 1), step)
            writer.add_histogram("weights", torch.ones(2), step)
        writer.add_hparams({"lr": 0.5, "width": 32, "optimizer": "adam"}, {"hparam/accuracy": 0.75})
"""
KERAS_WRITER = """
    import numpy, keras, tensorflow as tf
    x = numpy.ones((8, 2)); y = numpy.ones((8, 1))
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(x, y, epochs=3, verbose=0, validation_data=(x, y), callbacks=[keras.callbacks.TensorBoard("logs/keras")])
    with tf.summary.create_file_writer("outputs/own").as_default():
        tf.summary.scalar("answer", 42.0, step=7)
"""
READER = """
import json, sys, urllib.request
from azureml.core import Run, Workspace
from azureml.tensorboard import Tensorboard
run = Run.get(Workspace.from_config(), sys.argv[1])
board = Tensorboard(run, local_root=sys.argv[2], port=0)
url = board.start()
assert board.start() is None
tags = {}
for _ in range(100):
    with urllib.request.urlopen(url + "data/plugin/scalars/tags") as answer:
        tags = json.load(answer)
    if tags and all(tags.values()):
        break
    import time
    time.sleep(0.2)
board.stop()
board.stop()
print(json.dumps({name: sorted(found) for name, found in tags.items()}))
"""
EXPORTED = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1]).Reload()
print(json.dumps({tag: [[e.step, e.value] for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}))
"""


def run_in(interpreter: str, code: str, *arguments: str) -> object:
    source = str(Path(__file__).parents[2] / "src")
    environ = {**os.environ, "PYTHONPATH": source, "RUNYARD_HOME": str(read_settings().home)}
    done = subprocess.run(
        [interpreter, "-c", code, *arguments], env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_what_pytorch_writes_is_followed_and_shows_as_metrics(
    experiment: Experiment, project: Path, tmp_path: Path
) -> None:
    torch = interpreter_with(TORCH)
    run = submit_to(experiment, project, torch, TORCH_WRITER)
    finish(run)
    metrics = run.get_metrics()
    shown = run_in(torch, READER, run.id, str(tmp_path / "root"))

    assert metrics == {"train/loss": pytest.approx([1 / (step + 1) for step in range(10)]), "hparam/accuracy": 0.75}
    assert run._client.runs.get(run.id).parameters == {"lr": "0.5", "width": "32", "optimizer": "adam"}
    assert isinstance(shown, dict) and all(name.startswith(f"{run.id}/runs/") for name in shown)
    assert ["train/loss"] in shown.values()


def test_what_keras_and_tensorflow_write_shows_as_metrics(experiment: Experiment, project: Path) -> None:
    run = submit_to(experiment, project, interpreter_with(TENSORFLOW), KERAS_WRITER)
    finish(run)
    metrics = run.get_metrics()

    assert len(metrics["train/epoch_loss"]) == 3
    assert len(metrics["validation/epoch_loss"]) == 3
    assert metrics["own/answer"] == 42.0


def test_exported_metrics_are_what_tensorboard_reads(experiment: Experiment, tmp_path: Path) -> None:
    run = experiment.start_logging()
    for value in (0.5, 0.25, "text", 3):
        run.log("loss", value)
    run.log_table("curve", {"x": [1, 2], "y": [0.5, None]})
    with run.child_run("child") as child:
        child.log("inner", 1.0)
    run.complete()
    export_to_tensorboard(run, str(tmp_path))
    export_to_tensorboard(Run.get(experiment.workspace, run.id), str(tmp_path))
    torch = interpreter_with(TORCH)

    assert run_in(torch, EXPORTED, str(tmp_path / run.id)) == {
        "loss": [[0, 0.5], [1, 0.25], [3, 3.0]],
        "curve/x": [[0, 1.0], [1, 2.0]],
        "curve/y": [[0, 0.5]],
    }
    assert run_in(torch, EXPORTED, str(tmp_path / child.id)) == {"inner": [[0, 1.0]]}
