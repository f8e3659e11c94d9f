"""`azureml.core.run`; scripts test `isinstance(run, _OfflineRun)`."""

from __future__ import annotations

from runyard.sdk.names import absent_names
from runyard.sdk.runs.context import _OfflineRun
from runyard.sdk.runs.run import Run, get_run

__getattr__ = absent_names(__name__)

__all__ = ["Run", "_OfflineRun", "get_run"]
