"""Deleting over HTTP: finished runs and whole experiments go, with their bytes; live ones are refused with words."""

from __future__ import annotations

import pytest

from runyard.client.decoding import Deletion
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

    assert served.client.runs.delete("gone", now=True) == Deletion(["gone"], None)
    with pytest.raises(NotFound, match="`gone`"):
        served.client.runs.get("gone")
    for now in (False, True):
        with pytest.raises(NotFound, match="`gone`"):
            served.client.runs.delete("gone", now=now)
    with pytest.raises((NotAuthenticated, NotAllowed)):
        served.as_run("gone").runs.get("gone")
    assert [key.split("/")[1] for key in streams(served)] == ["stays"]
    assert served.client.runs.read_file("stays", "user_logs/std_log.txt").data == b"hello\n"
    assert list(served.services.artifacts.iter_keys("deleting/")) == []


def test_the_same_id_starts_from_nothing(served: Served) -> None:
    finish(served, "exp_1")
    served.client.runs.delete("exp_1", now=True)
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

    assert sorted(served.client.experiments.delete("default", "exp", now=True).deleted) == ["a", "b"]
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

    paths = ["/runs/mine", "/runs/done", "/runs/nobody", "/workspaces/default/experiments/exp", "/workspaces/default"]
    for path in paths:
        with pytest.raises(NotAllowed):
            own.transport.request("DELETE", path)
    for path in ("/runs/mine/restore", "/runs/done/restore", "/workspaces/default/experiments/exp/restore"):
        with pytest.raises(NotAllowed):
            own.transport.request("POST", path)
    with pytest.raises(NotAllowed):
        own.server.collect()


def test_a_workspace_goes_with_all_that_is_in_it(served: Served) -> None:
    for run_id in ("a", "b"):
        finish(served, run_id)
    served.client.workspaces.put("other")
    served.client.experiments.put("other", "exp")

    assert sorted(served.client.workspaces.delete("default")) == ["a", "b"]
    assert [found.name for found in served.client.workspaces.list()] == ["other"] and streams(served) == []
    with pytest.raises(NotFound, match="`default`"):
        served.client.workspaces.delete("default")
    served.client.workspaces.put("default")
    assert served.client.runs.list("default", include_children="true").runs == []


def test_a_workspace_with_a_live_run_keeps_everything(served: Served) -> None:
    finish(served, "done")
    served.submit("live", experiment="last")

    with pytest.raises(Conflict, match="`live`"):
        served.client.workspaces.delete("default")
    assert served.client.runs.get("done").status is RunStatus.COMPLETED


def test_an_experiment_whose_run_has_a_live_child_elsewhere_keeps_everything(served: Served) -> None:
    finish(served, "first")
    finish(served, "parent")
    served.submit("middle", experiment="second", parent_id="parent")
    served.submit("live", experiment="third", parent_id="middle")
    served.as_run("middle").runs.state("middle", 1, RunStatus.COMPLETED)

    with pytest.raises(Conflict, match="`live` cannot be deleted"):
        served.client.experiments.delete("default", "exp")
    assert [run.id for run in served.client.runs.list("default", experiment="exp").runs] == ["parent", "first"]


def test_a_deleted_run_is_gone_until_it_is_restored(served: Served) -> None:
    finish(served, "exp_1")
    before = served.client.runs.get("exp_1")
    done = served.client.runs.delete("exp_1")

    assert done.deleted == ["exp_1"] and done.undo_until is not None
    for path in ("/runs/exp_1", "/runs/exp_1/metrics", "/runs/exp_1/files", "/runs/exp_1/files/user_logs/std_log.txt"):
        with pytest.raises(NotFound, match="`exp_1`"):
            served.client.transport.request("GET", path)
    with pytest.raises(NotFound):
        served.client.runs.delete("exp_1")
    with pytest.raises((NotAuthenticated, NotAllowed)):
        served.as_run("exp_1").runs.get("exp_1")
    with pytest.raises(Conflict, match="`exp_1` is taken"):
        served.submit("exp_1")
    assert [run.undo_until for run in served.client.runs.list("default", view="deleted").runs] == [done.undo_until]
    assert served.client.runs.list("default").runs == []

    assert served.client.runs.restore("exp_1") == ["exp_1"] and served.client.runs.get("exp_1") == before
    assert served.client.runs.restore("exp_1") == []
    assert served.client.runs.read_file("exp_1", "user_logs/std_log.txt").data == b"hello\n"
    with pytest.raises(NotFound, match="no deleted run `nobody`"):
        served.client.runs.restore("nobody")


def test_a_deleted_experiment_is_restored_with_its_runs(served: Served) -> None:
    finish(served, "a")
    done = served.client.experiments.delete("default", "exp")
    shown = served.client.experiments.list("default", view="DeletedOnly")

    assert done.deleted == ["a"] and [(one.name, one.undo_until) for one in shown] == [("exp", done.undo_until)]
    assert served.client.experiments.list("default", view="All") == []
    assert served.client.experiments.restore("default", "exp") == ["a"]
    assert [one.name for one in served.client.experiments.list("default")] == ["exp"]
    with pytest.raises(NotFound, match="no deleted experiment `exp`"):
        served.client.experiments.restore("default", "exp")


def test_content_is_collected_when_somebody_asks(served: Served) -> None:
    freed = served.client.server.collect()

    assert (freed.removed, freed.freed_bytes) == (0, 0) and freed.rest_within_s == 2400.0
    assert served.services.store.find_value("garbage") == "1"
