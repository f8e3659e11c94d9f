"""What the SDK deletes, lists and looks up in a workspace, against a real private server."""

from __future__ import annotations

from pathlib import Path

import pytest

from runyard.core.errors import Conflict
from runyard.sdk.exceptions import UserErrorException
from runyard.sdk.workspaces.experiment import Experiment
from runyard.sdk.workspaces.keyvault import (
    AzureCliAuthentication,
    InteractiveLoginAuthentication,
    MsiAuthentication,
    ServicePrincipalAuthentication,
    TokenAuthentication,
)
from runyard.sdk.workspaces.workspace import Workspace


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.chdir(tmp_path)
    return Workspace.from_config()


def test_an_experiment_is_deleted_by_its_id_once_its_runs_have_ended(workspace: Workspace) -> None:
    experiment = Experiment(workspace, "short_lived")
    run = experiment.start_logging(snapshot_directory=None, outputs=False)

    with pytest.raises(UserErrorException, match="has not ended") as caught:
        Experiment.delete(workspace, experiment.id)
    assert isinstance(caught.value, Conflict)
    run.complete()
    experiment.archive()
    Experiment.delete(workspace, experiment.id)

    assert "short_lived" not in [found.name for found in Experiment.list(workspace, view_type="All")]
    with pytest.raises(UserErrorException, match=run.id):
        workspace.get_run(run.id)
    with pytest.raises(UserErrorException, match="no experiment with the id"):
        Experiment.delete(workspace, "short_lived")
    with pytest.raises(UserErrorException, match="short_lived"):
        experiment.refresh()


def test_runs_are_filtered_by_status(workspace: Workspace) -> None:
    experiment = Experiment(workspace, "by_status")
    with experiment.start_logging(snapshot_directory=None, outputs=False) as done:
        pass
    with experiment.start_logging(snapshot_directory=None, outputs=False) as live:
        assert [run.id for run in experiment.get_runs(status="Completed")] == [done.id]
        assert [run.id for run in experiment.get_runs(status=["Running", "Completed"])] == [live.id, done.id]
        assert list(experiment.get_runs(status="Failed")) == []


def test_what_nobody_registered_is_an_empty_dict_and_a_call(workspace: Workspace) -> None:
    workspace = Workspace.create("empty", exist_ok=True)  # other tests register in the default one
    for name in ("datasets", "models", "webservices", "images", "linked_services"):
        found = getattr(workspace, name)
        assert found == {} and found() == {} and "anything" not in found, name


def test_every_way_to_sign_in_is_taken_and_talks_to_nobody(workspace: Workspace) -> None:
    ways = [
        InteractiveLoginAuthentication(force=True, tenant_id="t"),
        AzureCliAuthentication(),
        ServicePrincipalAuthentication("t", "id", "s3cret-password"),
        MsiAuthentication(),
        TokenAuthentication(lambda audience: pytest.fail("the token function was called")),
    ]
    for auth in ways:
        assert Workspace.from_config(auth=auth).name == workspace.name
        assert auth.get_authentication_header() == {}
        assert "s3cret-password" not in repr(auth) + str(vars(auth))
