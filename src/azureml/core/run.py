"""`azureml.core.run`; scripts test `isinstance(run, _OfflineRun)`."""

from __future__ import annotations

from runyard.sdk.offline import _OfflineRun
from runyard.sdk.run import Run, get_run

__all__ = ["Run", "_OfflineRun", "get_run"]
