"""`azureml.core.script_run_config`."""

from __future__ import annotations

from runyard.sdk.names import absent_names
from runyard.sdk.run_config.script_run_config import ScriptRunConfig

__getattr__ = absent_names(__name__)

__all__ = ["ScriptRunConfig"]
