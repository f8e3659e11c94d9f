"""The folder that goes first on a run's path: only what a run needs, whole, made once."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import runyard
from runyard.runtime import injection
from runyard.runtime.injection import INJECTED, METADATA, injection_folder
from tests.interpreters import pythons
from tests.runtime.journals import SOURCE, run_script

CALL = """
import pathlib, sys
from runyard.runtime.injection import injection_folder
print(injection_folder(pathlib.Path(sys.argv[1])))
"""


def published(parent: Path) -> list[Path]:
    return [path for path in parent.iterdir() if path.name != ".lock"]


def test_it_holds_only_the_injected_packages_and_our_sitecustomize(tmp_path: Path) -> None:
    folder = injection_folder(tmp_path)

    assert folder.parent == tmp_path / "cache" / "injection"
    assert folder.name.startswith(runyard.__version__)
    names = {path.name for path in folder.iterdir()}
    assert {"runyard", "sitecustomize.py", METADATA} <= names <= {"runyard", "sitecustomize.py", "azureml", METADATA}
    assert {path.name for path in (folder / "runyard").iterdir()} <= {*INJECTED, "__init__.py"}
    assert not [path for path in folder.rglob("*") if path.name == "__pycache__" or path.suffix == ".pyc"]
    for name in ("core/formats/journal.py", "runtime/writer.py", "launchers/single.py"):
        assert (folder / "runyard" / name).read_bytes() == (SOURCE / "runyard" / name).read_bytes()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert published(folder.parent) == [folder]


@pytest.mark.parametrize("version", pythons())
def test_a_run_imports_us_from_it(tmp_path: Path, version: str) -> None:
    folder = injection_folder(tmp_path)
    code = "import runyard.runtime.context as m, runyard.launchers, runyard.environments; print(m.__file__)"
    done = run_script(code, python=pythons()[version], PYTHONPATH=str(folder))

    assert done.stdout.strip() == str(folder / "runyard/runtime/context.py")


EVERY_MODULE = """
import importlib, pkgutil, sys
import runyard
packages = [runyard] + ([importlib.import_module("azureml")] if sys.argv[1] == "azureml" else [])
for package in packages:
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        by_others = found.name.startswith(("runyard.mlflow.", "runyard.integrations."))  # by MLflow, torch …: not here
        if not by_others and not found.name.endswith(("__main__", "injected_sitecustomize")):
            importlib.import_module(found.name)
print(len([name for name in sys.modules if name.startswith(("runyard", "azureml"))]))
"""


@pytest.mark.long
@pytest.mark.parametrize("version", pythons())
def test_every_injected_module_imports_with_the_standard_library_alone(tmp_path: Path, version: str) -> None:
    folder = injection_folder(tmp_path)
    facade = "azureml" if (folder / "azureml").exists() else "none"
    python = ["-S", "-c", EVERY_MODULE, facade]
    done = subprocess.run(
        [pythons()[version], *python], env={"PYTHONPATH": str(folder)}, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 20


@pytest.mark.long
def test_ten_processes_at_once_get_one_folder(tmp_path: Path) -> None:
    with ThreadPoolExecutor(10) as pool:
        answers = set(pool.map(lambda _: run_script(CALL, tmp_path).stdout.strip(), range(10)))

    assert len(answers) == 1
    assert [str(path) for path in published(tmp_path / "cache/injection")] == list(answers)


@pytest.mark.long
def test_a_damaged_folder_is_made_again(tmp_path: Path) -> None:
    folder = Path(run_script(CALL, tmp_path).stdout.strip())
    (folder / "runyard/core/formats/journal.py").write_text("")
    (folder / "sitecustomize.py").unlink()

    assert run_script(CALL, tmp_path).stdout.strip() == str(folder)
    assert (folder / "runyard/core/formats/journal.py").read_bytes() == (
        SOURCE / "runyard/core/formats/journal.py"
    ).read_bytes()
    assert (folder / "sitecustomize.py").exists()
    assert published(folder.parent) == [folder]


def test_a_process_that_runs_from_it_gives_it_on(tmp_path: Path) -> None:
    folder = injection_folder(tmp_path)
    done = run_script(CALL, tmp_path, PYTHONPATH=str(folder))

    assert done.stdout.strip() == str(folder)
    assert published(folder.parent) == [folder]


def test_of_an_installed_facade_only_our_own_files_are_taken(tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    (site / "azureml/core").mkdir(parents=True)
    for name in ("azureml/__init__.py", "azureml/core/__init__.py", "azureml/theirs.py"):
        (site / name).write_text("")
    (site / "runyard-0.1.0.dist-info").mkdir()
    (site / "runyard-0.1.0.dist-info/RECORD").write_text(
        "azureml/__init__.py,sha256=x,0\nazureml/core/__init__.py,,\nrunyard/__init__.py,,\n"
    )
    os.symlink(SOURCE / "runyard", site / "runyard")
    done = run_script(CALL, tmp_path / "home", PYTHONPATH=str(site))

    folder = Path(done.stdout.strip())
    taken = sorted(str(path.relative_to(folder)) for path in (folder / "azureml").rglob("*.py"))
    assert taken == ["azureml/__init__.py", "azureml/core/__init__.py"]


def test_the_second_call_is_fast_and_the_first_of_a_process_too(tmp_path: Path) -> None:
    injection_folder(tmp_path)
    injection._found.clear()
    first = min(_timed(tmp_path, fresh=True) for _ in range(10))
    again = min(_timed(tmp_path, fresh=False) for _ in range(10))

    assert again < 0.0005
    assert first < 0.02  # 2 ms on an idle machine


def _timed(home: Path, *, fresh: bool) -> float:
    if fresh:
        injection._found.clear()
    start = time.process_time()
    injection_folder(home)
    return time.process_time() - start


def test_nothing_but_the_standard_library_is_loaded(tmp_path: Path) -> None:
    code = "import sys; sys.path[:] = [p for p in sys.path if 'site-packages' not in p]\n" + CALL
    environ = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(
        [sys.executable, "-S", "-c", code, str(tmp_path)], env=environ, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
