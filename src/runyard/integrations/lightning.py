"""Lightning: what modules log, at the trainer's own step; checkpoints go where the run keeps them."""

from __future__ import annotations

import os
from argparse import Namespace
from types import ModuleType
from typing import Any, Mapping, Optional, Union

from runyard.core.errors import MissingExtra
from runyard.native import recording
from runyard.native.recording import config_to, log_to, target

try:
    from lightning.pytorch.loggers.logger import Logger, rank_zero_experiment
    from lightning.pytorch.utilities import rank_zero_only
except ImportError:
    try:
        from pytorch_lightning.loggers.logger import Logger, rank_zero_experiment
        from pytorch_lightning.utilities import rank_zero_only
    except ImportError as error:
        raise MissingExtra("`lightning` is not installed here.", hint="pip install lightning") from error


class LightningLogger(Logger):  # type: ignore[misc]  # without the library it is Any
    """`Trainer(logger=LightningLogger())`.

    What modules log has the step that Lightning gives it (`trainer.global_step`); hyperparameters become parameters of
    the run. Of several processes, the first logs.

    Args:
        save_dir: checkpoints go to `<save_dir>/lightning/checkpoints`; the default is kept with the run.
        prefix: put before the names of metrics, with a slash.
    """

    def __init__(self, save_dir: Union[str, os.PathLike[str]] = "outputs", prefix: str = "") -> None:
        super().__init__()
        self._save_dir = os.fspath(save_dir)
        self._prefix = prefix

    @property
    def name(self) -> str:
        return "lightning"

    @property
    def version(self) -> str:
        """Empty, so that a further attempt of a run finds the checkpoints of the one before."""
        return ""

    @property
    def save_dir(self) -> str:
        return self._save_dir

    @property
    @rank_zero_experiment  # type: ignore[untyped-decorator]  # without the library it is Any
    def experiment(self) -> ModuleType:
        """`log`, `log_image`, `log_table` and `log_file`, for `self.logger.experiment.log_image(…)` in a module."""
        return recording

    @rank_zero_only  # type: ignore[untyped-decorator]
    def log_metrics(self, metrics: Mapping[str, Any], step: Optional[int] = None) -> None:
        prefix = f"{self._prefix}/" if self._prefix else ""
        log_to(target(), {f"{prefix}{name}": value for name, value in metrics.items()}, step=step)

    @rank_zero_only  # type: ignore[untyped-decorator]
    def log_hyperparams(self, params: Union[Mapping[str, Any], Namespace], *args: Any, **kwargs: Any) -> None:
        config_to(target(), vars(params) if isinstance(params, Namespace) else dict(params))
