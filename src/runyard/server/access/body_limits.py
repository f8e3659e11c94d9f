"""How much a request may send: refused before it is read where its length is known, and while it is read otherwise."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from runyard.core.errors import InvalidArgument, RunyardError, TooLarge
from runyard.server.access.hosts import values_of

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

MIB = 1 << 20
DEFAULT_LIMIT = MIB
# Content travels in requests of 32 MiB; heads and lengths of its frames come on top.
_LIMITS = (
    (re.compile(r"/api/v1/(chunks|trees)(/missing|/fetch)?"), 34 * MIB),
    (re.compile(r"/api/v1/runs/[^/]+/ship"), 64 * MIB),
    (re.compile(r"/api/v1/runs/[^/]+/files(/batch|/fetch)?"), 32 * MIB),
    (re.compile(r"/api/v1/runs(/plan|/[^/]+/state)?"), 8 * MIB),
)
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_TYPES = (b"application/json", b"application/x-runyard-frames")


class BodyTooLarge(Exception):
    """Raised out of `receive`; the guard answers 413 whatever the app makes of it."""


def limit_of(path: str) -> int:
    """Return the most bytes that a request to `path` may send."""
    return next((limit for pattern, limit in _LIMITS if pattern.fullmatch(path)), DEFAULT_LIMIT)


def fault_of(scope: Any) -> tuple[int, RunyardError] | None:
    """Return (status, error) when the head alone says that the body cannot be taken."""
    headers = scope["headers"]
    length = values_of(headers, b"content-length")
    size = int(length[0]) if length and length[0].isdigit() else 0
    limit = limit_of(scope["path"])
    if size > limit:
        return 413, too_large(limit, size)
    has_body = size > 0 or bool(values_of(headers, b"transfer-encoding"))
    if not has_body:
        return None
    if values_of(headers, b"content-encoding") not in ([], [b"identity"]):
        return 415, InvalidArgument("Compressed requests are not taken.", hint="Send the body as it is.")
    if scope["method"] not in SAFE_METHODS and _media_type(headers) not in _TYPES:
        kinds = " or ".join(kind.decode() for kind in _TYPES)
        return 415, InvalidArgument("The request's content type is not one of ours.", hint=f"Send {kinds}.")
    return None


class LimitedBody:
    """A request's body, counted as it comes: a length that was not announced is not known before."""

    def __init__(self, scope: Any, receive: Receive) -> None:
        self.limit = limit_of(scope["path"])
        self.is_excessive = False
        self._receive = receive
        self._seen = 0
        self._is_open = bool(values_of(scope["headers"], b"transfer-encoding"))

    @property
    def is_left_unread(self) -> bool:
        """Whether more of a body of unknown length would come than the app wanted to read."""
        return self._is_open

    async def receive(self) -> MutableMapping[str, Any]:
        message = await self._receive()
        self._seen += len(message.get("body", b""))
        self._is_open = self._is_open and bool(message.get("more_body"))
        if self._seen > self.limit:
            self.is_excessive = True
            raise BodyTooLarge
        return message


def too_large(limit: int, size: int | None = None) -> TooLarge:
    return TooLarge(
        "The request's body is too large.",
        why=f"{'More' if size is None else size} bytes came; {limit} are the most here.",
        hint="Send it in parts, as the client does.",
    )


def _media_type(headers: Any) -> bytes:
    found = values_of(headers, b"content-type")
    return found[0].partition(b";")[0].strip().lower() if len(found) == 1 else b""
