"""`azureml.core.script_run_config`."""

from __future__ import annotations

from runyard.sdk.run_config.script_run_config import ScriptRunConfig

__all__ = ["ScriptRunConfig"]
