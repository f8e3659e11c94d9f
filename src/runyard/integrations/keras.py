"""Keras: the metrics of epochs, and of batches if wanted."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional

from runyard.core.errors import MissingExtra
from runyard.native.recording import config_to, log_to, target

try:
    from keras.callbacks import Callback
except ImportError:
    try:
        from tensorflow.keras.callbacks import Callback
    except ImportError as error:
        raise MissingExtra("`keras` is not installed here.", hint="pip install keras") from error


class KerasCallback(Callback):  # type: ignore[misc]  # without the library it is Any
    """`model.fit(…, callbacks=[KerasCallback()])`.

    The metrics of an epoch have the epoch's number as their step, counted from 0 and on from `initial_epoch`. The
    learning rate is `learning_rate`; `epochs` and `steps` become parameters of the run.

    Args:
        every: log each so many batches too, as `batch/loss` and so on; their step is the number of batches so far.
    """

    def __init__(self, every: Optional[int] = None) -> None:
        super().__init__()
        self._every = every
        self._batches = 0

    def on_train_begin(self, logs: Optional[Mapping[str, Any]] = None) -> None:
        known = {name: value for name, value in (self.params or {}).items() if name != "verbose" and value is not None}
        config_to(target(), known)
        self._batches = self._done_before()

    def on_train_batch_end(self, batch: int, logs: Optional[Mapping[str, Any]] = None) -> None:
        self._batches += 1
        if self._every and self._batches % self._every == 0 and logs:
            log_to(target(), {f"batch/{name}": value for name, value in logs.items()}, step=self._batches)

    def on_epoch_end(self, epoch: int, logs: Optional[Mapping[str, Any]] = None) -> None:
        found: Dict[str, object] = dict(logs or {})
        rate = self._learning_rate()
        if rate is not None:
            found.setdefault("learning_rate", rate)
        log_to(target(), found, step=epoch)

    def _done_before(self) -> int:
        """Return how many batches the optimizer has seen: `fit` may be called again."""
        try:
            return int(self.model.optimizer.iterations)
        except (AttributeError, TypeError, ValueError):
            return 0

    def _learning_rate(self) -> Optional[float]:
        try:
            return float(self.model.optimizer.learning_rate)
        except (AttributeError, TypeError, ValueError):
            return None
