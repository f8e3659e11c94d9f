"""`azureml.core.resource_configuration`: not there yet."""

from __future__ import annotations

from runyard.sdk.not_yet import placeholder

ResourceConfiguration = placeholder("azureml.core.resource_configuration.ResourceConfiguration")

__all__ = ["ResourceConfiguration"]
