"""`azureml._run_impl.run_watcher`."""

from __future__ import annotations

from runyard.sdk.names import absent_names
from runyard.sdk.tensorboard import RunWatcher

__getattr__ = absent_names(__name__)

__all__ = ["RunWatcher"]
