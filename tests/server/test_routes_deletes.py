"""Deleting over HTTP: finished runs and whole experiments go, with their bytes; live ones are refused with words."""

from __future__ import annotations

import pytest

from runyard.core.errors import Conflict, NotAllowed, NotAuthenticated, NotFound
from runyard.core.statuses import RunStatus
from tests.engine.bench import WRITER, header, journal_frame, log_frame, name, number
from tests.server.conftest import Served


def finish(served: Served, run_id: str) -> None:
    """Submit a run, let it log a line and a metric, and end it."""
    served.submit(run_id)
    own = served.as_run(run_id).runs
    own.ship(run_id, [log_frame(b"hello\n"), journal_frame(header() + name(1, "loss") + number(1, 0.5), writer=WRITER)])
    own.state(run_id, 1, RunStatus.COMPLETED)


def streams(served: Served) -> list[str]:
    return list(served.services.artifacts.iter_keys("streams/"))


def test_a_finished_run_is_deleted_with_its_logs(served: Served) -> None:
    finish(served, "gone")
    finish(served, "stays")
    assert len(streams(served)) == 2

    assert served.client.runs.delete("gone") == ["gone"]
    with pytest.raises(NotFound, match="`gone`"):
        served.client.runs.get("gone")
    with pytest.raises(NotFound, match="`gone`"):
        served.client.runs.delete("gone")
    with pytest.raises((NotAuthenticated, NotAllowed)):
        served.as_run("gone").runs.get("gone")
    assert [key.split("/")[1] for key in streams(served)] == ["stays"]
    assert served.client.runs.read_file("stays", "user_logs/std_log.txt").data == b"hello\n"
    assert list(served.services.artifacts.iter_keys("deleting/")) == []


def test_the_same_id_starts_from_nothing(served: Served) -> None:
    finish(served, "exp_1")
    served.client.runs.delete("exp_1")
    finish(served, "exp_1")

    run = served.client.runs.get("exp_1")
    assert (run.number, run.status) == (2, RunStatus.COMPLETED)
    assert served.client.runs.read_file("exp_1", "user_logs/std_log.txt").data == b"hello\n"
    assert [metric.count for metric in served.client.runs.metrics("exp_1")] == [1]


def test_a_live_run_is_refused_and_goes_on(served: Served) -> None:
    served.submit("exp_1")

    with pytest.raises(Conflict, match="`exp_1` cannot be deleted") as caught:
        served.client.runs.delete("exp_1")
    assert "Queued" in caught.value.why and "runyard runs cancel exp_1" in caught.value.hint
    with pytest.raises(Conflict, match="`exp_1` cannot be deleted"):
        served.client.experiments.delete("default", "exp")
    assert served.as_run("exp_1").runs.heartbeat("exp_1", 1).status is RunStatus.QUEUED


def test_an_experiment_goes_with_all_its_runs(served: Served) -> None:
    for run_id in ("a", "b"):
        finish(served, run_id)
    served.client.experiments.put("default", "other")

    assert sorted(served.client.experiments.delete("default", "exp")) == ["a", "b"]
    assert [found.name for found in served.client.experiments.list("default", view="All")] == ["other"]
    assert served.client.runs.list("default", include_children="true").runs == [] and streams(served) == []
    with pytest.raises(NotFound, match="`exp`"):
        served.client.experiments.delete("default", "exp")


def test_an_experiment_with_a_live_run_keeps_its_finished_ones(served: Served) -> None:
    finish(served, "done")
    served.submit("live")

    with pytest.raises(Conflict, match="`live`"):
        served.client.experiments.delete("default", "exp")
    assert served.client.runs.get("done").status is RunStatus.COMPLETED


def test_no_runs_code_deletes_anything(served: Served) -> None:
    finish(served, "done")
    served.submit("mine")
    own = served.as_run("mine")

    for run_id in ("mine", "done", "nobody"):
        with pytest.raises(NotAllowed):
            own.runs.delete(run_id)
    with pytest.raises(NotAllowed):
        own.experiments.delete("default", "exp")
