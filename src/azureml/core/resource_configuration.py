"""`azureml.core.resource_configuration`."""

from __future__ import annotations

from runyard.sdk.run_config.resources import ResourceConfiguration

__all__ = ["ResourceConfiguration"]
