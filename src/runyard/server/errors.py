"""Errors as answers: the one table from code to HTTP status, and what is said about errors nobody foresaw."""

from __future__ import annotations

import json
import logging
import secrets
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from runyard.core.errors import RunyardError
from runyard.server.routes.pages import no_such_page

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
    "SnapshotRejected": 422,
    "NotYetSupported": 501,
    "MissingExtra": 501,
    "TooLarge": 413,
    "SystemFailure": 500,
    "ServerUnreachable": 502,
    "ServerNotStarted": 503,
    "StoreUnavailable": 503,
    "TooManyRequests": 429,
    "ProtocolError": 400,
}

_BY_STATUS = {
    404: ("NotFound", "There is no such address on this server.", "`GET /api/v1/openapi.json` lists all routes."),
    405: ("InvalidArgument", "This address does not take that method.", "`GET /api/v1/openapi.json` lists all routes."),
}


def error_answer(error: RunyardError) -> Response:
    headers = {"Retry-After": "1"} if error.code in ("StoreUnavailable", "TooManyRequests") else None
    return _answer(STATUS.get(error.code, 500), error.to_plain(), headers)


def add_handlers(app: FastAPI) -> None:
    """Give every error that a route can raise the API's shape."""

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
    """Answers what nobody foresaw with a reference; the traceback goes to the log and nowhere else."""

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
            return  # nobody is left to answer, and nothing is wrong here
        except Exception:
            reference = secrets.token_hex(4)
            logger.exception("A request failed; its answer names the reference %s.", reference)
            if has_started:
                raise
            plain = _plain(
                "SystemFailure",
                "The server could not do this.",
                why=f"An error that nobody foresaw; the server's log has it under {reference}.",
                hint=f"Look for {reference} in the server's log (`runyard server status` says where) and report it.",
            )
            await _answer(500, plain)(scope, receive, send)


def _plain(code: str, what: str, *, why: str = "", hint: str = "") -> dict[str, Any]:
    return {"code": code, "what": what, "why": why, "hint": hint}


def _answer(status: int, plain: dict[str, Any], headers: dict[str, str] | None = None) -> Response:
    body = json.dumps({"error": plain}).encode()
    return Response(body, status_code=status, media_type="application/json", headers=headers)
