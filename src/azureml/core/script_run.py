"""`azureml.core.script_run`."""

from __future__ import annotations

from runyard.sdk.runs.run import ScriptRun

__all__ = ["ScriptRun"]
