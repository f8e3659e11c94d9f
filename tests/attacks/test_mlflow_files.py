"""A12, A15 to A17 and A25 over MLflow's door: other users' runs, paths of artifacts, and sources of model versions."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

from runyard.server.mlflow.endpoints import TABLE
from tests.attacks.conftest import Team, Victim
from tests.attacks.payloads import absolutes, behind_marks, traversals
from tests.attacks.test_mlflow import API, BASE, ask, experiment_of, made_run, post
from tests.attacks.weak import weak_server
from tests.attacks.wire import Answer

FILES = f"{API}/mlflow-artifacts/artifacts"


def send(victim: Victim, method: str, target: str, body: bytes = b"") -> Answer:
    # What would end the request line cannot stand in it; those payloads go in encoded.
    safe = target.replace(" ", "%20").replace("\0", "%00").replace("#", "%23")
    return victim.unix.send(method, safe, headers=victim.bearer(), body=body)


def payloads(target: Path, every: int) -> list[str]:
    place = str(target)
    return [*traversals(place)[::every], *absolutes(place), *behind_marks(place)]


def parts_of(team: Team, run_id: str) -> list[object]:
    run = team.client.runs.get(run_id)
    files = [(file.name, file.sha256) for file in team.client.runs.files(run_id)]
    record = (run.status, run.tags, run.parameters, run.properties, run.display_name, run.description, run.archived_at)
    return [
        record,
        [name for name in files if not name[0].startswith("system_logs/")],
        team.client.runs.metrics(run_id),
    ]


def test_a12_a_user_changes_nothing_of_another_users_run(team: Team) -> None:
    """The control: the owner's same requests change a run of the owner's."""
    experiment = experiment_of(team)
    before = parts_of(team, team.first.id)
    path = f"{FILES}/runs/{team.first.id}/planted.txt"
    upload = [("Authorization", f"Bearer {team.tokens['user']}")]
    planted = team.unix.send("PUT", path, headers=upload, body=b"planted")
    for found in TABLE.values():
        answer = ask(team.unix, found, team.tokens["user"], team.first.id, experiment)
        assert answer.status < 500 or answer.status == 501, (found.template, answer)

    assert (planted.status, json.loads(planted.body)["error_code"]) == (403, "PERMISSION_DENIED")
    assert parts_of(team, team.first.id) == before
    unchanged = parts_of(team, team.second.id)
    for found in TABLE.values():
        if found.method == "POST" and "delete" not in found.template:
            ask(team.unix, found, team.token, team.second.id, experiment)
    assert parts_of(team, team.second.id) != unchanged


@pytest.mark.parametrize(
    "place",
    [
        f"{FILES}/runs/{{}}/",
        f"{FILES}/",
        f"{FILES}?path=runs/{{}}/",
        f"{FILES}/models/",
        f"{FILES}/registered/",
        f"{API}/mlflow/artifacts/get?run_id={{}}&path=",
        f"{API}/mlflow/artifacts/list?run_id={{}}&path=",
        f"{BASE}/get-artifact?run_id={{}}&path=",
        f"{BASE}/model-versions/get-artifact?name=net&version=1&path=",
    ],
)
def test_a15_reading_an_artifact_never_leaves_the_store(victim: Victim, tmp_path: Path, place: str) -> None:
    names = payloads(victim.canary, 20)
    run_id = made_run(victim)
    assert send(victim, "PUT", f"{FILES}/runs/{run_id}/model/data.txt", b"inside").status == 200
    post(victim, "registered-models/create", b'{"name": "net"}')
    source = {"name": "net", "source": f"runs:/{run_id}/model", "run_id": run_id}
    assert post(victim, "model-versions/create", json.dumps(source).encode()).status == 200
    for name in names:
        answer = send(victim, "GET", place.format(victim.first.id) + name)

        assert victim.secret not in answer.body, name
        assert answer.status < 500, (name, answer)
    with weak_server(tmp_path / "a" / "b") as weak:
        assert [name for name in names if victim.secret in weak.send("GET", f"/runs/x/files/{quote(name)}").body] or [
            name
            for name in traversals(str(victim.canary))[:400]
            if victim.secret in weak.send("GET", f"/api/v1/runs/x/files/{name.replace(' ', '%20')}").body
        ]


def test_a24_an_artifact_is_written_and_deleted_inside_its_run_alone(victim: Victim, tmp_path: Path) -> None:
    target, run_id, other = victim.canary.parent / "planted", made_run(victim), made_run(victim)
    send(victim, "PUT", f"{FILES}/runs/{other}/kept.txt", b"kept")
    before = set(victim.canary.parent.iterdir())
    names = [*payloads(target, 20), f"../{other}/kept.txt", f"%2e%2e/{other}/kept.txt", f"..%2f{other}%2fkept.txt"]
    for name in names:
        for method in ("PUT", "DELETE"):
            answer = send(victim, method, f"{FILES}/runs/{run_id}/{name}", b"planted" if method == "PUT" else b"")
            assert answer.status < 500, (method, name, answer)

    assert set(victim.canary.parent.iterdir()) == before
    assert len(victim.secret) == 64
    assert send(victim, "GET", f"{FILES}/runs/{other}/kept.txt").body == b"kept"
    stored = [file.name for file in victim.client.runs.files(run_id)]
    assert not [name for name in stored if {"..", ".", ""} & set(name.split("/")) or "\\" in name]
    with weak_server(tmp_path / "a" / "b") as weak:
        weak.send("POST", f"/api/v1/runs/x/files/{'../' * 8}{str(target).lstrip('/')}", body=b"planted")
        assert target.exists()
        target.unlink()


@contextmanager
def visited() -> Iterator[tuple[int, list[bytes]]]:
    """A listener, and what came to it."""
    came: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(30)

        def listen() -> None:
            while True:
                connection, _ = listener.accept()
                with connection:
                    connection.settimeout(5)
                    came.append(connection.recv(1000))
                if came[-1] == b"end":
                    return

        listening = threading.Thread(target=listen)
        listening.start()
        port = listener.getsockname()[1]
        try:
            yield port, came
        finally:
            with socket.create_connection(("127.0.0.1", port)) as connection:
                connection.sendall(b"end")
            listening.join()


def test_a16_a_version_is_made_of_nothing_outside_of_the_server(victim: Victim) -> None:
    """The control: a source inside is registered, and the listener notes a visit."""
    run_id = made_run(victim)
    send(victim, "PUT", f"{FILES}/runs/{run_id}/model/data.txt", b"inside")
    victim.client.workspaces.put("elsewhere")
    post(victim, "registered-models/create", json.dumps({"name": "outside"}).encode())
    with visited() as (port, came):
        sources = [
            *payloads(victim.canary, 40),
            *(f"runs:/{run_id}/{name}" for name in traversals(str(victim.canary))[::40]),
            *(f"mlflow-artifacts:/runs/{run_id}/{name}" for name in traversals(str(victim.canary))[::40]),
            f"http://127.0.0.1:{port}/model",
            f"http://127.0.0.1:{port}/mlflow/default/api/2.0/mlflow-artifacts/artifacts/../../canary",
            f"mlflow-artifacts://127.0.0.1:{port}/runs/{run_id}/model",
            f"s3://127.0.0.1:{port}/bucket/model",
            f"ftp://127.0.0.1:{port}/model",
            f"azureml://127.0.0.1:{port}/mlflow/v2.0/workspaces/default/model",
            "models:/outside/99",
            "dbfs:/model",
            "",
            ".",
            "..",
        ]
        for source in sources:
            if any("\ud800" <= letter <= "\udfff" for letter in source):
                continue
            body = json.dumps({"name": "outside", "source": source, "run_id": run_id}).encode()
            answer = post(victim, "model-versions/create", body)
            assert answer.status < 500, (source, answer)
            if answer.status != 200:
                assert set(json.loads(answer.body)) == {"error_code", "message"}, source
                assert victim.secret not in answer.body
        assert [visit for visit in came if visit != b"end"] == []
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(b"control")
    assert b"control" in came
    inside = json.dumps({"name": "outside", "source": f"runs:/{run_id}/model", "run_id": run_id}).encode()
    made = post(victim, "model-versions/create", inside)
    version = json.loads(made.body)["model_version"]["version"]
    assert send(victim, "GET", f"{FILES}/registered/outside/{version}/data.txt").body == b"inside"
    for number in range(1, int(version)):
        listed = json.loads(send(victim, "GET", f"{FILES}?path=registered/outside/{number}").body)
        assert [file for file in listed.get("files", []) if file["path"] not in ("model", "data.txt")] == [], number
