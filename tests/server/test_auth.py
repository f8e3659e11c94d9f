"""Nobody unknown gets past the guard: A01 to A04 (tests/attacks/README.md), on the live route table."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.routing import Mount

from runyard.core.errors import NotAllowed
from runyard.core.records import NewRun, Run
from runyard.core.statuses import RunStatus
from runyard.server.access.activity import Activity
from runyard.server.access.credentials import Credentials
from runyard.server.access.guard import guard
from runyard.server.access.hosts import HostNames
from tests.server.guarded import BEARER, TOKEN, Guarded, serving
from tests.server.raw_http import Door

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY")
PUBLIC = {("GET", "/api/v1/health")}


@pytest.fixture(scope="module")
def server() -> Iterator[Guarded]:
    with serving() as running:
        yield running


@pytest.fixture(params=["unix", "tcp"])
def door(request: pytest.FixtureRequest, server: Guarded) -> Door:
    return server.unix if request.param == "unix" else server.tcp


def paths_of(app: Any, prefix: str = "") -> Iterator[str]:
    for route in app.routes:
        included = getattr(route, "original_router", None)  # FastAPI keeps included routers as they are
        if included is not None:
            yield from paths_of(included, prefix + route.include_context.prefix)
        elif isinstance(route, Mount):
            yield from paths_of(route, prefix + route.path)
            yield prefix + route.path + "/x"
        else:
            yield prefix + re.sub(r"\{[^}]*\}", "x", route.path)


def test_every_route_and_method_needs_a_token(server: Guarded, door: Door) -> None:
    paths = sorted(
        set(paths_of(server.app)) | {"/docs", "/redoc", "/openapi.json", "/metrics", "/static/x", "/nothing"}
    )
    found = {(method, path): door.ask(method, path).status for path in paths for method in METHODS}

    assert {"/api/v1/runs/x/files/x", "/api/v1/signin-codes", "/api/v1/health", "/runs/x", "/api/v1/chunks"} <= set(
        paths
    )
    assert {key for key, status in found.items() if status == 200} == PUBLIC
    # A parser that does not know a method at all answers 400 before any of ours is asked.
    assert {status for key, status in found.items() if key not in PUBLIC} <= {401, 400}
    assert {status for (method, _), status in found.items() if method != "QUERY"} == {200, 401}


def test_the_same_routes_answer_to_the_token(server: Guarded, door: Door) -> None:
    assert door.ask("GET", "/api/v1/server", [BEARER]).status == 200
    assert door.ask("GET", "/api/v1/workspaces", [BEARER]).status == 200
    assert door.ask("GET", "/api/v1/openapi.json", [BEARER]).status == 200
    assert door.ask("GET", "/nothing", [BEARER]).status == 404


@pytest.mark.parametrize(
    "headers",
    [
        ["Authorization:"],
        ["Authorization: Bearer"],
        ["Authorization: Bearer "],
        ["Authorization: Bearer nothing"],
        [f"Authorization: Basic {TOKEN}"],
        [f"Authorization: {TOKEN}"],
        [f"Authorization: Bearer {TOKEN[:-1]}"],
        [f"Authorization: Bearer {TOKEN}0"],
        [f"Authorization: Bearer {TOKEN} {TOKEN}"],
        [f"Authorization: Bearer  {TOKEN}"],
        [f"Authorization: Bearer {TOKEN},Bearer {TOKEN}"],
        [f"Authorization: Bearer {TOKEN.upper()}"],
        [BEARER, BEARER],
        [BEARER, "Authorization: Bearer nothing"],
        [f"X-Authorization: Bearer {TOKEN}", f"Proxy-Authorization: Bearer {TOKEN}"],
        [f"Cookie: token={TOKEN}; authorization={TOKEN}"],
        ["Authorization: Bearer " + "a" * 60_000],
        ["Authorization: Bearer \xff\xfe\x80"],
    ],
    ids=range(18),
)
def test_a_token_that_is_not_exactly_right_is_refused(door: Door, headers: list[str]) -> None:
    answer = door.ask("GET", "/api/v1/server", headers)

    assert answer.status == 401
    assert TOKEN.encode() not in answer.body


def test_a_token_of_a_megabyte_is_refused_before_it_is_read(door: Door) -> None:
    assert door.ask("GET", "/api/v1/server", ["Authorization: Bearer " + "a" * (1 << 20)]).status == 431


@pytest.mark.parametrize("query", [f"token={TOKEN}", f"access_token={TOKEN}", f"authorization=Bearer%20{TOKEN}"])
def test_a_token_in_the_query_counts_for_nothing(door: Door, query: str) -> None:
    assert door.ask("GET", f"/api/v1/server?{query}").status == 401


TRICKS = [
    "/api/v1/server/health",
    "/api/v1/health/../server",
    "/api/v1/health/%2e%2e/server",
    "/api/v1/health%2f..%2fserver",
    "/api/v1/server?/api/v1/health",
    "/api/v1/server%3f/api/v1/health",
    "/api/v1/server#/api/v1/health",
    "/api/v1/server;/api/v1/health",
    "/api/v1/health;x=/../server",
    "//api/v1/server",
    "//api/v1/health",
    "/api//v1/server",
    "/./api/v1/server",
    "/api/v1/./server",
    "/API/V1/SERVER",
    "/Api/v1/Health",
    "/api/v1/health/",
    "/api/v1/health%00",
    "/api/v1/health%20",
    "/api%2fv1%2fhealth",
    "/api/v1/healthz",
    "/signin/",
    "/signin/../api/v1/server",
    "/signin/" + "a" * 43 + "/../../api/v1/server",
    "/signin/" + "a" * 43 + "%2f..",
    "/signin/" + "a" * 44,
    "/\\api/v1/server",
    "/..;/api/v1/server",
]


@pytest.mark.parametrize("target", TRICKS)
def test_no_spelling_of_a_path_is_let_in_without_a_token(door: Door, target: str) -> None:
    assert door.ask("GET", target).status in (400, 401)


@pytest.mark.parametrize("target", TRICKS)
def test_no_spelling_of_a_path_reaches_another_route_with_a_token(server: Guarded, target: str) -> None:
    answer = server.tcp.ask("GET", target, [BEARER])
    is_plain = target.startswith(("/api/v1/server?", "/api/v1/server#"))

    assert answer.status == 200 if is_plain else answer.status in (400, 401, 404)


@pytest.mark.parametrize(
    "target", ["http://127.0.0.1/api/v1/health", "http://evil.example/api/v1/server", "*", "evil.example:80", "x"]
)
def test_a_target_that_is_not_a_path_is_refused(door: Door, target: str) -> None:
    assert door.ask("GET", target, [BEARER]).status == 400


@pytest.mark.parametrize(
    "header",
    [
        "X-Original-URL: /api/v1/health",
        "X-Rewrite-URL: /api/v1/health",
        "X-Forwarded-Prefix: /api/v1/health",
        "X-Forwarded-For: 127.0.0.1",
        "X-HTTP-Method-Override: GET",
        "Forwarded: for=127.0.0.1",
    ],
)
def test_headers_of_proxies_change_nothing(door: Door, header: str) -> None:
    assert door.ask("GET", "/api/v1/server", [header]).status == 401
    assert door.ask("POST", "/api/v1/health", [header]).status == 401


def test_an_upgrade_to_a_websocket_without_a_token_is_refused(door: Door) -> None:
    headers = ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: eA=="]

    assert door.ask("GET", "/api/v1/server", headers).status == 401


def websocket_scope(**headers: str) -> dict[str, Any]:
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return {
        "type": "websocket",
        "path": "/live",
        "raw_path": b"/live",
        "query_string": b"",
        "headers": pairs,
        "server": ("127.0.0.1", 80),
    }


@pytest.mark.parametrize(
    ("headers", "is_let_in"),
    [
        ({"host": "127.0.0.1:80"}, False),
        ({"host": "127.0.0.1:80", "authorization": f"Bearer {TOKEN}"}, True),
        ({"host": "evil:80", "authorization": f"Bearer {TOKEN}"}, False),
        ({"host": "127.0.0.1:80", "authorization": f"Bearer {TOKEN}", "origin": "http://evil"}, False),
        ({"host": "127.0.0.1:80", "authorization": f"Bearer {TOKEN}", "sec_fetch_site": "cross-site"}, False),
    ],
)
def test_a_websocket_passes_the_same_checks_before_its_first_byte(
    server: Guarded, headers: dict[str, str], is_let_in: bool
) -> None:
    reached, sent = [], []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        reached.append(scope)

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    credentials = Credentials(token=TOKEN, store=server.services.store, signin=server.signin)
    guarded = guard(app, names=HostNames(80), credentials=credentials, activity=Activity())

    async def connect() -> None:
        await guarded(websocket_scope(**headers), receive, send)

    asyncio.run(connect())

    assert bool(reached) is is_let_in
    assert sent == ([] if is_let_in else [{"type": "websocket.close", "code": 1008}])


def a_run(server: Guarded, run_id: str, parent: str | None = None) -> Run:
    new = NewRun(key=run_id, id=run_id, workspace="default", experiment="e", parent_id=parent)
    return server.services.store.create_run(new)[0]


FAMILY = [("top", None), ("parent", "top"), ("sibling", "parent"), ("mine", "parent"), ("child", "mine")]


def test_a_runs_token_reaches_its_own_family_and_nothing_else(server: Guarded) -> None:
    for run_id, parent in (*FAMILY, ("stranger", None), ("cousin", "stranger")):
        a_run(server, run_id, parent)
    client = server.client(server.run_token("mine", 0))
    door, bearer = server.unix, [f"Authorization: Bearer {client.address.token}"]

    def status(method: str, path: str) -> int:
        return door.ask(method, "/api/v1" + path, bearer).status

    assert client.runs.get("mine").id == "mine"
    assert client.runs.get("child").id == "child"
    assert status("GET", "/runs/mine/files") == 200
    assert status("GET", "/workspaces") == 200
    assert {status("GET", f"/runs/{name}") for name, _ in FAMILY} == {200}
    assert {status("GET", f"/workspaces/default/runs?parent={name}") for name, _ in FAMILY} == {200}
    others = ("stranger", "cousin", "does-not-exist")
    assert {status("GET", f"/runs/{name}") for name in others} == {403}
    assert {status("GET", f"/workspaces/default/runs?parent={name}") for name in others} == {403}
    assert {status("POST", f"/runs/{name}/cancel") for name in (*others, "top", "sibling")} == {403}
    assert status("POST", "/runs/parent/cancel") == 200
    assert status("GET", "/workspaces/default/runs") == 403
    assert status("POST", "/server/stop") == 403
    assert door.ask("POST", "/api/v1/signin-codes", [*bearer, "Content-Type: application/json"], b"{}").status == 403


def test_a_runs_token_adds_to_its_parent_and_decides_nothing_about_it(server: Guarded) -> None:
    for run_id, parent in FAMILY:
        a_run(server, f"{run_id}2", parent and f"{parent}2")
    own = server.client(server.run_token("mine2", 0)).runs

    assert own.update("parent2", tags_set={"best": "0.9"}).tags == {"best": "0.9"}
    for name in ("top2", "sibling2"):
        with pytest.raises(NotAllowed):
            own.update(name, tags_set={"best": "1"})
    with pytest.raises(NotAllowed, match="the snapshot above it"):
        own.update("parent2", snapshot_id="00000000-0000-0000-0000-000000000000")
    with pytest.raises(NotAllowed):
        own.fail("parent2", code="x", message="y")
    with pytest.raises(NotAllowed):
        own.create(NewRun(key="n", id="n", workspace="default", experiment="e", parent_id="parent2"))
    with pytest.raises(NotAllowed):
        own.state("parent2", 0, RunStatus.FAILED)
    with pytest.raises(NotAllowed):
        own.ship("parent2", [])
    assert server.services.store.get_run("parent2").status is RunStatus.NOT_STARTED


def test_a_token_of_an_old_attempt_may_only_ship(server: Guarded) -> None:
    a_run(server, "again")
    old = server.run_token("again", 0)
    server.services.store.start_attempt("again", token_hash="f" * 64)
    headers = [f"Authorization: Bearer {old}"]
    json_type = [*headers, "Content-Type: application/json"]

    assert server.unix.ask("GET", "/api/v1/runs/again", headers).status == 403
    assert server.unix.ask("POST", "/api/v1/runs/again/heartbeat", json_type, b'{"attempt": 0}').status == 403
    assert (
        server.unix.ask("POST", "/api/v1/runs/again/state", json_type, b'{"attempt":0,"status":"Failed"}').status == 403
    )
    assert server.unix.ask("GET", "/api/v1/workspaces", headers).status == 403
    frames = [*headers, "Content-Type: application/x-runyard-frames"]
    assert server.unix.ask("POST", "/api/v1/runs/again/ship", frames).status == 200


def test_a_change_needs_one_of_our_content_types(door: Door) -> None:
    def status(content_type: str, *more: str) -> int:
        lines = [BEARER, *([f"Content-Type: {content_type}"] if content_type else []), *more]
        return door.ask("PUT", "/api/v1/workspaces/typed", lines, b"{}").status

    assert status("application/json") == 200
    assert status("application/json; charset=utf-8") == 200
    for other in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
        assert status(other) == 415
    assert status("application/json", "Content-Type: text/plain") == 415
    assert status("application/json", "Content-Encoding: gzip") == 415


def test_security_headers_are_on_every_answer(server: Guarded, door: Door) -> None:
    targets = [("/api/v1/health", []), ("/api/v1/server", [BEARER]), ("/nothing", [BEARER]), ("/api/v1/server", [])]
    for target, headers in [*targets, ("/", [BEARER])]:
        found = door.ask("GET", target, headers).headers

        assert found["x-content-type-options"] == "nosniff"
        assert found["referrer-policy"] == "no-referrer"
        assert found["x-frame-options"] == "DENY"
        assert found["cross-origin-opener-policy"] == "same-origin"
        assert found["cross-origin-resource-policy"] == "same-origin"
        assert found["cache-control"] == "no-store"
        policy = found["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe-inline" not in policy
        assert "server" not in found
        assert not [name for name in found if name.startswith("access-control-")]


def test_the_token_of_a_deleted_run_dies_within_seconds(server: Guarded) -> None:
    store, now = server.services.store, [0.0]
    token = server.run_token(a_run(server, "doomed").id, 0)
    credentials = Credentials(token=TOKEN, store=store, signin=server.signin, clock=lambda: now[0])

    def who() -> object:
        scope = {"headers": [(b"authorization", b"Bearer " + token.encode())]}
        return asyncio.run(credentials.find_principal(scope))

    assert who() is not None
    store.set_status("doomed", RunStatus.CANCELED)
    store.delete_run("doomed")
    now[0] += 5.1

    assert who() is None
