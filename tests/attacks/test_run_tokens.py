"""A08 to A11: what a run's token does not open."""

from __future__ import annotations

import hashlib
import json

import pytest

from runyard.core.config.paths import database_file
from runyard.core.formats.frames import join_frames
from runyard.core.names import make_uuid
from runyard.core.records import NewRun
from runyard.engine.state.spool import hash_token, mint_run_token
from runyard.server.access.permissions import Reach
from runyard.store import open_store
from tests.attacks.conftest import Team
from tests.attacks.routes import Route, ask, live_routes, rights_table, verb_of
from tests.attacks.wire import Answer
from tests.engine.bench import header, journal_frame, log_frame, name, number

# What a run's code may ask of its own run; everything else in the table is 403 for it.
LISTS = {route for route in rights_table(lambda right: True) if verb_of(route) == "list_runs"}  # with a parent only
RUN_MAY = rights_table(lambda right: right.run is not Reach.NEVER) - LISTS
ENDS_IT = Route("POST", "/runs/{run_id}/cancel")


@pytest.fixture(scope="module")
def secretive(team: Team) -> Team:
    """The first run holds the canary in a metric's name, a log, a tag, a parameter and a file."""
    secret = team.secret.decode()
    records = header() + name(1, f"m-{secret}") + number(1, 0.5)
    team.client.runs.update(team.first.id, tags_set={"t": secret}, properties_add={"p": secret})
    headers = [*team.bearer(team.first.token), ("Content-Type", "application/x-runyard-frames")]
    frames = join_frames([journal_frame(records), log_frame(secret.encode(), name="user_logs/secret.txt")])
    assert team.unix.send("POST", f"/api/v1/runs/{team.first.id}/ship", headers=headers, body=frames).status == 200
    return team


def record_of(team: Team, run_id: str) -> list[object]:
    """What others could have changed of a run; its own supervisor changes the rest."""
    run = team.client.runs.get(run_id)
    files = [file.name for file in team.client.runs.files(run_id) if not file.name.startswith("system_logs/")]
    facts = [run.status, run.tags, run.properties, run.error, run.desired, run.attempt, run.display_name]
    return [*facts, files, team.client.runs.metrics(run_id)]


def test_a08_a_runs_token_reads_nothing_of_another_run_not_even_that_it_is_there(secretive: Team) -> None:
    """The control: the owner finds the secret in five of the same answers."""
    team = secretive
    values = {"name": "user_logs/secret.txt", "tree": "1" * 64}
    reads = [route for route in live_routes(team) if route.method == "GET" and "{run_id}" in route.template]

    def answers(token: str, run_id: str) -> list[Answer]:
        found = [ask(team.unix, route, token, run_id=run_id, **values) for route in reads]
        listed = f"/api/v1/workspaces/default/runs?parent={run_id}&include_children=true"
        return [*found, team.unix.send("GET", listed, headers=team.bearer(token))]

    foreign, missing = answers(team.second.token, team.first.id), answers(team.second.token, "no-such-run")
    assert {answer.status for answer in foreign} == {403}
    assert not [answer for answer in foreign if team.secret in answer.body]
    for one, other in zip(foreign, missing, strict=True):
        assert (one.status, one.body.replace(team.first.id.encode(), b"ID")) == (
            other.status,
            other.body.replace(b"no-such-run", b"ID"),
        )
    assert sum(team.secret in answer.body for answer in answers(team.token, team.first.id)) >= 4


def test_a08_content_is_not_read_by_its_hash(team: Team) -> None:
    chunk = hashlib.sha256(team.secret).hexdigest()
    frames = [*team.bearer(), ("Content-Type", "application/x-runyard-frames")]
    stored = team.unix.send("POST", "/api/v1/chunks", headers=frames, body=join_frames([({"id": chunk}, team.secret)]))
    assert stored.status == 201
    fetch = Route("POST", "/chunks/fetch")
    body = json.dumps({"ids": [chunk]}).encode()
    stolen = ask(team.unix, fetch, team.second.token, body=body)

    assert stolen.status == 404 and team.secret not in stolen.body
    assert team.secret in ask(team.unix, fetch, team.token, body=body).body


def test_a09_a_runs_token_writes_heartbeats_and_ends_no_other_run(secretive: Team) -> None:
    team = secretive
    writes = [route for route in live_routes(team) if route.method != "GET" and "{run_id}" in route.template]
    before = record_of(team, team.first.id)
    bodies = [
        b"{}",
        b'{"attempt": 1}',
        b'{"attempt": 1, "status": "Failed"}',
        json.dumps({"attempt": 1, "incarnation": "a" * 32}).encode(),
        b'{"tags_set": {"by": "second"}}',
    ]
    answers = {
        ask(team.unix, route, team.second.token, body=body, run_id=team.first.id).status
        for route in writes
        for body in bodies
    }

    assert len(writes) >= 10 and answers == {403}
    assert record_of(team, team.first.id) == before
    heartbeat = Route("POST", "/runs/{run_id}/heartbeat")  # the control
    assert ask(team.unix, heartbeat, team.second.token, body=bodies[1], run_id=team.second.id).status == 200


def test_a10_a_token_of_an_old_attempt_only_delivers_what_it_wrote(team: Team) -> None:
    """The control: the present attempt's token does all of it."""
    old, present = mint_run_token(), mint_run_token()
    new = NewRun(make_uuid(), f"a10-{make_uuid()}", "default", "attacked", type=None)
    run_id = team.client.runs.create(new, launch=False).run.id
    store = open_store(database_file(team.home))
    for token in (old, present):
        store.start_attempt(run_id, token_hash=hash_token(token))
    attacks = [
        (Route("POST", "/runs/{run_id}/state"), {"attempt": 2, "status": "Running"}),
        (Route("POST", "/runs/{run_id}/heartbeat"), {"attempt": 2}),
        (Route("PATCH", "/runs/{run_id}"), {"tags_set": {"by": "old"}}),
        (Route("POST", "/runs/{run_id}/files"), {"file": {"name": "outputs/x", "size": 0, "chunks": []}}),
        (Route("GET", "/runs/{run_id}"), {}),
        (Route("POST", "/runs/{run_id}/nodes/{rank}/join"), {"attempt": 2, "incarnation": "a" * 32}),
    ]

    def statuses(token: str) -> set[int]:
        sent = [(route, json.dumps(body).encode()) for route, body in attacks]
        return {ask(team.unix, route, token, body=body, run_id=run_id).status for route, body in sent}

    records = header() + name(1, "late") + number(1, 0.5)
    frames = [*team.bearer(old), ("Content-Type", "application/x-runyard-frames")]
    ship = team.unix.send(
        "POST", f"/api/v1/runs/{run_id}/ship", headers=frames, body=join_frames([journal_frame(records)])
    )

    assert statuses(old) == {403}
    assert statuses(present) <= {200, 201, 409}  # 409: no node joins a run of this kind
    assert ship.status == 200
    assert [mark.offset for mark in store.list_marks(run_id, 1)] == [len(records)]
    assert store.list_marks(run_id, 2) == []
    end = {"attempt": 2, "status": "Completed"}
    assert ask(team.unix, attacks[0][0], present, body=json.dumps(end).encode(), run_id=run_id).status == 200
    store.close()


def test_a11_a_runs_token_does_nothing_beyond_its_rights(team: Team) -> None:
    """A route that is new in the table fails here until somebody decides who may use it."""
    table = live_routes(team)
    listed = Route("GET", "/workspaces/{workspace}/runs")  # with a parent of its own tree only
    found = {
        route: ask(team.unix, route, team.first.token, run_id=team.first.id).status
        for route in table
        if route not in (ENDS_IT, listed)
    }

    assert set(table) >= RUN_MAY
    assert {route: status for route, status in found.items() if route not in RUN_MAY and status != 403} == {}
    assert [route for route, status in found.items() if route in RUN_MAY and status == 403] == []
    assert ask(team.unix, listed, team.first.token).status == 403


@pytest.mark.parametrize(
    ("change", "spec"),
    [
        ({"parent_id": None}, {}),
        ({"parent_id": "second"}, {}),
        ({"workspace": "elsewhere"}, {}),
        ({}, {"target": "other"}),
    ],
    ids=["no parent", "another run's child", "another workspace", "another target"],
)
def test_a11_a_runs_code_submits_only_below_itself(team: Team, change: dict, spec: dict) -> None:
    new = {"key": make_uuid(), "id": f"a11-{make_uuid()}", "workspace": "default", "experiment": "attacked"}
    new.update({"parent_id": team.first.id, "type": None, **change})
    if new["parent_id"] == "second":
        new["parent_id"] = team.second.id
    body = {"run": {**new, "spec": spec}, "launch": False}
    submit = Route("POST", "/runs")

    assert ask(team.unix, submit, team.first.token, body=json.dumps(body).encode()).status == 403
    fair = {"run": {**new, "parent_id": team.first.id, "workspace": "default"}, "launch": False}
    assert ask(team.unix, submit, team.first.token, body=json.dumps(fair).encode()).status == 201
