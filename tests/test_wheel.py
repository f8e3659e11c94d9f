"""The wheel: what is in it, and that a user's type checker sees our types."""

from __future__ import annotations

import email
import os
import stat
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import runyard
from runyard.client.server_code import ARCHIVE

ROOT = Path(__file__).parent.parent
MOST_BYTES = 3_000_000  # of an installed wheel, without bytecode

GOOD = """\
from typing import Any, Dict

from azureml.core import Experiment, Model, Run, ScriptRunConfig, Workspace
from azureml.core.model import InferenceConfig
from azureml.core.webservice import AciWebservice
from runyard.core.specs import SweepSpec
from runyard.testing.compute_backend import ComputeBackendSuite
from runyard.tuning.base import Sampler


class TestMine(ComputeBackendSuite):
    pass


workspace: Workspace = Workspace.from_config()
experiment = Experiment(workspace, "mine")
run: Run = experiment.submit(ScriptRunConfig(source_directory=".", script="train.py"))
metrics: Dict[str, Any] = run.get_metrics()
settings = AciWebservice.deploy_configuration(cpu_cores=1)
address: str = Model.deploy(workspace, "it", [], InferenceConfig(entry_script="score.py"), settings).scoring_uri


def count(spec: SweepSpec, sampler: Sampler) -> int:
    return spec.max_total_runs + len(sampler.sample(0, []) or {})
"""

BAD = """\
from azureml.core import Run
from azureml.core.webservice import AciWebservice
from runyard.core.specs import SweepSpec

cores: str = AciWebservice.deploy_configuration().cpu_cores


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


def walk(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]


def import_installed(site: Path, code: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run code where our wheel is installed and nothing else is."""
    environ = {"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1", **variables}
    command = [sys.executable, "-S", "-c", code, *arguments]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)


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


def test_the_wheels_facts_are_what_an_index_shows(site_packages: Path) -> None:
    text = (site_packages / f"runyard-{runyard.__version__}.dist-info/METADATA").read_text()
    facts = email.message_from_string(text)
    needed = [line for line in facts.get_all("Requires-Dist") or [] if "extra ==" not in line]

    assert (facts["Requires-Python"], facts["License-Expression"], facts["Author"]) == (
        ">=3.8",
        "Apache-2.0",
        "The Runyard authors",
    )
    assert needed == []
    addresses = {line.partition(",")[0] for line in facts.get_all("Project-URL") or []}
    assert addresses == {"Homepage", "Documentation", "Changelog", "Issues"}
    assert "Programming Language :: Python :: 3.8" in (facts.get_all("Classifier") or [])


@pytest.mark.long
def test_an_installed_wheel_is_small(site_packages: Path) -> None:
    sizes: dict[str, int] = {}
    for path in site_packages.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            parts = path.relative_to(site_packages).parts
            room = parts[1] if parts[0] == "runyard" else parts[0]
            sizes[room] = sizes.get(room, 0) + path.stat().st_size

    print(f"{sum(sizes.values()) / 1e6:.2f} MB installed: {sizes}")
    assert sum(sizes.values()) <= MOST_BYTES


@pytest.mark.long
def test_every_file_is_in_a_folder_or_in_the_archive(site_packages: Path) -> None:
    with tarfile.open(site_packages / ARCHIVE) as archive:
        archived = archive.getnames()
    folders = [
        str(path.relative_to(site_packages)) for top in ("runyard", "azureml") for path in walk(site_packages / top)
    ]
    source = [
        str(path.relative_to(ROOT / "src")) for top in ("runyard", "azureml") for path in walk(ROOT / "src" / top)
    ]

    assert sorted([*archived, *folders]) == sorted([*source, ARCHIVE])


def test_an_installed_client_knows_what_azures_absent_names_were(site_packages: Path) -> None:
    done = import_installed(site_packages, "import azureml.train.automl")

    assert done.returncode == 1
    assert "automated machine learning" in done.stderr and "FLAML" in done.stderr


def test_modules_of_the_archive_can_be_imported(site_packages: Path, tmp_path: Path) -> None:
    """As plug-ins do; each has its file below the home, for stack traces and for what reads files beside itself."""
    code = "import runyard.core.specs as c, runyard.launchers.single as s, runyard.launchers.base as b\n"
    code += "import runyard.imports as i\n"
    code += "from importlib.util import find_spec\nfor m in c, s, b, i: print(m.__file__)\n"
    code += "print(find_spec('runyard.nothing'))"
    found = import_installed(site_packages, code, RUNYARD_HOME=str(tmp_path)).stdout.splitlines()

    assert found[0] == str(site_packages / "runyard/core/specs.py")
    assert [path.startswith(f"{tmp_path}/server/code/{runyard.__version__}-") for path in found[1:4]] == [True] * 3
    assert found[1].endswith("/runyard/launchers/single.py") and Path(found[1]).is_file() and found[4] == "None"


def test_a_home_that_cannot_be_written_still_has_every_command(site_packages: Path, tmp_path: Path) -> None:
    """`runyard doctor` has to run on a full disk: the archive is unpacked for the process alone."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "server").write_text("a file where a folder should be")
    (tmp_path / "tmp").mkdir()
    code = "import runyard.cli.commands.doctor as d, runyard.sdk.absent as a, sys\nprint(d.__file__, a.__file__)\n"
    code += "from runyard.cli import main\nmain(['version'])"
    done = import_installed(site_packages, code, RUNYARD_HOME=str(home), TMPDIR=str(tmp_path / "tmp"))

    (first, second), version = (done.stdout.splitlines()[0].split(), done.stdout.splitlines()[1:])
    assert first.startswith(f"{tmp_path}/tmp/runyard-") and first.endswith("/runyard/cli/commands/doctor.py")
    assert Path(first).parents[2] == Path(second).parents[1] and version == [f"runyard {runyard.__version__}"]
    assert os.listdir(tmp_path / "tmp") == []


def test_an_archive_that_cannot_be_unpacked_says_why(site_packages: Path, tmp_path: Path) -> None:
    (tmp_path / "server").write_text("a file where a folder should be")
    code = "import tempfile, runyard.client.server_code\ndef full(**_): raise OSError(28, 'No space left')\n"
    code += "tempfile.mkdtemp = full\nimport runyard.launchers"
    done = import_installed(site_packages, code, RUNYARD_HOME=str(tmp_path))

    assert done.returncode == 1
    assert "ImportError: The archived part of Runyard could not be unpacked: [Errno 20]" in done.stderr


def test_submitting_and_logging_need_nothing_of_the_archive(site_packages: Path, tmp_path: Path) -> None:
    """What every user's first lines load is in folders, so the archive costs them no time."""
    code = "import runyard.cli.app, runyard.integrations.mlflow, runyard.sdk.submit.submission\n"
    code += "from azureml.core import Dataset, Environment, Experiment, Model, Run, ScriptRunConfig, Workspace"
    done = import_installed(site_packages, code, RUNYARD_HOME=str(tmp_path))

    assert done.returncode == 0, done.stderr
    assert os.listdir(tmp_path) == []


WITHOUT_LZMA = "import sys, pathlib\nsys.modules['_lzma'] = None\n"


def test_a_python_without_lzma_unpacks_with_the_program_xz(site_packages: Path, tmp_path: Path) -> None:
    """As one that pyenv built where liblzma's headers were missing."""
    code = WITHOUT_LZMA + "import runyard.client.server_code as s\ns.code_folder(pathlib.Path(sys.argv[1]))"
    path = os.environ["PATH"]
    done = import_installed(site_packages, code, str(tmp_path), PATH=path)
    bare = import_installed(site_packages, code, str(tmp_path / "other"), PATH="")

    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "server/code").iterdir()
    assert (folder / "runyard/store/migrations/env.py").is_file()
    assert bare.returncode == 1 and "(Debian: apt install xz-utils)" in bare.stderr


def test_a_copy_of_a_killed_process_is_written_anew(site_packages: Path, tmp_path: Path) -> None:
    """Beside the name, never under it: a folder with its name is whole."""
    code = "import runyard.client.server_code as s, pathlib, sys, os\nh = pathlib.Path(sys.argv[1])\n"
    code += "os.rename = lambda *a: os._exit(9)\ns.code_folder(h)"
    killed = import_installed(site_packages, code, str(tmp_path))
    left = os.listdir(tmp_path / "server/code")
    whole = import_installed(site_packages, code.replace("os.rename = lambda *a: os._exit(9)", ""), str(tmp_path))

    assert killed.returncode == 9 and [name[0] for name in left] == ["."]
    assert whole.returncode == 0, whole.stderr
    (folder,) = (tmp_path / "server/code").glob("[0-9]*")
    assert (folder / "runyard/store/migrations/env.py").is_file() and not (folder / ARCHIVE).exists()


def test_a_home_that_begins_with_the_servers_code_is_closed_to_others(site_packages: Path, tmp_path: Path) -> None:
    """The server refuses a home that others may enter, once it holds environments too."""
    code = "import runyard.client.server_code as s, pathlib, sys, os\nos.umask(0o022)\n"
    home = tmp_path / "share/home"
    done = import_installed(site_packages, code + "s.code_folder(pathlib.Path(sys.argv[1]))", str(home))

    assert done.returncode == 0, done.stderr
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


@pytest.mark.long
def test_a_users_code_is_checked_against_the_installed_types(site_packages: Path, tmp_path: Path) -> None:
    good = check_types(site_packages, tmp_path, GOOD)
    bad = check_types(site_packages, tmp_path, BAD)

    assert good.returncode == 0, good.stdout + good.stderr
    assert [line.split(" ", 1)[0] for line in bad.stdout.splitlines() if "error:" in line] == [
        "user.py:5:",
        "user.py:9:",
        "user.py:10:",
    ]
    assert bad.stdout.count('expression has type "str"') + bad.stdout.count('got "str"') == 2


def test_a_server_in_another_environment_gets_a_copy_of_this_code_alone(site_packages: Path, tmp_path: Path) -> None:
    (site_packages / "numpy.py").write_text("raise ImportError('of another Python')")
    (site_packages / "azureml/foreign.py").write_text("")
    code = "import sys, pathlib, runyard.client.server_code as s\nprint(s.code_folder(pathlib.Path(sys.argv[1])))"
    folders = {import_installed(site_packages, code, str(tmp_path)).stdout for _ in "12"}

    (folder,) = (Path(line.strip()) for line in folders)
    assert folder.parent == tmp_path / "server/code" and not (folder / "runyard").is_symlink()
    assert sorted(os.listdir(folder)) == ["azureml", "runyard", f"runyard-{runyard.__version__}.dist-info"]
    assert (folder / "runyard/server/__main__.py").is_file() and not (folder / "azureml/foreign.py").exists()
