"""A01 to A04: nothing answers without a token, and a run's token opens its own run only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attacks.conftest import OwnedRun, Victim, end_run, own_run
from tests.attacks.payloads import EXEMPT_TRICKS, HEADER_TOKENS
from tests.attacks.weak import weak_server
from tests.attacks.wire import Wire

METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"]
PUBLIC = {("GET", "/api/v1/health")}
CLOSED = {400, 401, 403, 404, 405, 413, 421, 429, 431, 501}


def live_routes(victim: Victim) -> list[str]:
    """Every path of the live route table, parameters filled in, and the pages beside the API."""
    answer = victim.wire.send("GET", "/api/v1/openapi.json", headers=victim.bearer())
    assert answer.status == 200, answer
    paths = list(json.loads(answer.body)["paths"])
    assert len(paths) >= 20
    paths += ["/", f"/runs/{victim.first.id}", "/static/icon.svg", "/docs", "/redoc", "/openapi.json", "/metrics"]
    filled = [path.replace("{run_id}", victim.first.id).replace("{id}", victim.first.id) for path in paths]
    return [path.replace("{", "").replace("}", "") for path in filled if not path.startswith("/signin/")]


def opened(wire: Wire, requests: list[tuple[str, str, list[tuple[str, str]]]]) -> list[str]:
    """Return the requests that were answered with content."""
    found = []
    for method, path, headers in requests:
        answer = wire.send(method, path, headers=headers)
        if answer.status not in CLOSED and answer.status != 0 and (method, path) not in PUBLIC:
            found.append(f"{method} {path} {headers} → {answer.status}")
    return found


def test_a01_no_route_answers_without_a_token(victim: Victim, tmp_path: Path) -> None:
    requests = [(method, path, []) for path in live_routes(victim) for method in METHODS]

    assert opened(victim.wire, requests) == []
    assert opened(victim.unix, requests) == []
    with weak_server(tmp_path) as weak:
        assert opened(weak, requests[:8])


def test_a01_the_public_list_is_short_and_says_nothing(victim: Victim) -> None:
    health = victim.wire.send("GET", "/api/v1/health")

    assert (health.status, json.loads(health.body)) == (
        200,
        {"ok": True, "parts": {"database": "ok", "disk": "ok"}},
    )
    assert victim.wire.send("GET", "/signin/" + "x" * 43).status in CLOSED | {410}


def test_a02_garbage_tokens_open_nothing(victim: Victim, tmp_path: Path) -> None:
    path = "/api/v1/server"
    requests = [("GET", path, [("Authorization", token)]) for token in HEADER_TOKENS]
    requests += [("GET", f"{path}?{name}={victim.token}", []) for name in ("token", "access_token", "key", "auth")]
    requests += [("GET", path, [("Authorization", f"Bearer {victim.token}"), ("Authorization", "Bearer nothing")])]
    requests += [("GET", path, [("Authorization", f"Basic {victim.token}")])]
    requests += [("GET", path, [("Authorization", f"Bearer {victim.token}x")])]
    requests += [("GET", path, [("Authorization", f"Bearer {victim.token[:-1]}")])]
    requests += [("GET", path, [("Cookie", f"token={victim.token}")])]

    assert opened(victim.wire, requests) == []
    assert victim.wire.send("GET", path, headers=[("Authorization", "Bearer " + "A" * (1 << 20))]).status in CLOSED | {
        0
    }
    assert victim.wire.send("GET", path, headers=victim.bearer()).status == 200
    with weak_server(tmp_path) as weak:
        assert opened(weak, requests)


@pytest.mark.parametrize(
    "extra",
    [
        [],
        [("X-Forwarded-For", "127.0.0.1")],
        [("X-Original-URL", "/api/v1/health")],
        [("X-Rewrite-URL", "/api/v1/health")],
        [("X-Forwarded-Prefix", "/api/v1/health")],
        [("X-HTTP-Method-Override", "GET")],
    ],
    ids=lambda extra: extra[0][0] if extra else "plain",
)
def test_a03_the_public_paths_cannot_be_stretched(victim: Victim, tmp_path: Path, extra: list) -> None:
    requests = [(method, path, extra) for path in EXEMPT_TRICKS for method in ("GET", "POST", "DELETE")]

    assert opened(victim.wire, requests) == []
    with weak_server(tmp_path) as weak:
        assert opened(weak, requests[:3])


def test_a03_a_foreign_host_is_refused_before_routing(victim: Victim, tmp_path: Path) -> None:
    port = victim.wire.port
    hosts = [
        "evil.example",
        f"evil.example:{port}",
        f"127.0.0.1.evil.example:{port}",
        "",
        "127.0.0.1:1",
        f"localhost.:{port}",
    ]
    hosts += [f"127.0.0.1:{port}@evil.example", f"[::1]:{port}", f"127.1:{port}", f"2130706433:{port}"]

    for host in hosts:
        answer = victim.wire.send("GET", "/api/v1/server", headers=victim.bearer(), host=host)
        assert answer.status in (400, 421), (host, answer)
    with weak_server(tmp_path) as weak:
        assert weak.send("GET", "/api/v1/server", host="evil.example").status == 200


def test_a04_streams_are_refused_before_the_first_byte(victim: Victim, tmp_path: Path) -> None:
    stream = f"/api/v1/runs/{victim.first.id}/files/user_logs/std_log.txt?wait_s=1"
    upgrade = [
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Key", "x"),
        ("Sec-WebSocket-Version", "13"),
    ]
    requests = [
        ("GET", stream, []),
        ("GET", stream, upgrade),
        ("GET", "/ws", upgrade),
        ("GET", stream, victim.bearer(victim.second.token)),
    ]

    assert opened(victim.wire, requests) == []
    with weak_server(tmp_path) as weak:
        (tmp_path / "user_logs").mkdir()
        (tmp_path / "user_logs" / "std_log.txt").write_text("secret line")
        assert opened(weak, requests[:1])


def test_a04_a_runs_token_reaches_its_own_run_only(victim: Victim) -> None:
    """The same requests with the run's own token are the control: they do answer."""
    reads = ["", "/metrics", "/metrics/values", "/files"]
    own = [("GET", f"/api/v1/runs/{victim.first.id}{tail}", victim.bearer(victim.first.token)) for tail in reads]
    foreign = [("GET", f"/api/v1/runs/{victim.first.id}{tail}", victim.bearer(victim.second.token)) for tail in reads]
    foreign += [
        ("POST", f"/api/v1/runs/{victim.first.id}/{verb}", victim.bearer(victim.second.token))
        for verb in ("cancel", "fail")
    ]
    foreign += [("GET", "/api/v1/workspaces/default/runs", victim.bearer(victim.second.token))]
    foreign += [("POST", "/api/v1/server/stop", victim.bearer(victim.second.token))]

    assert opened(victim.wire, foreign) == []
    assert len(opened(victim.wire, own)) == len(own)
    assert victim.client.runs.get(victim.first.id).status.value == "Running"


@pytest.fixture
def siblings(victim: Victim) -> Iterator[list[OwnedRun]]:
    """Two runs below the first."""
    made = [own_run(victim.client, victim.first.id) for _ in range(2)]
    yield made
    for run in made:
        end_run(victim.home, run)


def test_a04_a_childs_token_decides_nothing_about_the_runs_above_and_beside_it(
    victim: Victim, siblings: list[OwnedRun]
) -> None:
    """The control: the child reads both and tags its parent, and the user's token may do all of it."""
    child, sibling = siblings
    bearer = victim.bearer(child.token)
    typed = [*bearer, ("Content-Type", "application/json")]
    above, beside, own = (f"/api/v1/runs/{run.id}" for run in (victim.first, sibling, child))
    state = json.dumps({"attempt": 1, "status": "Failed"}).encode()
    tag = json.dumps({"tags_set": {"by": "child"}}).encode()
    attacks = [
        ("POST", f"{path}/{verb}", body)
        for path in (above, beside)
        for verb, body in (("fail", b"{}"), ("state", state), ("writers", b"{}"))
    ]
    attacks += [
        ("DELETE", above, b""),
        ("DELETE", beside, b""),
        ("POST", f"{beside}/cancel", b""),
        ("PATCH", beside, tag),
    ]

    assert {victim.wire.send(method, path, headers=typed, body=body).status for method, path, body in attacks} == {403}
    assert {victim.wire.send("GET", path, headers=bearer).status for path in (above, beside, own)} == {200}
    assert victim.wire.send("PATCH", above, headers=typed, body=tag).status == 200
    assert victim.client.runs.update(sibling.id, tags_set={"by": "user"}).tags == {"by": "user"}
    assert {victim.client.runs.get(run.id).status.value for run in (victim.first, sibling)} == {"Running"}


def test_a04_a_foreign_run_and_a_missing_one_look_alike(victim: Victim) -> None:
    missing = victim.wire.send("GET", "/api/v1/runs/no-such-run", headers=victim.bearer(victim.second.token))
    foreign = victim.wire.send("GET", f"/api/v1/runs/{victim.first.id}", headers=victim.bearer(victim.second.token))

    assert missing.status == foreign.status
    assert missing.body.replace(b"no-such-run", b"ID") == foreign.body.replace(victim.first.id.encode(), b"ID")
