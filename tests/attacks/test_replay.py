"""A88: what was sent once does nothing more when it is sent again: later, after a restart, or with another id."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from runyard.client.private_server import connect
from runyard.core.config.paths import database_file
from runyard.core.config.settings import read_settings
from runyard.core.errors import Conflict, NotAllowed, RunyardError
from runyard.core.formats.frames import join_frames
from runyard.core.names import make_uuid
from runyard.core.records import Run
from runyard.core.specs import DistributionSpec, RunSpec
from runyard.engine.state.spool import hash_token, mint_run_token
from runyard.store import open_store
from tests.attacks.conftest import Team
from tests.attacks.wire import Answer
from tests.engine.bench import WRITER, header, journal_frame, log_frame, name, number
from tests.server.conftest import Served, serve

RECORDS = header() + name(1, "loss") + number(1, 0.5)


class Recorded(NamedTuple):
    """A request as it went over the wire."""

    path: str
    token: str
    body: bytes
    kind: str = "application/json"

    def send(self, team: Team, **changes: str) -> Answer:
        path, body = self.path, self.body
        for old, new in changes.items():
            path, body = path.replace(old, new), body.replace(old.encode(), new.encode())
        return team.unix.send(
            "POST", f"/api/v1{path}", headers=[*team.bearer(self.token), ("Content-Type", self.kind)], body=body
        )


class Life(NamedTuple):
    """All requests of one run's life, from submit to finish."""

    run_id: str
    key: str
    submit: Recorded
    running: Recorded
    heartbeat: Recorded
    batch: Recorded
    finish: Recorded


@pytest.fixture
def life(team: Team) -> Life:
    run_id, key, token = f"a88-{os.urandom(4).hex()}", make_uuid(), mint_run_token()
    new = {"key": key, "id": run_id, "workspace": "default", "experiment": "attacked", "type": None}
    end = {"attempt": 1, "status": "Completed", "logs": {"user_logs/a88.txt": 4}}
    marks = [{"writer": WRITER, "segment": 0, "offset": len(RECORDS)}]
    frames = join_frames([journal_frame(RECORDS), log_frame(b"line", name="user_logs/a88.txt")])
    recorded = Life(
        run_id,
        key,
        Recorded("/runs", team.tokens["user"], json.dumps({"run": new, "launch": False}).encode()),
        Recorded(f"/runs/{run_id}/state", token, b'{"attempt": 1, "status": "Running"}'),
        Recorded(f"/runs/{run_id}/heartbeat", token, b'{"attempt": 1}'),
        Recorded(f"/runs/{run_id}/ship", token, frames, "application/x-runyard-frames"),
        Recorded(f"/runs/{run_id}/state", token, json.dumps({**end, "marks": marks}).encode()),
    )
    assert recorded.submit.send(team).status == 201
    store = open_store(database_file(team.home))
    store.start_attempt(run_id, token_hash=hash_token(token))
    store.close()
    for request in (recorded.running, recorded.heartbeat, recorded.batch, recorded.finish):
        assert request.send(team).status == 200
    return recorded


def state_of(team: Team, run_id: str) -> tuple[Run, list[object], bytes, int]:
    """The run, its metrics, its log and how many runs there are."""
    log = team.unix.send("GET", f"/api/v1/runs/{run_id}/files/user_logs/a88.txt", headers=team.bearer()).body
    count = len(team.client.runs.list("default", limit=500).runs)
    return team.client.runs.get(run_id), list(team.client.runs.metrics(run_id)), log, count


def replay(team: Team, life: Life) -> None:
    before = state_of(team, life.run_id)
    again = {name: getattr(life, name).send(team) for name in ("submit", "running", "heartbeat", "batch", "finish")}

    assert {name: answer.status for name, answer in again.items()} == dict.fromkeys(again, 200)
    assert json.loads(again["submit"].body)["run"]["id"] == life.run_id
    assert {json.loads(again[name].body)["status"] for name in ("running", "heartbeat", "finish")} == {"Completed"}
    assert state_of(team, life.run_id) == before


def test_a88_a_life_sent_again_changes_nothing_also_after_a_restart(team: Team, life: Life) -> None:
    """The control: sent for the first time, the batch made one point and four bytes of log."""
    run, metrics, log, _ = state_of(team, life.run_id)
    assert run.status.value == "Completed" and log == b"line"
    assert [(info.name, info.count) for info in metrics] == [("loss", 1)]  # type: ignore[attr-defined]

    replay(team, life)
    restart(team)
    replay(team, life)


def restart(team: Team) -> None:
    """Kill the server; the runs' watchers or we start it again."""
    old = team.client.server.info().pid
    os.kill(old, signal.SIGKILL)
    settings = read_settings({**os.environ, "RUNYARD_HOME": str(team.home)})
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            if connect(settings).server.info().pid != old:
                return
        except RunyardError:
            time.sleep(0.02)
    raise AssertionError("the server did not come back")


def test_a88_requests_of_one_run_do_nothing_with_another_id(team: Team, life: Life) -> None:
    other = team.second.id
    before = team.client.runs.get(other).status, team.client.runs.metrics(other)
    moved = [
        getattr(life, name).send(team, **{life.run_id: other}) for name in ("running", "heartbeat", "batch", "finish")
    ]

    assert {answer.status for answer in moved} == {403}
    assert (team.client.runs.get(other).status, team.client.runs.metrics(other)) == before
    assert life.submit.send(team, **{life.run_id: f"{life.run_id}-x"}).status == 409  # the key is the first run's
    assert life.submit.send(team, **{life.key: make_uuid()}).status == 409  # the id is taken
    assert (
        life.submit.send(team, **{life.key: make_uuid(), life.run_id: f"{life.run_id}-y"}).status == 201
    )  # the control


def test_a88_the_token_of_a_run_that_ended_starts_nothing(team: Team, life: Life) -> None:
    """The control: it may still read its run, and the same requests of a live run are not refused."""
    new = {"key": make_uuid(), "id": f"{life.run_id}-child", "workspace": "default", "experiment": "attacked"}

    def statuses(run_id: str, token: str) -> list[int]:
        child = json.dumps({"run": {**new, "parent_id": run_id, "type": None}, "launch": False}).encode()
        secret = team.unix.send("GET", "/api/v1/workspaces/default/secrets", headers=team.bearer(token))
        return [Recorded("/runs", token, child).send(team).status, secret.status]

    assert statuses(life.run_id, life.heartbeat.token) == [403, 403]
    assert statuses(team.first.id, team.first.token) == [201, 200]
    own = team.unix.send("GET", f"/api/v1/runs/{life.run_id}", headers=team.bearer(life.heartbeat.token))
    assert own.status == 200


@pytest.fixture
def gang(session_folder: Path) -> Iterator[Served]:
    """A server whose target `cluster` has other machines, and two runs of two nodes there."""
    with tempfile.TemporaryDirectory(prefix="g", dir=session_folder) as folder, serve(
        Path(folder), cluster="cluster"
    ) as served:
        two = RunSpec(script="train.py", target="cluster", distribution=DistributionSpec("pytorch", node_count=2))
        for run_id in ("one", "two"):
            served.submit(run_id, spec=two)
            served.job_of(run_id)
        yield served


def test_a88_a_nodes_part_is_taken_once_by_one_process_of_its_own_run(gang: Served) -> None:
    """The control: the process that joined may say so again, and its words are heard."""
    one, two = gang.as_run("one").transport, gang.as_run("two").transport
    mine = {"attempt": 1, "incarnation": "a" * 32}
    theirs = {**mine, "incarnation": "b" * 32}
    joined = one.request("POST", "/runs/one/nodes/0/join", json=mine).json()
    one.request("POST", "/runs/one/nodes/1/join", json=theirs)

    for attack in ("/runs/one/nodes/1/join", "/runs/one/nodes/1"):
        with pytest.raises(NotAllowed):
            two.request("POST", attack, json=mine)  # another run's token
    for path, said in (("/runs/one/nodes/0/join", theirs), ("/runs/one/nodes/0", theirs), ("/runs/one/nodes/1", mine)):
        with pytest.raises(Conflict):
            one.request("POST", path, json=said)  # another rank's incarnation
    assert one.request("POST", "/runs/one/nodes/0/join", json=mine).json() == joined
    assert (
        one.request("POST", "/runs/one/nodes/0", json={**mine, "facts": {"ready": {}}}).json()["nodes"][0]["rank"] == 0
    )


def test_a88_an_old_attempts_node_gets_no_job_and_is_told_to_stop(gang: Served) -> None:
    old = gang.as_run("one").transport
    mine = {"attempt": 1, "incarnation": "a" * 32}
    old.request("POST", "/runs/one/nodes/0/join", json=mine)
    gang.services.store.start_attempt("one", token_hash=hash_token(mint_run_token()))

    for attempt in (1, 2):
        with pytest.raises(NotAllowed):
            old.request("POST", "/runs/one/nodes/0/join", json={**mine, "attempt": attempt})
    with pytest.raises(NotAllowed):
        old.request("POST", "/runs/one/nodes/0", json={**mine, "attempt": 2})
    answer = old.request("POST", "/runs/one/nodes/0", json={**mine, "facts": {"ready": {}}}).json()
    assert (answer["attempt"], answer["nodes"]) == (2, [])
