"""Lightning's Trainer with its MLFlowLogger and two ranks on the CPU."""

import os
import warnings

import lightning as pl
import torch
from lightning.pytorch.loggers import MLFlowLogger


class Line(pl.LightningModule):
    def __init__(self, lr: float = 0.1) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch: list, at: int) -> torch.Tensor:
        loss = torch.nn.functional.mse_loss(self.layer(batch[0]), batch[1])
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch: list, at: int) -> None:
        self.log("val_loss", torch.nn.functional.mse_loss(self.layer(batch[0]), batch[1]), sync_dist=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=self.hparams.lr)


warnings.simplefilter("ignore")
pl.seed_everything(5)
draw = torch.Generator().manual_seed(2)
inputs = torch.randn(64, 4, generator=draw)
rows = torch.utils.data.TensorDataset(inputs, inputs.sum(1, keepdim=True))
trainer = pl.Trainer(
    max_epochs=2,
    accelerator="cpu",
    devices=2,
    strategy="ddp",
    logger=MLFlowLogger(experiment_name="lightning_logs", log_model=True),
    log_every_n_steps=1,
    enable_progress_bar=False,
)
loader = torch.utils.data.DataLoader(rows, batch_size=8)
trainer.fit(Line(), loader, torch.utils.data.DataLoader(rows, batch_size=16))
print("rank", os.environ.get("LOCAL_RANK", "0"), "is done")
