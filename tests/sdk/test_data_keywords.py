"""Keywords and members of datastores, data paths, inputs and uploads that real code gives and reads."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape

import pytest

from azureml.core import Dataset, Datastore, Experiment
from azureml.data.datapath import DataPath
from azureml.train.estimator import Estimator
from runyard.sdk.exceptions import ServiceException, UserErrorException
from runyard.sdk.runs.run import Run
from runyard.sdk.workspaces.workspace import Workspace

BLOBS = {"data/a b.csv": b"n\n1\n", "data/b.csv": b"n\n2\n", "data/deep/c.csv": b"n\n3\n", "other.txt": b"x"}


class Container(BaseHTTPRequestHandler):
    """A public container of blob storage: it lists its blobs, two at a time, and gives them."""

    made: list[str] = []  # noqa: RUF012 - one per test module is enough

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = parse_qs(parts.query)
        if "comp" not in query:
            body = BLOBS.get(parts.path.replace("%20", " ").removeprefix("/public/"))
            return self._answer(404 if body is None else 200, body or b"")
        prefix = query.get("prefix", [""])[0]
        names = sorted(name for name in BLOBS if name.startswith(prefix))
        start = int(query.get("marker", ["0"])[0])
        blobs = "".join(
            f"<Blob><Name>{escape(name)}</Name><Properties><Content-Length>{len(BLOBS[name])}</Content-Length>"
            "</Properties></Blob>"
            for name in names[start : start + 2]
        )
        marker = f"<NextMarker>{start + 2}</NextMarker>" if start + 2 < len(names) else "<NextMarker/>"
        text = f"\ufeff<?xml version='1.0'?><EnumerationResults><Blobs>{blobs}</Blobs>{marker}</EnumerationResults>"
        return self._answer(200 if parts.path == "/public" else 404, text.encode())

    def do_PUT(self) -> None:
        self.made.append(f"{self.path} {self.headers['Authorization']}")
        self._answer(201 if "new" in self.path else 403, b"")

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def web() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Container)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_a_pattern_of_addresses_lists_a_public_container(web: str, tmp_path: Path) -> None:
    files = Dataset.File.from_files(f"{web}/public/data/*.csv")
    every = Dataset.Tabular.from_delimited_files(f"{web}/public/data/**", partition_format="{name}.csv")

    assert files.to_path() == ["/a b.csv", "/b.csv"]
    assert [Path(path).read_bytes() for path in files.download(str(tmp_path))] == [b"n\n1\n", b"n\n2\n"]
    assert every.to_pandas_dataframe().to_dict("list") == {"name": ["a b", "b", "c"], "n": [1, 2, 3]}
    with pytest.raises(UserErrorException, match="Nothing at"):
        Dataset.File.from_files(f"{web}/public/data/*.png")
    with pytest.raises(ServiceException, match="could not be listed"):
        Dataset.File.from_files(f"{web}/private/*")


def test_a_blob_datastore_tells_its_keys_and_takes_azures_options(
    workspace: Workspace, web: str, caplog: pytest.LogCaptureFixture
) -> None:
    keyed = Datastore.register_azure_blob_container(
        workspace, "keyed", "new", "me", account_key="a2V5", endpoint=web, overwrite=True, skip_validation=True,
        create_if_not_exists=True, blob_cache_timeout=3, resource_group="mine",
    )  # fmt: skip
    public = Datastore.register_azure_blob_container(
        workspace, "open", "data", "me", protocol="http", overwrite=True, skip_validation=True
    )
    lake = Datastore.register_azure_data_lake_gen2(
        workspace, "lake", "files", "me", "tenant", "client", "secret", endpoint="dfs.core.windows.net", overwrite=True
    )

    assert (keyed.account_key, keyed.sas_token, keyed.is_sas, keyed.credential_type) == (
        "a2V5",
        None,
        False,
        "AccountKey",
    )
    assert (keyed.endpoint, keyed.protocol) == (web, "http")
    assert Container.made[-1].startswith("/new?restype=container SharedKey me:")
    assert (public.account_key, public.protocol, public.endpoint) == (None, "http", "core.windows.net")
    assert public._document["options"]["skip_signature"] is True
    assert (lake.credential_type, lake.protocol, lake.endpoint) == ("ServicePrincipal", "https", "core.windows.net")
    default = workspace.get_default_datastore()
    assert (default.account_key, default.protocol, default.endpoint) == (None, "file", "")
    assert "have no effect here: blob_cache_timeout, resource_group" in caplog.text
    with pytest.raises(ServiceException, match="could not be made"):
        Datastore.register_azure_blob_container(
            workspace, "x", "old", "me", sas_token="?sig=1", endpoint=web, create_if_not_exists=True
        )
    for datastore in (keyed, public, lake):
        datastore.unregister()


def test_uploads_of_a_run_go_to_the_datastore_that_is_named(
    workspace: Workspace, experiment: Experiment, tmp_path: Path
) -> None:
    (tmp_path / "folder/deep").mkdir(parents=True)
    (tmp_path / "folder/deep/a.txt").write_text("a")
    run = experiment.start_logging(snapshot_directory=None)
    run.upload_file("b.txt", io.BytesIO(b"b"), datastore_name="workspacefilestore")
    run.upload_files(["c.txt"], [str(tmp_path / "folder/deep/a.txt")], datastore_name="workspacefilestore")
    run.upload_folder("f", str(tmp_path / "folder"), datastore_name="workspacefilestore")
    with pytest.raises(UserErrorException, match="no datastore `nope`"):
        run.upload_file("d.txt", io.BytesIO(b"d"), datastore_name="nope")
    run.complete()

    root = Path(Datastore(workspace, "workspacefilestore").container_name) / "ExperimentRun" / f"dcid.{run.id}"
    found = {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}
    assert found == {"b.txt": "b", "c.txt": "a", "f/deep/a.txt": "a"}
    assert {"b.txt", "c.txt", "f/deep/a.txt"} <= set(run.get_file_names()) and "d.txt" not in run.get_file_names()


def test_data_paths_and_secrets_take_azures_other_keywords(
    workspace: Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    path = DataPath(datastore_name="workspacefilestore", relative_path="a/b")
    caplog.set_level(logging.WARNING)
    workspace.get_default_keyvault().set_secret("typed", "x", content_type="text/plain")

    assert (path.datastore_name, path.path_on_datastore) == ("workspacefilestore", "a/b")
    assert path.create_data_reference("r").datastore.name == "workspacefilestore"
    assert workspace.get_default_keyvault().get_secret("typed") == "x" and "content_type" in caplog.text
    with pytest.raises(UserErrorException, match="stand for"):
        DataPath(workspace.get_default_datastore(), datastore_name="x")


def test_an_estimator_takes_datasets_as_inputs(
    workspace: Workspace, experiment: Experiment, tmp_path: Path, submit: Callable[..., Run]
) -> None:
    (tmp_path / "x.csv").write_text("n\n1\n2\n")
    datastore = workspace.get_default_datastore()
    datastore.upload_files([str(tmp_path / "x.csv")], target_path=tmp_path.name, show_progress=False)
    (tmp_path / "project").mkdir()
    (tmp_path / "project/train.py").write_text(
        "from azureml.core import Run\n"
        "run = Run.get_context()\n"
        "run.log('rows', len(run.input_datasets['table'].to_pandas_dataframe()))\n"
        "run.log('bytes', len(open(run.input_datasets['files']).read()))\n"
    )
    files = Dataset.File.from_files((datastore, tmp_path.name)).as_named_input("files").as_mount()
    table = Dataset.Tabular.from_delimited_files((datastore, tmp_path.name)).as_named_input("table")
    estimator = Estimator(
        str(tmp_path / "project"), compute_target="local", entry_script="train.py", user_managed=True, inputs=[files]
    )
    run = experiment.submit(estimator, inputs=[table])
    run.wait_for_completion()

    assert run.get_metrics() == {"rows": 2, "bytes": 6}
