"""Errors as answers: the one table from code to HTTP status, and the answer for unexpected errors."""

from __future__ import annotations

import errno
import json
import logging
import secrets
from collections.abc import Callable

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from sqlalchemy import exc
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from runyard.core.errors import RunyardError, StoreUnavailable, SystemFailure
from runyard.core.formats.documents import ErrorAnswer

logger = logging.getLogger(__name__)

STATUS = {
    "RunyardError": 500,
    "UserError": 400,
    "InvalidArgument": 400,
    "NotFound": 404,
    "Conflict": 409,
    "InvalidTransition": 409,
    "MissingContent": 409,
    "NotAllowed": 403,
    "NotAuthenticated": 401,
    "NotTrusted": 502,
    "SubmitRejected": 422,
    "SubmissionLost": 409,
    "SnapshotRejected": 422,
    "RunFailed": 409,
    "NotYetSupported": 501,
    "AbsentName": 501,
    "AbsentModule": 501,
    "MissingExtra": 501,
    "TooLarge": 413,
    "SystemFailure": 500,
    "ServerUnreachable": 502,
    "ServerNotStarted": 503,
    "BadGateway": 502,
    "StoreUnavailable": 503,
    "DamagedContent": 500,
    "TooManyRequests": 429,
    "ProtocolError": 400,
}

MLFLOW_PREFIX = "/mlflow/"  # paths below it are for MLflow's clients, which read error bodies of their own
_MLFLOW_CODES = {
    "NotFound": "RESOURCE_DOES_NOT_EXIST",
    "NotAllowed": "PERMISSION_DENIED",
    "NotAuthenticated": "UNAUTHENTICATED",
    "TooManyRequests": "REQUEST_LIMIT_EXCEEDED",
    "Conflict": "RESOURCE_CONFLICT",
    "InvalidTransition": "RESOURCE_CONFLICT",
    "NotYetSupported": "NOT_IMPLEMENTED",
}
_MLFLOW_BY_STATUS = {503: "TEMPORARILY_UNAVAILABLE", 502: "TEMPORARILY_UNAVAILABLE", 500: "INTERNAL_ERROR"}

_BY_STATUS = {
    404: ("NotFound", "There is no such address on this server.", "`GET /api/v1/openapi.json` lists all routes."),
    405: ("InvalidArgument", "This address does not take that method.", "`GET /api/v1/openapi.json` lists all routes."),
}


# What this machine lacks for a moment, or until its disk is cleaned up.
_PASSING = {
    errno.ENOSPC: "The server's disk is full.",
    errno.EDQUOT: "The server's disk quota is used up.",
    errno.EFBIG: "A file of the server cannot grow any more.",
    errno.EROFS: "The server's disk takes no writes.",
    errno.EIO: "The server's disk fails.",
    errno.ESTALE: "The server's disk fails.",
    errno.EMFILE: "The server has too many files open.",
    errno.ENFILE: "The server's machine has too many files open.",
    errno.ENOMEM: "The server has too little memory.",
    errno.ENOBUFS: "The server has too little memory.",
    errno.EAGAIN: "The server's machine can start nothing more at this moment.",
}
_MISTAKES = (exc.IntegrityError, exc.ProgrammingError, exc.DataError, exc.ArgumentError, exc.CompileError)


def error_answer(error: RunyardError) -> Response:
    status = STATUS.get(error.code, 500)
    return _answer(status, error.to_plain(), {"Retry-After": "1"} if status in (429, 503) else None)


def body_of(path: str, error: RunyardError) -> bytes:
    """Return the body of an error's answer in the words of those who ask at `path`."""
    plain = mlflow_plain(error) if path.startswith(MLFLOW_PREFIX) else {"error": error.to_plain()}
    return json.dumps(plain).encode()


def mlflow_plain(error: RunyardError) -> dict[str, str]:
    """Return one of our errors as MLflow's clients read it."""
    by_status = _MLFLOW_BY_STATUS.get(STATUS.get(error.code, 500), "INVALID_PARAMETER_VALUE")
    return {"error_code": _MLFLOW_CODES.get(error.code, by_status), "message": str(error)}


def explain(error: BaseException) -> RunyardError:
    """Return the error to answer with; an unexpected one becomes an error with a reference to the log.

    A lack of disk, memory, files or a database is an outage: the caller comes again later, and nothing is judged.
    """
    if isinstance(error, RunyardError):
        return error
    outage = _find_outage(error)
    reference = secrets.token_hex(4)
    logger.error("A request failed; its answer names the reference %s.", reference, exc_info=error)
    if outage:
        return StoreUnavailable(
            outage, why=f"The server's log has it under {reference}.", hint="Nothing was stored. Try again later."
        )
    return SystemFailure(
        "The server could not do this.",
        why=f"An error that nobody foresaw; the server's log has it under {reference}.",
        hint=f"Look for {reference} in the server's log (`runyard server status` says where) and report it.",
    )


def _find_outage(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "The server has too little memory."
    if isinstance(error, OSError):
        return _PASSING.get(error.errno or 0, "")
    if isinstance(error, exc.SQLAlchemyError) and not isinstance(error, _MISTAKES):
        return "The server's database cannot be used."
    if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
        return _PASSING[errno.EAGAIN]
    return ""


def add_handlers(app: FastAPI, no_such_page: Callable[[], Response]) -> None:
    """Give every error that a route can raise the API's shape; people in browsers get `no_such_page`."""

    async def on_ours(request: Request, error: Exception) -> Response:
        assert isinstance(error, RunyardError)
        return error_answer(error)

    async def on_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code == 404 and _is_for_people(request):
            return no_such_page()
        code, what, hint = _BY_STATUS.get(error.status_code, ("InvalidArgument", "The request cannot be read.", ""))
        return _answer(error.status_code, _plain(code, what, hint=hint), dict(error.headers or {}))

    async def on_validation(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        why = "; ".join(f"`{'.'.join(map(str, item['loc'][1:]))}`: {item['msg']}" for item in error.errors()[:3])
        return _answer(400, _plain("InvalidArgument", "A parameter of the request cannot be used.", why=why))

    app.add_exception_handler(RunyardError, on_ours)
    app.add_exception_handler(HTTPException, on_http)
    app.add_exception_handler(RequestValidationError, on_validation)


def _is_for_people(request: Request) -> bool:
    is_page = request.method == "GET" and not request.url.path.startswith("/api/")
    return is_page and "text/html" in request.headers.get("accept", "")


class LastResort:
    """Answers what no route handles: an outage as such, all else with a reference to the log's traceback."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_started = False

        async def watched(message: Message) -> None:
            nonlocal has_started
            has_started = has_started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except ClientDisconnect:
            return  # the client is gone, and nothing is wrong here
        except Exception as error:
            explained = explain(error)
            if has_started:
                raise
            await error_answer(explained)(scope, receive, send)


def _plain(code: str, what: str, *, why: str = "", hint: str = "") -> ErrorAnswer:
    return {"code": code, "what": what, "why": why, "hint": hint}


def _answer(status: int, plain: ErrorAnswer, headers: dict[str, str] | None = None) -> Response:
    body = json.dumps({"error": plain}).encode()
    return Response(body, status_code=status, media_type="application/json", headers=headers)
