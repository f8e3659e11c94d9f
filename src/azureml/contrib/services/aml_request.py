"""`azureml.contrib.services.aml_request`."""

from __future__ import annotations

from runyard.sdk.names import absent_names
from runyard.serving.worker.raw_http import AMLRequest, rawhttp

__getattr__ = absent_names(__name__)

__all__ = ["AMLRequest", "rawhttp"]
