"""`azureml.core.resource_configuration`."""

from __future__ import annotations

from runyard.sdk.run_config.resource_configuration import ResourceConfiguration

__all__ = ["ResourceConfiguration"]
