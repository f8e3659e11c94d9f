"""A12 to A14: a reader changes nothing, forged tokens open nothing, a submission decides only what it may."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time

import pytest

from runyard.core.names import make_uuid
from runyard.core.users import ADMIN, READER
from runyard.server.access.permissions import Reach
from tests.attacks.conftest import Team
from tests.attacks.routes import Route, ask, live_routes, rights_table, routes_of
from tests.server.browser_session import bare_cookie, both_halves, page_key

# All that a reader may do beside GET, and what of GET it may not. To PUT what is there already only reads it.
READER_MAY_PUT = routes_of("PUT /workspaces/{workspace}", "PUT /workspaces/{workspace}/experiments/{experiment}")
READER_MAY = rights_table(lambda right: right.role == READER) | READER_MAY_PUT
ADMINS = rights_table(lambda right: right.role == ADMIN and right.run is Reach.NEVER)
# Reports are the run's own: no user speaks for it.
REPORTS = rights_table(lambda right: right.role == ADMIN and right.run is not Reach.NEVER)
STOP = Route("POST", "/server/stop")
JSON = ("Content-Type", "application/json")


def nowhere(route: Route) -> dict[str, str]:
    """Names of nothing, for requests that would change something; a datastore must be one of the built-in."""
    names = {"run_id": "no-such-run", "workspace": "nowhere", "name": "nobody"}
    return {"workspace": "nowhere"} if "/datastores/" in route.template else names


RUN_FACTS = ("id", "status", "tags", "properties", "display_name", "description", "desired", "attempt", "submitted_by")


def everything(team: Team) -> list[object]:
    """What the owner sees: runs (but for what supervisors say), workspaces, experiments, assets, targets, users."""
    paths = ["", "/default/experiments?view=All", "/default/assets/environment", "/default/models", "/default/secrets"]
    found: list[object] = [
        json.loads(team.unix.send("GET", f"/api/v1/workspaces{path}", headers=team.bearer()).body) for path in paths
    ]
    found.append([[getattr(run, fact) for fact in RUN_FACTS] for run in team.client.runs.iter("default")])
    found.append([target.name for target in team.client.compute.list("default")])
    return [*found, [(user.name, user.role, len(user.tokens)) for user in team.client.users.list()]]


def test_a12_a_reader_changes_nothing_by_any_route_and_verb(team: Team) -> None:
    """The control: the same requests as a user, and those for admins as an admin, are not refused."""
    table = live_routes(team)
    before = everything(team)
    found = {route: ask(team.unix, route, team.tokens["reader"], run_id=team.first.id).status for route in table}

    allowed = READER_MAY
    assert {route: status for route, status in found.items() if route not in allowed and status != 403} == {}
    assert [route for route in allowed if found[route] == 403] == []
    for route in READER_MAY_PUT:
        assert found[route] == 200
        assert ask(team.unix, route, team.tokens["reader"], workspace="nowhere", experiment="none").status in (403, 404)
        assert ask(team.unix, route, team.tokens["reader"], workspace="default", experiment="none").status in (200, 403)
    assert everything(team) == before
    for role, refused in (("user", ADMINS | REPORTS), ("admin", set())):
        tried = [route for route in table if route != STOP]
        answers = {route: ask(team.unix, route, team.tokens[role], **nowhere(route)).status for route in tried}
        assert {route for route, status in answers.items() if status == 403} == refused - {STOP}
    assert ask(team.unix, STOP, team.tokens["user"]).status == 403


def test_a12_no_other_verb_or_header_makes_a_change_of_a_read(team: Team) -> None:
    paths = [f"/runs/{team.first.id}", "/workspaces/default/compute/x", "/users/reader", "/server/stop"]
    tricks = [[], [("X-HTTP-Method-Override", "DELETE")], [("X-HTTP-Method", "PATCH")], [("X-Original-Method", "POST")]]
    before = everything(team)
    bearer = team.bearer(team.tokens["reader"])
    statuses = {
        (method, team.unix.send(method, f"/api/v1{path}{query}", headers=[*bearer, JSON, *trick], body=b"").status)
        for path in paths
        for method in ("GET", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE", "POST", "MERGE", "PROPFIND", "LINK")
        for query in ("", "?_method=DELETE")
        for trick in tricks
    }

    assert {status for method, status in statuses if method != "GET"} <= {400, 403, 404, 405}
    assert everything(team) == before


def test_a12_a_readers_browser_is_a_reader(team: Team) -> None:
    def signed_in(role: str) -> tuple[str, str]:
        path = team.unix.send(
            "POST", "/api/v1/signin-codes", headers=[*team.bearer(team.tokens[role]), JSON], body=b'{"next": "/"}'
        )
        answer = team.wire.send("GET", json.loads(path.body)["path"])
        return ("Cookie", both_halves(answer))

    origin = ("Origin", f"http://{team.wire.host_header}")
    change = (f"/api/v1/runs/{team.first.id}", b'{"tags_set": {"by": "browser"}}')

    def status(role: str) -> int:
        headers = [signed_in(role), origin, JSON]
        return team.wire.send("PATCH", change[0], headers=headers, body=change[1]).status

    assert status("reader") == 403
    assert status("user") == 403  # it is the owner's run
    assert status("admin") == 200


def unsigned(header: dict[str, str], claims: dict[str, object], key: bytes = b"") -> str:
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in (header, claims)]
    signature = hmac.new(key, b".".join(parts), hashlib.sha256).digest() if key else b""
    return b".".join([*parts, base64.urlsafe_b64encode(signature).rstrip(b"=")]).decode()


def test_a13_forged_tokens_open_nothing(team: Team) -> None:
    owner, run, user = team.token, team.first.token, team.tokens["reader"]
    claims: dict[str, object] = {"sub": "admin", "role": "admin", "aud": "runyard", "exp": time.time() + 3600}
    forged = [unsigned({"alg": alg, "typ": "JWT"}, claims) for alg in ("none", "None", "NONE", "")]
    forged += [unsigned({"alg": "HS256"}, claims, key.encode()) for key in ("secret", "runyard", "ryt_", run)]
    forged += [prefix + token[4:] for prefix in ("ryt_", "ryu_", "ryr_") for token in (owner, run, user)]
    forged = [token for token in forged if token not in (owner, run, user)]
    forged += [hashlib.sha256(token.encode()).hexdigest() for token in (owner, run, user)]  # what the database holds
    forged += [f"{prefix}{hashlib.sha256(user.encode()).hexdigest()}" for prefix in ("ryt_", "ryu_", "ryr_")]
    forged += [token[:-1] + ("0" if token[-1] != "0" else "1") for token in (owner, run, user)]
    forged += [token.upper() for token in (owner, run, user)] + [f"{user}.admin", f"{user}:admin", f"admin:{user}"]

    assert {team.unix.send("GET", "/api/v1/server", headers=team.bearer(token)).status for token in forged} == {401}
    for token in (owner, run, user):  # the control
        assert team.unix.send("GET", "/api/v1/server", headers=team.bearer(token)).status == 200


def test_a13_claims_in_a_cookie_cannot_be_edited(team: Team) -> None:
    body = b'{"next": "/"}'
    code = team.unix.send(
        "POST", "/api/v1/signin-codes", headers=[*team.bearer(team.tokens["reader"]), JSON], body=body
    )
    answer = team.wire.send("GET", json.loads(code.body)["path"])
    name, _, value = bare_cookie(answer).partition("=")
    key = ("Runyard-Session", page_key(answer))
    until, nonce, token_id, signature = value.split(".")
    edited = [
        f"{until}.{nonce}.{signature}",  # the owner's kind
        f"{until}.{nonce}.{int(token_id) - 1}.{signature}",
        f"{until}.{nonce}.{int(token_id) + 1}.{signature}",
        f"{int(until) + 10**9}.{nonce}.{token_id}.{signature}",
        f"{until}.{'0' * 32}.{token_id}.{signature}",
        f"{until}.{nonce}.{token_id}.{'0' * 64}",
        f"{until}.{nonce}.{token_id}.",
        f"{until}.{nonce}.{token_id}.{signature}.{signature}",
    ]

    def status(text: str) -> int:
        return team.wire.send("GET", "/api/v1/users/me", headers=[("Cookie", f"{name}={text}"), key]).status

    assert {status(text) for text in edited} == {401}
    assert status(value) == 200


PRIVILEGED = [
    {"status": "Completed"},
    {"status": "Running"},
    {"attempt": 7},
    {"number": 1},
    {"root_id": "other"},
    {"desired": "cancel"},
    {"user": "root"},
    {"created_at": "2000-01-01T00:00:00Z"},
    {"spec": {"command": "id", "user": "root"}},
    {"spec": {"command": "id", "queue": "vip"}},
    {"spec": {"command": "id", "environment": {"privileged": True}}},
    {"spec": {"command": "id", "environment": {"container": {"image": "x", "network": "host"}}}},
    {"spec": {"command": "id", "resources": {"user": "root"}}},
    {"spec": {"command": "id", "distribution": {"node_count": 10**6}}},
    {"spec": {"command": "id", "time_limit_s": -1}},
]


@pytest.mark.parametrize("change", PRIVILEGED, ids=lambda change: json.dumps(change)[:60])
def test_a14_a_submission_cannot_set_what_is_not_its_own(team: Team, change: dict[str, object]) -> None:
    run_id = f"a14-{make_uuid()}"
    run = {"key": make_uuid(), "id": run_id, "workspace": "default", "experiment": "attacked", "type": None, **change}
    body = json.dumps({"run": run, "launch": "spec" in change}).encode()
    answer = ask(team.unix, Route("POST", "/runs"), team.tokens["user"], body=body)

    assert answer.status in (400, 422), answer
    assert ask(team.unix, Route("GET", "/runs/{run_id}"), team.token, run_id=run_id).status == 404


def test_a14_a_submission_says_neither_who_it_is_from_nor_what_it_starts_with(team: Team) -> None:
    """The control: what is its own to say, is stored as it was said."""
    run_id = f"a14-{make_uuid()}"
    run = {"key": make_uuid(), "id": run_id, "workspace": "default", "experiment": "attacked", "type": None}
    run.update(submitted_by="admin", snapshot_root="0" * 64, display_name="mine")
    body = json.dumps({"run": run, "launch": False}).encode()
    made = json.loads(ask(team.unix, Route("POST", "/runs"), team.tokens["user"], body=body).body)["run"]

    assert (made["submitted_by"], made["snapshot_root"], made["attempt"]) == ("user", None, 0)
    assert (made["display_name"], made["status"]) == ("mine", "Running")
