"""`azureml.telemetry`: nothing is collected."""

from __future__ import annotations

from runyard.sdk.compat import set_diagnostics_collection
from runyard.sdk.names import absent_names

__getattr__ = absent_names(__name__)

__all__ = ["set_diagnostics_collection"]
