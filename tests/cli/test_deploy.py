"""`runyard deploy` and `runyard services update`: from a model and a script to answers, with real replicas."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from azureml.core import Workspace
from azureml.core.model import Model
from runyard.core.webservices import Webservice
from tests.cli.command_line import runyard
from tests.waiting import wait_for

pytestmark = [pytest.mark.usefixtures("shared_home"), pytest.mark.long]
SCRIPT = """
import json, os
from helper import times
def init():
    global factor
    with open(os.path.join(os.environ["AZUREML_MODEL_DIR"], "factor.txt")) as file:
        factor = int(file.read())
def run(raw):
    data = json.loads(raw)["data"]
    return {"answer": [times(factor, one) for one in data], "note": open("notes.txt").read(), "mode": os.getenv("MODE")}
"""
TYPED = """
from typing import List
from runyard import serving
class Sum(serving.Scorer):
    def setup(self):
        with open(f"{self.model_folder}/factor.txt") as file:
            self.factor = int(file.read())
    def predict(self, values: List[float]) -> float:
        return self.factor * sum(values)
"""


def service(name: str) -> Webservice:
    return Workspace.from_config()._client.webservices.get("default", name)


def end(name: str) -> None:
    """Delete a service and wait for its runs: a server that is stopped before they end would come back."""
    found = service(name)
    runs = [found.run_id, *(one.run_id for revision in found.revisions for one in revision.replicas)]
    assert runyard("services", "delete", name, "--yes").stdout == f"{name}\n"
    calls = Workspace.from_config()._client.runs
    wait_for(lambda: all(calls.get(run).status.is_terminal for run in runs), timeout_s=60)


def ask(name: str, body: str) -> object:
    return json.loads(runyard("services", "test", name, "--data", body).stdout)


@pytest.fixture(scope="module")
def project(shared_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with scripts, and the model `factor` in versions 1 (two) and 2 (three)."""
    folder = tmp_path_factory.mktemp("project")
    files = {
        "score.py": SCRIPT,
        "typed.py": TYPED,
        "helper.py": "times = lambda a, b: a * b",
        "notes.txt": "beside",
        "broken.py": "def init():\n    raise RuntimeError('no such luck')\ndef run(data):\n    pass\n",
        "secret.py": "import os\ndef init():\n    pass\ndef run(data):\n    return len(os.environ['API_TOKEN'])\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    for factor in (2, 3):
        (folder / "factor.txt").write_text(str(factor))
        Model.register(Workspace.from_config(), str(folder / "factor.txt"), "factor")
    return folder


@pytest.fixture(scope="module")
def deployed(project: Path) -> Iterator[str]:
    done = runyard("deploy", "factor:1", "--entry", "score.py", "-t", "team=a", "-e", "MODE=fast", cwd=project)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == service("factor").scoring_uri
    assert "Web service `factor` is Healthy, revision 1." in done.stderr and "curl" in done.stderr
    yield "factor"
    end("factor")


def test_a_model_and_a_script_answer_requests(deployed: str) -> None:
    assert ask(deployed, '{"data": [5, 7]}') == {"answer": [10, 14], "note": "beside", "mode": "fast"}
    found = service(deployed)
    assert (found.settings.tags, found.revisions[0].spec.models) == ({"team": "a"}, ["factor:1"])
    assert found.revisions[0].spec.environment.interpreter == sys.executable


def test_a_name_that_is_taken_says_what_to_type(deployed: str, project: Path) -> None:
    again = runyard("deploy", "factor", "--entry", "score.py", cwd=project)

    assert again.returncode == 1
    assert (
        "already" in again.stderr and "runyard services update factor" in again.stderr and "--overwrite" in again.stderr
    )


def test_an_update_changes_what_it_names_and_keeps_the_rest(deployed: str, project: Path) -> None:
    done = runyard("services", "update", deployed, "--model", "factor:2", "--tag", "stage=two", cwd=project)

    assert done.returncode == 0, done.stderr
    assert ask(deployed, '{"data": [5]}') == {"answer": [15], "note": "beside", "mode": "fast"}
    assert service(deployed).settings.tags == {"team": "a", "stage": "two"}

    done = runyard("services", "update", deployed, "--entry", "typed.py", cwd=project)
    assert done.returncode == 0, done.stderr
    assert ask(deployed, '{"values": [1, 2]}') == 9
    assert re.search(r'-d .*"values": \[1\.0\]', done.stderr), done.stderr  # its OpenAPI document has a sample
    spec = service(deployed).revisions[-1].spec
    assert (spec.models, spec.variables["MODE"]) == (["factor:2"], "fast")


def test_an_update_that_does_not_start_leaves_the_service_as_it_is(deployed: str, project: Path) -> None:
    before = service(deployed)
    failed = runyard("services", "update", deployed, "--entry", "broken.py", cwd=project)

    assert failed.returncode == 1
    assert "RuntimeError: no such luck" in failed.stderr and "goes on to answer" in failed.stderr
    after = service(deployed)
    assert (after.state, after.current) == ("Healthy", before.current)
    number = str(after.revisions[-1].number)
    assert f"runyard services logs {deployed} --revision {number}" in failed.stderr
    for words in ([], ["--revision", number]):
        shown = runyard("services", "logs", deployed, *words)
        assert (shown.returncode, shown.stdout.count("RuntimeError: no such luck") > 0) == (0, True), shown.stderr


def test_settings_change_without_a_new_revision(deployed: str, project: Path) -> None:
    before = len(service(deployed).revisions)
    done = runyard("services", "update", deployed, "--auth", "--replicas", "2", "--description", "sums")

    assert done.returncode == 0, done.stderr
    found = service(deployed)
    assert (len(found.revisions), found.settings.auth, found.settings.description) == (before, True, "sums")
    assert found.serving is not None and found.serving.spec.scaling.replicas == 2
    assert "runyard services keys factor primary" in done.stderr
    nothing = runyard("services", "update", deployed)
    assert nothing.returncode == 2 and "Name what to change" in nothing.stderr


def test_secrets_stay_through_updates_and_are_not_shown(project: Path) -> None:
    secret = "ghp_" + "a1" * 18
    made = runyard("deploy", "--entry", "secret.py", "-e", f"API_TOKEN={secret}", cwd=project)
    assert made.returncode == 0, made.stderr
    try:
        assert ask("secret", "") == len(secret)
        changed = runyard("services", "update", "secret", "--timeout", "5", "-e", "OTHER=1")
        assert changed.returncode == 0, changed.stderr

        assert ask("secret", "") == len(secret)
        assert service("secret").revisions[-1].spec.scoring_timeout_ms == 5000
        assert secret not in runyard("services", "show", "secret", "--json").stdout
    finally:
        end("secret")


def test_a_file_is_registered_and_mistakes_are_said_before_anything_is_made(project: Path) -> None:
    made = runyard(
        "deploy", "./factor.txt", "--entry", "typed.py", "--name", "from-file", "--python", sys.executable, cwd=project
    )
    assert made.returncode == 0, made.stderr
    assert service("from-file").revisions[0].spec.models == ["factor.txt:1"]
    assert ask("from-file", "[1, 2]") == 9
    end("from-file")

    for words, said in [
        (["deploy"], "nothing to deploy"),
        (["deploy", "factor"], "cannot be served without an entry script"),
        (["deploy", "factor", "--entry", "scor.py"], "Scripts there: "),
        (["deploy", "factor", "--entry", "factor.txt"], "must end with .py"),
        (["deploy", "missing", "--entry", "score.py"], "ModelNotFound"),
        (["deploy", "factor", "--entry", "score.py", "--target", "nowhere"], "no compute target `nowhere`"),
        (["deploy", "factor", "--entry", "score.py", "--replicas", "2", "--max-replicas", "3"], "and a range"),
        (["deploy", "factor", "--entry", "score.py", "--name", "No"], "cannot be the name of a web service"),
    ]:
        refused = runyard(
            *words, *([] if "--name" in words or words == ["deploy"] else ["--name", "other"]), cwd=project
        )
        assert refused.returncode == 1 and said in refused.stderr, refused.stderr
    assert runyard("services", "list").stdout.count("No") == 0
    (project / "unwhole.py").write_text("def init(:\n")
    assert "no valid Python, line 1" in runyard("deploy", "--entry", "unwhole.py", cwd=project).stderr


def test_the_environment_is_that_of_the_run_that_made_the_model(project: Path) -> None:
    (project / "train.py").write_text(
        "import os\nfrom azureml.core import Run\nos.makedirs('outputs', exist_ok=True)\n"
        "open('outputs/factor.txt', 'w').write('4')\n"
        "Run.get_context().register_model('trained', 'outputs/factor.txt')\n"
    )
    done = runyard("submit", "--python", sys.executable, "train.py", cwd=project)
    assert done.returncode == 0, done.stderr
    made = runyard("deploy", "trained", "--entry", "typed.py", cwd=project)
    try:
        assert made.returncode == 0, made.stderr
        assert "The environment is that of run train_" in made.stderr and "not installed" not in made.stderr
        assert ask("trained", "[1, 2]") == 12
    finally:
        end("trained")
