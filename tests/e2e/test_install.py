"""`pip install runyard` in environments as Azure's users have them: one package more, and all of it works."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import belongs_to, end_processes, stop_server

ROOT = Path(__file__).parents[2]
VERSIONS = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13")
PINS = ("SQLAlchemy<2", "pydantic<2", "click<8")
NUMPY = {"3.12": "numpy==1.26.4", "3.13": "numpy==2.1.3"}  # the oldest with wheels there

TRAIN = """
import sys
from azureml.core import Run
run = Run.get_context()
run.log("loss", 0.25)
run.log("python", sys.version_info[1])
print("prefix", sys.prefix)
"""

SUBMIT = """
import azureml.core, sys
from azureml.core import Experiment, ScriptRunConfig, Workspace
experiment = Experiment(Workspace.from_config(), "install")
run = experiment.submit(ScriptRunConfig(source_directory=sys.argv[1], script="train.py"))
run.wait_for_completion()
assert run.get_metrics() == {"loss": 0.25, "python": sys.version_info[1]}, run.get_metrics()
other = experiment.start_logging()
other.log("accuracy", 0.5)
other.complete()
assert other.get_metrics() == {"accuracy": 0.5}, other.get_metrics()
print(azureml.core.__file__)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def shared() -> Iterator[Path]:
    """A home for all of them, so that the server's environment is made once."""
    folder = Path(tempfile.mkdtemp(prefix="ry-i"))
    yield folder
    stop_server(folder)
    end_processes(lambda pid: belongs_to(pid, folder), home=folder)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "train.py").write_text(TRAIN)
    return folder


def find_python(version: str) -> str:
    found = [*Path("~/.pyenv/versions").expanduser().glob(f"{version}.*/bin/python"), shutil.which(f"python{version}")]
    python = next((str(one) for one in found if one), None)
    if python is None:
        pytest.skip(f"no Python {version} on this machine")
    return python


def make_environment(folder: Path, version: str) -> str:
    """Return the Python of an environment with packages of Azure's time."""
    uv = str(Path(sys.prefix) / "bin/uv")
    subprocess.run([uv, "venv", "--quiet", "--seed", "--python", find_python(version), str(folder)], check=True)
    packages = [NUMPY.get(version, "numpy==1.23.5"), *PINS]
    python = str(folder / "bin/python")
    subprocess.run([uv, "pip", "install", "--quiet", "--python", python, *packages], check=True)
    return python


def variables(home: Path, programs: Path) -> dict[str, str]:
    """Return the variables of a user whose machine has uv, and no Runyard but the environment's."""
    programs.mkdir(exist_ok=True)
    if not (programs / "uv").exists():
        (programs / "uv").symlink_to(Path(sys.prefix) / "bin/uv")
    ours = ("PYTHON", "RUNYARD", "VIRTUAL")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**environ, "PATH": f"{programs}:/usr/bin:/bin", "RUNYARD_HOME": str(home)}


def freeze(python: str) -> list[str]:
    done = subprocess.run([python, "-m", "pip", "freeze", "--all"], capture_output=True, text=True, check=True)
    return sorted(done.stdout.splitlines())


def installed_bytes(python: str) -> int:
    """Return the size of all that the wheel brought, without bytecode."""
    code = "from importlib.metadata import files\nprint(sum(f.locate().stat().st_size for f in files('runyard')"
    code += " if '__pycache__' not in str(f)))"
    return int(subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout)


@pytest.mark.external
@pytest.mark.timeout(300)
@pytest.mark.parametrize("version", VERSIONS)
def test_one_package_is_added_and_everything_works(
    version: str, wheel: Path, shared: Path, project: Path, tmp_path: Path
) -> None:
    python = make_environment(tmp_path / "venv", version)
    before = freeze(python)
    install = [python, "-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check", str(wheel)]
    subprocess.run(install, check=True)

    added = sorted(set(freeze(python)) - set(before))
    assert [line.partition(" ")[0] for line in added] == ["runyard"]
    assert set(before) <= set(freeze(python))
    size = installed_bytes(python)
    began = time.monotonic()
    done = subprocess.run(
        [python, "-c", SUBMIT, str(project)],
        env=variables(shared, tmp_path / "programs"), cwd=project, capture_output=True, text=True, check=False,
    )  # fmt: skip
    took_s = time.monotonic() - began
    print(f"Python {version}: {size / 1e6:.1f} MB, two runs after {took_s:.1f} s\n{done.stderr}")
    assert done.returncode == 0, done.stderr
    assert str(tmp_path) in done.stdout
    assert len(list((shared / "environments").iterdir())) == 1


@pytest.mark.external
@pytest.mark.timeout(300)
def test_first_calls_at_once_make_one_environment(wheel: Path, project: Path, tmp_path: Path, home: Path) -> None:
    python = make_environment(tmp_path / "venv", "3.8")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-index", str(wheel)], check=True)
    command = [python, "-c", SUBMIT, str(project)]
    environ = variables(home, tmp_path / "programs")
    pipe = subprocess.PIPE
    callers = [
        subprocess.Popen(command, env=environ, cwd=project, stderr=pipe, stdout=pipe, text=True) for _ in range(3)
    ]
    said = [caller.communicate() for caller in callers]

    assert [caller.returncode for caller in callers] == [0, 0, 0], said
    assert len(list((home / "environments").iterdir())) == 1
    assert (home / "server/server.log").read_text().count(" serves ") == 1
    assert sum("Building environment" in error for _, error in said) == 1


@pytest.mark.external
@pytest.mark.timeout(300)
def test_the_extra_runs_the_server_in_the_same_environment(
    wheel: Path, project: Path, tmp_path: Path, home: Path
) -> None:
    """As on a team's machine: nothing else is made, and the server's code is the wheel's, unpacked below the home."""
    uv, python = str(Path(sys.prefix) / "bin/uv"), str(tmp_path / "venv/bin/python")
    subprocess.run([uv, "venv", "--quiet", "--python", find_python("3.11"), str(tmp_path / "venv")], check=True)
    subprocess.run([uv, "pip", "install", "--quiet", "--python", python, f"{wheel}[server]"], check=True)
    environ = variables(home, tmp_path / "programs")
    submit = subprocess.run(
        [python, "-c", SUBMIT, str(project)], env=environ, cwd=project, capture_output=True, text=True, check=False
    )
    assert submit.returncode == 0, submit.stderr
    assert not (home / "environments").exists()
    (code,) = (home / "server/code").iterdir()
    assert (code / "runyard/studio/static/index.html").is_file()
    runyard = str(tmp_path / "venv/bin/runyard")
    subprocess.run([runyard, "server", "stop"], env=environ, check=True, capture_output=True)

    by_hand = subprocess.run(
        [python, "-m", "runyard.server", "--home", str(home), "--repair"],
        env=environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert by_hand.returncode == 0 and "report" in json.loads(by_hand.stdout), by_hand.stderr
