"""`Model.package`: a folder that answers as the script does, and an image of it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from azureml.core import Environment
from azureml.core.model import InferenceConfig, Model, ModelPackage
from runyard.sdk.exceptions import WebserviceException
from runyard.sdk.workspaces.workspace import Workspace
from tests.serving.deployments import send
from tests.waiting import wait_for

pytestmark = pytest.mark.long
SCRIPT = """
import os
from azureml.core.model import Model
from helper import shout
def init():
    global path
    path = Model.get_model_path("words")
    assert path == os.path.join(os.environ["AZUREML_MODEL_DIR"], "words.txt")
def run(data):
    told = [os.environ["COLOUR"], os.environ.get("API_TOKEN"), open("src/extra.txt").read()]
    return [shout(open(path).read()), data, *told]
"""
PODMAN = """#!/bin/sh
echo "$@"
for last; do :; done
case "$3" in bad:*) echo no space; exit 1;; esac
read line < "$last/Dockerfile"
echo "$line"
"""


@pytest.fixture
def workspace(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.chdir(tmp_path)
    source = tmp_path / "src"
    source.mkdir()
    (source / "score.py").write_text(SCRIPT)
    (source / "helper.py").write_text("shout = str.upper")
    (source / "extra.txt").write_text("more")
    (source / "words.txt").write_text("hello")
    (tmp_path / "steps").write_text("RUN apt-get install -y libgomp1\n")
    return Workspace.from_config()


def config() -> InferenceConfig:
    environment = Environment("mine")
    environment.python.user_managed_dependencies = True
    environment.environment_variables = {"COLOUR": "blue", "API_TOKEN": "ghp_" + "a1" * 18}
    return InferenceConfig("score.py", source_directory="src", environment=environment)


@contextmanager
def serving(folder: Path) -> Iterator[int]:
    """Start the package as somebody does who has it alone, and give its port."""
    log = folder.with_suffix(".log")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "RUNYARD"))}
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, str(folder / "serve.py"), "--port", "0"], stdout=file, stderr=file, env=environ, cwd="/"
        )
    try:
        wait_for(lambda: process.poll() is not None or "Serving on" in log.read_text(), what=log.read_text)
        found = re.search(r":(\d+)/score", log.read_text())
        assert found is not None, log.read_text()
        yield int(found[1])
    finally:
        process.terminate()
        process.wait(20)


def test_a_saved_package_answers_without_docker(workspace: Workspace, tmp_path: Path) -> None:
    model = Model.register(workspace, "src/words.txt", "words")
    package = Model.package(workspace, [model], config(), generate_dockerfile=True)
    package.wait_for_creation(show_output=True)
    assert package.state == "Succeeded"

    package.save("out")

    with serving(tmp_path / "out") as port:
        assert send(port, "POST", "/score", b"asked").json == ["HELLO", "asked", "blue", None, "more"]
    dockerfile = (tmp_path / "out/Dockerfile").read_text()
    assert re.match(r"FROM python:3\.\d+-slim\n", dockerfile)
    assert "requirements.txt" in dockerfile and "-e API_TOKEN" in dockerfile
    assert re.search(r"^pytest==", (tmp_path / "out/requirements.txt").read_text(), re.MULTILINE)
    written = "".join(path.read_text() for path in (tmp_path / "out").glob("*") if path.is_file())
    assert "ghp_" not in written
    assert package.location == str(tmp_path / "out")
    with pytest.raises(WebserviceException, match=r"save\('folder'\)"):
        package.pull()
    with pytest.raises(WebserviceException, match="no registry"):
        package.get_container_registry()


def test_a_package_holds_local_models_and_those_without_a_script(workspace: Workspace, tmp_path: Path) -> None:
    both = Model.package(workspace, ["src/words.txt", "src/extra.txt"], config(), generate_dockerfile=True)
    both.save("both")

    assert json.loads((tmp_path / "both/package.json").read_text())["model_folder"] == "azureml-models"
    assert (tmp_path / "both/azureml-models/words.txt/0/words.txt").read_text() == "hello"
    with pytest.raises(WebserviceException, match="entry script"):
        Model.package(workspace, ["src/words.txt"], generate_dockerfile=True)
    based = config()
    assert based.environment is not None
    based.environment.docker.base_image = "mine/image:1"
    Model.package(workspace, ["src/words.txt"], based, generate_dockerfile=True).save("based")
    assert (tmp_path / "based/Dockerfile").read_text().startswith("FROM mine/image:1\n")


def test_an_image_is_built_where_podman_is_and_refused_with_a_hint_elsewhere(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Model.register(workspace, "src/words.txt", "words")
    bare = tmp_path / "bare"
    bare.mkdir()
    monkeypatch.setenv("PATH", str(bare))
    with pytest.raises(WebserviceException, match="generate_dockerfile=True"):
        Model.package(workspace, [model], config())

    tool = bare / "podman"
    tool.write_text(PODMAN)
    tool.chmod(0o755)
    package = Model.package(workspace, [model], config(), image_name="words", image_label="v1")
    assert package.state == "Running"
    package.pull()

    assert (package.state, package.location) == ("Succeeded", "words:v1")
    assert package.get_container_registry().address is None
    assert re.search(r"build -t words:v1 \S+\nFROM python", package.get_logs())
    with pytest.raises(WebserviceException, match=r"pull\(\)"):
        package.save("folder")
    failed = Model.package(workspace, [model], config(), image_name="bad")
    with pytest.raises(WebserviceException, match="no space"):
        failed.wait_for_creation()
    assert failed.state == "Failed" and isinstance(failed, ModelPackage)
