"""A workspace of its own for each file about services, whose services are deleted at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from azureml.core import Model, Workspace
from azureml.core.model import InferenceConfig
from azureml.core.webservice import LocalWebservice, Webservice
from runyard.core.records import Run
from tests.waiting import wait_for

SCRIPT = """
import json, os
from azureml.core.model import Model

def init():
    global factor
    folder = os.environ["AZUREML_MODEL_DIR"]
    factor = float(open(os.path.join(folder, "factor.txt")).read())
    print(f"factor {factor:g} is loaded")

def run(raw_data):
    return [factor * one for one in json.loads(raw_data)["data"]]
"""


@pytest.fixture(scope="module")
def place(request: pytest.FixtureRequest) -> Iterator[Workspace]:
    """A workspace; its services are deleted after the tests of the file."""
    name = f"ws-{Path(str(request.node.path)).stem.removeprefix('test_').replace('_', '-')}"
    workspace = Workspace.create(name, exist_ok=True)
    yield workspace
    for service in [*Webservice.list(workspace), *LocalWebservice.list(workspace, all=True)]:
        service.delete()
    # A server that leaves would leave replicas to the next one.
    wait_for(lambda: all(run.status.is_terminal for run in _all_runs(workspace)), timeout_s=60)


def _all_runs(workspace: Workspace) -> Iterator[Run]:
    return workspace._client.runs.iter(workspace.name, view="all", include_children="true")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder `source` with the script, and a model's file beside it."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "source").mkdir()
    (folder / "source/score.py").write_text(SCRIPT)
    (folder / "factor.txt").write_text("2")
    return folder


@pytest.fixture(scope="module")
def config(project: Path) -> InferenceConfig:
    return InferenceConfig(entry_script="score.py", source_directory=str(project / "source"))


@pytest.fixture(scope="module")
def model(place: Workspace, project: Path) -> Model:
    """A model that doubles."""
    return Model.register(place, str(project / "factor.txt"), "doubling", tags={"area": "tests"})


@pytest.fixture
def write_model(place: Workspace, tmp_path: Path) -> Callable[[float], Model]:
    """Return what registers the next version of a model, with another factor."""

    def write(factor: float) -> Model:
        (tmp_path / "factor.txt").write_text(str(factor))
        return Model.register(place, str(tmp_path / "factor.txt"), "doubling")

    return write
