"""`azureml.telemetry`: nothing is collected."""

from __future__ import annotations

from runyard.sdk.compat import set_diagnostics_collection

__all__ = ["set_diagnostics_collection"]
