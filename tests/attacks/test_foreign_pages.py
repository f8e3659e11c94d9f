"""A53 to A58: pages of other sites, under any name, in any disguise, change nothing and read nothing.

What one spelling does is in tests/server/test_auth_browser.py; here every route is tried, and each attack's control is
the same app without those checks (`unguarded`), where it bites.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from runyard.client.client import Client
from runyard.client.transport import Transport
from runyard.server.access.activity import Activity
from runyard.server.access.credentials import Credentials, begin_session
from runyard.server.access.guard import guard
from runyard.server.access.hosts import HostNames
from runyard.server.access.signin import Signin
from runyard.store.memory.store import MemoryRunStore
from tests.attacks.conftest import Team
from tests.attacks.routes import Route, live_routes
from tests.attacks.unguarded import take_checks_out, unguarded
from tests.attacks.wire import Answer, Wire
from tests.server.browser_session import both_halves
from tests.server.guarded import TOKEN, Guarded

Headers = list[tuple[str, str]]
JSON = ("Content-Type", "application/json")
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
EVIL = "http://evil.example"
FOREIGN_HOSTS = (
    "evil.example",
    "evil.example:{port}",
    "10.evil.example:{port}",
    "127.0.0.1.evil.example:{port}",
    "127.0.0.1:{port}.evil.example",
    "127.0.0.1:{port}@evil.example",
    "127.0.0.1:1",
    "127.0.0.1:0{port}",
    "127.0.0.1",
    "127.1:{port}",
    "0x7f.1:{port}",
    "2130706433:{port}",
    "0.0.0.0:{port}",
    "localhost.:{port}",
    "LOCALHOST:{port}",
    "[::1]:{port}",
    "[::ffff:127.0.0.1]:{port}",
    "runyard",
    "",
)
LOOKALIKE_ORIGINS = (
    EVIL,
    "null",
    "https://127.0.0.1:{port}",
    "http://127.0.0.1",
    "http://127.0.0.1:1",
    "http://127.0.0.1:{port}0",
    "http://127.0.0.1:{port}.evil.example",
    "http://evil.example#http://127.0.0.1:{port}",
    "http://127.0.0.1:{port}/",
    "http://user@127.0.0.1:{port}",
    "HTTP://127.0.0.1:{port}",
    "http://localhost:{port}",  # another origin than the one that was called
    "",
    "*",
)
SIMPLE_TYPES = ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", None)
AGENTS = ("", "curl/8", "python-requests/2", "Mozilla/4.0 (compatible; MSIE 6.0)", "runyard", "A" * 3000)
CROSS_SITE: tuple[Headers, ...] = (
    [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "no-cors"), ("Sec-Fetch-Dest", "empty")],
    [("Sec-Fetch-Site", "same-site"), ("Sec-Fetch-Mode", "cors"), ("Sec-Fetch-Dest", "empty")],
    [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "navigate"), ("Sec-Fetch-Dest", "iframe")],
    [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "no-cors"), ("Sec-Fetch-Dest", "script")],
    [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "no-cors"), ("Sec-Fetch-Dest", "image")],
    [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "websocket"), ("Sec-Fetch-Dest", "websocket")],
)


@pytest.fixture
def weak() -> Iterator[Guarded]:
    """The control. Its checks are out in this process only; `team` is another."""
    with unguarded() as found:
        yield found


@pytest.fixture(scope="module")
def cookie(team: Team) -> tuple[str, str]:
    return sign_in(team.wire, team.client.server.signin_path("/"))


@pytest.fixture
def weak_cookie(weak: Guarded) -> tuple[str, str]:
    return sign_in(wire_of(weak), weak.signin.make_path("/"))


def wire_of(guarded: Guarded) -> Wire:
    return Wire("127.0.0.1", guarded.port)


def sign_in(wire: Wire, path: str) -> tuple[str, str]:
    return "Cookie", both_halves(wire.send("GET", path))


def changing_routes(team: Team) -> list[Route]:
    found = [route for route in live_routes(team) if route.method not in ("GET", "HEAD", "OPTIONS")]
    assert len(found) >= 40
    return found


def state_of(team: Team) -> Any:
    """Return everything that an attack could have changed."""
    client = team.client
    return (
        client.workspaces.list(),
        client.experiments.list("default", view="All"),
        [(run.id, run.status, run.tags, run.desired) for run in client.runs.iter("default")],
        [(user.name, user.role, [token.label for token in user.tokens]) for user in client.users.list()],
        team.unix.send("GET", "/api/v1/workspaces/default/secrets", headers=team.bearer()).body,
    )


def test_a53_every_route_refuses_a_foreign_name_with_a_good_token(team: Team) -> None:
    before = state_of(team)
    port = team.wire.port
    routes = [*live_routes(team), Route("GET", "/health")]
    statuses = set()
    for index, route in enumerate(routes):
        host = FOREIGN_HOSTS[index % len(FOREIGN_HOSTS)].format(port=port)
        statuses.add(team.wire.send(route.method, route.path(), headers=[*team.bearer(), JSON], host=host).status)

    assert statuses == {421}
    assert state_of(team) == before


def test_a53_every_spelling_by_every_method(team: Team, weak: Guarded) -> None:
    def put(wire: Wire, token: str, host: str, method: str) -> int:
        headers = [("Authorization", f"Bearer {token}"), JSON]
        return wire.send(method, "/api/v1/workspaces/a53", headers=headers, body=b"{}", host=host).status

    hosts = [host.format(port=team.wire.port) for host in FOREIGN_HOSTS]
    statuses = {put(team.wire, team.token, host, method) for host in hosts for method in METHODS}

    assert statuses == {421}
    assert "a53" not in [one.name for one in team.client.workspaces.list()]
    assert put(wire_of(weak), TOKEN, "evil.example", "PUT") == 200
    assert "a53" in [one.name for one in weak.client().workspaces.list()]


def test_a53_two_names_no_name_and_a_name_in_the_target(team: Team, weak: Guarded) -> None:
    own, token = team.wire.host_header, team.token
    rest = f"Authorization: Bearer {token}\r\nConnection: close\r\n\r\n"
    raw = {
        "two": f"GET /api/v1/server HTTP/1.1\r\nHost: {own}\r\nHost: evil.example\r\n{rest}",
        "two, ours last": f"GET /api/v1/server HTTP/1.1\r\nHost: evil.example\r\nHost: {own}\r\n{rest}",
        "none": f"GET /api/v1/server HTTP/1.1\r\n{rest}",
        "none, HTTP/1.0": f"GET /api/v1/server HTTP/1.0\r\n{rest}",
        "absolute, foreign": f"GET http://evil.example/api/v1/server HTTP/1.1\r\nHost: {own}\r\n{rest}",
        "absolute, ours": f"GET http://{own}/api/v1/server HTTP/1.1\r\nHost: evil.example\r\n{rest}",
        "folded": f"GET /api/v1/server HTTP/1.1\r\nHost: evil.example\r\n {own}\r\n{rest}",
        "forwarded": f"GET /api/v1/server HTTP/1.1\r\nHost: evil.example\r\nX-Forwarded-Host: {own}\r\n"
        f"Forwarded: host={own}\r\n{rest}",
    }
    answers = {name: team.wire.raw(text.encode()) for name, text in raw.items()}

    assert {name: answer.status for name, answer in answers.items() if answer.status not in (400, 421)} == {}
    assert not any(b'"home"' in answer.body for answer in answers.values())
    bitten = wire_of(weak).raw(raw["forwarded"].replace(token, TOKEN).encode())
    assert bitten.status == 200 and b'"home"' in bitten.body


def test_a54_simple_requests_with_the_cookie_change_nothing_on_any_route(
    team: Team, cookie: tuple[str, str], weak: Guarded, weak_cookie: tuple[str, str]
) -> None:
    before = state_of(team)
    statuses = set()
    for route in changing_routes(team):
        path = route.path(run_id=team.first.id, name="reader")
        for kind in SIMPLE_TYPES:
            headers = [cookie, ("Origin", EVIL), *([("Content-Type", kind)] if kind else [])]
            statuses.add(team.wire.send(route.method, path, headers=headers, body=b'{"x": "="}').status)
        statuses.add(team.wire.send(route.method, path, headers=[cookie, JSON], body=b"{}").status)

    assert statuses == {403}
    assert state_of(team) == before
    headers = [weak_cookie, ("Origin", EVIL), ("Content-Type", "text/plain")]
    assert wire_of(weak).send("PUT", "/api/v1/workspaces/a54", headers=headers, body=b"{}").status == 200
    assert "a54" in [one.name for one in weak.client().workspaces.list()]


def test_a54_a_body_of_a_forms_type_is_refused_from_our_own_page_too(team: Team, cookie: tuple[str, str]) -> None:
    """The second wall: were an origin ever let in by mistake, only JSON has an effect."""
    own = ("Origin", f"http://{team.wire.host_header}")

    def put(kind: str) -> int:
        headers = [cookie, own, ("Content-Type", kind)]
        return team.wire.send("PUT", "/api/v1/workspaces/default", headers=headers, body=b"{}").status

    assert {put(kind) for kind in SIMPLE_TYPES if kind} == {415}
    assert put("application/json") == 200


def test_a55_fetch_metadata_counts_whatever_the_browser_calls_itself(
    team: Team, cookie: tuple[str, str], weak: Guarded, weak_cookie: tuple[str, str]
) -> None:
    def get(wire: Wire, signed: tuple[str, str], agent: str, site: Headers) -> Answer:
        return wire.send("GET", "/api/v1/server", headers=[signed, ("User-Agent", agent), *site])

    answers = [get(team.wire, cookie, agent, site) for agent in AGENTS for site in CROSS_SITE]
    assert {answer.status for answer in answers} == {403}
    assert not any(b'"home"' in answer.body for answer in answers)
    assert get(team.wire, cookie, "", []).status == 200
    assert get(wire_of(weak), weak_cookie, AGENTS[0], CROSS_SITE[0]).status == 200


def test_a55_an_iframe_an_image_or_a_script_gets_no_page_either(team: Team, cookie: tuple[str, str]) -> None:
    pages = ("/", "/runs", f"/runs/{team.first.id}", f"/api/v1/runs/{team.first.id}", "/api/v1/health")

    assert {team.wire.send("GET", page, headers=[cookie, *site]).status for page in pages for site in CROSS_SITE} == {
        403
    }
    assert {team.wire.send("GET", page, headers=[cookie]).status for page in pages} == {200}


def test_a56_no_answer_lets_another_origin_read(
    team: Team, cookie: tuple[str, str], weak: Guarded, weak_cookie: tuple[str, str]
) -> None:
    origins = [origin.format(port=team.wire.port) for origin in LOOKALIKE_ORIGINS]
    asked = [("Access-Control-Request-Method", "PUT"), ("Access-Control-Request-Headers", "authorization")]
    answers = []
    for origin in origins:
        for extra in ([cookie], team.bearer(), []):
            headers = [*extra, ("Origin", origin)]
            answers += [team.wire.send("GET", "/api/v1/server", headers=headers)]
            answers += [team.wire.send("OPTIONS", "/api/v1/workspaces/x", headers=[*headers, *asked])]
    own = team.wire.send("GET", "/api/v1/server", headers=[cookie, ("Origin", f"http://{team.wire.host_header}")])

    assert {answer.status for answer in answers} == {403}
    for answer in (*answers, own):
        assert not [name for name in answer.headers if name.startswith("access-control")]
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert own.status == 200
    assert wire_of(weak).send("GET", "/api/v1/server", headers=[weak_cookie, ("Origin", "null")]).status == 200


def test_a57_another_sites_web_socket_is_not_opened(team: Team, cookie: tuple[str, str]) -> None:
    upgrade = [
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ]
    paths = ("/", "/api/v1/events", f"/api/v1/runs/{team.first.id}", "/ws")
    for origin in (EVIL, "null", f"http://{team.wire.host_header}"):
        for path in paths:
            answer = team.wire.send("GET", path, headers=[cookie, ("Origin", origin), *upgrade])
            assert answer.status != 101
            assert origin.startswith(f"http://{team.wire.host_header}") or answer.status == 403


GOOD_ORIGIN = b"http://127.0.0.1:8787"


@pytest.mark.parametrize("origin", [b"http://evil.example", b"null", b"http://127.0.0.1:87870", None])
def test_a57_the_guard_asks_a_web_socket_where_it_is_from(
    origin: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No route has one; were there one, this is its wall. Controls: our own origin, and no wall."""
    assert reaches_app(origin) == [{"type": "websocket.close", "code": 1008}]
    assert reaches_app(GOOD_ORIGIN) == ["reached"]
    take_checks_out(monkeypatch)
    assert reaches_app(origin) == ["reached"]


def reaches_app(origin: bytes | None) -> list[Any]:
    signin, store = Signin(token=TOKEN, server_id="s"), MemoryRunStore()
    session = signin.make_session()
    begin_session(store, session, now=0)
    headers = [(b"host", b"127.0.0.1:8787"), (b"cookie", signin.cookie_of(session).partition(";")[0].encode())]
    headers += [(b"origin", origin)] if origin is not None else []
    scope = {"type": "websocket", "headers": headers, "path": "/", "raw_path": b"/", "server": ("127.0.0.1", 8787)}
    seen: list[Any] = []

    async def app(*_: Any) -> None:
        seen.append("reached")

    async def send(message: Any) -> None:
        seen.append(message)

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    credentials = Credentials(token=TOKEN, store=store, signin=signin)
    asyncio.run(guard(app, names=HostNames(8787), credentials=credentials, activity=Activity())(scope, receive, send))
    return seen


ELSEWHERE = [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "navigate"), ("Sec-Fetch-Dest", "document")]
OUR_PAGE = [("Sec-Fetch-Site", "same-origin"), *ELSEWHERE[1:]]


def test_a58_no_page_elsewhere_signs_a_browser_in_as_somebody_else(team: Team, weak: Guarded) -> None:
    """An attacker's own link on an attacker's page: the browser asks first, and a session that is there stays."""
    theirs = Client(Transport(replace(team.client.address, token=team.tokens["user"]))).server.signin_path("/")
    led = team.wire.send("GET", theirs, headers=[*ELSEWHERE, ("Accept", "text/html")])

    assert led.status == 200 and "set-cookie" not in led.headers
    assert b"Sign in as user?" in led.body and b"refresh" not in led.body
    mine = sign_in(team.wire, team.client.server.signin_path("/"))
    kept = team.wire.send("GET", theirs, headers=[*OUR_PAGE, mine])
    assert kept.status == 303 and "set-cookie" not in kept.headers
    agreed = team.wire.send("GET", theirs, headers=OUR_PAGE)  # who presses the button means it
    assert agreed.status == 200 and "set-cookie" in agreed.headers
    bitten = wire_of(weak).send("GET", weak.signin.make_path("/", token_id=7), headers=ELSEWHERE)
    assert bitten.status == 200 and "set-cookie" in bitten.headers


def test_a58_signing_out_and_adding_users_is_done_by_our_own_page_only(
    team: Team, weak: Guarded, weak_cookie: tuple[str, str]
) -> None:
    cookie = sign_in(team.wire, team.client.server.signin_path("/"))
    own = ("Origin", f"http://{team.wire.host_header}")
    calls = {"/api/v1/signout": b"", "/api/v1/users": b'{"name": "mallory", "role": "admin"}'}
    calls["/api/v1/signin-codes"] = b'{"next": "/"}'

    def status(path: str, *extra: tuple[str, str]) -> int:
        return team.wire.send("POST", path, headers=[cookie, JSON, *extra], body=calls[path]).status

    foreign: list[Headers] = [[("Origin", EVIL)], [("Origin", "null")], [], *CROSS_SITE]
    assert {status(path, *extra) for path in calls for extra in foreign} == {403}
    assert "mallory" not in [user.name for user in team.client.users.list()]
    assert team.wire.send("GET", "/api/v1/users/me", headers=[cookie]).status == 200
    assert [status(path, own) for path in reversed(calls)] == [200, 201, 200]
    assert team.wire.send("GET", "/api/v1/users/me", headers=[cookie]).status == 401
    team.client.users.remove("mallory")
    bitten = wire_of(weak).send("POST", "/api/v1/signout", headers=[weak_cookie, ("Origin", EVIL)])
    assert bitten.status == 200
