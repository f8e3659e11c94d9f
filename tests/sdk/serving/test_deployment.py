"""`plan_revision` and `deploy`: what is on this machine reaches the replicas as it lies here."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from azureml.core.model import InferenceConfig
from runyard.core.specs import ContainerSpec
from runyard.core.webservices import RUNNING, RevisionSpec, ServiceSettings, Webservice
from runyard.sdk.exceptions import WebserviceException
from runyard.sdk.models.model import Model
from runyard.sdk.serving.deployment import deploy, new_service, plan_revision
from runyard.sdk.serving.models import resolve_models
from runyard.sdk.serving.sources import ScriptSource, script_source
from runyard.sdk.workspaces.workspace import Workspace
from tests.waiting import wait_for

pytestmark = pytest.mark.long
SCRIPT = """
import json, os
def init():
    global folder
    folder = os.environ["AZUREML_MODEL_DIR"]
def run(raw):
    files = {}
    for place, _, names in os.walk(folder, followlinks=True):
        for name in names:
            path = os.path.join(place, name)
            files[os.path.relpath(path, folder)] = open(path).read()
    parts = folder.replace(os.sep, "/").split("/")[-3:]
    return {"folder": parts, "files": files, "extra": extra(), "asked": json.loads(raw)}
def extra():
    return open("./source/extra.json").read() if os.path.exists("./source") else sorted(os.listdir("."))
"""


@pytest.fixture(scope="module")
def services() -> Iterator[list[tuple[Workspace, str]]]:
    """Names of services that a test deploys; they are deleted at the end."""
    made: list[tuple[Workspace, str]] = []
    yield made
    for workspace, name in made:
        workspace._client.webservices.delete(workspace.name, name)


def serve(workspace: Workspace, services: list[Any], name: str, spec: RevisionSpec) -> Any:
    services.append((workspace, name))
    calls = workspace._client.webservices
    deploy(workspace, name, new_service(ServiceSettings(compute_type="Local"), spec, overwrite=True))

    def settled() -> Webservice | None:
        found = calls.get(workspace.name, name)
        return found if found.operation and found.operation.state != RUNNING else None

    found = wait_for(settled, timeout_s=60)
    assert found is not None and found.state == "Healthy", found
    answer = calls.ask(workspace.name, name, b'["x"]')
    assert answer.status == 200, answer.text
    return json.loads(answer.text or "")


def test_a_source_folder_and_a_file_that_is_not_registered(
    workspace: Workspace, services: list[Any], tmp_path: Path
) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source/score.py").write_text(SCRIPT)
    (tmp_path / "source/extra.json").write_text('{"extra": 1}')
    (tmp_path / "a_name_that_is_longer_than_thirty.pkl").write_text("weights")

    model = tmp_path / "a_name_that_is_longer_than_thirty.pkl"
    spec = plan_revision(workspace, str(model), script_source("score.py", str(tmp_path / "source")))
    assert spec.models == ["a_name_that_is_longer_than_thi:0"] and spec.source_directory == "source"
    answer = serve(workspace, services, "local-file", spec)
    assert answer["folder"] == ["azureml-models", "a_name_that_is_longer_than_thi", "0"]
    assert answer["files"] == {"a_name_that_is_longer_than_thirty.pkl": "weights"}
    assert (answer["extra"], answer["asked"]) == ('{"extra": 1}', ["x"])


def test_a_script_alone_with_a_registered_model_and_a_folder(
    workspace: Workspace, services: list[Any], tmp_path: Path
) -> None:
    (tmp_path / "score.py").write_text(SCRIPT)
    (tmp_path / "one.txt").write_text("first")
    (tmp_path / "two/inner").mkdir(parents=True)
    (tmp_path / "two/inner/w.txt").write_text("second")
    registered = Model.register(workspace, str(tmp_path / "one.txt"), "registered-one")

    files = {str(tmp_path / "score.py"): "score.py", str(tmp_path / "one.txt"): "beside/one.txt"}
    source = ScriptSource("score.py", files=files)
    spec = plan_revision(workspace, [registered, str(tmp_path / "two")], source)
    assert spec.models == [registered.id, "two:0"]
    answer = serve(workspace, services, "two-models", spec)
    assert answer["files"] == {
        f"registered-one/{registered.version}/one.txt": "first",
        "two/0/two/inner/w.txt": "second",
    }
    assert {"main.py", "score.py", "beside"} <= set(answer["extra"])


def test_the_base_image_of_a_configuration_is_used_where_containers_can_be(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "score.py").write_text(SCRIPT)
    (tmp_path / "m.txt").write_text("m")
    (tmp_path / "bin").mkdir()
    config = InferenceConfig(str(tmp_path / "score.py"), base_image="mine/image:1")

    def plan() -> ContainerSpec | None:
        source = script_source(str(tmp_path / "score.py"))
        spec = plan_revision(workspace, str(tmp_path / "m.txt"), source, config.make_environment())
        return spec.environment.container

    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with caplog.at_level(logging.WARNING, "runyard.sdk"):
        without = plan()
    assert caplog.text.count("image mine/image:1 of environment `inference-environment` is not used") == 1
    (tmp_path / "bin/podman").touch(0o755)
    caplog.clear()
    found = plan()
    assert found == without and found is not None
    assert (found.image, found.fallback["kind"]) == ("mine/image:1", "system")
    assert caplog.text == ""


def test_models_are_objects_ids_names_or_paths(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "m.txt").write_text("m")
    first = Model.register(workspace, "m.txt", "resolved")
    Model.register(workspace, "m.txt", "resolved")

    found = resolve_models(workspace, [first, first.id, "resolved", "./m.txt"], register=False)
    assert [one.id for one in found] == [first.id, f"resolved:{first.version + 1}", "m.txt:0"]
    assert [one.id for one in resolve_models(workspace, "m.txt", register=True)] == ["m.txt:1"]
    with pytest.raises(WebserviceException, match="neither a model `nowhere:3`"):
        resolve_models(workspace, "nowhere:3", register=False)
    with pytest.raises(WebserviceException, match="found 3"):
        resolve_models(workspace, [3], register=False)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/m.txt").write_text("m")
    with pytest.raises(WebserviceException, match=r"Two models would be called `m\.txt`"):
        resolve_models(workspace, ["./m.txt", "other/m.txt"], register=False)
    with pytest.raises(WebserviceException, match="one model, not 2"):
        plan_revision(workspace, [first, "./m.txt"], None)
