"""`azureml.core.script_run`."""

from __future__ import annotations

from runyard.sdk.names import absent_names
from runyard.sdk.runs.run import ScriptRun

__getattr__ = absent_names(__name__)

__all__ = ["ScriptRun"]
