"""A browser's session: what its cookie alone opens, which every port of a host is sent, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any
from urllib.request import Request

import pytest

from runyard.core.errors import StoreUnavailable
from runyard.server.access.credentials import MOST, begin_session, end_session, is_live
from runyard.server.access.signin import TICKET_S, SigninSession
from runyard.store.memory.store import MemoryRunStore
from tests.server.browser_session import bare_cookie, both_halves, page_key
from tests.server.guarded import TOKEN, Guarded, serving
from tests.server.raw_http import Answer

JSON = "Content-Type: application/json"


@pytest.fixture
def server() -> Iterator[Guarded]:
    with serving() as running:
        yield running


def sign_in(server: Guarded, token: str = TOKEN) -> Answer:
    answer = server.tcp.ask("GET", server.client(token).server.signin_path("/"))
    assert answer.status == 200
    return answer


def origin(server: Guarded) -> str:
    return f"Origin: http://127.0.0.1:{server.port}"


def ticket(server: Guarded, path: str, *headers: str) -> Answer:
    body = json.dumps({"path": path}).encode()
    return server.tcp.ask("POST", "/api/v1/download-tickets", [*headers, origin(server), JSON], body)


class _Signed:
    """What `http.cookiejar` wants to see of an answer."""

    def __init__(self, cookie: str) -> None:
        self._cookie = cookie

    def info(self) -> Any:
        from email.message import Message

        found = Message()
        found["Set-Cookie"] = self._cookie
        return found


def test_what_a_browser_sends_to_another_port_of_this_host_opens_no_data_and_changes_nothing(server: Guarded) -> None:
    """The neighbour on port 19998 is sent the cookie, by the rules of cookies. The control: our page's own requests."""
    answer = sign_in(server)
    jar = CookieJar(DefaultCookiePolicy())
    jar.extract_cookies(_Signed(answer.headers["set-cookie"]), Request(f"http://127.0.0.1:{server.port}/"))  # type: ignore[arg-type]  # urllib's answers, in short
    elsewhere = Request("http://127.0.0.1:19998/")
    jar.add_cookie_header(elsewhere)
    stolen = f"Cookie: {elsewhere.get_header('Cookie')}"
    reads = ["/api/v1/server", "/api/v1/users/me", "/api/v1/workspaces", "/api/v1/openapi.json", "/%61pi/v1/users/me"]

    def change(*headers: str) -> int:
        return server.tcp.ask("PUT", "/api/v1/workspaces/stolen", [*headers, origin(server), JSON], b"{}").status

    assert stolen == f"Cookie: {bare_cookie(answer)}"
    assert {server.tcp.ask("GET", path, [stolen]).status for path in reads} == {401}
    assert change(stolen) == 401
    assert server.tcp.ask("POST", "/api/v1/signout", [stolen, origin(server)]).status == 401
    assert ticket(server, "/api/v1/server", stolen).status == 401
    assert server.tcp.ask("GET", "/", [stolen]).status == 200  # the empty page
    half = f"Runyard-Session: {page_key(answer)}"
    assert {server.tcp.ask("GET", path, [stolen, half]).status for path in reads} == {200}
    assert change(stolen, half) == 200


def test_a_key_opens_only_its_own_session(server: Guarded) -> None:
    first, second = sign_in(server), sign_in(server)

    def status(*headers: str) -> int:
        return server.tcp.ask("GET", "/api/v1/server", list(headers)).status

    cookie = f"Cookie: {bare_cookie(first)}"
    assert status(cookie, f"Runyard-Session: {page_key(second)}") == 401
    assert status(f"Runyard-Session: {page_key(first)}") == 401
    assert status(cookie, "Runyard-Session: ") == 401
    assert status(cookie, f"Runyard-Session: {page_key(first)}", f"Runyard-Session: {page_key(first)}") == 401
    assert status(cookie, f"Runyard-Session: {page_key(first)}") == 200


def test_a_download_needs_a_ticket_for_its_path_from_the_page(server: Guarded) -> None:
    answer = sign_in(server)
    cookie = f"Cookie: {bare_cookie(answer)}"
    path = "/api/v1/workspaces"
    found = json.loads(ticket(server, path, f"Cookie: {both_halves(answer)}").body)["ticket"]
    other = sign_in(server)

    def get(where: str, text: str, *headers: str) -> int:
        return server.tcp.ask("GET", f"{where}?ticket={text}", list(headers)).status

    assert get(path, found, cookie) == 200
    assert get("/api/v1/server", found, cookie) == 401
    assert get(path, found) == 401
    assert get(path, found, f"Cookie: {bare_cookie(other)}") == 401
    assert get(path, f"9{found}", cookie) == 401
    assert get(path, f"{found}&ticket={found}", cookie) == 401
    assert server.tcp.ask("PUT", f"{path}/x?ticket={found}", [cookie, origin(server), JSON], b"{}").status == 401
    server.clock[0] += TICKET_S + 1
    assert get(path, found, cookie) == 401


def test_a_token_of_ones_own_beside_a_stolen_cookie_makes_no_ticket_and_ends_no_session(server: Guarded) -> None:
    answer = sign_in(server)
    reader = server.client().users.add("rita", role="reader").token
    stolen = [f"Cookie: {bare_cookie(answer)}", f"Authorization: Bearer {reader}"]

    assert ticket(server, "/api/v1/server", *stolen).status == 400
    assert server.tcp.ask("POST", "/api/v1/signout", [*stolen, origin(server)]).status == 400
    assert server.tcp.ask("GET", "/api/v1/server", [f"Cookie: {both_halves(answer)}"]).status == 200


def test_a_page_that_lost_its_half_is_signed_in_again_by_a_new_link_of_the_same_user_only(server: Guarded) -> None:
    answer = sign_in(server)
    cookie = f"Cookie: {bare_cookie(answer)}"
    again = server.tcp.ask("GET", server.client().server.signin_path("/"), [cookie])
    others = server.client(server.client().users.add("mallory").token).server.signin_path("/")
    kept = server.tcp.ask("GET", others, [cookie])

    assert again.status == 200 and bare_cookie(again) != bare_cookie(answer)
    assert server.tcp.ask("GET", "/api/v1/server", [f"Cookie: {both_halves(again)}"]).status == 200
    assert kept.status == 303 and "set-cookie" not in kept.headers
    assert server.tcp.ask("GET", "/signin/" + "x" * 43, [cookie]).status == 303


def test_a_session_that_was_ended_stays_so_however_many_others_end_and_over_restarts(server: Guarded) -> None:
    """The flood that once brought one back: 10,200 sign-outs of another user."""
    bob, rita = (server.client().users.add(name, role="reader").token for name in ("bob", "rita"))
    signed_out, stays = sign_in(server, bob), sign_in(server, bob)
    cookie = f"Cookie: {both_halves(signed_out)}"
    assert server.tcp.ask("POST", "/api/v1/signout", [cookie, origin(server)]).status == 200
    store = server.services.store
    token_id = _session_of(server, sign_in(server, rita)).token_id
    for number in range(10_200):
        session = SigninSession(f"{number:032x}", 4e9, token_id)
        begin_session(store, session, now=1.0)
        end_session(store, session)

    assert not is_live(store, _session_of(server, signed_out))
    assert is_live(store, _session_of(server, stays))
    assert server.tcp.ask("GET", "/api/v1/server", [cookie]).status == 401
    assert server.tcp.ask("GET", "/api/v1/server", [f"Cookie: {both_halves(stays)}"]).status == 200


def _session_of(server: Guarded, answer: Answer) -> SigninSession:
    value = bare_cookie(answer).partition("=")[2]
    until, nonce, *token_id = value.split(".")[:-1]
    return SigninSession(nonce, float(until), int(token_id[0]) if token_id else None)


def test_who_signs_in_without_end_ends_only_their_own_oldest_sessions() -> None:
    store = MemoryRunStore()
    owners, first = SigninSession("o", 100.0), SigninSession("first", 100.0, 7)
    for session in (owners, first):
        begin_session(store, session, now=1.0)
    for number in range(MOST):
        begin_session(store, SigninSession(f"n{number}", 100.0, 7), now=1.0)

    assert not is_live(store, first)
    assert is_live(store, SigninSession("n0", 100.0, 7)) and is_live(store, owners)
    assert not is_live(store, SigninSession("n0", 100.0)) and not is_live(store, SigninSession("n0", 100.0, 8))


def test_expired_sessions_leave_the_list() -> None:
    store = MemoryRunStore()
    begin_session(store, SigninSession("old", 10.0), now=1.0)
    begin_session(store, SigninSession("new", 100.0), now=11.0)

    assert json.loads(store.find_value("sessions:owner") or "") == {"new": 100.0}


def test_a_store_that_takes_nothing_keeps_nobody_out(server: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise StoreUnavailable("The disk is full.")

    monkeypatch.setattr(server.services.store, "set_value", full)
    answer = sign_in(server)
    cookie = f"Cookie: {both_halves(answer)}"

    assert server.tcp.ask("GET", "/api/v1/server", [cookie]).status == 200
    monkeypatch.undo()
    assert server.tcp.ask("POST", "/api/v1/signout", [cookie, origin(server)]).status == 200
    assert server.tcp.ask("GET", "/api/v1/server", [cookie]).status == 401


def test_a_cookie_alone_opens_nothing_at_mlflows_door(server: Guarded) -> None:
    answer = server.tcp.ask("GET", server.signin.make_path("/"))
    path, cookie = "/mlflow/default/health", f"Cookie: {bare_cookie(answer)}"

    assert server.tcp.ask("GET", path, [cookie]).status == 401
    assert server.tcp.ask("GET", path, [cookie, f"Runyard-Session: {page_key(answer)}"]).status != 401
