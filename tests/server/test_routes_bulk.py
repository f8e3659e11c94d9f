"""One change to many runs, archived runs, and a run once more, over HTTP."""

from __future__ import annotations

import pytest

from runyard.core.errors import InvalidArgument, NotAllowed, SubmitRejected
from runyard.core.records import NewRun, Run
from runyard.core.specs import SWEEP_TYPE, EnvironmentSpec, RunSpec, SweepSpec
from runyard.core.statuses import RunStatus
from tests.server.conftest import Served
from tests.server.test_routes_deletes import finish


def shown(served: Served, view: str = "active") -> list[str]:
    return sorted(run.id for run in served.client.runs.list("default", include_children="true", view=view).runs)


def test_many_runs_are_tagged_and_failures_are_told_one_by_one(served: Served) -> None:
    for run_id in ("a", "b"):
        served.submit(run_id)
    told = served.client.runs.change_many(["a", "nobody", "b", "a"], "tag", tags_set={"x": "1", "y": None})

    assert told.done == ["a", "b"] and told.undo_until is None
    assert [(run_id, error.code) for run_id, error in told.failed] == [("nobody", "NotFound")]
    assert served.client.runs.get("b").tags == {"x": "1", "y": None}
    assert served.client.runs.change_many(["a"], "untag", tags_remove=["x"]).done == ["a"]
    assert served.client.runs.get("a").tags == {"y": None}


def test_many_runs_are_cancelled_deleted_and_restored(served: Served) -> None:
    finish(served, "top")
    served.submit("child", parent_id="top")
    served.submit("live")

    refused = served.client.runs.change_many(["top", "live"], "delete")
    assert refused.done == [] and [error.code for _, error in refused.failed] == ["Conflict", "Conflict"]
    assert served.client.runs.change_many(["child"], "cancel").done == ["child"]
    assert served.client.runs.get("child").desired == "cancel"
    served.as_run("child").runs.state("child", 1, RunStatus.CANCELED)

    gone = served.client.runs.change_many(["top", "child", "live"], "delete")
    assert gone.done == ["top", "child"] and [run_id for run_id, _ in gone.failed] == ["live"]
    assert gone.undo_until is not None and shown(served) == ["live"]
    again = served.client.runs.change_many(["top"], "delete")
    assert again.done == ["top"] and again.undo_until == gone.undo_until
    back = served.client.runs.change_many(["top", "child"], "restore")
    assert (back.done, back.failed) == (["top", "child"], []) and shown(served) == ["child", "live", "top"]


def test_archived_runs_leave_the_list(served: Served) -> None:
    served.submit("top")
    served.submit("child", parent_id="top")
    served.submit("other")

    assert served.client.runs.change_many(["top"], "archive").done == ["top"]
    assert (shown(served), shown(served, "archived")) == (["other"], ["child", "top"])
    assert shown(served, "all") == ["child", "other", "top"]
    assert served.client.runs.get("top").archived_at is not None
    assert served.client.runs.change_many(["top"], "unarchive").done == ["top"]
    assert served.client.runs.update("other", archived=True).archived_at is not None
    assert shown(served) == ["child", "top"]
    with pytest.raises(InvalidArgument, match="no view 'odd'"):
        served.client.runs.list("default", view="odd")


def test_a_change_of_too_many_runs_or_an_unknown_one_is_refused(served: Served) -> None:
    with pytest.raises(InvalidArgument, match="no action 'explode'"):
        served.client.runs.change_many([], "explode")
    with pytest.raises(InvalidArgument, match="1001 runs are too many"):
        served.client.runs.change_many([f"r{n}" for n in range(1001)], "tag")
    odd = served.client.runs.change_many(["../x"], "delete")
    assert [error.code for _, error in odd.failed] == ["InvalidArgument"]


@pytest.mark.long
def test_no_runs_code_changes_many_runs_archives_or_submits_again(served: Served) -> None:
    served.submit("mine")
    own = served.as_run("mine")

    for call in (
        lambda: own.runs.change_many(["mine"], "tag", tags_set={"a": "b"}),
        lambda: own.runs.update("mine", archived=True),
        lambda: own.runs.resubmit("mine", new_id="new", key="k"),
    ):
        with pytest.raises(NotAllowed):
            call()
    assert shown(served) == ["mine"] and served.client.runs.get("mine").tags == {}


def again(served: Served, run_id: str, new_id: str = "again") -> Run:
    return served.client.runs.resubmit(run_id, new_id=new_id, key=f"key-{new_id}")


def test_a_run_is_submitted_again_as_it_was(served: Served) -> None:
    spec = RunSpec(script="train.py", arguments=["--lr", "0.1"], variables={"A": "b"})
    served.submit(
        "first", spec=spec, display_name="mine", tags={"t": "1"}, properties={"azureml.git.branch": "m", "own": "x"}
    )
    second = again(served, "first")

    first = served.client.runs.get("first")
    assert (second.id, second.number, second.experiment) == ("again", 2, "exp")
    assert second.spec == first.spec and second.parameters == {"lr": "0.1"}
    assert (second.display_name, second.tags) == ("mine", {"t": "1"})
    assert second.properties == {"azureml.git.branch": "m", "runyard.resubmitted_from": "first"}
    assert again(served, "first") == served.client.runs.get("again")  # a repeated request is the same run
    answer = served.client.transport.request("POST", "/runs/first/resubmit", json={})
    assert answer.json()["run"]["id"].startswith("exp_") and answer.json()["run"]["number"] == 3


def test_what_the_server_does_not_hold_is_not_submitted_again(served: Served) -> None:
    hidden = EnvironmentSpec(pip_options=["--index-url https://me:pw@host/simple"])
    served.submit("secret", spec=RunSpec(script="train.py", arguments=["--password", "hunter2"]))
    served.submit("index", spec=RunSpec(script="train.py", environment=hidden))
    notebook = NewRun(key="n", id="notebook", workspace="default", experiment="exp", type=None)
    served.client.runs.create(notebook, launch=False)
    served.services.store.put_snapshot("s1", "a" * 64, files=1, size_bytes=1)
    served.submit("code", snapshot_id="s1")
    served.services.store.delete_snapshots(["s1"])

    for run_id, why in (
        ("secret", "held a secret"),
        ("index", "held a secret"),
        ("notebook", "not launched by Runyard"),
        ("code", "code is no longer on the server"),
    ):
        with pytest.raises(SubmitRejected, match=f"`{run_id}` cannot be submitted again") as caught:
            again(served, run_id)
        assert why in caught.value.why and caught.value.hint
    assert "again" not in shown(served)


def test_a_sweep_is_submitted_again_without_the_tags_of_its_children(served: Served) -> None:
    sweep = SweepSpec(sampling="GRID", space={"x": ["choice", [[1, 2]]]}, primary_metric="m")
    served.submit("HD_1", type=SWEEP_TYPE, tags={"t": "1"}, spec=RunSpec(script="train.py", sweep=sweep))
    served.client.runs.update("HD_1", tags_set={"HD_1_0": "{}", "_aml_system_HD_1_0": "{}"})
    second = again(served, "HD_1")

    assert second.spec.sweep == sweep and second.type == SWEEP_TYPE and second.tags == {"t": "1"}
