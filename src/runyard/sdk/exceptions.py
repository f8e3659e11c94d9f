"""The exceptions of `azureml.exceptions`. `errors.py` translates Runyard's own errors into them.

AzureMLException
├── UserErrorException
│   └── AuthenticationException
├── ActivityFailedException, ComputeTargetException, ExperimentExecutionException, ModelNotFoundException,
├── ModelPathNotFoundException, ProjectSystemException, RunConfigurationException, RunEnvironmentException,
├── ServiceException, SnapshotException, TrainingException, WebserviceException, WorkspaceException
├── DatasetTimestampMissingError, DiscoveryUrlNotFoundException
├── DatasetValidationError, DatasetExecutionError    (in `azureml.data.dataset_error_handling`)
└── HyperDriveException …     (in `azureml.train.hyperdrive.exceptions`)
"""

from __future__ import annotations

from typing import Any, Optional


class AzureMLException(Exception):
    """Base of all; its text is `message`, and that of the inner exception where there is one.

    Azure's text has the class, the message, the inner exception and the message again as JSON; a traceback would show
    all of it.
    """

    _error_code = "SystemError"

    def __init__(
        self,
        exception_message: str,
        inner_exception: Optional[BaseException] = None,
        target: Optional[str] = None,
        details: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(exception_message)
        self._exception_message = exception_message
        self._inner_exception = inner_exception
        self._target = target
        self._details = details
        self._kwargs = kwargs

    @property
    def message(self) -> str:
        return self._exception_message

    @message.setter
    def message(self, value: str) -> None:
        self._exception_message = value

    @property
    def inner_exception(self) -> Optional[BaseException]:
        return self._inner_exception

    @property
    def error_code(self) -> str:
        return self._error_code

    def print_stacktrace(self) -> None:
        """Print the traceback of the error to stderr, and where it comes from inside the SDK."""
        import traceback  # few processes print one

        origin = self.__context__
        if origin is not None and self.__suppress_context__:
            traceback.print_exception(type(origin), origin, origin.__traceback__)
        traceback.print_exception(type(self), self, self.__traceback__)

    def __str__(self) -> str:
        inner = self.inner_exception
        return self.message if inner is None else f"{self.message}\n{type(inner).__name__}: {inner}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.message!r})"


class UserErrorException(AzureMLException):
    _error_code = "UserError"


class AuthenticationException(UserErrorException):
    _error_code = "Authentication"


class ActivityFailedException(AzureMLException):
    """A run ended Failed; `error_details` is the JSON of its error."""

    _error_code = "ActivityFailed"

    def __init__(self, error_details: str, **kwargs: Any) -> None:
        super().__init__(f"Activity Failed:\n{error_details}", **kwargs)
        self.error_details = error_details


class ComputeTargetException(AzureMLException):
    _error_code = "ComputeTarget"


class ExperimentExecutionException(AzureMLException):
    _error_code = "ExperimentExecution"


class RunEnvironmentException(AzureMLException):
    _error_code = "RunEnvironment"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(
            "Could not find the run that this process belongs to: it was not started by a submit. "
            "Submit the script with `experiment.submit(...)` or `runyard submit`, "
            "or call Run.get_context() with allow_offline=True.",
            **kwargs,
        )


class SnapshotException(AzureMLException):
    _error_code = "Snapshot"


class TrainingException(AzureMLException):
    _error_code = "Training"


class RunConfigurationException(AzureMLException):
    _error_code = "RunConfiguration"


class WebserviceException(AzureMLException):
    _error_code = "Webservice"
    status_code: Optional[int] = None

    def __init__(self, exception_message: str, status_code: Optional[int] = None, **kwargs: Any) -> None:
        super().__init__(exception_message, **kwargs)
        self.status_code = status_code


class ModelNotFoundException(AzureMLException):
    _error_code = "ModelNotFound"


class ModelPathNotFoundException(AzureMLException):
    _error_code = "ModelPathNotFound"


class ProjectSystemException(AzureMLException):
    _error_code = "ProjectSystem"


class WorkspaceException(AzureMLException):
    _error_code = "Workspace"


class DiscoveryUrlNotFoundException(AzureMLException):
    _error_code = "DiscoveryUrlNotFound"


class DatasetTimestampMissingError(AzureMLException):
    _error_code = "DatasetTimestampMissing"


class ServiceException(AzureMLException):
    """The server, the disk or the network failed."""

    _error_code = "ServiceError"


class HyperDriveException(AzureMLException):
    _error_code = "HyperDrive"


class HyperDriveServiceException(HyperDriveException):
    _error_code = "HyperDriveService"


class HyperDriveConfigException(HyperDriveException):
    _error_code = "HyperDriveConfig"


class HyperDriveScenarioNotSupportedException(HyperDriveConfigException):
    _error_code = "HyperDriveScenarioNotSupported"


class HyperDriveNotImplementedException(HyperDriveScenarioNotSupportedException):
    _error_code = "HyperDriveNotImplemented"


class HyperDriveRehydrateException(HyperDriveException):
    _error_code = "HyperDriveRehydrate"
