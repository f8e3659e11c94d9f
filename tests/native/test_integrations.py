"""The callbacks and loggers in submitted runs of the real frameworks, which train something tiny on the CPU."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import runyard
from tests.e2e.frameworks import MLFLOW_FRAMEWORKS, interpreter_with

HUGGING_FACE = """
    import torch
    from transformers import Trainer, TrainingArguments
    from runyard.integrations import HuggingFaceCallback

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(2, 1)

        def forward(self, x, labels=None):
            out = self.layer(x)
            return {"loss": ((out - labels) ** 2).mean(), "logits": out}

    data = [{"x": torch.tensor([i / 8, 1.0]), "labels": torch.tensor([i / 4])} for i in range(16)]
    args = TrainingArguments(
        output_dir="outputs", max_steps=6, per_device_train_batch_size=4, learning_rate=0.01, logging_steps=2,
        eval_strategy="steps", eval_steps=3, save_steps=3, report_to="none", use_cpu=True, disable_tqdm=True,
        hub_token="hf_secret",
    )
    trainer = Trainer(Model(), args, train_dataset=data, eval_dataset=data, callbacks=[HuggingFaceCallback()])
    trainer.train()
"""
LIGHTNING = """
    import lightning, torch
    from runyard.integrations import LightningLogger

    class Module(lightning.LightningModule):
        def __init__(self, lr=0.01, layers=(1, 2)):
            super().__init__()
            self.save_hyperparameters()
            self.layer = torch.nn.Linear(2, 1)

        def training_step(self, batch, _):
            loss = self.layer(batch).pow(2).mean()
            self.log("train_loss", loss)
            self.log("epoch_loss", loss, on_step=False, on_epoch=True)
            return loss

        def on_train_end(self):
            self.logger.experiment.log_table("weights", [{"bias": float(self.layer.bias)}])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=self.hparams.lr)

    loader = torch.utils.data.DataLoader(torch.ones(12, 2), batch_size=2)
    trainer = lightning.Trainer(
        max_epochs=2, logger=LightningLogger(prefix="pl"), log_every_n_steps=3, accelerator="cpu",
        enable_progress_bar=False,
    )
    trainer.fit(Module(), loader)
"""
KERAS = """
    import os
    os.environ["KERAS_BACKEND"] = "torch"
    import keras, numpy
    from runyard.integrations import KerasCallback

    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(loss="mse", optimizer=keras.optimizers.SGD(0.125), metrics=["mae"])
    x, y = numpy.ones((8, 2)), numpy.ones((8, 1))
    for first in (0, 2):
        callbacks = [KerasCallback(every=3)]
        model.fit(x, y, batch_size=2, initial_epoch=first, epochs=first + 2, verbose=0, callbacks=callbacks)
"""


def trained(name: str, script: str) -> runyard.RunHandle:
    Path(f"{name}.py").write_text(textwrap.dedent(script))
    return runyard.run(
        f"{name}.py", python=interpreter_with(MLFLOW_FRAMEWORKS), variables={"RUNYARD_MLFLOW": "off"}
    ).wait()


def steps_of(run: runyard.RunHandle, name: str) -> list[int]:
    return [point.step for point in run.metrics.points(name)]


@pytest.mark.external
@pytest.mark.timeout(900)
def test_the_trainer_logs_at_its_global_step(folder: Path) -> None:
    run = trained("hugging_face", HUGGING_FACE)

    assert steps_of(run, "loss") == [2, 4, 6]
    assert steps_of(run, "eval_loss") == [3, 6]
    assert run.metrics["train_loss"] > 0
    chosen = {name: run.parameters[name] for name in ("max_steps", "learning_rate", "logging_steps")}
    assert chosen == {"max_steps": "6", "learning_rate": "0.01", "logging_steps": "2"}
    assert run.parameters["hub_token"] == "<HUB_TOKEN>" and "adam_beta1" not in run.parameters
    assert "more than once" not in run.logs()


@pytest.mark.external
@pytest.mark.timeout(900)
def test_lightning_logs_at_its_own_step_and_its_checkpoints_are_kept(folder: Path) -> None:
    run = trained("lightning_module", LIGHTNING)

    assert steps_of(run, "pl/train_loss") == [2, 5, 8, 11]
    assert steps_of(run, "pl/epoch_loss") == [5, 11]
    assert run.parameters["lr"] == "0.01"
    assert list(run.metrics["weights"]) == ["bias"]
    assert [name for name in run.files if name.endswith(".ckpt")] == [
        "outputs/lightning/checkpoints/epoch=1-step=12.ckpt"
    ]


@pytest.mark.external
@pytest.mark.timeout(900)
def test_keras_logs_epochs_and_batches_over_several_fits(folder: Path) -> None:
    run = trained("keras_model", KERAS)

    assert steps_of(run, "loss") == steps_of(run, "mae") == [0, 1, 2, 3]
    assert run.metrics.history("learning_rate") == [0.125] * 4
    assert steps_of(run, "batch/loss") == [3, 6, 9, 12, 15]
    assert run.parameters["epochs"] == "2" and run.parameters["steps"] == "4"


@pytest.mark.parametrize("name", ["HuggingFaceCallback", "LightningLogger", "KerasCallback"])
def test_a_missing_framework_is_named(name: str) -> None:
    code = f"""
        import sys
        for name in ("transformers", "lightning", "pytorch_lightning", "keras", "tensorflow"):
            sys.modules[name] = None
        import runyard.integrations
        assert "{name}" in dir(runyard.integrations)
        try:
            runyard.integrations.{name}
        except ImportError as error:
            print(str(error).replace(chr(10), " "))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False)

    assert "is not installed here. hint: pip install" in done.stdout, done.stderr
