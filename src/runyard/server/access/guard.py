"""The one layer around everything that the server serves: it lets only known principals through.

Pages, mounts, static files, documents, streams and WebSockets are all behind it. Public paths are matched exactly, on
the raw path. Every other path needs a principal, also one that no route serves.

Limits of request bodies come first: the guard refuses a body before it is read where its length is known, and while it
is read otherwise. Then come the security headers of every answer and the refusals that never reach the app. `guard`
itself puts the checks in order.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextlib import ExitStack
from typing import Any
from urllib.parse import parse_qs

from runyard.core.errors import InvalidArgument, NotAllowed, NotAuthenticated, RunyardError, TooLarge, TooManyRequests
from runyard.server.access.activity import Activity
from runyard.server.access.credentials import Credentials, Scope, WhileValid
from runyard.server.access.hosts import AnyNames, came_from_elsewhere, foreign_page, is_unix, values_of
from runyard.server.access.shares import Shares
from runyard.server.access.signin import (
    LANDING_POLICY,
    POLICY,
    SIGNIN_PREFIX,
    Pass,
    SigninSession,
    again_page,
    clean_next,
    confirm_page,
    landing_page,
    signin_page,
)
from runyard.server.errors import STATUS, body_of, explain

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

MIB = 1 << 20
DEFAULT_LIMIT = MIB
# Content travels in requests of 32 MiB; heads and lengths of its frames come on top.
_LIMITS = (
    (re.compile(r"/api/v1/(chunks|trees)(/missing|/fetch)?"), 34 * MIB),
    (re.compile(r"/api/v1/runs/[^/]+/ship"), 64 * MIB),
    (re.compile(r"/api/v1/runs/[^/]+/files(/batch|/fetch)?"), 32 * MIB),
    (re.compile(r"/mlflow/.+"), 16 * MIB),  # datasets have long schemas and profiles
    (re.compile(r"/api/v1/runs(/plan|/[^/]+/state)?"), 8 * MIB),
)
# A file of MLflow's clients is one body, of any size and type; the disk and the quotas limit it.
_ARTIFACT = re.compile(r"/mlflow/.+/(ajax-)?api/2\.0/mlflow-artifacts/artifacts/.+")
ARTIFACT_LIMIT = 1 << 50
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_TYPES = (b"application/json", b"application/x-runyard-frames")
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
HEALTH = b"/api/v1/health"
_SIGNIN = re.compile(rb"/signin/([A-Za-z0-9_\-]{43})")
_ODD_PATH = re.compile(r"//|/\.\.?(/|$)|[\\\x00-\x1f\x7f]")
_ODD_CODES = re.compile(rb"%2f|%5c", re.IGNORECASE)
MOST_REQUESTS = 2048  # under way at once, of one user or run: half of a door's places


class BodyTooLarge(Exception):
    """Raised out of `receive`; the guard answers 413 whatever the app makes of it."""


def limit_of(scope: Any) -> int:
    """Return the most bytes that a request may send."""
    if _is_artifact(scope):
        return ARTIFACT_LIMIT
    return next((limit for pattern, limit in _LIMITS if pattern.fullmatch(scope["path"])), DEFAULT_LIMIT)


def _names_artifact(scope: Any) -> bool:
    return _ARTIFACT.fullmatch(scope["path"]) is not None


def _is_artifact(scope: Any) -> bool:
    return scope.get("method") == "PUT" and _names_artifact(scope)


def fault_of(scope: Any) -> tuple[int, RunyardError] | None:
    """Return (status, error) when the head alone says that the body cannot be taken."""
    headers = scope["headers"]
    length = values_of(headers, b"content-length")
    size = int(length[0]) if length and length[0].isdigit() else 0
    limit = limit_of(scope)
    if size > limit:
        return 413, too_large(limit, size)
    has_body = size > 0 or bool(values_of(headers, b"transfer-encoding"))
    if not has_body:
        return None
    if values_of(headers, b"content-encoding") not in ([], [b"identity"]):
        return 415, InvalidArgument("Compressed requests are not taken.", hint="Send the body as it is.")
    if scope["method"] not in SAFE_METHODS and _media_type(headers) not in _TYPES and not _is_artifact(scope):
        kinds = " or ".join(kind.decode() for kind in _TYPES)
        return 415, InvalidArgument("The request has a content type that no route takes.", hint=f"Send {kinds}.")
    return None


class LimitedBody:
    """A request's body, counted as it comes: a length that was not announced is not known before."""

    def __init__(self, scope: Any, receive: Receive) -> None:
        self.limit = limit_of(scope)
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


Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]


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


async def refuse(send: Send, status: int, error: RunyardError, *, path: str = "") -> None:
    """Answer with an error. The connection closes, so that an unwanted body is not read."""
    later = [(b"retry-after", b"1")] if status == 503 else []
    body = body_of(path, error)
    await answer(send, status, body, b"application/json", headers=later, close=True)


async def answer(
    send: Send, status: int, body: bytes, content_type: bytes, *, headers: Headers | None = None, close: bool = False
) -> None:
    found = [(b"content-type", content_type), (b"content-length", b"%d" % len(body)), *(headers or [])]
    if close:
        found.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": secured(found)})
    await send({"type": "http.response.body", "body": body})


App = Callable[[Scope, Receive, Send], Awaitable[None]]


def guard(
    app: App, *, names: AnyNames, credentials: Credentials, activity: Activity, shares: Shares | None = None
) -> App:
    """Return `app` behind the checks: Host, origin, principal, path, body, in this order."""
    requests = shares or Shares(MOST_REQUESTS, "requests")

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await app(scope, receive, send)
            return
        if scope["type"] not in ("http", "websocket"):
            return
        scope["scheme"] = names.scheme.decode()  # a proxy in front may have taken the TLS off
        try:
            refusal = await _check(scope, names, credentials)
            if refusal == _SHOW_SIGNIN:
                await _sign_in(scope, send, credentials)
                return
        except Exception as error:  # the database is away, as a rule: the request was not judged
            failure = explain(error)
            refusal = STATUS[failure.code], failure
        if refusal is None:
            await _let_in(app, scope, receive, send, credentials=credentials, activity=activity, requests=requests)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1013 if refusal[0] == 503 else 1008})
        else:
            await _refuse(scope, send, *refusal)

    return guarded


_Refusal = tuple[int, RunyardError]
_SHOW_SIGNIN: _Refusal = (0, RunyardError("sign in"))


async def _check(scope: Scope, names: AnyNames, credentials: Credentials) -> _Refusal | None:
    """Return why the request is not let in; None lets it in, with its principal in scope["state"]."""
    host = names.find_host(scope)
    if host is None:
        return 421, InvalidArgument(
            "This server does not answer to that name.", hint="Use the address that it printed."
        )
    why = foreign_page(scope, host, names.scheme)
    if why:
        return 403, NotAllowed("The request was refused.", why=why)
    raw_path = scope.get("raw_path", b"")
    is_get = scope["type"] == "http" and scope["method"] == "GET"
    if is_get and raw_path == HEALTH:
        return None
    if is_get and _SIGNIN.fullmatch(raw_path) and not is_unix(scope):
        return _SHOW_SIGNIN
    found = await credentials.find_principal(scope)
    if found is None:
        return _wrong_token(scope, credentials)
    principal, by_cookie = found
    if by_cookie and not _has_origin_if_needed(scope):
        return 403, NotAllowed("The request was refused.", why="A browser's change must say which page it is from.")
    is_parted = b";" in raw_path and not _names_artifact(scope)  # a file's name may have a semicolon
    if is_parted or _ODD_PATH.search(scope["path"]) or _ODD_CODES.search(raw_path):
        return 400, InvalidArgument(
            f"{scope['path'][:200]!r} is not a path.", hint="Leave out `//`, `.` and `..` parts."
        )
    # A cookie beside a token proves nothing: a user with any token could act on another's session.
    session = credentials.find_session(scope) if by_cookie else None
    scope.setdefault("state", {}).update(principal=principal, session=session)
    return fault_of(scope) if scope["type"] == "http" else None


def _wrong_token(scope: Scope, credentials: Credentials) -> _Refusal:
    # A request without a token is no guess: it comes from a browser that has to sign in.
    has_token = bool(values_of(scope["headers"], b"authorization"))
    return _too_many() if has_token and credentials.wrong_tries.is_too_many(scope) else (401, _not_authenticated())


def _has_origin_if_needed(scope: Scope) -> bool:
    is_safe = scope["type"] == "http" and scope["method"] in SAFE_METHODS
    return is_safe or bool(values_of(scope["headers"], b"origin"))


async def _let_in(
    app: App,
    scope: Scope,
    receive: Receive,
    send: Send,
    *,
    credentials: Credentials,
    activity: Activity,
    requests: Shares,
) -> None:
    if scope["type"] == "websocket":
        with activity.open():
            await app(scope, receive, securing(send))
        return
    body = LimitedBody(scope, receive)
    gate = _Gate(send, body, scope["path"])
    try:
        if scope.get("raw_path") == HEALTH:
            await app(scope, body.receive, gate.send)
        else:
            with activity.open(), ExitStack() as stack:
                try:
                    stack.enter_context(requests.take(scope["state"]["principal"]))
                except TooManyRequests as error:
                    await gate.refuse(429, error)
                    return
                await _while_valid(app, scope, body.receive, gate, credentials)
    except BodyTooLarge:
        await gate.finish()


async def _while_valid(app: App, scope: Scope, receive: Receive, gate: _Gate, credentials: Credentials) -> None:
    principal = scope["state"]["principal"]
    with WhileValid(lambda: credentials.is_still(scope, principal)) as valid:
        try:
            await app(scope, receive, gate.send)
        except asyncio.CancelledError:
            if not valid.is_revoked:
                raise
            await gate.refuse(401, _not_authenticated())


class _Gate:
    """Passes the app's answer on; once the body was too large, answers 413 instead."""

    def __init__(self, send: Send, body: LimitedBody, path: str) -> None:
        self._send = send
        self._path = path
        self._body = body
        self._is_started = False

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if self._body.is_excessive:
            await self.finish()
            return
        if message["type"] == "http.response.start":
            self._is_started = True
            message["headers"] = secured(message.get("headers", ()))
            if self._body.is_left_unread:
                message["headers"].append((b"connection", b"close"))
        await self._send(message)

    async def finish(self) -> None:
        await self.refuse(413, too_large(self._body.limit))

    async def refuse(self, status: int, error: RunyardError) -> None:
        """Answer with an error where nothing was sent yet; half an answer is cut off by the server."""
        if not self._is_started:
            self._is_started = True
            await refuse(self._send, status, error, path=self._path)


async def _refuse(scope: Scope, send: Send, status: int, error: RunyardError) -> None:
    accepts = b" ".join(values_of(scope["headers"], b"accept"))
    if status == 401 and scope["method"] == "GET" and b"text/html" in accepts:
        # A strict cookie is left out where another site's page leads to us, a chat's or a mail's.
        page = again_page() if came_from_elsewhere(scope) else signin_page(scope.get("raw_path", b""))
        await _show(send, status, page)
        return
    await refuse(send, status, error, path=scope["path"])


async def _sign_in(scope: Scope, send: Send, credentials: Credentials) -> None:
    code = scope["raw_path"][len(SIGNIN_PREFIX) :].decode("ascii")
    try:
        wanted = parse_qs(scope["query_string"].decode("latin-1")).get("next", ["/"])
        target = clean_next(wanted[0])
    except (InvalidArgument, ValueError):
        target = "/"
    granted = credentials.signin.find(code)
    if await credentials.has_session(scope) and not _is_for(granted, credentials.find_session(scope)):
        await _lead_to(send, target)
        return
    if granted is not None and came_from_elsewhere(scope):
        # A strict cookie comes with what our own page leads to. A link of another user's session must be confirmed.
        name = await credentials.find_name(granted)
        await _show(send, 200, again_page() if name is None else confirm_page(name))
        return
    if granted is None or credentials.signin.take(code) is None:
        too_many = credentials.wrong_tries.is_too_many(scope)
        await _refuse(scope, send, *(_too_many() if too_many else (401, _not_authenticated())))
        return
    signin = credentials.signin
    session = signin.make_session(granted.token_id)
    await credentials.begin_session(session)
    cookie = signin.cookie_of(session, is_secure=scope.get("scheme") == "https").encode("ascii")
    headers = [(b"content-security-policy", LANDING_POLICY), (b"set-cookie", cookie)]
    page = landing_page(target, signin.page_key_of(session))
    await answer(send, 200, page, b"text/html; charset=utf-8", headers=headers)


def _is_for(granted: Pass | None, session: SigninSession | None) -> bool:
    """Whether a code begins another session of the same token: the page may have lost its half of this one."""
    return granted is not None and session is not None and granted.token_id == session.token_id


async def _lead_to(send: Send, target: str) -> None:
    await answer(send, 303, b"", b"text/plain", headers=[(b"location", target.encode("ascii"))])


async def _show(send: Send, status: int, page: bytes) -> None:
    policy = [(b"content-security-policy", POLICY)]
    await answer(send, status, page, b"text/html; charset=utf-8", headers=policy, close=True)


def _not_authenticated() -> NotAuthenticated:
    return NotAuthenticated(
        "The request has no valid token.",
        why="This server answers only to its owner, its users and its runs.",
        hint="Sign in with `runyard login URL`, or set RUNYARD_TOKEN. The owner's token is in `<home>/server/token`; "
        "an admin makes others with `runyard users add NAME`.",
    )


def _too_many() -> _Refusal:
    return 429, NotAuthenticated(
        "Too many wrong tokens came from this address.",
        why="The server counts them for a minute.",
        hint="Look at RUNYARD_TOKEN, or sign in again with `runyard login`. A good token is let in at once.",
    )
