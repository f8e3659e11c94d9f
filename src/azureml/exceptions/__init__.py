"""`azureml.exceptions`."""

from __future__ import annotations

from runyard.sdk.exceptions import (
    ActivityFailedException,
    AuthenticationException,
    AzureMLException,
    ComputeTargetException,
    DatasetTimestampMissingError,
    DiscoveryUrlNotFoundException,
    ExperimentExecutionException,
    ModelNotFoundException,
    ModelPathNotFoundException,
    ProjectSystemException,
    RunConfigurationException,
    RunEnvironmentException,
    ServiceException,
    SnapshotException,
    TrainingException,
    UserErrorException,
    WebserviceException,
    WorkspaceException,
)
from runyard.sdk.names import absent_names

__getattr__ = absent_names(__name__)

__all__ = [
    "ActivityFailedException",
    "AuthenticationException",
    "AzureMLException",
    "ComputeTargetException",
    "DatasetTimestampMissingError",
    "DiscoveryUrlNotFoundException",
    "ExperimentExecutionException",
    "ModelNotFoundException",
    "ModelPathNotFoundException",
    "ProjectSystemException",
    "RunConfigurationException",
    "RunEnvironmentException",
    "ServiceException",
    "SnapshotException",
    "TrainingException",
    "UserErrorException",
    "WebserviceException",
    "WorkspaceException",
]
