"""A01, A08, A12 and A81 over MLflow's door. Its whole table of endpoints is attacked, a new one from its first day."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from runyard.core.formats.frames import join_frames
from runyard.server.access.permissions import READER, RIGHTS
from runyard.server.mlflow.app import MODULES
from runyard.server.mlflow.endpoints import TABLE, Endpoint
from tests.attacks.conftest import Team, Victim
from tests.attacks.wire import Answer, Wire
from tests.engine.bench import header, journal_frame, log_frame, name, number

assert MODULES  # their import fills the table
BASE = "/mlflow/default"
API = f"{BASE}/api/2.0"
MIB = 1 << 20


@pytest.fixture(scope="module")
def secretive(team: Team) -> Team:
    """The first run holds the canary in a metric's name, a tag and a file."""
    secret = team.secret.decode()
    records = header() + name(1, f"m-{secret}") + number(1, 0.5)
    team.client.runs.update(team.first.id, tags_set={"t": secret})
    headers = [*team.bearer(team.first.token), ("Content-Type", "application/x-runyard-frames")]
    frames = join_frames([journal_frame(records), log_frame(secret.encode(), name="user_logs/secret.txt")])
    assert team.unix.send("POST", f"/api/v1/runs/{team.first.id}/ship", headers=headers, body=frames).status == 200
    return team


def fields_for(run_id: str, experiment_id: str) -> dict[str, Any]:
    """Return fields of all endpoints at once: each takes those that it knows."""
    return {
        "run_id": run_id,
        "run_uuid": run_id,
        "experiment_id": experiment_id,
        "experiment_ids": [experiment_id],
        "experiment_name": "attacked",
        "name": "planted",
        "new_name": "planted too",
        "run_name": "planted",
        "source_run_id": run_id,
        "source": f"runs:/{run_id}/user_logs",
        "key": "planted",
        "value": "1",
        "timestamp": 1,
        "step": 0,
        "metric_key": "m",
        "status": "FAILED",
        "version": "1",
        "stage": "Production",
        "alias": "planted",
        "description": "planted",
        "metrics": [{"key": "planted", "value": 1, "timestamp": 1, "step": 0}],
        "params": [{"key": "planted", "value": "1"}],
        "tags": [{"key": "planted", "value": "1"}],
        "datasets": [{"dataset": {"name": "d", "digest": "1", "source_type": "local", "source": "x"}}],
        "models": [{"model_id": "m-1", "step": 0}],
        "model_json": json.dumps(
            {"artifact_path": "m", "run_id": run_id, "flavors": {"f": {}}, "utc_time_created": "1"}
        ),
    }


def ask(wire: Wire, endpoint: Endpoint, token: str, run_id: str, experiment_id: str, place: str = API) -> Answer:
    fields = fields_for(run_id, experiment_id)
    parts = {"path": f"runs/{run_id}/user_logs/secret.txt"}
    path = endpoint.template.replace(":path", "").format_map(defaultdict(lambda: "m-1", parts))
    headers = [("Authorization", f"Bearer {token}")] if token else []
    if endpoint.method in ("GET", "DELETE"):
        fields["path"] = "user_logs/secret.txt" if path.endswith("get") else f"runs/{run_id}/user_logs"
        return wire.send(endpoint.method, f"{place}/{path}?{urlencode(fields, doseq=True)}", headers=headers)
    headers.append(("Content-Type", "application/json"))
    return wire.send(endpoint.method, f"{place}/{path}", headers=headers, body=json.dumps(fields).encode())


def experiment_of(team: Team) -> str:
    """Return the id of the runs' experiment; by its name it is not found once a control has renamed it."""
    found = team.unix.send("GET", f"{API}/mlflow/runs/get?run_id={team.first.id}", headers=team.bearer())
    return str(json.loads(found.body)["run"]["info"]["experiment_id"])


def state_of(team: Team) -> list[object]:
    """What anybody could have changed through the door: the runs, their files and metrics, experiments and models."""
    runs = sorted(team.client.runs.iter("default", include_children=True), key=lambda run: run.id)
    facts = [(run.id, run.status, run.tags, run.display_name, run.description, run.archived_at) for run in runs]
    files = [
        (run.id, file.name, file.sha256)
        for run in runs
        for file in team.client.runs.files(run.id)
        if not file.name.startswith("system_logs/")
    ]
    metrics = [team.client.runs.metrics(run.id) for run in runs]
    paths = ["experiments?view=All", "models"]
    found = [team.unix.send("GET", f"/api/v1/workspaces/default/{path}", headers=team.bearer()).body for path in paths]
    return [facts, files, metrics, found]


def test_a08_a_runs_token_reads_and_changes_nothing_of_another_run(secretive: Team) -> None:
    """The control: the owner finds the secret in several of the same answers."""
    team, experiment = secretive, experiment_of(secretive)
    search = TABLE["POST", "mlflow/runs/search"]  # answers of the token's own run and its relatives
    reads = [found for found in TABLE.values() if "run" in found.verbs[0] and found is not search]
    before = state_of(team)
    foreign = {found: ask(team.unix, found, team.second.token, team.first.id, experiment) for found in TABLE.values()}
    after = state_of(team)

    leaking = [found.template for found, answer in foreign.items() if team.secret in answer.body]
    assert leaking == []
    of_first = [
        [[row for row in rows if team.first.id in str(row)] for rows in (state[0], state[1])]  # type: ignore[attr-defined]
        for state in (before, after)
    ]
    assert of_first[0] == of_first[1]
    assert {foreign[found].status for found in reads} <= {400, 403, 404, 501}
    assert foreign[search].status == 200 and team.first.id.encode() not in foreign[search].body
    found_by_owner = [
        found.template
        for found in TABLE.values()
        if found.method == "GET" or found.template.endswith("search")
        if team.secret in ask(team.unix, found, team.token, team.first.id, experiment).body
    ]
    assert len(found_by_owner) >= 4, found_by_owner


def test_a12_a_reader_changes_nothing_by_any_endpoint(secretive: Team) -> None:
    """The control: the owner's same requests change runs, experiments and models (in a run of their own)."""
    team, experiment = secretive, experiment_of(secretive)
    before = state_of(team)
    answers = {
        found: ask(team.unix, found, team.tokens["reader"], team.first.id, experiment) for found in TABLE.values()
    }

    assert state_of(team) == before
    writes = [found for found in TABLE.values() if RIGHTS[found.verbs[0]].role != READER]
    assert len(writes) >= 15
    refused = {found.template: answers[found].status for found in writes if answers[found].status != 403}
    assert set(refused.values()) <= {400, 404, 501}, refused
    for answer in answers.values():
        if answer.status >= 400:
            assert set(json.loads(answer.body)) == {"error_code", "message"}
    for found in writes:
        if "delete" not in found.template and found.method != "DELETE":
            ask(team.unix, found, team.token, team.second.id, experiment)
    assert state_of(team) != before


def test_a01_without_a_token_every_endpoint_answers_401_in_mlflows_words(secretive: Team) -> None:
    for found in TABLE.values():
        answer = ask(secretive.wire, found, "", secretive.first.id, "0")
        assert (answer.status, json.loads(answer.body)["error_code"]) == (401, "UNAUTHENTICATED"), found


def post(victim: Victim, path: str, body: bytes) -> Answer:
    headers = [*victim.bearer(), ("Content-Type", "application/json")]
    return victim.unix.send("POST", f"{API}/mlflow/{path}", headers=headers, body=body)


def made_run(victim: Victim) -> str:
    made = post(victim, "runs/create", b'{"experiment_id": "0"}')
    assert made.status == 200
    return str(json.loads(made.body)["run"]["info"]["run_id"])


@pytest.mark.long
@pytest.mark.parametrize("kind", ["tags", "params", "metrics", "filter", "order", "nested", "number"])
def test_a81_what_is_far_too_much_is_refused_and_others_are_answered_meanwhile(victim: Victim, kind: str) -> None:
    run_id = made_run(victim)
    items = [
        {"key": f"k{n}", "value": "1", "timestamp": 1, "step": n} for n in range(1_000_000 if kind == "tags" else 2000)
    ]
    path, body = {
        "filter": ("runs/search", json.dumps({"experiment_ids": ["0"], "filter": "tags.a = '" + "x" * MIB + "'"})),
        "order": ("runs/search", json.dumps({"experiment_ids": ["0"], "order_by": ["metrics.m DESC"] * 100_000})),
        "nested": ("runs/log-batch", "[" * 100_000 + "]" * 100_000),
        "number": (
            "runs/log-metric",
            f'{{"run_id": "{run_id}", "key": "m", "value": {"9" * MIB}, "timestamp": 1}}',
        ),
    }.get(kind) or ("runs/log-batch", json.dumps({"run_id": run_id, kind: items}))
    others: list[int] = []
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            others.append(victim.unix.send("GET", "/api/v1/workspaces", headers=victim.bearer()).status)

    looking = threading.Thread(target=look)
    looking.start()
    answer = post(victim, path, body.encode())
    done.set()
    looking.join()

    assert 400 <= answer.status < 500, answer
    assert set(json.loads(answer.body)) == {"error_code", "message"}
    assert set(others) == {200}
    run = victim.client.runs.get(run_id)
    assert run.tags == {}
    assert victim.client.runs.metrics(run_id) == []
    # The control: what is just enough is taken.
    few = json.dumps({"run_id": run_id, "tags": items[:100]}).encode()
    assert post(victim, "runs/log-batch", few).status == 200
    assert len(victim.client.runs.get(run_id).tags) == 100


@pytest.mark.long
def test_a81_a_file_of_a_gigabyte_passes_through_little_memory(victim: Victim, tmp_path: Path) -> None:
    run_id, size, piece = made_run(victim), 1 << 30, b"\0" * MIB
    pid = int(victim.client.server.info().pid)
    before = peak_of(pid)
    with victim.unix.connect() as connection:
        connection.settimeout(300)
        target = f"{API}/mlflow-artifacts/artifacts/runs/{run_id}/large.bin"
        head = f"PUT {target} HTTP/1.1\r\nHost: runyard\r\nConnection: close\r\nContent-Length: {size}\r\n"
        connection.sendall(f"{head}Authorization: Bearer {victim.token}\r\n\r\n".encode())
        for _ in range(size // MIB):
            connection.sendall(piece)
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")

    [file] = [file for file in victim.client.runs.files(run_id) if file.name == "large.bin"]
    assert file.size == size
    assert peak_of(pid) - before < 128 * MIB


def peak_of(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))
