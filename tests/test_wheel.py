"""The wheel: what is in it, and that a user's type checker sees our types."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import runyard

ROOT = Path(__file__).parent.parent
SERVER_ROOMS = ("compute", "engine", "server", "store", "studio", "testing", "tuning")

GOOD = """\
from typing import Any, Dict

from azureml.core import Experiment, Run, ScriptRunConfig, Workspace
from runyard.core.specs import SweepSpec
from runyard.tuning.base import Sampler

workspace: Workspace = Workspace.from_config()
experiment = Experiment(workspace, "mine")
run: Run = experiment.submit(ScriptRunConfig(source_directory=".", script="train.py"))
metrics: Dict[str, Any] = run.get_metrics()


def count(spec: SweepSpec, sampler: Sampler) -> int:
    return spec.max_total_runs + len(sampler.sample(0, []) or {})
"""

BAD = """\
from azureml.core import Run
from runyard.core.specs import SweepSpec


def names(run: Run, spec: SweepSpec) -> int:
    first: int = run.id
    return spec.primary_metric
"""


@pytest.fixture(scope="module")
def site_packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the site-packages of an environment that has our wheel and nothing else."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "env")], check=True)
    (site,) = (folder / "env/lib").glob("python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return site


def check_types(site: Path, folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    (folder / "user.py").write_text(text)
    python = site.parents[2] / "bin/python"
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", "", "--python-executable", str(python)]
    environ = {name: value for name, value in os.environ.items() if name != "MYPYPATH"}
    return subprocess.run(
        [*command, "--cache-dir", str(site.parents[2] / "mypy"), "user.py"],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.long
def test_both_packages_of_the_wheel_say_that_they_have_types(site_packages: Path) -> None:
    assert (site_packages / "runyard/py.typed").read_bytes() == b""
    assert (site_packages / "azureml/py.typed").read_bytes() == b""
    assert (site_packages / f"runyard-{runyard.__version__}.dist-info/entry_points.txt").is_file()


@pytest.mark.long
def test_the_part_that_every_environment_gets_is_small(site_packages: Path) -> None:
    sizes: dict[str, int] = {}
    for path in site_packages.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            parts = path.relative_to(site_packages).parts
            room = parts[1] if parts[0] == "runyard" else parts[0]
            sizes[room] = sizes.get(room, 0) + path.stat().st_size
    of_server = sum(sizes.get(room, 0) for room in SERVER_ROOMS)

    print(f"{sum(sizes.values()) / 1e6:.2f} MB installed, of which the server's code is {of_server / 1e6:.2f} MB")
    assert sum(sizes.values()) - of_server <= 3_000_000


def test_a_users_code_is_checked_against_the_installed_types(site_packages: Path, tmp_path: Path) -> None:
    good = check_types(site_packages, tmp_path, GOOD)
    bad = check_types(site_packages, tmp_path, BAD)

    assert good.returncode == 0, good.stdout + good.stderr
    assert [line.split(" ", 1)[0] for line in bad.stdout.splitlines() if "error:" in line] == [
        "user.py:6:",
        "user.py:7:",
    ]
    assert bad.stdout.count('expression has type "str"') + bad.stdout.count('got "str"') == 2


def test_a_server_in_another_environment_gets_a_copy_of_this_code_alone(site_packages: Path, tmp_path: Path) -> None:
    (site_packages / "numpy.py").write_text("raise ImportError('of another Python')")
    (site_packages / "azureml/foreign.py").write_text("")
    code = "import sys, pathlib, runyard.client.server_python as s\nprint(s.code_folder(pathlib.Path(sys.argv[1])))"
    environ = {"PYTHONPATH": str(site_packages), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-S", "-c", code, str(tmp_path)]
    folders = {subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout for _ in "12"}

    (folder,) = (Path(line.strip()) for line in folders)
    assert folder.parent == tmp_path / "server/code" and not (folder / "runyard").is_symlink()
    assert sorted(os.listdir(folder)) == ["azureml", "runyard", f"runyard-{runyard.__version__}.dist-info"]
    assert (folder / "runyard/server/__main__.py").is_file() and not (folder / "azureml/foreign.py").exists()
