"""`runyard environments`: list, show, build and prune, with packages from a folder of small wheels."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from runyard.sdk.environments.conda_dependencies import CondaDependencies
from runyard.sdk.environments.environment import Environment
from runyard.sdk.workspaces.workspace import Workspace
from tests.cli.command_line import runyard
from tests.environments.wheels import make_wheel

pytestmark = pytest.mark.usefixtures("shared_home")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    make_wheel(folder, "alpha", "1.5")
    return folder


@pytest.fixture(scope="module")
def built(shared_home: Path, wheels: Path) -> str:
    """The key of an environment that was built from a requirements file."""
    file = wheels / "requirements.txt"
    file.write_text(f"--no-index\n--find-links {wheels}\nalpha\nazureml-defaults\n")
    result = runyard("environments", "build", str(file), cwd=wheels)

    assert result.returncode == 0, result.stderr
    assert "Building environment `requirements`" in result.stderr and "alpha" in result.stderr
    assert "Environment `requirements` is ready." in result.stderr
    python = result.stdout.strip()
    assert subprocess.check_output([python, "-c", "import alpha; print(alpha.version)"], text=True) == "1.5\n"
    return Path(python).parent.parent.parent.name


def register(wheels: Path) -> Environment:
    environment = Environment("cli-env")
    dependencies = CondaDependencies.create(pip_packages=["alpha"], pip_indexurl="https://me:canary@i/simple")
    environment.python.conda_dependencies = dependencies
    environment.environment_variables = {"MESSAGE": "hello"}
    return environment.register(Workspace.from_config())


@pytest.mark.long
def test_lists_hold_registered_curated_and_built_ones(built: str, wheels: Path) -> None:
    register(wheels)
    text = runyard("environments", "list").stdout

    assert re.search(r"^cli-env +\d+ +registered +alpha$", text, re.MULTILINE)
    assert re.search(r"^AzureML-Tutorial +1 +curated +joblib, ", text, re.MULTILINE)
    assert re.search(rf"^{built[:12]} +requirements +3\.\d+\.\d+ +[\d.]+ [kM]?B +\d{{4}}-", text, re.MULTILINE)
    assert "AzureML" not in runyard("environments", "list", "--built").stdout


@pytest.mark.long
def test_the_list_as_json_has_all_of_it(built: str, wheels: Path) -> None:
    register(wheels)
    found = json.loads(runyard("environments", "list", "--json").stdout)

    curated = {one["name"]: one["curated"] for one in found["environments"]}
    assert curated["cli-env"] is False and curated["AzureML-Minimal"] is True
    one = next(one for one in found["built"] if one["key"] == built)
    assert (one["name"], one["kind"], one["requirements"]) == ("requirements", "uv", ["alpha"])
    assert one["size_bytes"] > 0 and one["is_finished"] is True


def test_show_says_what_an_environment_is_made_of_but_no_password(wheels: Path) -> None:
    version = register(wheels).version
    result = runyard("environments", "show", "CLI-env")

    assert re.search(r"^pip +alpha$", result.stdout, re.MULTILINE)
    assert re.search(rf"^version +{version}$", result.stdout, re.MULTILINE)
    assert re.search(r"^variables +MESSAGE$", result.stdout, re.MULTILINE)
    as_json = runyard("environments", "show", "cli-env", "--json")
    found = json.loads(as_json.stdout)
    assert found["versions"][-1]["version"] == version
    assert found["python"]["condaDependencies"]["dependencies"][1]["pip"][1] == "alpha"
    assert "canary" not in result.stdout + as_json.stdout


def test_an_unknown_name_lists_the_near_ones() -> None:
    result = runyard("environments", "show", "AzureML-Tutoral")

    assert result.returncode == 1
    assert "Did you mean 'AzureML-Tutorial'" in result.stderr


def test_a_build_that_cannot_be_resolved_says_why(wheels: Path) -> None:
    (wheels / "wrong.txt").write_text(f"--no-index\n--find-links {wheels}\nalpha>2\n")
    result = runyard("environments", "build", str(wheels / "wrong.txt"), cwd=wheels)

    assert result.returncode == 1
    assert "alpha>2" in result.stderr and "Traceback" not in result.stderr


def test_what_is_no_environment_file_is_refused(wheels: Path) -> None:
    (wheels / "env.json").write_text("{}")
    result = runyard("environments", "build", str(wheels / "env.json"))

    assert result.returncode == 1 and "no file that an environment can be made from" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--unused", "soon"], "'soon' is no time"),
        (["--keep", "much"], "'much' is no size"),
        (["--unused", "1d", "abc"], "A KEY names what goes"),
    ],
)
def test_limits_that_are_none_are_refused(arguments: list[str], message: str) -> None:
    result = runyard("environments", "prune", *arguments)

    assert result.returncode == 2 and message in result.stderr


def test_prune_says_what_would_go_asks_and_removes(built: str, wheels: Path, shared_home: Path) -> None:
    runyard("environments", "prune", "--unused", "1d", "--yes")  # what failed builds left
    assert "Nothing to remove." in runyard("environments", "prune", "--unused", "1d", "--yes").stderr
    looked = runyard("environments", "prune", "--keep", "1kB", "--dry-run")
    assert built[:12] in looked.stdout and "1 to remove; up to" in looked.stderr
    as_json = runyard("environments", "prune", "--keep", "0", "--dry-run", "--json").stdout
    assert [one["key"] for one in json.loads(as_json)] == [built]
    unasked = runyard("environments", "prune", "--keep", "0")
    assert unasked.returncode == 2 and "Add --yes" in unasked.stderr
    assert (shared_home / "environments" / built).is_dir()

    gone = runyard("environments", "prune", "--keep", "0", "--yes")
    assert gone.returncode == 0 and gone.stdout.splitlines()[-1] == built[:12]
    assert not (shared_home / "environments" / built).exists()
    assert "There is no environment" in runyard("environments", "prune", built[:12]).stderr


def test_submit_takes_an_environment_by_file_or_name(wheels: Path) -> None:
    (wheels / "train.py").write_text("import alpha; print('alpha', alpha.version)")
    (wheels / "small.txt").write_text(f"--no-index\n--find-links {wheels}\nalpha\n")
    result = runyard("submit", "--environment", "small.txt", "train.py", cwd=wheels)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "alpha 1.5\n" and "is ready" in result.stderr  # the build's words are talk
    match = re.search(r"^Run (\S+)$", result.stderr, re.MULTILINE)
    assert match and re.search(r"^environment +small$", runyard("runs", "show", match[1]).stdout, re.MULTILINE)

    assert "no file `none.txt`" in runyard("submit", "--environment", "none.txt", "train.py", cwd=wheels).stderr
    assert "There is no environment 'none'" in runyard("submit", "--environment", "none", "train.py", cwd=wheels).stderr
    both = runyard("submit", "--environment", "x", "--python", "y", "train.py", cwd=wheels)
    assert both.returncode == 2 and "exclude each other" in both.stderr
