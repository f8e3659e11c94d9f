"""A client and a server of neighbouring versions: each can submit to, log to and read from the other."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard.client.private_server import find
from runyard.core.config.paths import token_file
from runyard.core.formats.plain import to_plain
from runyard.core.records import NewRun
from runyard.core.specs import ContainerSpec, EnvironmentSpec, ResourceSpec, RunSpec
from tests.conftest import belongs_to, end_processes
from tests.server.private import settings_of, start

ROOT = Path(__file__).parents[2]
BEFORE = "601631e2d96a"  # 0.2.0

START = "from azureml.core import Workspace; Workspace.from_config().experiments"

USE = """
import sys, runyard
from azureml.core import Experiment, ScriptRunConfig, Workspace
experiment = Experiment(Workspace.from_config(), "neighbours")
run = experiment.submit(ScriptRunConfig(source_directory=sys.argv[1], script="train.py", arguments=["--rate", 0.5]))
run.wait_for_completion()
assert run.get_status() == "Completed", run.get_details()
assert run.get_metrics() == {"rate": 0.5}, run.get_metrics()
assert "outputs/model.txt" in run.get_file_names(), run.get_file_names()
run.tag("seen", "yes")
other = experiment.start_logging(snapshot_directory=None)
for value in (3, 2, 1):
    other.log("loss", value)
other.complete()
assert other.get_metrics() == {"loss": [3, 2, 1]}, other.get_metrics()
assert {one.id for one in experiment.get_runs()} == {run.id, other.id}
print(runyard.__file__)
"""

TRAIN = """
import sys
from azureml.core import Run
Run.get_context().log("rate", float(sys.argv[2]))
open("outputs/model.txt", "w").write("weights")
"""


# The fields of a submit that 0.2.0 takes; it refuses others.
KNOWN = {
    NewRun: "key id workspace experiment spec type status display_name description parent_id snapshot_id snapshot_root "
    "tags properties parameters submitted_by owner",
    RunSpec: "target script arguments command environment distribution variables time_limit_s grace_s output_folders "
    "definition framework communicator gpus share_gpus sweep data_references datasets outputs resources max_attempts",
    EnvironmentSpec: "name version kind interpreter pip_packages pip_options pip_constraints conda_packages "
    "conda_channels python_version variables container definition",
    ResourceSpec: "cpus memory_bytes custom engine",
    ContainerSpec: "image dockerfile registry username password shared_volumes shm_size arguments",
}
# Answers of a server that is one version older or newer: fields that this client knows may be missing, others be there.
NEIGHBOUR = """
from runyard.client import transport
plain_json = transport.Response.json
def changed(value):
    if isinstance(value, list):
        return [changed(item) for item in value]
    if not isinstance(value, dict) or not {"id", "run", "runs", "api", "spec"} & set(value):
        return value
    found = {key: changed(item) for key, item in value.items() if key not in OPTIONAL}
    return {**found, "from_the_future": {"id": 1}} if IS_NEWER else found
transport.Response.json = lambda self: changed(plain_json(self))
"""


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "project"
    (folder / "outputs").mkdir(parents=True)
    (folder / "train.py").write_text(TRAIN)
    yield folder
    end_processes(lambda pid: belongs_to(pid, tmp_path))  # those that ship what a client logged end soon by themselves


def run_code(code: str, source: Path, *arguments: str, **variables: str) -> str:
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "RUNYARD"))}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**environ, "PYTHONPATH": str(source), **variables},
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """The source of the release before, from this repository's history."""
    archive = subprocess.run(["git", "archive", BEFORE, "src"], cwd=ROOT, capture_output=True, check=False)
    if archive.returncode:
        pytest.skip("this checkout has no history")
    folder = tmp_path / "before"
    folder.mkdir()
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    return folder / "src"


def test_a_submit_without_new_features_holds_only_what_the_release_before_knows() -> None:
    new = NewRun(key="k", id="i", workspace="w", experiment="e")
    for one in (new, RunSpec(), EnvironmentSpec(name="e"), ResourceSpec(), ContainerSpec(image="i")):
        unknown = set(to_plain(one)) - set(KNOWN[type(one)].split())

        assert unknown == set(), f"{type(one).__name__}: give these fields the metadata `sparse`"


@pytest.mark.long
@pytest.mark.parametrize("is_newer", [True, False], ids=["newer", "older"])
def test_answers_of_a_neighbouring_server_are_read(home: Path, project: Path, is_newer: bool) -> None:
    optional = set() if is_newer else {"undo_until", "archived_at", "attempts", "timeline", "waits_for", "warnings"}
    prelude = f"IS_NEWER, OPTIONAL = {is_newer}, {optional}\n{NEIGHBOUR}"
    said = run_code(prelude + USE, ROOT / "src", str(project), RUNYARD_HOME=str(home))

    assert str(ROOT) in said


@pytest.mark.external
def test_the_client_before_talks_to_this_server(home: Path, before: Path, project: Path, tmp_path: Path) -> None:
    url = start(home).server.info().url
    token = token_file(home).read_text().strip()
    said = run_code(
        USE, before, str(project), RUNYARD_URL=url, RUNYARD_TOKEN=token, RUNYARD_HOME=str(tmp_path / "client")
    )

    assert str(before) in said


@pytest.mark.external
def test_this_client_talks_to_the_server_before(home: Path, before: Path, project: Path, tmp_path: Path) -> None:
    run_code(START, before, RUNYARD_HOME=str(home))
    server = find(settings_of(home))
    assert server is not None
    url = server.server.info().url
    token = token_file(home).read_text().strip()
    said = run_code(
        USE, ROOT / "src", str(project), RUNYARD_URL=url, RUNYARD_TOKEN=token, RUNYARD_HOME=str(tmp_path / "client")
    )

    assert str(ROOT) in said
