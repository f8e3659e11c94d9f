"""The exceptions of `azureml.data.dataset_error_handling`, which only scripts that read datasets name."""

from __future__ import annotations

from typing import Optional

from runyard.sdk.exceptions import AzureMLException


class _DatasetError(AzureMLException):
    def __init__(self, message: str, exception: Optional[BaseException] = None) -> None:
        super().__init__(message, inner_exception=exception)
        self.validation_error_code = self._error_code
        self.compliant_message = message


class DatasetValidationError(_DatasetError):
    _error_code = "DatasetValidation"


class DatasetExecutionError(_DatasetError):
    _error_code = "DatasetExecution"
