"""Requests to a service that the server sends for the studio and the shell, which then need neither key nor address."""

from __future__ import annotations

import http.client
import json
import ssl
import time
from dataclasses import dataclass

from runyard.core.errors import InvalidArgument, StoreUnavailable
from runyard.core.webservices import Definition, ServiceAnswer
from runyard.server.net.gateway_listener import GatewayListener

PATIENCE_S = 300.0  # a first request may wait for the start of a replica
MOST_SHOWN = 4 << 20  # of an answer's body
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


@dataclass(frozen=True)
class Forwarded:
    """A request below a service's own address: `path` is `score`, `swagger.json` and such."""

    path: str = "score"
    method: str = "POST"
    body: bytes = b""
    content_type: str = "application/json"


def forward(listener: GatewayListener, port: int, route: str, key: str, request: Forwarded) -> ServiceAnswer:
    """Send the request to the gateway and return the answer, whatever its status.

    Raises:
        InvalidArgument: the path leaves the service, or the method is none.
        StoreUnavailable: the gateway does not answer.
    """
    path = _checked(request.path)
    if request.method not in _METHODS:
        raise InvalidArgument(f"There is no method {request.method[:20]!r}: {', '.join(_METHODS)}.")
    headers = {"Host": listener.name, "Content-Type": request.content_type}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    connection = _connect(listener, port)
    began = time.perf_counter()
    try:
        body = request.body if request.method in ("POST", "PUT", "PATCH") else None
        connection.request(request.method, f"/api/v1/service/{route}/{path}", body, headers)
        answer = connection.getresponse()
        content = answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise StoreUnavailable(
            "The gateway, which answers requests to services, does not answer.",
            why=str(error) or type(error).__name__,
            hint="It is started again by itself; try again in a few seconds.",
        ) from error
    finally:
        connection.close()
    took_ms = (time.perf_counter() - began) * 1000
    return ServiceAnswer(
        status=answer.status,
        content_type=answer.headers.get("content-type", ""),
        text=_text(content[:MOST_SHOWN]),
        size_bytes=len(content),
        is_cut=len(content) > MOST_SHOWN,
        request_id=answer.headers.get("x-request-id", ""),
        run_ms=answer.headers.get("x-ms-run-fn-exec-ms", ""),
        took_ms=round(took_ms, 3),
    )


def openapi_of(answer: ServiceAnswer) -> Definition | None:
    """Return the document that a service describes itself with; None when it has none."""
    if answer.status != 200 or answer.text is None or answer.is_cut:
        return None
    try:
        found = json.loads(answer.text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _checked(path: str) -> str:
    path = path.lstrip("/")
    head = path.partition("?")[0]
    is_plain = path.isascii() and path.isprintable() and " " not in path and "#" not in path and "%" not in head
    if not is_plain or any(part in ("..", ".") for part in head.split("/")):
        raise InvalidArgument(
            f"{path[:80]!r} is not a path of a service.", hint="For example: score, or v2/models/NAME/infer."
        )
    return path


def _connect(listener: GatewayListener, port: int) -> http.client.HTTPConnection:
    host = _EVERYWHERE.get(listener.host, listener.host)
    if not listener.certificate:
        return http.client.HTTPConnection(host, port, timeout=PATIENCE_S)
    # The address is this machine's own, and the certificate a file of ours: what it says of names does not matter.
    context = ssl.create_default_context(cafile=listener.certificate)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return http.client.HTTPSConnection(host, port, timeout=PATIENCE_S, context=context)


def _text(content: bytes) -> str | None:
    if b"\x00" in content:
        return None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        # A cut may end within a character.
        return content[: error.start].decode("utf-8") if error.start > len(content) - 4 and len(content) > 4 else None
