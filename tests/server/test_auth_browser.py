"""Browsers: whose page asks, under which name, and how a person signs in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from runyard.core.errors import InvalidArgument
from runyard.server.access.signin import CODE_S, COOKIE_S, MOST_CODES, Pass, Signin, clean_next
from tests.server.browser_session import bare_cookie, both_halves, led_to, page_key
from tests.server.guarded import BEARER, Guarded, serving
from tests.server.raw_http import Answer

JSON = "Content-Type: application/json"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


@pytest.fixture(scope="module")
def server() -> Iterator[Guarded]:
    with serving() as running:
        yield running


def cookie_of(answer: Answer) -> str:
    return f"Cookie: {both_halves(answer)}"


def sign_in(server: Guarded) -> str:
    return cookie_of(server.tcp.ask("GET", server.signin.make_path("/")))


def own_origin(server: Guarded) -> str:
    return f"Origin: http://127.0.0.1:{server.port}"


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "127.0.0.1",
        "127.0.0.1:1",
        "127.0.0.1:{port}.evil.example",
        "127.0.0.1.evil.example:{port}",
        "10.evil.example:{port}",
        "LOCALHOST:{port}",
        "localhost.:{port}",
        "user@127.0.0.1:{port}",
        "2130706433:{port}",
        "0.0.0.0:{port}",
        "[::1]:{port}",
        "runyard",
        "",
    ],
)
def test_a_foreign_name_is_refused_whatever_the_token(server: Guarded, method: str, host: str) -> None:
    status = server.tcp.ask(method, "/api/v1/server", [BEARER], host=host.format(port=server.port)).status

    assert status == 421


def test_own_names_are_answered_on_their_own_socket_only(server: Guarded) -> None:
    port = server.port

    assert server.tcp.ask("GET", "/api/v1/server", [BEARER], host=f"127.0.0.1:{port}").status == 200
    assert server.tcp.ask("GET", "/api/v1/server", [BEARER], host=f"localhost:{port}").status == 200
    assert server.unix.ask("GET", "/api/v1/server", [BEARER], host="runyard").status == 200
    assert server.unix.ask("GET", "/api/v1/server", [BEARER], host=f"127.0.0.1:{port}").status == 421


def test_the_public_route_checks_the_name_too(server: Guarded) -> None:
    assert server.tcp.ask("GET", "/api/v1/health", host="evil.example").status == 421
    assert server.tcp.ask("GET", "/api/v1/health").status == 200


def test_two_or_no_host_headers_are_refused(server: Guarded) -> None:
    line, host = b"GET /api/v1/health HTTP/1.1\r\n", f"Host: 127.0.0.1:{server.port}\r\n".encode()

    assert server.tcp.send(line + host + b"\r\n").status == 200
    assert server.tcp.send(line + host + host + b"\r\n").status == 421
    assert server.tcp.send(line + b"\r\n").status == 421


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "http://evil.example",
        "http://127.0.0.1:1",
        "https://127.0.0.1:{port}",
        "http://127.0.0.1:{port}.evil.example",
    ],
)
def test_a_page_of_another_origin_is_refused(server: Guarded, method: str, origin: str) -> None:
    text = origin.format(port=server.port)
    cookie = sign_in(server)

    assert server.tcp.ask(method, "/api/v1/server", [BEARER, f"Origin: {text}"]).status == 403
    assert server.tcp.ask(method, "/api/v1/server", [cookie, f"Origin: {text}"]).status == 403


def test_changes_by_cookie_need_our_own_origin(server: Guarded) -> None:
    cookie = sign_in(server)
    localhost = f"localhost:{server.port}"

    def status(*headers: str, method: str = "PUT", host: str | None = None) -> int:
        path = "/api/v1/workspaces/by-cookie"
        return server.tcp.ask(method, path, [cookie, JSON, *headers], b"{}", host=host).status

    assert status(own_origin(server)) == 200
    assert status(f"Origin: http://{localhost}", host=localhost) == 200
    assert status(f"Origin: http://{localhost}") == 403
    assert {status(method=method) for method in ("PUT", "POST", "PATCH", "DELETE")} == {403}
    assert status(own_origin(server), own_origin(server).replace("127", "128")) == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site", "Cross-Site", "weird"])
def test_fetch_metadata_of_another_site_is_refused(server: Guarded, site: str) -> None:
    header = f"Sec-Fetch-Site: {site}"

    assert server.tcp.ask("GET", "/api/v1/server", [BEARER, header]).status == 403
    assert server.tcp.ask("GET", "/api/v1/server", [BEARER, header, "Sec-Fetch-Mode: no-cors"]).status == 403
    frame = ["Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"]
    assert server.tcp.ask("GET", "/api/v1/server", [BEARER, header, *frame]).status == 403
    form = ["Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"]
    assert server.tcp.ask("POST", "/api/v1/server/stop", [BEARER, header, *form]).status == 403


def test_our_own_pages_and_typed_addresses_pass(server: Guarded) -> None:
    for site in ("same-origin", "none"):
        assert server.tcp.ask("GET", "/api/v1/server", [BEARER, f"Sec-Fetch-Site: {site}"]).status == 200


def test_no_answer_allows_another_origin_to_read(server: Guarded) -> None:
    headers = ["Origin: http://evil.example", "Access-Control-Request-Method: PUT"]
    answer = server.tcp.ask("OPTIONS", "/api/v1/server", [BEARER, *headers])

    assert answer.status == 403
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_a_sign_in_path_works_once_and_its_cookie_from_then_on(server: Guarded) -> None:
    path = server.client().server.signin_path("/runs/some_run?x=1")
    first = server.tcp.ask("GET", path)
    second = server.tcp.ask("GET", path)
    cookie = cookie_of(first)

    assert first.status == 200
    assert led_to(first) == "/runs/some_run?x=1"
    assert second.status == 401
    assert "set-cookie" not in second.headers
    assert server.tcp.ask("GET", "/api/v1/server", [cookie]).status == 200
    assert server.tcp.ask("GET", path, [cookie]).status == 303
    assert "set-cookie" not in server.tcp.ask("GET", path, [cookie]).headers


def test_the_cookie_is_kept_from_scripts_and_other_sites_and_named_after_the_server(server: Guarded) -> None:
    text = server.tcp.ask("GET", server.signin.make_path("/")).headers["set-cookie"]
    name, _, rest = text.partition("=")

    assert name == f"runyard_{server.services.server_id}"
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= {part.strip() for part in rest.split(";")}
    assert "Domain" not in rest


def test_codes_and_cookies_end(server: Guarded) -> None:
    path = server.signin.make_path("/")
    cookie = sign_in(server)
    server.clock[0] += CODE_S + 1
    assert server.tcp.ask("GET", path).status == 401
    assert server.tcp.ask("GET", "/api/v1/server", [cookie]).status == 200
    server.clock[0] += COOKIE_S
    assert server.tcp.ask("GET", "/api/v1/server", [cookie]).status == 401


def test_cookies_that_we_did_not_sign_are_refused(server: Guarded) -> None:
    signed_in = server.tcp.ask("GET", server.signin.make_path("/"))
    name, _, value = bare_cookie(signed_in).partition("=")
    key = f"Runyard-Session: {page_key(signed_in)}"

    def status(cookie: str) -> int:
        return server.tcp.ask("GET", "/api/v1/server", [f"Cookie: {cookie}", key]).status

    until, nonce, signature = value.split(".")
    forged = [
        f"{int(until) + 1}.{nonce}.{signature}",
        f"{until}.{nonce}.{'0' * 64}",
        f"{until}.{nonce}.",
        f"{until}.{nonce}",
        "",
        "..",
        "inf.x." + signature,
        value + "0",
        "\xff" * 20,
    ]

    assert {status(f"{name}={text}") for text in forged} == {401}
    assert status(f"{name}={value}; {name}={value}") == 401
    assert status(f"other_{name}={value}") == 401
    assert status(f"a=b; {name}={value}; c=d") == 200


def test_a_cookie_of_another_server_is_refused(server: Guarded) -> None:
    other = Signin(token="ryt_" + "6" * 64, server_id=server.services.server_id, clock=lambda: server.clock[0])
    renamed = Signin(token="ryt_" + "5" * 64, server_id="other", clock=lambda: server.clock[0])
    for signin in (other, renamed):
        session = signin.make_session()
        value = signin.cookie_of(session).partition(";")[0].partition("=")[2]
        halves = [f"Cookie: {server.signin.cookie_name}={value}", f"Runyard-Session: {signin.page_key_of(session)}"]

        assert server.tcp.ask("GET", "/api/v1/server", halves).status == 401
        assert server.tcp.ask("GET", "/", halves[:1]).status == 401


def test_a_browser_does_not_get_in_by_the_unix_socket(server: Guarded) -> None:
    path = server.signin.make_path("/")

    assert server.unix.ask("GET", path).status == 401
    assert server.unix.ask("GET", "/api/v1/server", [sign_in(server)]).status == 401
    assert server.tcp.ask("GET", path).status == 200


NAVIGATION = ["Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document", "Accept: text/html"]
FROM_ELSEWHERE = ["Sec-Fetch-Site: cross-site", *NAVIGATION]
FROM_OUR_PAGE = ["Sec-Fetch-Site: same-origin", *NAVIGATION]


def test_a_link_followed_from_another_page_signs_in_by_a_page_of_our_own(server: Guarded) -> None:
    path = server.signin.make_path('/a?b=1&c="')
    answers = [server.tcp.ask("GET", path, FROM_ELSEWHERE) for _ in range(2)]

    assert {answer.status for answer in answers} == {200}
    assert not any("set-cookie" in answer.headers for answer in answers)
    assert b'<meta http-equiv="refresh" content="0">' in answers[0].body
    followed = server.tcp.ask("GET", path, FROM_OUR_PAGE)
    assert (followed.status, led_to(followed)) == (200, "/a?b=1&c=%22")
    assert server.tcp.ask("GET", "/api/v1/server", [cookie_of(followed)]).status == 200


def test_a_page_asked_for_from_elsewhere_is_asked_for_again_from_ours(server: Guarded) -> None:
    """Its strict cookie is left out at first; without one the second answer is no third try."""
    first = server.tcp.ask("GET", "/runs/x", FROM_ELSEWHERE)
    second = server.tcp.ask("GET", "/runs/x", FROM_OUR_PAGE)

    assert (first.status, second.status) == (401, 401)
    assert b"refresh" in first.body and b"refresh" not in second.body
    assert b"runyard studio x" in second.body


@pytest.mark.parametrize(
    ("path", "command"),
    [
        ("/", b"<pre>runyard studio</pre>"),
        ("/runs/exp_1-2", b"<pre>runyard studio exp_1-2</pre>"),
        ("/runs/%3Cb%3E", b"<pre>runyard studio</pre>"),
        ("/runs/a/b", b"<pre>runyard studio</pre>"),
        ("/compare?run=a", b"<pre>runyard studio</pre>"),
    ],
)
def test_a_person_without_a_cookie_is_told_how_to_sign_in(server: Guarded, path: str, command: bytes) -> None:
    answer = server.tcp.ask("GET", path, ["Accept: text/html,application/xhtml+xml"])

    assert answer.status == 401
    assert answer.headers["content-type"].startswith("text/html")
    assert command in answer.body and b"used before" not in answer.body
    assert "'unsafe" not in answer.headers["content-security-policy"]


def test_a_link_that_was_used_says_so(server: Guarded) -> None:
    path = server.signin.make_path("/")
    server.tcp.ask("GET", path)
    answer = server.tcp.ask("GET", path, ["Accept: text/html"])

    assert answer.status == 401 and b"used before" in answer.body


@pytest.mark.parametrize("accept", [[], ["Accept: */*"], ["Accept: application/json"]])
def test_a_program_without_a_token_gets_json(server: Guarded, accept: list[str]) -> None:
    answer = server.tcp.ask("GET", "/runs/x", accept)

    assert answer.status == 401
    assert answer.headers["content-type"] == "application/json"
    assert json.loads(answer.body)["error"]["code"] == "NotAuthenticated"


AWAY = [
    "http://evil.example",
    "//evil.example",
    "///evil.example",
    "/\\evil.example",
    "\\\\evil.example",
    "/%5cevil.example",
    "/%2fevil.example",
    "/%252fevil.example",
    "/%255cevil.example",
    "/\tevil",
    "/a\r\nSet-Cookie: x=1",
    "/a%0d%0aSet-Cookie:x=1",
    "/%00",
    "javascript:alert(1)",
    "evil",
    "",
    " /a",
    "/" + "a" * 3000,
]


@pytest.mark.parametrize("target", AWAY)
def test_a_page_elsewhere_is_never_what_comes_next(server: Guarded, target: str) -> None:
    with pytest.raises(InvalidArgument):
        clean_next(target)
    with pytest.raises(InvalidArgument):
        server.client().server.signin_path(target)

    path = server.signin.make_path("/").partition("?")[0]
    answer = server.tcp.ask("GET", f"{path}?next={quote(target, safe='')}")
    assert (answer.status, led_to(answer)) == (200, "/")


@pytest.mark.parametrize("target", ["/", "/runs/a_1?x=%20y#z", "/runs/ü", "/a%20b", "/files/a;b"])
def test_a_page_of_ours_is(target: str) -> None:
    assert clean_next(target).isascii()


def test_codes_are_random_and_only_some_are_kept(server: Guarded) -> None:
    signin = Signin(token="t", server_id="s", clock=lambda: 0.0)
    codes = [signin.make_path("/").removeprefix("/signin/").partition("?")[0] for _ in range(1500)]

    assert {len(code) for code in codes} == {43}
    assert len(set(codes)) == 1500
    assert not signin.take(codes[0])
    assert signin.take(codes[-1])
    assert not signin.take(codes[-1])


def test_codes_of_one_token_push_out_only_its_own(server: Guarded) -> None:
    """A reader made 1,005 codes, and the owner's unused link was dead."""
    signin = Signin(token="t", server_id="s", clock=lambda: 0.0)

    def make(token_id: int | None) -> str:
        return signin.make_path("/", token_id).removeprefix("/signin/").partition("?")[0]

    owners, others = make(None), make(7)
    readers = [make(8) for _ in range(MOST_CODES + 5)]

    assert signin.find(owners) is not None and signin.find(others) is not None
    assert [signin.find(code) is not None for code in readers[:6]] == [False] * 5 + [True]
    assert signin.take(readers[-1]) == Pass(8)
