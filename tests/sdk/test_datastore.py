"""Datastores of a workspace, and data of theirs in runs, against a real private server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runyard.core.errors import NotYetSupported
from runyard.data.datastores import KIND
from runyard.sdk.data.datastore import Datastore
from runyard.sdk.data.inputs import DataPath
from runyard.sdk.exceptions import UserErrorException
from runyard.sdk.run_config.run_configuration import DataReferenceConfiguration, RunConfiguration
from runyard.sdk.runs.run import Run
from runyard.sdk.workspaces.workspace import Workspace

Submit = Callable[..., Run]

READ = """
    import glob, os, sys
    from azureml.core import Run
    folder = sys.argv[sys.argv.index('--data') + 1]
    assert os.path.isabs(folder), folder
    found = sorted(os.path.relpath(path, folder) for path in glob.glob(folder + '/**/*.csv', recursive=True))
    Run.get_context().log('files', ' '.join(found))
"""


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Workspace:
    """One per test: datastores of the same name do not meet."""
    monkeypatch.chdir(tmp_path)
    return Workspace.create(f"w{abs(hash(request.node.name)) % 10**10}")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name in ("a.csv", "deep/b.csv"):
        (tmp_path / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / name).write_text(name)
    return tmp_path / "data"


def finish(run: Run) -> Run:
    run.wait_for_completion(raise_on_error=True)
    return run


def test_a_workspace_has_its_default_datastores(workspace: Workspace) -> None:
    default = workspace.get_default_datastore()

    assert default.name == Datastore.get_default(workspace).name == Datastore(workspace).name == "workspaceblobstore"
    assert (
        sorted(workspace.datastores) == sorted(workspace.datastores()) == ["workspaceblobstore", "workspacefilestore"]
    )
    assert workspace.datastores["workspacefilestore"].workspace is workspace
    words = (default.datastore_type, default.account_name, default.container_name)
    assert all(isinstance(word, str) and word for word in words) and words[0] == "Folder"
    assert default.container_name.endswith(f"/datastores/{workspace.name}/workspaceblobstore")


def test_upload_and_download_count(workspace: Workspace, data: Path, tmp_path: Path, capsys: Any) -> None:
    datastore = workspace.get_default_datastore()
    reference = datastore.upload(str(data), target_path="diabetes", show_progress=True)

    assert (reference.path_on_datastore, reference.mode, reference.datastore) == ("diabetes", "mount", datastore)
    said = capsys.readouterr()
    assert said.out == "" and "Uploaded 2 files, 15 bytes, to workspaceblobstore." in said.err
    assert datastore.download(str(tmp_path / "out"), prefix="diabetes", show_progress=False) == 2
    assert (tmp_path / "out/diabetes/deep/b.csv").read_text() == "deep/b.csv"
    assert datastore.download(str(tmp_path / "out"), show_progress=False) == 0
    assert datastore.download(str(tmp_path / "out"), overwrite=True, show_progress=False) == 2
    assert datastore.download(str(tmp_path / "none"), prefix="nowhere", show_progress=False) == 0
    assert capsys.readouterr().err == ""


def test_upload_files_keeps_the_paths_below_their_common_folder(
    workspace: Workspace, data: Path, tmp_path: Path
) -> None:
    datastore = workspace.get_default_datastore()
    files = [str(data / "a.csv"), str(data / "deep/b.csv")]

    datastore.upload_files(files, target_path="one", show_progress=False)
    datastore.upload_files(files, relative_root=str(tmp_path), target_path="two", show_progress=False)
    datastore.upload_files(["./data/a.csv"], target_path="three", show_progress=False)

    root = Path(datastore.container_name)
    assert sorted(str(path.relative_to(root)) for path in root.rglob("*.csv")) == [
        "one/a.csv",
        "one/deep/b.csv",
        "three/a.csv",
        "two/data/a.csv",
        "two/data/deep/b.csv",
    ]


def test_what_cannot_be_uploaded_is_named(workspace: Workspace, data: Path) -> None:
    datastore = workspace.get_default_datastore()

    with pytest.raises(UserErrorException, match=r"folder 'nowhere' does not exist"):
        datastore.upload("nowhere")
    with pytest.raises(UserErrorException, match=r"do not exist.*none\.csv"):
        datastore.upload_files([str(data / "a.csv"), "none.csv"])
    with pytest.raises(UserErrorException, match="not below relative_root"):
        datastore.upload_files([str(data / "a.csv")], relative_root=str(data / "deep"))
    with pytest.raises(UserErrorException, match="list of paths"):
        datastore.upload_files(str(data / "a.csv"))
    with pytest.raises(UserErrorException, match="leaves the datastore"):
        datastore.upload(str(data), target_path="../x")


def test_a_folder_of_ones_own_becomes_a_datastore(workspace: Workspace, data: Path, tmp_path: Path) -> None:
    made = Datastore.register_folder(workspace, "mine", str(data))

    assert (made.name, made.container_name) == ("mine", str(data))
    assert Datastore.get(workspace, "mine").download(str(tmp_path / "out"), show_progress=False) == 2
    with pytest.raises(UserErrorException, match="has a datastore 'mine'"):
        Datastore.register_folder(workspace, "mine", str(tmp_path))
    assert Datastore.register_folder(workspace, "mine", str(tmp_path), overwrite=True).container_name == str(tmp_path)
    with pytest.raises(UserErrorException, match="does not exist"):
        Datastore.register_folder(workspace, "other", str(tmp_path / "new"))
    Datastore.register_folder(workspace, "other", str(tmp_path / "new"), create_if_not_exists=True)
    with pytest.raises(UserErrorException, match="every workspace has"):
        Datastore.register_folder(workspace, "workspaceblobstore", str(data))
    with pytest.raises(UserErrorException, match="letters, digits"):
        Datastore.register_folder(workspace, "a-b", str(data))

    made.unregister()
    assert "mine" not in workspace.datastores and (data / "a.csv").exists()
    with pytest.raises(UserErrorException, match=r"no datastore `mine`[\s\S]*other, workspaceblobstore"):
        Datastore(workspace, "mine")
    with pytest.raises(UserErrorException, match="stays"):
        workspace.get_default_datastore().unregister()


def test_the_default_can_be_changed_and_changed_back(workspace: Workspace, data: Path) -> None:
    Datastore.register_folder(workspace, "mine", str(data))
    workspace.set_default_datastore("mine")
    assert Workspace.get(workspace.name).get_default_datastore().name == "mine"

    Datastore.register_folder(workspace, "mine", str(data), overwrite=True)
    assert workspace.get_default_datastore().name == "mine"

    Datastore(workspace, "workspaceblobstore").set_as_default()
    assert workspace.get_default_datastore().name == "workspaceblobstore"
    assert workspace._client.assets.get(workspace.name, KIND, "workspaceblobstore").document.keys() == {"default_at"}
    with pytest.raises(UserErrorException, match="no datastore `none`"):
        workspace.set_default_datastore("none")


def test_what_needs_azures_services_is_refused_with_a_way_out(workspace: Workspace) -> None:
    with pytest.raises(NotYetSupported, match="register_folder"):
        Datastore.register_azure_file_share(workspace, "x", "y", "z")
    with pytest.raises(UserErrorException, match="needs account_key or sas_token"):
        Datastore.register_azure_blob_container(workspace, "x", "y", "z", create_if_not_exists=True)
    with pytest.raises(UserErrorException, match="'https' or 'http'"):
        Datastore.register_azure_blob_container(workspace, "x", "y", "z", protocol="ftp")
    with pytest.raises(NotYetSupported, match="register_azure_sql_database"):
        Datastore.register_azure_sql_database(workspace, "x", "y", "z")
    with pytest.raises(TypeError, match="container_nam"):
        Datastore.register_azure_blob_container(workspace, "x", container_nam="y", account_name="z")


def test_a_datastore_shows_how_it_is_reached(workspace: Workspace) -> None:
    folder = workspace.get_default_datastore()
    blob = Datastore.register_azure_blob_container(
        workspace, "blob", "c", "account", account_key="a2V5", endpoint="core.example", skip_validation=True
    )
    token = Datastore.register_azure_blob_container(
        workspace, "token", "c", "account", sas_token="?sv=1", skip_validation=True
    )

    assert (folder.protocol, folder.endpoint, folder.account_key, folder.sas_token) == ("file", "", None, None)
    assert (blob.protocol, blob.endpoint, blob.account_key, blob.sas_token) == ("https", "core.example", "a2V5", None)
    assert (token.endpoint, token.account_key, token.sas_token) == ("core.windows.net", None, "sv=1")


def test_runs_get_data_by_mount_download_and_upload(workspace: Workspace, data: Path, submit: Submit) -> None:
    datastore = workspace.get_default_datastore()
    datastore.upload(str(data), target_path="in", show_progress=False)
    runs = [
        submit(READ, "--data", datastore),
        submit(READ, "--data", datastore.path("in").as_mount()),
        submit(READ, "--data", datastore.path("in").as_download(path_on_compute="here")),
    ]
    write = submit(
        """
        import os, sys
        os.makedirs(sys.argv[1] + '/sub')
        open(sys.argv[1] + '/sub/w.txt', 'w').write('w')
        sys.exit(3)
        """,
        datastore.path("out", data_reference_name="results").as_upload(),
    )

    assert [finish(run).get_metrics()["files"] for run in runs] == [
        "in/a.csv in/deep/b.csv",
        "a.csv deep/b.csv",
        "a.csv deep/b.csv",
    ]
    assert write.wait_for_completion(raise_on_error=False)["status"] == "Failed"
    assert (Path(datastore.container_name) / "out/sub/w.txt").read_text() == "w"  # also of a run that failed


def test_a_run_whose_data_cannot_be_uploaded_has_failed(workspace: Workspace, tmp_path: Path, submit: Submit) -> None:
    folder = tmp_path / "gone"
    mine = Datastore.register_folder(workspace, "mine", str(folder), create_if_not_exists=True)
    script = "import os, sys; open(sys.argv[1] + '/w', 'w').write('w'); os.rmdir(sys.argv[2])"
    details = submit(script, mine.path("out", "out").as_upload(), str(folder)).wait_for_completion(raise_on_error=False)

    assert (details["status"], details["error"]["error"]["code"]) == ("Failed", "DataNotUploaded")
    assert "`out` was not uploaded" in details["error"]["error"]["message"]
    assert str(folder) in details["error"]["error"]["message"]


def test_a_run_configuration_names_data_for_a_text_argument(
    workspace: Workspace, data: Path, submit: Submit, tmp_path: Path
) -> None:
    """As notebooks for remote machines do it."""
    datastore = workspace.get_default_datastore()
    datastore.upload(str(data), target_path="diabetes", show_progress=False)
    config = RunConfiguration()
    config.data_references = {
        datastore.name: DataReferenceConfiguration(
            datastore_name=datastore.name,
            path_on_datastore="diabetes",
            path_on_compute=str(tmp_path / "azureml_runs"),
            mode="download",
            overwrite=True,
        )
    }
    run = submit(READ, "--data", str(datastore.as_download()), run_config=config)

    assert finish(run).get_metrics()["files"] == "a.csv deep/b.csv"
    assert (tmp_path / "azureml_runs/a.csv").exists()
    assert run.get_details()["runDefinition"]["dataReferences"]["workspaceblobstore"]["mode"] == "download"


def test_a_run_resumes_from_what_another_one_wrote(workspace: Workspace, submit: Submit) -> None:
    first = finish(submit("open('outputs/step.csv', 'w').write('7')"))
    second = submit(READ.replace("--data", "--resume-from"), resume_from=first._get_outputs_datapath())

    assert finish(second).get_metrics()["files"] == "step.csv"
    assert second.get_details()["runDefinition"]["dataReferences"]["MODEL_LOCATION"]["mode"] == "mount"
    with pytest.raises(UserErrorException, match="nothing to resume from"):
        second._get_outputs_datapath()


def test_data_that_is_not_there_ends_the_run_before_its_start(workspace: Workspace, submit: Submit) -> None:
    missing = workspace.get_default_datastore().path("none").as_download()
    details = submit("print('hello')", missing).wait_for_completion(raise_on_error=False)

    assert details["status"] == "Failed"
    assert "fetching the run's data failed" in details["error"]["error"]["message"]
    assert "holds nothing at `none`" in details["error"]["error"]["message"]


def test_a_datastore_that_the_workspace_does_not_have_is_found_at_submit(workspace: Workspace, submit: Submit) -> None:
    config = RunConfiguration()
    config.data_references = {"x": DataReferenceConfiguration(datastore_name="gone")}

    with pytest.raises(UserErrorException, match="no datastore `gone`"):
        submit("print(1)", run_config=config)


def test_a_script_reaches_the_datastores_of_its_workspace(workspace: Workspace, data: Path, submit: Submit) -> None:
    workspace.get_default_datastore().upload(str(data), target_path="in", show_progress=False)
    run = submit(
        """
        from azureml.core import Run
        run = Run.get_context()
        store = run.experiment.workspace.get_default_datastore()
        run.log('count', store.download('here', prefix='in', show_progress=False))
        store.upload('here', target_path='again', show_progress=False)
        """
    )

    assert finish(run).get_metrics()["count"] == 2
    assert (Path(workspace.get_default_datastore().container_name) / "again/in/deep/b.csv").exists()


def test_a_datapath_is_a_reference_once_it_is_bound(workspace: Workspace) -> None:
    path = DataPath(workspace.get_default_datastore(), "models/", name="m")

    assert (path.datastore_name, path.path_on_datastore) == ("workspaceblobstore", "models")
    assert str(path.create_data_reference()) == "$AZUREML_DATAREFERENCE_m"
    with pytest.raises(UserErrorException, match="about a Datastore"):
        DataPath().create_data_reference("x")
