"""`azureml.core.resource_configuration`."""

from __future__ import annotations

from runyard.sdk.names import absent_names
from runyard.sdk.run_config.resources import ResourceConfiguration

__getattr__ = absent_names(__name__)

__all__ = ["ResourceConfiguration"]
