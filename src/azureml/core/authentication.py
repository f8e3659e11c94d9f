"""`azureml.core.authentication`: accepted everywhere, without effect here."""

from __future__ import annotations

from runyard.sdk.workspaces.keyvault import (
    AbstractAuthentication,
    Audience,
    AzureCliAuthentication,
    InteractiveLoginAuthentication,
    MsiAuthentication,
    ServicePrincipalAuthentication,
    TokenAuthentication,
)

__all__ = [
    "AbstractAuthentication",
    "Audience",
    "AzureCliAuthentication",
    "InteractiveLoginAuthentication",
    "MsiAuthentication",
    "ServicePrincipalAuthentication",
    "TokenAuthentication",
]
