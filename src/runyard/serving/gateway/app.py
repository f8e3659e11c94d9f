"""The ASGI application: from a request to its service, and back with the worker's answer."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qsl

from runyard.serving.gateway.http import ON_GONE
from runyard.serving.gateway.revisions import Revision, Waiting
from runyard.serving.gateway.services import ScoringService, ServiceTable
from runyard.serving.paths import inner_path
from runyard.serving.protocol import FAILED, TIMED, Header, Json, WireAnswer, pack_headers, read_headers

PREFIX = "/api/v1/service/"
MOST_BYTES_HELD = 512 << 20
MOST_ID = 100
_JSON: Header = (b"content-type", b"application/json")
_IDS = (b"x-request-id", b"x-ms-request-id", b"x-ms-client-request-id")
# A page that a script answers with is no page of this server's: it gets no cookies and no origin.
_SANDBOX: list[Header] = [
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"sandbox allow-scripts allow-forms allow-popups allow-downloads allow-modals"),
]

Send = Callable[[Json], Awaitable[None]]
Receive = Callable[[], Awaitable[Json]]


class HttpRefusal(Exception):
    """The gateway answers by itself."""

    def __init__(self, status: int, message: str, *headers: Header) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers


class Exchange:
    """One request of a service: its ids, its headers, and how it is answered."""

    __slots__ = (
        "authorization",
        "content_length",
        "headers",
        "host",
        "ids",
        "method",
        "origin",
        "send",
        "service",
        "size_in",
        "started",
        "target",
        "trace_id",
    )

    def __init__(self, scope: Json, service: ScoringService, target: str, send: Send) -> None:
        self.started = time.perf_counter()
        self.service = service
        self.method: str = scope["method"]
        self.target = target
        self.send = send
        self.headers: list[Header] = scope["headers"]
        self.size_in = 0
        self.content_length = -1
        self.authorization = self.host = self.origin = self.trace_id = b""
        request_id = legacy_id = client_id = b""
        for name, value in self.headers:
            if name == b"host":
                self.host = value
            elif name == b"authorization":
                self.authorization = value
            elif name == b"content-length":
                self.content_length = int(value) if value.isdigit() else -1
            elif name == b"origin":
                self.origin = value
            elif name == b"x-request-id":
                request_id = value
            elif name == b"x-ms-request-id":
                legacy_id = value
            elif name == b"x-ms-client-request-id":
                client_id = value
            elif name == b"traceid":
                self.trace_id = value
        request_id = request_id or new_id()
        # The old name stands for the client's id: each of the two fills in for the other.
        self.ids = (request_id, legacy_id or client_id or request_id, client_id or legacy_id)

    def check(self) -> None:
        """Raises HttpRefusal: an id is too long, there is no key, or a strange page asks."""
        for name, value in zip(_IDS, self.ids):
            if len(value) > MOST_ID:
                self.ids = (b"" if name == _IDS[0] else self.ids[0], b"", b"")
                raise HttpRefusal(431, f"{name.decode()} must not have more than {MOST_ID} characters.")
        doorkeeper = self.service.doorkeeper
        if not self.service.config.auth:
            fault = doorkeeper.fault_of_page(self.host, self.origin)
            if fault:
                raise HttpRefusal(403, fault)
        elif not doorkeeper.may_enter(self.authorization):
            what = "That key or token is not one of this service" if self.authorization else "This service needs a key"
            hint = "send the header `Authorization: Bearer <key>`; `service.get_keys()` shows the keys"
            raise HttpRefusal(401, f"{what}: {hint}.", (b"www-authenticate", b"Bearer"))

    async def refuse(self, refusal: HttpRefusal) -> None:
        body = json.dumps({"message": str(refusal)}).encode()
        headers = [_JSON, (b"x-ms-run-function-failed", b"False"), *refusal.headers]
        await self.answer(refusal.status, headers, body)

    async def answer(self, status: int, headers: list[Header], body: Any) -> None:
        """Send the answer, with the headers that each one has, and count it."""
        ids = self.ids
        headers.append((b"content-length", b"%d" % len(body)))
        if ids[0]:
            headers.append((_IDS[0], ids[0]))
        if ids[1]:
            headers.append((_IDS[1], ids[1]))
        if ids[2]:
            headers.append((_IDS[2], ids[2]))
        service = self.service
        if service.config.server_version:
            headers.append((b"x-ms-server-version", service.config.server_version.encode("latin-1", "replace")))
        if self.trace_id:
            headers.append((b"traceid", self.trace_id))
        if self.origin and service.config.cors_origins and service.doorkeeper.is_allowed(self.origin):
            headers += [(b"access-control-allow-origin", self.origin), (b"vary", b"Origin")]
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": bytes(body) if type(body) is not bytes else body})
        seconds = time.perf_counter() - self.started
        service.add_answer(status, seconds, self.size_in, len(body))
        service.log.add(self.method, self.target, status, seconds, len(body), ids[0].decode("latin-1"))


class Gateway:
    """`only` is the one service of a listener of its own; else the path names it."""

    def __init__(self, services: ServiceTable, *, only: str = "", metrics_token: str = "") -> None:
        self._services = services
        self._only = only
        self._metrics_token = metrics_token

    async def __call__(self, scope: Json, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        path: str = scope["path"]
        service = self._services.by_score_path.get(path)
        if service is not None:
            await self._serve(service, "/score", scope, receive, send)
            return
        service, inner = self._find(path)
        if service is None:
            await self._answer_without_service(path, scope, send)
            return
        await self._serve(service, inner, scope, receive, send)

    def _find(self, path: str) -> tuple[ScoringService | None, str]:
        """Return the service that a path belongs to, and the path inside it."""
        by_name = self._services.by_name
        if self._only:
            service = by_name.get(self._only)
            own = f"{PREFIX}{self._only}"
            return service, inner_path(path[len(own) :] if path.startswith(own + "/") else path, self._only)
        if path.startswith(PREFIX):
            name, _, rest = path[len(PREFIX) :].partition("/")
            return by_name.get(name), inner_path("/" + rest, name)
        if path.startswith("/v2/models/"):
            name = path[len("/v2/models/") :].partition("/")[0]
            return by_name.get(name), inner_path(path, name)
        return None, path

    async def _serve(self, service: ScoringService, inner: str, scope: Json, receive: Receive, send: Send) -> None:
        query: bytes = scope["query_string"]
        target = f"{inner}?{query.decode('latin-1')}" if query else inner
        exchange = Exchange(scope, service, target, send)
        try:
            if inner == "/score":
                await self._score(exchange, inner, scope, receive)
            elif inner == "/":
                await _answer_health(exchange)
            elif inner == "/swagger.json":
                await _answer_swagger(exchange, query)
            elif inner in ("/v2/health/live", "/v2/health/ready", "/v2/ready"):
                await _answer_ready(exchange, inner)
            elif inner == "/v2":
                await _answer_json(exchange, {"name": "runyard", "version": "2", "extensions": []})
            else:
                await self._score(exchange, inner, scope, receive)
        except HttpRefusal as refusal:
            await exchange.refuse(refusal)

    async def _score(self, exchange: Exchange, inner: str, scope: Json, receive: Receive) -> None:
        service, method = exchange.service, exchange.method
        revision = service.choose()
        ready = revision.ready if revision is not None else {}
        if inner != "/score" and inner not in ready.get("paths", ()):
            raise HttpRefusal(404, f"The service `{service.config.name}` has no {inner}; /score answers requests.")
        if method == "OPTIONS" and (not ready.get("takes_all_methods") or _is_preflight(exchange)):
            await _answer_options(exchange)
            return
        exchange.check()
        if method not in ("GET", "POST", "OPTIONS"):
            raise HttpRefusal(405, f"{method} is not allowed here; POST is.", (b"allow", b"GET, POST, OPTIONS"))
        if revision is None or revision.config.failed:
            why = revision.config.failed if revision is not None else "It has no revision"
            raise HttpRefusal(
                503, f"The service `{service.config.name}` is not there now: {why}.", (b"retry-after", b"10")
            )
        body = await self._read_body(exchange, revision, receive)
        if revision.is_over:  # meanwhile
            revision = service.choose()
            if revision is None or revision.is_over:
                raise HttpRefusal(404, f"The service `{service.config.name}` was deleted.")
        self._services.bytes_held += len(body)
        try:
            waiting = Waiting(_head_of(exchange), body, asyncio.get_running_loop().create_future())
            answer = await _ask(exchange, revision, waiting, scope)
        finally:
            self._services.bytes_held -= len(body)
        await _pass_on(exchange, answer, inner)

    async def _read_body(self, exchange: Exchange, revision: Revision, receive: Receive) -> bytes:
        limit = revision.config.max_body
        if exchange.content_length > limit:
            raise _too_large(limit)
        if self._services.bytes_held + max(0, exchange.content_length) > MOST_BYTES_HELD:
            raise HttpRefusal(503, "Too many large requests are under way.", (b"retry-after", b"1"))
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionError("the client is gone")
        body: bytes = message.get("body", b"")
        if message.get("more_body"):
            body = await self._read_rest(body, limit, receive)
        exchange.size_in = len(body)
        return body

    async def _read_rest(self, first: bytes, limit: int, receive: Receive) -> bytes:
        parts, size = [first], len(first)
        services = self._services
        services.bytes_held += size
        try:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ConnectionError("the client is gone")
                part = message.get("body", b"")
                parts.append(part)
                size += len(part)
                services.bytes_held += len(part)
                if size > limit:
                    raise _too_large(limit)
                if services.bytes_held > MOST_BYTES_HELD:
                    raise HttpRefusal(503, "Too many large requests are under way.", (b"retry-after", b"1"))
                if not message.get("more_body"):
                    return b"".join(parts)
        finally:
            services.bytes_held -= size

    async def _answer_without_service(self, path: str, scope: Json, send: Send) -> None:
        status, kind, body = 404, b"application/json", b""
        if path == "/metrics" and scope["method"] == "GET":
            status, kind, body = self._metrics(scope)
        elif path in ("/health", "/v2/health/live", "/v2/health/ready") and scope["method"] == "GET":
            status, body = 200, b"{}"
        else:
            body = json.dumps({"message": f"There is no service at {path}."}).encode()
        headers = [(b"content-type", kind), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _metrics(self, scope: Json) -> tuple[int, bytes, bytes]:
        """Return the figures of all services: to this machine, and elsewhere to those who have the token."""
        given = b"".join(value for name, value in scope["headers"] if name == b"authorization")
        client = scope.get("client")
        is_here = client is not None and client[0] in ("127.0.0.1", "::1")
        if not is_here and (not self._metrics_token or given != b"Bearer " + self._metrics_token.encode()):
            return 401, b"application/json", b'{"message": "/metrics needs the token of the metrics here."}'
        return 200, b"text/plain; version=0.0.4; charset=utf-8", self._services.metrics_text().encode()


async def _ask(exchange: Exchange, revision: Revision, waiting: Waiting, scope: Json) -> WireAnswer:
    """Return the worker's answer; raises HttpRefusal when there is none."""
    if not revision.put(waiting):
        raise HttpRefusal(503, f"{len(revision.pending)} requests are waiting already.", (b"retry-after", b"1"))
    answered = waiting.answer

    def on_gone() -> None:
        if not answered.done():
            answered.cancel()

    scope[ON_GONE] = on_gone
    answer = await answered
    if answer is None:
        headers = [(b"retry-after", b"1")] if waiting.status == 503 else []
        shown = exchange.ids[0].decode("latin-1")
        raise HttpRefusal(waiting.status, f"{waiting.why} (request {shown}).", *headers)
    return answer


async def _pass_on(exchange: Exchange, answer: WireAnswer, inner: str) -> None:
    """Send a worker's answer as the client's."""
    config = exchange.service.config
    status, has_failed = answer.status, bool(answer.flags & FAILED)
    headers = read_headers(answer.head)
    if has_failed and status == 500 and not answer.flags & TIMED:
        status = config.failure_status
    if headers and headers[0] != _JSON:
        headers += _SANDBOX
    headers.append((b"x-ms-run-function-failed", b"True" if has_failed else b"False"))
    if answer.flags & TIMED:
        headers.append((b"x-ms-run-fn-exec-ms", b"%.3f" % (answer.exec_us / 1e3)))
    body = answer.body
    if inner in ("/v2/infer", "/v2/metadata") and status == 200:
        named = {"name": config.name, "versions": ["1"]} if inner == "/v2/metadata" else {"model_name": config.name}
        body = json.dumps({**named, **json.loads(bytes(body))}).encode()
    await exchange.answer(status, headers, body)


async def _answer_health(exchange: Exchange) -> None:
    if exchange.method not in ("GET", "HEAD"):
        raise HttpRefusal(405, "GET is the only method here.", (b"allow", b"GET"))
    if not exchange.service.is_ready():
        raise HttpRefusal(503, "No worker is ready.", (b"retry-after", b"1"))
    await exchange.answer(200, [(b"content-type", b"text/html; charset=utf-8")], b"Healthy")


async def _answer_ready(exchange: Exchange, inner: str) -> None:
    is_ready = exchange.service.is_ready()
    await _answer_json(exchange, {"ready": is_ready}, 200 if is_ready or inner.endswith("live") else 503)


async def _answer_swagger(exchange: Exchange, query: bytes) -> None:
    if exchange.method != "GET":
        raise HttpRefusal(405, "GET is the only method here.", (b"allow", b"GET"))
    exchange.check()
    version = dict(parse_qsl(query.decode("latin-1"))).get("version", "2")
    revision = exchange.service.choose()
    documents: dict[str, str] = revision.ready.get("swagger", {}) if revision is not None else {}
    if version not in documents:
        known = ", ".join(sorted(documents)) or "none"
        raise HttpRefusal(404, f"There is no OpenAPI document of version {version!r}; there are: {known}.")
    await exchange.answer(200, [_JSON], documents[version].encode())


async def _answer_options(exchange: Exchange) -> None:
    headers: list[Header] = [(b"content-type", b"text/html; charset=utf-8")]
    if _is_preflight(exchange) and exchange.service.doorkeeper.is_allowed(exchange.origin):
        asked = dict(exchange.headers).get(b"access-control-request-headers", b"")
        headers += [(b"access-control-allow-methods", b"GET, POST"), (b"access-control-max-age", b"600")]
        headers += [(b"access-control-allow-headers", asked)] if asked else []
    await exchange.answer(200, headers, b"")


async def _answer_json(exchange: Exchange, plain: Json, status: int = 200) -> None:
    await exchange.answer(status, [_JSON], json.dumps(plain).encode())


def _is_preflight(exchange: Exchange) -> bool:
    return bool(exchange.origin) and any(name == b"access-control-request-method" for name, _ in exchange.headers)


def _head_of(exchange: Exchange) -> bytes:
    """Return the request's head for the worker: its key stays here, its id is always there."""
    has_auth = exchange.service.config.auth
    headers = [
        pair
        for pair in exchange.headers
        if pair[0] != b"x-request-id" and not (has_auth and pair[0] == b"authorization")
    ]
    headers.append((b"x-request-id", exchange.ids[0]))
    first = f"{exchange.method}\n{exchange.target}\n".encode("latin-1", "replace")
    return first + pack_headers(headers)


def _too_large(limit: int) -> HttpRefusal:
    return HttpRefusal(413, f"The body has more than {limit >> 20} MiB, the most that a request may have.")


def new_id() -> bytes:
    """Return a random UUID (version 4), as text."""
    text = f"{random.getrandbits(128):032x}"
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{'89ab'[int(text[16], 16) & 3]}{text[17:20]}-{text[20:]}".encode()
