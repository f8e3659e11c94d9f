"""Users of a team's server: made, listed, changed and removed, and who each of their tokens opens the door for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest

from runyard.client.client import Client
from runyard.core.errors import Conflict, InvalidArgument, NotAllowed, NotAuthenticated, NotFound
from runyard.core.names import make_uuid
from runyard.core.records import NewRun
from runyard.core.specs import RunSpec
from runyard.server.access.credentials import CACHED_S, MOST_TRIES, WINDOW_S, Credentials, LoginThrottle
from runyard.server.access.permissions import Owner, Principal, UserPrincipal
from tests.server.browser_session import bare_cookie, both_halves
from tests.server.conftest import Served
from tests.server.guarded import TOKEN, Guarded, serving


@pytest.fixture
def server() -> Iterator[Guarded]:
    with serving() as running:
        yield running


def a_user(server: Guarded, name: str = "ada", role: str = "user") -> Client:
    return server.client(server.client().users.add(name, role=role).token)


def test_a_token_is_told_once_and_only_its_hash_is_kept(server: Guarded) -> None:
    minted = server.client().users.add("ada", role="reader", label="laptop")
    told = json.dumps(server.client().transport.request("GET", "/users").json())

    assert minted.token.startswith("ryu_") and len(bytes.fromhex(minted.token[4:])) == 32
    assert minted.token not in told and minted.token not in repr(minted)
    assert [(user.name, user.role, user.tokens[0].label) for user in server.client().users.list()] == [
        ("ada", "reader", "laptop")
    ]
    assert server.client(minted.token).users.me() == ("ada", "reader", None)
    assert server.client().users.list()[0].tokens[0].seen_at is not None
    assert server.client().users.me() == (None, "owner", None)


def test_names_roles_and_labels_are_checked(server: Guarded) -> None:
    users = server.client().users
    users.add("ada")
    with pytest.raises(Conflict, match="users rotate ada"):
        users.add("ada")
    for name in ("", "a/b", "-x", "a b", "x" * 65, "../x", "é"):
        with pytest.raises(InvalidArgument):
            users.add(name)
    with pytest.raises(InvalidArgument, match="admin, user, reader"):
        users.add("bob", role="root")
    with pytest.raises(InvalidArgument, match="label"):
        users.add_token("ada", "a/b")
    with pytest.raises(NotFound, match="bob"):
        users.set_role("bob", "admin")


def test_each_token_is_its_own_and_rotating_leaves_one(server: Guarded) -> None:
    users = server.client().users
    first, second = users.add("ada").token, users.add_token("ada", "laptop").token
    assert server.client(second).users.me().name == "ada"
    users.remove_token("ada", "first")
    third = users.rotate("ada").token

    assert len({first, second, third}) == 3
    assert server.client(third).users.me().name == "ada"
    with pytest.raises(NotAuthenticated):
        server.client(first).users.me()
    assert [token.label for token in users.list()[0].tokens] == ["first"]


def test_roles_say_who_may_do_what(server: Guarded) -> None:
    admin, user, reader = (a_user(server, role, role) for role in ("admin", "user", "reader"))

    for may_not in (user, reader):
        for act in (may_not.users.list, may_not.server.stop, may_not.server.collect, partial(may_not.users.add, "x")):
            with pytest.raises(NotAllowed, match="that takes admin"):
                act()
    with pytest.raises(NotAllowed, match="`runyard users role reader user`"):
        reader.workspaces.put("mine")
    user.workspaces.put("mine")
    assert [workspace.name for workspace in reader.workspaces.list()] == ["default", "mine"]
    admin.users.set_role("reader", "admin")
    assert admin.server.collect().removed == 0


def test_a_run_says_who_submitted_it_whatever_the_request_claims_and_so_do_its_children(served: Served) -> None:
    ada = served.as_admin("ada")  # of users, `local` is closed
    claim = NewRun(make_uuid(), "mine", "default", "exp", RunSpec(script="train.py"), submitted_by="bob")
    run = ada.runs.create(claim).run
    child = replace(claim, key=make_uuid(), id="child", parent_id="mine")

    assert run.submitted_by == "ada"
    assert served.as_run("mine").runs.create(child).run.submitted_by == "ada"
    assert served.client.runs.get(served.submit("owners", submitted_by="root")).submitted_by == "root"


def test_a_browser_signed_in_by_a_users_link_is_that_user(server: Guarded) -> None:
    reader = a_user(server, role="reader")
    answer = server.tcp.ask("GET", reader.server.signin_path("/"))
    cookie = f"Cookie: {both_halves(answer)}"
    changes = [cookie, f"Origin: http://127.0.0.1:{server.port}", "Content-Type: application/json"]

    assert json.loads(server.tcp.ask("GET", "/api/v1/users/me", [cookie]).body)["name"] == "ada"
    assert server.tcp.ask("GET", "/", [cookie]).status == 200
    assert server.tcp.ask("GET", "/api/v1/users", [cookie]).status == 403
    assert server.tcp.ask("POST", "/api/v1/server/stop", changes).status == 403


def test_a_browser_that_signed_out_is_out_for_good(server: Guarded) -> None:
    answer = server.tcp.ask("GET", server.client().server.signin_path("/"))
    cookie = f"Cookie: {both_halves(answer)}"
    origin = f"Origin: http://127.0.0.1:{server.port}"
    other = "Cookie: " + bare_cookie(server.tcp.ask("GET", server.client().server.signin_path("/")))
    ended = server.tcp.ask("POST", "/api/v1/signout", [cookie, origin])
    later = Credentials(token=TOKEN, store=server.services.store, signin=server.signin)

    def is_in(line: str) -> bool:
        value = line.removeprefix("Cookie: ").partition("\r")[0].encode()
        scope = {"headers": [(b"cookie", value)], "path": "/", "server": ("127.0.0.1", 1)}
        return asyncio.run(later.find_principal(scope)) is not None

    assert ended.status == 200 and "Max-Age=0" in ended.headers["set-cookie"]
    assert not is_in(cookie) and is_in(other)
    with pytest.raises(InvalidArgument, match="session"):
        server.client().transport.request("POST", "/signout")


class Clocked:
    """Who a token or a cookie is, at a time that the test sets."""

    def __init__(self, server: Guarded) -> None:
        self.now = 0.0
        store, signin = server.services.store, server.signin
        self._credentials = Credentials(token=TOKEN, store=store, signin=signin, clock=lambda: self.now)

    def who(self, header: str, value: str) -> Principal | None:
        scope = {"headers": [(header.encode(), value.encode())], "path": "/", "server": ("127.0.0.1", 1)}
        found = asyncio.run(self._credentials.find_principal(scope))
        return None if found is None else found[0]


@pytest.mark.parametrize("revoke", ["remove", "rotate", "remove_token"])
def test_a_revoked_token_and_its_browsers_are_out_within_seconds(server: Guarded, revoke: str) -> None:
    users, clocked = server.client().users, Clocked(server)
    token = users.add("ada").token
    path = server.client(token).server.signin_path("/")
    cookie = server.tcp.ask("GET", path).headers["set-cookie"].partition(";")[0]
    assert isinstance(clocked.who("authorization", f"Bearer {token}"), UserPrincipal)
    assert isinstance(clocked.who("cookie", cookie), UserPrincipal)

    {"remove": users.remove, "rotate": users.rotate, "remove_token": lambda name: users.remove_token(name, "first")}[
        revoke
    ]("ada")
    clocked.now += CACHED_S

    assert clocked.who("authorization", f"Bearer {token}") is None
    assert clocked.who("cookie", cookie) is None
    assert clocked.who("authorization", f"Bearer {TOKEN}") == Owner()


def test_another_role_counts_within_seconds(server: Guarded) -> None:
    users, clocked = server.client().users, Clocked(server)
    bearer = f"Bearer {users.add('ada', role='admin').token}"
    before = clocked.who("authorization", bearer)
    users.set_role("ada", "reader")
    clocked.now += CACHED_S
    after = clocked.who("authorization", bearer)

    assert isinstance(before, UserPrincipal) and isinstance(after, UserPrincipal)
    assert (before.role, after.role) == ("admin", "reader")


def test_wrong_tries_are_counted_by_address_for_a_minute() -> None:
    now = [0.0]
    tries = LoginThrottle(lambda: now[0])

    def many(*clients: str) -> list[bool]:
        return [tries.is_too_many({"client": (address, 1)}) for address in clients]

    assert many(*["10.0.0.1"] * (MOST_TRIES + 1)) == [False] * MOST_TRIES + [True]
    assert many("10.0.0.2") == [False]
    many(*[f"2001:db8::{number}" for number in range(MOST_TRIES)])
    assert many("2001:db8::ffff", "2001:db8:0:1::1") == [True, False]
    assert tries.is_too_many({"client": None}) is False
    now[0] += WINDOW_S + 1
    assert many("10.0.0.1") == [False]
