"""`azureml.train.hyperdrive.exceptions`."""

from __future__ import annotations

from runyard.sdk.exceptions import (
    HyperDriveConfigException,
    HyperDriveException,
    HyperDriveNotImplementedException,
    HyperDriveRehydrateException,
    HyperDriveScenarioNotSupportedException,
    HyperDriveServiceException,
)
from runyard.sdk.names import absent_names

__getattr__ = absent_names(__name__)

__all__ = [
    "HyperDriveConfigException",
    "HyperDriveException",
    "HyperDriveNotImplementedException",
    "HyperDriveRehydrateException",
    "HyperDriveScenarioNotSupportedException",
    "HyperDriveServiceException",
]
