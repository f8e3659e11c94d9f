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

__all__ = [
    "HyperDriveConfigException",
    "HyperDriveException",
    "HyperDriveNotImplementedException",
    "HyperDriveRehydrateException",
    "HyperDriveScenarioNotSupportedException",
    "HyperDriveServiceException",
]
