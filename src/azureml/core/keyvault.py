"""`azureml.core.keyvault`: not there yet."""

from __future__ import annotations

from runyard.sdk.not_yet import placeholder

Keyvault = placeholder("azureml.core.keyvault.Keyvault")

__all__ = ["Keyvault"]
