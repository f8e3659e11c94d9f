"""`azureml.contrib.services.aml_response`."""

from __future__ import annotations

from runyard.sdk.names import absent_names
from runyard.serving.worker.answers import AMLResponse

__getattr__ = absent_names(__name__)

__all__ = ["AMLResponse"]
