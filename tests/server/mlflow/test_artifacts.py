"""Files of runs over MLflow's door: one body each, of any type; what leads out of a run is refused."""

from __future__ import annotations

import hashlib
import json
import socket
from typing import Any

import pytest

from runyard.core.statuses import RunStatus
from runyard.testing.runs import a_run
from tests.server.mlflow.conftest import Door

AT = "/api/2.0/mlflow-artifacts/artifacts"


@pytest.fixture
def run(door: Door) -> Door:
    store = door.served.services.store
    a_run(store, "r1")
    a_run(store, "r2")
    store.set_status("r1", RunStatus.RUNNING)
    return door


def put(door: Door, path: str, body: bytes, content_type: str = "text/plain") -> tuple[int, dict[str, Any]]:
    status, answer = door.raw("PUT", f"{AT}/{path}", body, content_type=content_type)
    return status, json.loads(answer)


def listed(door: Door, path: str = "") -> list[dict[str, Any]]:
    status, answer = door.get(f"artifacts/list?run_id=r1&path={path}")
    assert (status, answer.get("root_uri")) == (200, "mlflow-artifacts:/runs/r1")
    files: list[dict[str, Any]] = answer["files"]
    return files


def test_a_file_is_the_runs_own_and_comes_back_as_a_download(run: Door) -> None:
    body = bytes(range(256)) * (20 << 10)  # 5 MiB, more than a chunk

    assert put(run, "runs/r1/model/a;b.bin", body, "application/x-anything") == (200, {})

    [file] = run.served.services.store.list_files("r1")
    assert (file.name, file.size, file.sha256) == ("model/a;b.bin", len(body), hashlib.sha256(body).hexdigest())
    assert run.raw("GET", f"{AT}/runs/r1/model/a;b.bin") == (200, body)
    assert run.raw("GET", "/api/2.0/mlflow/artifacts/get?run_id=r1&path=model%2Fa%3Bb.bin") == (200, body)


def test_folders_are_listed_as_mlflow_does(run: Door) -> None:
    for name in ("b.txt", "model/MLmodel", "model/data/x.pkl", "modelling.txt"):
        put(run, f"runs/r1/{name}", b"four")

    assert listed(run) == [
        {"path": "b.txt", "is_dir": False, "file_size": 4},
        {"path": "model", "is_dir": True},
        {"path": "modelling.txt", "is_dir": False, "file_size": 4},
    ]
    assert [item["path"] for item in listed(run, "model")] == ["model/MLmodel", "model/data"]
    assert listed(run, "b.txt") == [{"path": "b.txt", "is_dir": False, "file_size": 4}]
    assert listed(run, "none") == []
    status, answer = run.raw("GET", f"{AT}?path=runs/r1/model")
    assert status == 200
    assert json.loads(answer)["files"] == [
        {"path": "MLmodel", "is_dir": False, "file_size": 4},
        {"path": "data", "is_dir": True},
    ]
    assert json.loads(run.raw("GET", f"{AT}?path=runs/r1/b.txt")[1]) == {"files": []}


def test_an_open_run_takes_a_newer_file_and_an_ended_one_keeps_its_own(run: Door) -> None:
    put(run, "runs/r1/a", b"one")
    assert put(run, "runs/r1/a", b"two") == (200, {})
    run.served.services.store.set_status("r1", RunStatus.COMPLETED)

    assert put(run, "runs/r1/a", b"two") == (200, {})
    status, answer = put(run, "runs/r1/a", b"three")
    assert (status, answer["error_code"]) == (400, "RESOURCE_ALREADY_EXISTS")
    status, deleted = run.raw("DELETE", f"{AT}/runs/r1/a")
    assert (status, json.loads(deleted)["error_code"]) == (400, "INVALID_PARAMETER_VALUE")
    assert run.raw("GET", f"{AT}/runs/r1/a") == (200, b"two")
    assert put(run, "runs/r1/later", b"x") == (200, {})


def test_a_file_or_a_folder_is_deleted(run: Door) -> None:
    for name in ("a", "d/one", "d/two", "de"):
        put(run, f"runs/r1/{name}", b"x")

    assert run.raw("DELETE", f"{AT}/runs/r1/d") == (200, b"{}")
    assert run.raw("DELETE", f"{AT}/runs/r1/a")[0] == 200
    assert [file.name for file in run.served.services.store.list_files("r1")] == ["de"]
    status, answer = run.raw("DELETE", f"{AT}/runs/r1/a")
    assert (status, json.loads(answer)["error_code"]) == (404, "RESOURCE_DOES_NOT_EXIST")


@pytest.mark.parametrize(
    "path",
    [
        "runs/r1/../r2/x",
        "runs/r1/a/../../x",
        "runs/r1/%2e%2e/r2/x",
        "runs/r1/%252e%252e%252fr2%252fx",
        "runs/r1/..%255cx",
        "runs/r1/%2fetc%2fpasswd",
        "runs/r1//etc/passwd",
        "runs/r1/a%00b",
        "runs/r1/%2500",
        "runs/r1/C:%5cx",
        "runs/r1/" + ("%" + "25" * 20 + "2e") * 2 + "/x",
        "runs/r1",
        "runs/r1/",
        "experiments/0/x",
        "x",
        "../../x",
    ],
)
@pytest.mark.parametrize("method", ["PUT", "GET", "DELETE"])
def test_what_is_no_file_of_a_run_is_refused_in_mlflows_words(run: Door, method: str, path: str) -> None:
    status, answer = run.raw(method, f"{AT}/{path}", b"bad" if method == "PUT" else None)

    assert 400 <= status < 500, answer
    assert set(json.loads(answer)) == {"error_code", "message"}
    assert run.served.services.store.list_files("r1") == run.served.services.store.list_files("r2") == []


@pytest.mark.parametrize("path", ["..", "../r2", "%252e%252e/x", "/etc", "a%00b"])
def test_no_list_leads_out_of_a_run(run: Door, path: str) -> None:
    status, answer = run.get(f"artifacts/list?run_id=r1&path={path}")
    assert (status, answer["error_code"]) == (400, "INVALID_PARAMETER_VALUE")
    status, body = run.raw("GET", f"{AT}?path=runs/r1/{path}")
    assert (status, json.loads(body)["error_code"]) == (400, "INVALID_PARAMETER_VALUE")


def test_a_run_of_another_workspace_is_unknown(run: Door) -> None:
    put(run, "runs/r1/a", b"one")
    other = run.at("/mlflow/another")

    assert other.raw("GET", f"{AT}/runs/r1/a")[0] == 404
    assert put(other, "runs/r1/a", b"two")[0] == 404
    assert run.raw("GET", f"{AT}/runs/r1/a") == (200, b"one")


def test_what_does_not_arrive_whole_has_no_name(run: Door) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(run.served.address.path))
        head = (
            f"PUT /mlflow/default{AT}/runs/r1/cut HTTP/1.1\r\nHost: runyard\r\nAuthorization: {run.authorization}\r\n"
        )
        connection.sendall(f"{head}Content-Length: 100\r\n\r\nonly this".encode())
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(4096):
            pass

    assert run.served.services.store.list_files("r1") == []


def test_a_large_file_in_parts_is_not_offered(run: Door) -> None:
    status, answer = run.raw("POST", "/api/2.0/mlflow-artifacts/mpu/create/runs/r1/a", b"{}")
    assert (status, json.loads(answer)["error_code"]) == (501, "NOT_IMPLEMENTED")


def test_other_paths_take_no_other_type_and_no_more_bytes(run: Door) -> None:
    status, _ = run.raw("POST", "/api/2.0/mlflow/experiments/create", b"name=x", content_type="text/plain")
    assert status == 415
    status, _ = run.raw("POST", f"{AT}/runs/r1/a", b" " * (17 << 20))
    assert status == 413


def test_the_paths_of_mlflows_own_pages_give_files_of_runs_and_versions(door: Door) -> None:
    _, made = door.post("runs/create", experiment_id="0")
    run_id = made["run"]["info"]["run_id"]
    place = f"/api/2.0/mlflow-artifacts/artifacts/runs/{run_id}/model/data.txt"
    assert door.raw("PUT", place, b"content", content_type="text/plain")[0] == 200
    door.post("registered-models/create", name="net")
    door.post("model-versions/create", name="net", source=f"runs:/{run_id}/model", run_id=run_id)

    assert door.raw("GET", f"/get-artifact?run_id={run_id}&path=model/data.txt") == (200, b"content")
    assert door.raw("GET", f"/get-artifact?run_uuid={run_id}&path=model/data.txt") == (200, b"content")
    version = "/model-versions/get-artifact?name=net&version=1"
    assert door.raw("GET", f"{version}&path=data.txt") == (200, b"content")
    assert door.raw("GET", f"{version}&path=../data.txt")[0] == 400
    assert door.raw("GET", f"{version}&path=other.txt")[0] == 404
    assert door.raw("GET", f"/get-artifact?run_id={run_id}&path=../data.txt")[0] == 400
