"""Our `azureml` beside others': ours wins from the path, parts of others still import, a clash is told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent.parent / "src"
PKGUTIL = '__path__ = __import__("pkgutil").extend_path(__path__, __name__)\n'


def python(code: str, *path: Path) -> subprocess.CompletedProcess[str]:
    """Run `code` with `path` as the whole of PYTHONPATH and no site-packages."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    return subprocess.run([sys.executable, "-S", "-c", code], env=environ, capture_output=True, text=True, check=False)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """A site-packages with another's azureml in it, pkgutil-style as Microsoft's."""
    site = tmp_path / "site"
    write(site / "azureml/__init__.py", PKGUTIL)
    write(site / "azureml/contrib/__init__.py", PKGUTIL)
    write(site / "azureml/contrib/something.py", "NAME = 'theirs'\n")
    write(site / "azureml/train/__init__.py", PKGUTIL)
    write(site / "azureml/train/automl/__init__.py", "NAME = 'automl'\n")
    write(site / "azureml/interpret/__init__.py", "NAME = 'interpret'\n")
    write(site / "azureml/core/__init__.py", "VERSION = 'theirs'\n")
    write(site / "azureml/_base_sdk_common/__init__.py", "")
    return site


def test_ours_wins_and_parts_of_others_still_import(other: Path) -> None:
    done = python(
        "import azureml.core, azureml.interpret, azureml.contrib.something, azureml.train.automl\n"
        "from azureml.core import Run\n"
        "import azureml.train.dnn, azureml._base_sdk_common\n"
        "print(azureml.core.VERSION, Run.__module__, azureml.contrib.something.NAME, azureml.train.automl.NAME,"
        " azureml.interpret.NAME)\n",
        SOURCE,
        other,
    )

    assert done.stderr == ""
    assert done.stdout.split() == ["1.61.0", "runyard.sdk.runs.run", "theirs", "automl", "interpret"]


def test_when_theirs_is_first_the_sdk_says_what_to_uninstall(other: Path) -> None:
    done = python("import azureml.core\nimport runyard\nrunyard.Workspace.from_config()\n", other, SOURCE)

    assert "`azureml.core` in this process is Microsoft's, not Runyard's." in done.stderr
    assert "pip uninstall -y azureml-core" in done.stderr
    assert str(other / "azureml/core/__init__.py") in done.stderr


def test_one_folder_for_both_is_an_import_error_that_says_what_to_uninstall(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "runyard").symlink_to(SOURCE / "runyard")
    for path in SOURCE.joinpath("azureml").rglob("*.py"):
        write(site / path.relative_to(SOURCE), path.read_text())
    fine = python("import azureml.core", site)
    write(site / "azureml/_base_sdk_common/__init__.py", "")
    done = python("try:\n    import azureml.core\nexcept ImportError as error:\n    print(error)\n", site)

    assert fine.returncode == 0
    assert "are installed in one place" in done.stdout and f"{site}/azureml" in done.stdout
    assert "pip uninstall -y azureml-core" in done.stdout


def test_what_microsofts_package_loads_of_ours_stops_it() -> None:
    done = python("import runyard.sdk.foreign as foreign\nprint(hasattr(foreign, 'x'))\nforeign.stop\n", SOURCE)

    assert done.stdout == "False\n"
    assert "ForeignAzureMLFirst: Microsoft's azureml-core is installed beside Runyard" in done.stderr
