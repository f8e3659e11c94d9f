"""Many runs in one answer: what compare and sweep pages read."""

from __future__ import annotations

from typing import Any

import pytest

from runyard.core.errors import InvalidArgument, NotAllowed
from tests.engine.bench import header, journal_frame, name, number
from tests.server.conftest import Served


def log(served: Served, run_id: str, **metrics: list[float]) -> None:
    records = [header()]
    for at, (metric, values) in enumerate(metrics.items()):
        records += [name(at, metric), *(number(at, value) for value in values)]
    served.as_run(run_id).runs.ship(run_id, [journal_frame(b"".join(records))])


def read(served: Served, *ids: str) -> Any:
    query = "&".join(f"id={run_id}" for run_id in ids)
    return served.client.transport.request("GET", f"/runs?{query}").json()


def summary(client: Any, **body: Any) -> Any:
    return client.transport.request("POST", "/metrics/summary", json=body).json()


def test_runs_come_in_the_order_asked_for_and_missing_ones_are_named(served: Served) -> None:
    for run_id in ("exp_1", "exp_2"):
        served.submit(run_id)
    found = read(served, "exp_2", "gone", "exp_1", "exp_2")

    assert [run["id"] for run in found["runs"]] == ["exp_2", "exp_1"] and found["missing"] == ["gone"]
    assert found["runs"][0]["parameters"] == {"alpha": "0.5"}


def test_no_run_too_many_and_odd_ids_are_refused(served: Served) -> None:
    for ids in ([], [f"r{at}" for at in range(101)], ["a/b"]):
        with pytest.raises(InvalidArgument):
            read(served, *ids)
    with pytest.raises(InvalidArgument, match="1 to 1000"):
        summary(served.client, runs=[f"r{at}" for at in range(1001)])
    with pytest.raises(InvalidArgument, match="100 is the most"):
        summary(served.client, runs=["exp_1"], names=[f"m{at}" for at in range(101)])


def test_metrics_of_runs_are_summarized_by_name(served: Served) -> None:
    for run_id in ("exp_1", "exp_2", "exp_3"):
        served.submit(run_id)
    log(served, "exp_1", loss=[3.0, 1.0, 2.0], acc=[0.5])
    log(served, "exp_2", loss=[7.0])

    assert summary(served.client, runs=["exp_1", "exp_2", "exp_3", "gone"]) == {
        "metrics": {
            "loss": {"exp_1": [2.0, 1.0, 3.0, 3], "exp_2": [7.0, 7.0, 7.0, 1]},
            "acc": {"exp_1": [0.5, 0.5, 0.5, 1]},
        },
        "left_out": 0,
    }
    assert list(summary(served.client, runs=["exp_1"], names=["acc"])["metrics"]) == ["acc"]


def test_the_hundred_metrics_that_most_runs_have_are_kept(served: Served) -> None:
    for run_id in ("exp_1", "exp_2"):
        served.submit(run_id)
    log(served, "exp_1", **{f"m{at}": [1.0] for at in range(120)})
    log(served, "exp_2", m119=[1.0])
    found = summary(served.client, runs=["exp_1", "exp_2"])

    assert len(found["metrics"]) == 100 and found["left_out"] == 20
    assert next(iter(found["metrics"])) == "m119"


def test_a_runs_token_reads_its_own_tree_alone(served: Served) -> None:
    for run_id in ("exp_1", "exp_2"):
        served.submit(run_id)
    mine = served.as_run("exp_1")

    assert summary(mine, runs=["exp_1"])["metrics"] == {}
    for ids in (["exp_1", "exp_2"], ["exp_1", "gone"]):
        with pytest.raises(NotAllowed):
            summary(mine, runs=ids)
        with pytest.raises(NotAllowed):
            mine.transport.request("GET", "/runs?" + "&".join(f"id={run_id}" for run_id in ids))
