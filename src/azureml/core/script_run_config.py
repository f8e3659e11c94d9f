"""`azureml.core.script_run_config`."""

from __future__ import annotations

from runyard.sdk.names import absent_names
from runyard.sdk.run_config.script_run_config import ScriptRunConfig, get_run_config_from_script_run

__getattr__ = absent_names(__name__)

__all__ = ["ScriptRunConfig", "get_run_config_from_script_run"]
