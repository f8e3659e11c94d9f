"""Errors as MLflow's clients read them: `{"error_code", "message"}` with the status of the code."""

from __future__ import annotations

import json

from starlette.responses import Response

from runyard.core.errors import RunyardError
from runyard.server.errors import explain, mlflow_plain

INVALID_PARAMETER_VALUE = "INVALID_PARAMETER_VALUE"
RESOURCE_ALREADY_EXISTS = "RESOURCE_ALREADY_EXISTS"
RESOURCE_DOES_NOT_EXIST = "RESOURCE_DOES_NOT_EXIST"
ENDPOINT_NOT_FOUND = "ENDPOINT_NOT_FOUND"
BAD_REQUEST = "BAD_REQUEST"
NOT_IMPLEMENTED = "NOT_IMPLEMENTED"
STATUS = {
    INVALID_PARAMETER_VALUE: 400,
    RESOURCE_ALREADY_EXISTS: 400,
    BAD_REQUEST: 400,
    "INVALID_STATE": 400,
    RESOURCE_DOES_NOT_EXIST: 404,
    ENDPOINT_NOT_FOUND: 404,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "RESOURCE_CONFLICT": 409,
    "REQUEST_LIMIT_EXCEEDED": 429,
    "INTERNAL_ERROR": 500,
    NOT_IMPLEMENTED: 501,
    "TEMPORARILY_UNAVAILABLE": 503,
}


class MlflowError(Exception):
    """A request that MLflow's own server would refuse too; `error_code` is a key of STATUS."""

    def __init__(self, message: str, error_code: str = INVALID_PARAMETER_VALUE) -> None:
        super().__init__(message)
        self.message = message
        self.error_code = error_code


def answer_of(error: BaseException) -> Response:
    """Return any error as an answer; an unexpected one names its reference in the server's log."""
    if isinstance(error, MlflowError):
        plain = {"error_code": error.error_code, "message": error.message}
    else:
        plain = mlflow_plain(error if isinstance(error, RunyardError) else explain(error))
    status = STATUS.get(plain["error_code"], 500)
    headers = {"Retry-After": "1"} if status in (429, 503) else None
    return Response(json.dumps(plain).encode(), status_code=status, media_type="application/json", headers=headers)
