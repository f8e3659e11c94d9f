"""Members of Workspace, Experiment and Run that notebooks use and no other test reads, against a private server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from runyard.core.errors import Conflict
from runyard.sdk.exceptions import UserErrorException
from runyard.sdk.runs.run import Run, ScriptRun
from runyard.sdk.workspaces.experiment import Experiment
from runyard.sdk.workspaces.workspace import Workspace


@dataclass(frozen=True)
class Target:
    """A compute target as `Run.list_by_compute` needs it."""

    name: str
    workspace: Workspace


def test_a_workspace_keeps_what_it_was_created_with(workspace: Workspace) -> None:
    made = Workspace.create(
        "rows_ws",
        subscription_id="s-rows",
        resource_group="g-rows",
        location="westeurope",
        sku="enterprise",
        tags={"team": "vision"},
        friendly_name="Rows",
    )
    details = made.get_details()

    assert (made.subscription_id, made.resource_group, made.location) == ("s-rows", "g-rows", "westeurope")
    assert made.sku == "enterprise" and made.tags == {"team": "vision"}
    assert made.discovery_url.startswith("http://127.0.0.1:")
    assert {key: details[key] for key in ("name", "location", "tags")} == {
        "name": "rows_ws",
        "location": "westeurope",
        "tags": {"team": "vision"},
    }
    assert details["id"].endswith(
        "/resourceGroups/g-rows/providers/Microsoft.MachineLearningServices/workspaces/rows_ws"
    )
    assert list(Workspace.list(subscription_id="s-rows")) == ["rows_ws"]
    assert Workspace.list("s-rows", resource_group="other") == {}
    assert Workspace.list()["rows_ws"][0].resource_group == "g-rows"


def test_a_workspace_is_deleted_when_its_runs_have_ended(workspace: Workspace) -> None:
    doomed = Workspace.create("doomed_ws")
    run = Experiment(doomed, "last").start_logging(snapshot_directory=None, outputs=False)

    with pytest.raises(UserErrorException, match="has not ended") as caught:
        doomed.delete()
    assert isinstance(caught.value, Conflict)
    run.complete()
    doomed.delete(delete_dependent_resources=True, no_wait=True)
    assert "doomed_ws" not in Workspace.list()
    with pytest.raises(UserErrorException, match="doomed_ws"):
        Workspace.get("doomed_ws")


@pytest.mark.parametrize(
    "name", ["compute_targets", "models", "images", "webservices", "experiments", "environments", "datasets"]
)
def test_what_is_a_dict_since_1_0_can_be_called_as_in_2018(workspace: Workspace, name: str) -> None:
    found = getattr(workspace, name)

    assert isinstance(found, dict) and found() == found
    assert list(getattr(workspace, name)()) == list(found)


def test_an_experiment_shows_itself_and_is_the_same_wherever_it_is_looked_up(
    workspace: Workspace, experiment: Experiment
) -> None:
    experiment.tag("stage", "draft")
    other = Experiment(workspace, experiment.name)
    experiment.tag("stage", "final")
    assert other.tags == {"stage": "draft"}
    other.refresh()

    assert other.tags == {"stage": "final"} and other.id == experiment.id
    assert workspace.experiments[experiment.name].id == experiment.id
    assert [found.id for found in Experiment.list(workspace, experiment_name=experiment.name)] == [experiment.id]
    assert other.workspace is workspace and other.archived_time is None
    page = other._repr_html_()
    assert experiment.name in page and 'href="http://127.0.0.1:' in page
    assert experiment.get_portal_url().startswith("http://127.0.0.1:")


def test_an_interactive_run_takes_its_id_its_names_and_its_folder(experiment: Experiment, tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    with experiment.start_logging(
        run_id="an-id-of-ours", name="short", description="why", outputs="results", snapshot_directory=None
    ) as run:
        (tmp_path / "results" / "kept.txt").write_text("kept")
        details = run.get_details()

    assert (run.id, run.display_name, run.description) == ("an-id-of-ours", "short", "why")
    assert details["target"] in ("sdk", "local") and details["status"] == "Running"
    with pytest.raises(UserErrorException, match="has no snapshot"):
        run.get_snapshot_id()
    assert "results/kept.txt" in run.get_file_names() and not (tmp_path / "outputs").exists()


def test_runs_are_listed_by_type_parent_and_target(
    submit: Callable[..., Run], experiment: Experiment, workspace: Workspace
) -> None:
    script = submit("pass")
    with experiment.start_logging(snapshot_directory=None, outputs=False) as interactive:
        with interactive.child_run() as child:
            child.tag("inner", "yes")
    script.wait_for_completion()

    def ids(**query: Any) -> list[str]:
        return [run.id for run in Run.list(experiment, **query)]

    assert ids() == [interactive.id, script.id]
    assert ids(include_children=True) == [child.id, interactive.id, script.id]
    assert ids(type="azureml.scriptrun", status="Completed") == [script.id]
    assert [run.id for run in experiment.get_runs(tags="inner", include_children=True)] == [child.id]
    found = list(Run.list_by_compute(Target("local", workspace), type="azureml.scriptrun", status=["Completed"]))
    assert script.id in [run.id for run in found] and {type(run) for run in found} == {ScriptRun}
    assert list(Run.list_by_compute(Target('no"such', workspace))) == []
    assert [run.id for run in Run.list_by_compute(Target("local", workspace), tags={"inner": "yes"})] == [child.id]


def test_a_submit_takes_tags_and_a_live_run_tells_its_status(submit: Callable[..., Run], tmp_path: Path) -> None:
    go = tmp_path / "go"
    run = submit(f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.01)", tags={"a": 1, "b": None})
    live = run.get_detailed_status()
    go.touch()
    run.wait_for_completion()

    assert run.tags == {"a": "1", "b": None}
    assert set(live) == {"status", "details"} and live["status"] not in ("Completed", "Failed", "Canceled")
    run.flush(timeout_seconds=5)
    assert run.get_detailed_status() == {"status": "Completed", "details": None}
