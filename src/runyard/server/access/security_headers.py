"""What goes out: security headers on every answer, and refusals that never reach the app."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from runyard.core.errors import RunyardError

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

# No script but our own files, nothing from elsewhere, no page around ours, and no text that becomes markup.
PAGE_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; font-src 'self'; "
    b"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    b"require-trusted-types-for 'script'; trusted-types 'none'"
)
_ALWAYS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
# Where the app says nothing of its own.
_DEFAULTS = ((b"content-security-policy", PAGE_POLICY), (b"cache-control", b"no-store"))


def secured(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return an answer's headers with ours; what the app says about them counts only where it may."""
    fixed = {name for name, _ in _ALWAYS}
    kept = [(name, value) for name, value in headers if name.lower() not in fixed]
    present = {name.lower() for name, _ in kept}
    return [*kept, *_ALWAYS, *((name, value) for name, value in _DEFAULTS if name not in present)]


def securing(send: Send) -> Send:
    async def secure(message: MutableMapping[str, Any]) -> None:
        if message["type"] in ("http.response.start", "websocket.accept"):
            message["headers"] = secured(message.get("headers", ()))
        await send(message)

    return secure


async def refuse(send: Send, status: int, error: RunyardError) -> None:
    """Answer with an error. The connection closes, so that a body which nobody wants is not read."""
    later = [(b"retry-after", b"1")] if status == 503 else []
    body = json.dumps({"error": error.to_plain()}).encode()
    await answer(send, status, body, b"application/json", headers=later, close=True)


async def answer(
    send: Send, status: int, body: bytes, content_type: bytes, *, headers: Headers | None = None, close: bool = False
) -> None:
    found = [(b"content-type", content_type), (b"content-length", b"%d" % len(body)), *(headers or [])]
    if close:
        found.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": secured(found)})
    await send({"type": "http.response.body", "body": body})
