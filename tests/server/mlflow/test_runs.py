"""Runs over MLflow's door: what a client makes and logs is a run of ours, and every run of ours is readable there."""

from __future__ import annotations

from typing import Any

import pytest

from runyard.core.records import NewRun
from runyard.core.statuses import RunStatus
from tests.server.mlflow.conftest import Door


def _create(door: Door, **fields: Any) -> str:
    status, answer = door.post("runs/create", experiment_id="0", start_time=1_700_000_000_000, **fields)
    assert status == 200, answer
    return str(answer["run"]["info"]["run_id"])


def _run(door: Door, run_id: str) -> dict[str, Any]:
    status, answer = door.get(f"runs/get?run_id={run_id}")
    assert status == 200, answer
    run: dict[str, Any] = answer["run"]
    return run


def _pairs(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {row["key"]: row["value"] for row in rows}


def test_a_client_makes_logs_and_ends_a_run(door: Door) -> None:
    run_id = _create(door, run_name="first", user_id="ann", tags=[{"key": "a", "value": "1"}])
    for step, value in enumerate([0.5, 0.25]):
        door.post("runs/log-metric", run_id=run_id, key="loss/x", value=value, timestamp=str(1000 + step), step=step)
    door.post("runs/log-parameter", run_id=run_id, key="lr", value="0.1")
    door.post("runs/set-tag", run_id=run_id, key="mlflow.note.content", value="a note")
    status, ended = door.post("runs/update", run_id=run_id, status="FINISHED", end_time=1_700_000_001_000)
    run = _run(door, run_id)
    ours = door.served.services.store.get_run(run_id)

    assert (status, ended["run_info"]["status"]) == (200, "FINISHED")
    assert (run["info"]["start_time"], run["info"]["end_time"]) == (1_700_000_000_000, 1_700_000_001_000)
    assert (run["info"]["run_name"], run["info"]["user_id"]) == ("first", "ann")
    assert _pairs(run["data"]["metrics"]) == {"loss/x": 0.25}
    assert _pairs(run["data"]["params"]) == {"lr": "0.1"}
    assert _pairs(run["data"]["tags"]) == {
        "a": "1", "mlflow.runName": "first", "mlflow.user": "ann", "mlflow.note.content": "a note"
    }  # fmt: skip
    assert (ours.type, ours.status, ours.description) == ("mlflow", RunStatus.COMPLETED, "a note")
    assert door.served.services.store.read_series(run_id, "loss/x").values.tolist() == [0.5, 0.25]  # type: ignore[union-attr]  # numbers


def test_an_ended_run_opens_again(door: Door) -> None:
    run_id = _create(door)
    door.post("runs/update", run_id=run_id, status="FAILED")
    door.post("runs/update", run_id=run_id, status="RUNNING")
    run = door.served.services.store.get_run(run_id)

    assert (run.status, run.ended_at) == (RunStatus.RUNNING, None)
    assert [phase.status.value for phase in run.timeline] == ["Running", "Failed", "Running"]


def test_a_point_that_is_sent_twice_is_one(door: Door) -> None:
    run_id = _create(door)
    point = {"key": "m", "value": "NaN", "timestamp": 5, "step": 1}
    for _ in range(2):
        door.post("runs/log-metric", run_id=run_id, **point)
        door.post("runs/log-batch", run_id=run_id, metrics=[point, {**point, "value": 2.5}])
    status, answer = door.get(f"metrics/get-history?run_id={run_id}&metric_key=m")

    assert status == 200
    assert [(row["value"], row["timestamp"], row["step"]) for row in answer["metrics"]] == [("NaN", 5, 1), (2.5, 5, 1)]


def test_the_value_of_a_metric_is_the_one_of_its_highest_step(door: Door) -> None:
    run_id = _create(door)
    for step, value in ((2, 1.0), (3, "NaN"), (1, 5.0)):
        door.post("runs/log-metric", run_id=run_id, key="late", value=value, timestamp=5, step=step)
    points = [{"key": "at once", "value": value, "timestamp": time} for value, time in ((1, 7), (2, 8), (9, 6))]
    door.post("runs/log-batch", run_id=run_id, metrics=points)

    assert _pairs(_run(door, run_id)["data"]["metrics"]) == {"late": "NaN", "at once": 2}


def test_a_parameter_never_changes_and_a_batch_is_all_or_nothing(door: Door) -> None:
    run_id = _create(door)
    door.post("runs/log-parameter", run_id=run_id, key="p", value="1")
    again = door.post("runs/log-parameter", run_id=run_id, key="p", value="1")
    other = door.post("runs/log-parameter", run_id=run_id, key="p", value="2")
    batch = door.post(
        "runs/log-batch",
        run_id=run_id,
        metrics=[{"key": "m", "value": 1, "timestamp": 1}],
        params=[{"key": "q", "value": "1"}, {"key": "p", "value": "3"}],
        tags=[{"key": "t", "value": "1"}],
    )
    run = _run(door, run_id)

    assert again == (200, {})
    assert other[0] == 400 and other[1]["error_code"] == "INVALID_PARAMETER_VALUE"
    assert other[1]["message"].startswith("Changing param values is not allowed. Param with key='p' was already")
    assert batch[0] == 400
    assert "'old_value': '1', 'new_value': '3'" in batch[1]["message"]
    assert _pairs(run["data"]["params"]) == {"p": "1"}
    assert run["data"]["metrics"] == []
    assert "t" not in _pairs(run["data"]["tags"])


def test_a_deleted_run_takes_nothing_until_it_is_restored(door: Door) -> None:
    run_id = _create(door)
    door.post("runs/delete", run_id=run_id)
    refused = door.post("runs/set-tag", run_id=run_id, key="t", value="1")
    stage = _run(door, run_id)["info"]["lifecycle_stage"]
    door.post("runs/restore", run_id=run_id)

    assert (refused[0], refused[1]["error_code"]) == (400, "INVALID_PARAMETER_VALUE")
    assert "must be in the 'active' state" in refused[1]["message"]
    assert (stage, _run(door, run_id)["info"]["lifecycle_stage"]) == ("deleted", "active")


def test_a_nested_run_is_a_child(door: Door) -> None:
    parent = _create(door)
    child = _create(door, tags=[{"key": "mlflow.parentRunId", "value": parent}])

    assert door.served.services.store.get_run(child).parent_id == parent
    assert _pairs(_run(door, child)["data"]["tags"])["mlflow.parentRunId"] == parent


def test_a_run_of_another_type_is_readable_and_keeps_its_status(door: Door) -> None:
    store = door.served.services.store
    store.create_run(NewRun("k", "ours", "default", "e", status=RunStatus.QUEUED, display_name="n", submitted_by="ann"))
    before = _run(door, "ours")["info"]
    status, answer = door.post("runs/update", run_id="ours", status="FINISHED")

    assert (before["status"], before["run_name"], before["user_id"]) == ("SCHEDULED", "n", "ann")
    assert (status, answer["run_info"]["status"]) == (200, "SCHEDULED")


@pytest.mark.parametrize(
    ("path", "fields", "part"),
    [
        ("runs/log-metric", {"key": "m", "timestamp": 1}, "'value'"),
        ("runs/log-metric", {"key": "m", "value": "x", "timestamp": 1}, "'value'"),
        ("runs/log-metric", {"key": "m", "value": 1, "timestamp": -1}, "Timestamp must be"),
        ("runs/log-metric", {"key": "../m", "value": 1, "timestamp": 1}, "would resolve to"),
        ("runs/log-parameter", {"key": "a%b", "value": "1"}, "Names may only contain"),
        ("runs/set-tag", {"key": "k" * 251, "value": "1"}, "maximum length of 250"),
        ("runs/log-batch", {"params": [{"key": f"p{n}", "value": ""} for n in range(101)]}, "at most 100 params"),
        ("runs/log-batch", {"params": [{"key": "p", "value": "1"}] * 2}, "Duplicate parameter keys"),
        ("runs/update", {"status": "DONE"}, "'status'"),
    ],
)
def test_wrong_requests_are_refused_in_mlflows_words(door: Door, path: str, fields: Any, part: str) -> None:
    status, answer = door.post(path, run_id=_create(door), **fields)

    assert (status, answer["error_code"]) == (400, "INVALID_PARAMETER_VALUE")
    assert part in answer["message"]


def test_history_comes_in_pages_and_in_intervals(door: Door) -> None:
    run_id = _create(door)
    points = [{"key": "m", "value": n, "timestamp": n, "step": n} for n in range(10)]
    door.post("runs/log-batch", run_id=run_id, metrics=points)
    _, page = door.get(f"metrics/get-history?run_id={run_id}&metric_key=m&max_results=6")
    token = page["next_page_token"]
    _, rest = door.get(f"metrics/get-history?run_id={run_id}&metric_key=m&max_results=6&page_token={token}")
    _, some = door.get(
        f"metrics/get-history-bulk-interval?run_ids={run_id}&metric_key=m&start_step=2&end_step=8&max_results=3"
    )

    assert [row["step"] for row in page["metrics"] + rest["metrics"]] == list(range(10))
    assert "next_page_token" not in rest
    assert [row["step"] for row in some["metrics"]] == [2, 5, 8]


def test_an_experiment_is_tagged_deleted_and_restored(door: Door) -> None:
    _, made = door.post("experiments/create", name="e")
    identity = made["experiment_id"]
    door.post("experiments/set-experiment-tag", experiment_id=identity, key="t", value="1")
    door.post("experiments/delete", experiment_id=identity)
    refused = door.post("runs/create", experiment_id=identity)
    stage = door.get(f"experiments/get?experiment_id={identity}")[1]["experiment"]["lifecycle_stage"]
    door.post("experiments/restore", experiment_id=identity)
    _, found = door.get(f"experiments/get?experiment_id={identity}")

    assert (refused[0], stage) == (400, "deleted")
    assert found["experiment"]["lifecycle_stage"] == "active"
    assert found["experiment"]["tags"] == [{"key": "t", "value": "1"}]


def test_a_metric_comes_with_the_time_and_step_of_its_latest_point(door: Door) -> None:
    run_id = _create(door)
    for step, timestamp, value in ((-1, 900, 9.0), (3, 50, 10.0), (3, 50, 20.0), (3, 40, 100.0)):
        door.post("runs/log-metric", run_id=run_id, key="m", value=value, timestamp=timestamp, step=step)

    assert _run(door, run_id)["data"]["metrics"] == [{"key": "m", "value": 20.0, "timestamp": 50, "step": 3}]


def test_long_values_of_parameters_and_tags_are_kept_whole(door: Door) -> None:
    run_id, long = _create(door), "x" * 9000
    logged = door.post("runs/log-parameter", run_id=run_id, key="p", value=long)
    tagged = door.post("runs/set-tag", run_id=run_id, key="t", value=long)
    data = _run(door, run_id)["data"]

    assert (logged, tagged) == ((200, {}), (200, {}))
    assert _pairs(data["params"])["p"] == _pairs(data["tags"])["t"] == long


def test_the_tag_of_the_name_goes_without_the_name_and_comes_back_with_a_new_one(door: Door) -> None:
    run_id = _create(door, run_name="first")
    deleted = door.post("runs/delete-tag", run_id=run_id, key="mlflow.runName")
    without, again = _run(door, run_id), door.post("runs/delete-tag", run_id=run_id, key="mlflow.runName")
    door.post("runs/update", run_id=run_id, run_name="second")
    renamed = _run(door, run_id)

    assert (deleted, again[0]) == ((200, {}), 404)
    assert (without["info"]["run_name"], "mlflow.runName" in _pairs(without["data"]["tags"])) == ("first", False)
    assert (renamed["info"]["run_name"], _pairs(renamed["data"]["tags"])["mlflow.runName"]) == ("second", "second")


def test_runs_of_a_deleted_experiment_are_deleted_until_it_is_restored(door: Door) -> None:
    _, made = door.post("experiments/create", name="e")
    identity = made["experiment_id"]
    _, created = door.post("runs/create", experiment_id=identity)
    run_id = created["run"]["info"]["run_id"]
    door.post("experiments/delete", experiment_id=identity)
    seen = [_run(door, run_id)["info"]["lifecycle_stage"], *_stages(door, identity)]
    refused = _write_everything(door, run_id)
    door.post("experiments/restore", experiment_id=identity)

    assert {answer["message"] for _, answer in refused} == {
        f"The run {run_id} must be in the 'active' state. Current state is deleted."
    }
    assert {status for status, _ in _write_everything(door, run_id)} == {200}
    assert seen == ["deleted", ("ACTIVE_ONLY", []), ("DELETED_ONLY", ["deleted"]), ("ALL", ["deleted"])]
    assert _stages(door, identity) == [("ACTIVE_ONLY", ["active"]), ("DELETED_ONLY", []), ("ALL", ["active"])]


def _write_everything(door: Door, run_id: str) -> list[tuple[int, Any]]:
    point = {"key": "m", "value": 1, "timestamp": 1, "step": 1}
    return [
        door.post("runs/log-metric", run_id=run_id, **point),
        door.post("runs/log-batch", run_id=run_id, metrics=[point]),
        door.post("runs/log-parameter", run_id=run_id, key="p", value="1"),
        door.post("runs/set-tag", run_id=run_id, key="t", value="1"),
        door.post("runs/update", run_id=run_id, status="FINISHED"),
        door.post("runs/log-inputs", run_id=run_id, datasets=[]),
    ]


def _stages(door: Door, experiment_id: str) -> list[Any]:
    views = ("ACTIVE_ONLY", "DELETED_ONLY", "ALL")
    found = [door.post("runs/search", experiment_ids=[experiment_id], run_view_type=view)[1] for view in views]
    return [
        (view, [run["info"]["lifecycle_stage"] for run in page.get("runs", [])]) for view, page in zip(views, found)
    ]


@pytest.mark.parametrize("path", ["runs/log-parameter", "runs/set-tag", "runs/log-metric"])
def test_the_run_is_the_first_field_that_is_looked_at(door: Door, path: str) -> None:
    _, answer = door.post(path, run_id=31, key="k", value={}, timestamp=1)

    assert "Invalid value 31 for parameter 'run_id' supplied" in answer["message"]


def test_times_that_are_zero_are_times(door: Door) -> None:
    _, made = door.post("runs/create", experiment_id="0", start_time=0)
    run_id = made["run"]["info"]["run_id"]
    door.post("runs/update", run_id=run_id, status="FINISHED", end_time=0)
    info = _run(door, run_id)["info"]

    assert (info["start_time"], info["end_time"]) == (0, 0)


def test_only_an_active_experiment_is_deleted_and_only_a_deleted_one_restored(door: Door) -> None:
    _, made = door.post("experiments/create", name="e")
    steps = ("restore", "delete", "delete", "restore")
    found = [door.post(f"experiments/{step}", experiment_id=made["experiment_id"]) for step in steps]

    assert [answer.get("error_code") for _, answer in found] == [
        "RESOURCE_DOES_NOT_EXIST",
        None,
        "RESOURCE_DOES_NOT_EXIST",
        None,
    ]
