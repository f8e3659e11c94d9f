"""A73 to A76: no default account, nothing of one server opens another, revoked means out, and compares tell nothing."""

from __future__ import annotations

import ast
import asyncio
import bisect
import inspect
import json
import os
import random
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from runyard.client.client import Client
from runyard.client.private_server import connect
from runyard.core.config.settings import read_settings
from runyard.engine.state.spool import mint_run_token, mint_user_token
from runyard.server.access import credentials, signin
from runyard.server.access.credentials import MOST_TRIES, Credentials
from runyard.server.access.signin import Signin
from runyard.store.memory.store import MemoryRunStore
from tests.attacks.conftest import Team
from tests.attacks.wire import Answer, Wire, read_answer
from tests.conftest import stop_server
from tests.server.browser_session import both_halves
from tests.waiting import wait_for

JSON = ("Content-Type", "application/json")
DEFAULTS = ["", "admin", "password", "runyard", "token", "root", "changeme", "secret", "null", "undefined", "0" * 64]


@pytest.fixture(scope="module")
def other(session_folder: Path) -> Iterator[Client]:
    """Another install on the same machine, just started."""
    home = Path(tempfile.mkdtemp(prefix="o", dir=session_folder))
    yield connect(read_settings({**os.environ, "RUNYARD_HOME": str(home)}))
    stop_server(home)


def unix_of(client: Client) -> Wire:
    return Wire("", 0, unix=client.address.path)


def me(wire: Wire, token: str) -> Answer:
    return wire.send("GET", "/api/v1/users/me", headers=[("Authorization", f"Bearer {token}")])


def test_a73_a_new_server_has_no_account_but_its_owners(other: Client) -> None:
    wire = unix_of(other)
    guesses = [prefix + word for word in DEFAULTS for prefix in ("", "ryt_", "ryu_", "ryr_")]
    guesses += [f"{word}:{word}" for word in DEFAULTS]

    assert other.users.list() == []
    assert {me(wire, guess).status for guess in guesses} == {401}
    assert me(wire, other.address.token).status == 200


def test_a73_tokens_have_256_random_bits(team: Team, other: Client) -> None:
    minted = [mint() for mint in (mint_user_token, mint_run_token) for _ in range(500)]
    held = [*team.tokens.values(), team.first.token, team.token, other.address.token]

    assert len({*minted, *held}) == 1000 + len(held)
    assert {len(bytes.fromhex(token[4:])) for token in (*minted, *held)} == {32}
    ones = sum(bin(int(token[4:], 16)).count("1") for token in minted)
    assert abs(ones - 128_000) < 6 * 256  # six standard deviations of 256,000 coins: (256000 / 4) ** 0.5 = 253


def ask_from(address: str, wire: Wire, token: str) -> int:
    head = f"GET /api/v1/users/me HTTP/1.1\r\nHost: {wire.host_header}\r\nAuthorization: Bearer {token}\r\n\r\n"
    with socket.create_connection((wire.host, wire.port), timeout=20, source_address=(address, 0)) as connection:
        connection.sendall(head.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n").encode())
        return read_answer(connection).status


def test_a73_who_guesses_is_stopped_and_locks_nobody_out(team: Team) -> None:
    """The control: the first tries are looked at; and good tokens pass from the guesser's own address all along."""
    wrong = [ask_from("127.0.0.9", team.wire, mint_user_token()) for _ in range(MOST_TRIES + 10)]

    assert wrong == [401] * MOST_TRIES + [429] * 10
    assert ask_from("127.0.0.10", team.wire, mint_user_token()) == 401
    for token in (team.token, team.tokens["reader"], team.first.token):
        assert ask_from("127.0.0.9", team.wire, token) == 200


def cookie_of(wire: Wire, client: Client, token: str) -> tuple[str, str]:
    answer = unix_of(client).send(
        "POST", "/api/v1/signin-codes", headers=[("Authorization", f"Bearer {token}"), JSON], body=b"{}"
    )
    name, _, value = both_halves(wire.send("GET", json.loads(answer.body)["path"])).partition("=")
    return name, value


def test_a74_nothing_of_one_server_opens_another(team: Team, other: Client) -> None:
    """The control: each is good where it is from."""
    there = unix_of(other)
    web = other.address.web_url or ""
    page = Wire("127.0.0.1", int(web.rpartition(":")[2]))
    name, value = cookie_of(team.wire, team.client, team.token)
    their_name, theirs = cookie_of(page, other, other.address.token)
    ours = [team.token, team.first.token, *team.tokens.values()]

    assert team.client.server.info().id != other.server.info().id
    assert {me(there, token).status for token in ours} == {401}
    assert {me(team.unix, token).status for token in ours} == {200}
    assert me(team.unix, other.address.token).status == 401
    for wire, cookie, status in (
        (page, f"{their_name}={value}", 401),
        (page, f"{name}={value}", 401),
        (team.wire, f"{name}={theirs}", 401),
        (team.wire, f"{name}={value}", 200),
        (page, f"{their_name}={theirs}", 200),
    ):
        assert wire.send("GET", "/api/v1/users/me", headers=[("Cookie", cookie)]).status == status


@pytest.mark.long
def test_a75_a_revoked_token_is_out_within_seconds_and_its_open_streams_too(team: Team) -> None:
    """Streams wait 20 s for a log to grow. The control: the owner's goes on and gets what is written then."""
    users, log = team.client.users, "user_logs/a75.txt"
    team.client.runs.ship(team.first.id, [({"kind": "log", "name": log, "offset": 0}, b"x")])
    stream = f"/api/v1/runs/{team.first.id}/files/{log}?offset=1&wait_s=20"
    revoke: dict[str, Callable[[str], object]] = {
        "a75-removed": users.remove,
        "a75-rotated": users.rotate,
        "a75-untokened": lambda name: users.remove_token(name, "first"),
        "a75-demoted": lambda name: users.set_role(name, "reader"),
    }
    tokens = {name: users.add(name).token for name in revoke}
    name, value = cookie_of(team.wire, team.client, team.tokens["user"])
    cookie = ("Cookie", f"{name}={value}")
    with ThreadPoolExecutor(max_workers=8) as pool:
        signed_out = pool.submit(team.wire.send, "GET", stream, headers=[cookie])
        streams = {name: pool.submit(open_stream, team, stream, token) for name, token in tokens.items()}
        owners = pool.submit(open_stream, team, stream, team.token)
        wait_until_seen(team, list(revoke))
        for user, act in revoke.items():
            act(user)
        origin = ("Origin", f"http://{team.wire.host_header}")
        assert team.wire.send("POST", "/api/v1/signout", headers=[cookie, origin]).status == 200
        cut: list[Future[Answer]] = [*streams.values(), signed_out]
        statuses = [one.result(timeout=30).status for one in cut]
        assert not owners.done()
        team.client.runs.ship(team.first.id, [({"kind": "log", "name": log, "offset": 1}, b"after")])
        answer = owners.result(timeout=30)

    assert statuses == [401] * 5
    assert (answer.status, answer.body) == (200, b"after")
    assert {me(team.unix, token).status for name, token in tokens.items() if name != "a75-demoted"} == {401}
    assert team.wire.send("GET", "/api/v1/users/me", headers=[cookie]).status == 401
    for name in revoke:
        users.remove(name)


def open_stream(team: Team, path: str, token: str) -> Answer:
    return team.unix.send("GET", path, headers=team.bearer(token))


def wait_until_seen(team: Team, names: list[str]) -> None:
    """Return when the requests of all these users are past the guard: each was the first use of its token."""
    wait_for(lambda: all(user.tokens[0].seen_at is not None for user in team.client.users.list() if user.name in names))


def test_a76_how_long_a_wrong_token_takes_says_nothing_about_the_right_one() -> None:
    """Ranks of 10,000 tries with the first and with the last character wrong. The control is a plain compare."""
    token = "ryt_" + "5" * 64
    checked = Credentials(token=token, store=MemoryRunStore(), signin=Signin(token=token, server_id="s"))
    early, late = b"x" + token[1:].encode(), token[:-1].encode() + b"x"

    def plain(guess: bytes) -> bool:
        return all(one == right for one, right in zip(guess, token.encode(), strict=True))

    assert abs(advantage(checked.is_owner, early, late) - 0.5) < 0.1
    assert advantage(plain, early, late) > 0.9
    scope = {"headers": [(b"authorization", b"Bearer " + late)], "server": ("127.0.0.1", 1)}
    assert asyncio.run(checked.find_principal(scope)) is None


def advantage(check: Callable[[bytes], object], early: bytes, late: bytes) -> float:
    """Return how often a try with a late fault takes longer than one with an early fault."""
    order = [early, late] * 5000
    random.Random(7).shuffle(order)
    times: dict[bytes, list[int]] = {early: [], late: []}
    for guess in order:
        start = time.perf_counter_ns()
        check(guess)
        times[guess].append(time.perf_counter_ns() - start)
    ranked = sorted(times[early])
    below = sum(bisect.bisect_left(ranked, one) + bisect.bisect_right(ranked, one) for one in times[late])
    return below / 2 / len(ranked) / len(times[late])


SECRET_WORDS = ("token", "digest", "hash", "signature", "secret", "code", "cookie")


def plain_compares(source: str) -> list[str]:
    """Return comparisons by == or != in which a name of something secret takes part."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare) and any(isinstance(op, (ast.Eq, ast.NotEq)) for op in node.ops):
            text = ast.unparse(node)
            if any(word in text.lower() for word in SECRET_WORDS) and "len(" not in text:
                found.append(text)
    return found


def test_a76_no_secret_is_compared_character_by_character() -> None:
    for module in (credentials, signin, credentials):
        assert plain_compares(inspect.getsource(module)) == []
    assert plain_compares("ok = given == self._owner_hash") == ["given == self._owner_hash"]
    assert "compare_digest" in inspect.getsource(credentials) and "compare_digest" in inspect.getsource(signin)
