"""`azureml.core.authentication`: accepted everywhere, without effect here."""

from __future__ import annotations

from runyard.sdk.names import absent_names
from runyard.sdk.workspaces.keyvault import (
    AbstractAuthentication,
    Audience,
    AzureCliAuthentication,
    InteractiveLoginAuthentication,
    MsiAuthentication,
    ServicePrincipalAuthentication,
    TokenAuthentication,
)

__getattr__ = absent_names(__name__)

__all__ = [
    "AbstractAuthentication",
    "Audience",
    "AzureCliAuthentication",
    "InteractiveLoginAuthentication",
    "MsiAuthentication",
    "ServicePrincipalAuthentication",
    "TokenAuthentication",
]
