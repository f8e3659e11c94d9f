"""What an import costs and loads, seen from a fresh process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interpreters import pythons

SOURCE = str(Path(__file__).parent.parent / "src")

PROBE = """
import sys
before = set(sys.modules)
import importlib
importlib.import_module({name!r})
loaded = set(sys.modules) - before
ours = [sys.modules[m].__file__ for m in loaded if m.split(".")[0] in ("runyard", "azureml")]
lines = sum(len(open(path, encoding="utf-8").readlines()) for path in ours if path)
import json
print(json.dumps([lines, sorted({{m.split(".")[0] for m in loaded}})]))
"""

# Lines of ours that each start path loads. More than a tenth above means that something new is loaded at that moment:
# import it where it is used, or say here why every start needs it.
BUDGETS = {
    "azureml.core": 530,  # of which 16 find the modules that a wheel keeps in an archive
    "runyard.sdk.runs.context": 6600,  # writes files, whose flags differ between systems
    "runyard.sdk.submit.submission": 13900,  # counts the bytes of data that travels and of datasets that are fetched
    "runyard.sdk.workspaces.workspace": 1590,  # lists services and images
    "runyard.sdk.environments.environment": 2034,
    "runyard.runtime.writer": 2250,  # with MLflow's points, which have their own step and time
    "runyard.runtime.rank_shim": 340,
    "runyard.runtime.sitecustomize_hook": 460,  # of which 16 find the modules that a wheel keeps in an archive
    "runyard.client.client": 1223,
    "runyard.supervisor.main": 3540,
    "runyard.supervisor.supervisor": 8150,  # looks for editable installs, counts data, has MLflow's variables
    "runyard.supervisor.node.node": 1208,
    "runyard.engine.engine": 12850,
    "runyard.server.lifecycle": 2135,
    "runyard.cli.app": 1366,
    "runyard.cli.runs.runs": 8160,  # every command has --json
    "runyard.cli.runs.submit": 19800,  # knows what can be chosen of a project
}


def import_alone(name: str) -> tuple[int, list[str]]:
    """Return (our lines, top-level packages) that importing `name` loads with only our source on the path.

    Modules that need an installed package get this environment's.
    """
    needs_packages = name.startswith(("runyard.server", "runyard.engine"))
    environ = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    result = subprocess.run(
        [sys.executable, *(() if needs_packages else ("-S",)), "-c", PROBE.format(name=name)],
        env={**environ, "PYTHONPATH": SOURCE},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    lines, loaded = json.loads(result.stdout)
    return lines, loaded


@pytest.mark.parametrize("name", ["runyard", "runyard.runtime", "runyard.sdk", "azureml.core", "runyard.cli.app"])
def test_import_loads_the_standard_library_alone(name: str) -> None:
    _, loaded = import_alone(name)

    foreign = set(loaded) - set(sys.stdlib_module_names) - {"runyard", "azureml"}
    assert not foreign


@pytest.mark.parametrize("name", BUDGETS)
def test_a_start_path_loads_no_more_than_its_budget(name: str) -> None:
    lines, _ = import_alone(name)

    assert lines <= BUDGETS[name] * 1.1


def test_every_rank_starts_without_the_slow_part_of_the_standard_library() -> None:
    code = (
        "import sys, runyard.runtime.sitecustomize_hook\nprint({'typing', 're', 'json', 'logging'} & set(sys.modules))"
    )
    result = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={"PYTHONPATH": SOURCE},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    # typing alone takes as long as the whole start of a bare Python.
    assert result.stdout == "set()\n"


def test_a_script_that_logs_loads_no_slow_part_of_the_standard_library() -> None:
    _, loaded = import_alone("runyard.runtime.writer")

    assert not {"pathlib", "urllib", "ipaddress", "socket", "logging"} & set(loaded)


def test_a_run_without_a_fork_server_starts_without_the_slow_part_of_the_standard_library() -> None:
    _, loaded = import_alone("runyard.supervisor.main")

    # `tempfile` alone brings in `shutil`, `random` and two compression libraries.
    assert not {"tempfile", "shutil", "random", "lzma", "bz2", "hashlib", "subprocess"} & set(loaded)


def test_a_server_listens_before_it_loads_what_only_some_settings_need() -> None:
    _, loaded = import_alone("runyard.server.lifecycle")

    assert not {"datetime", "difflib"} & set(loaded)


def test_a_server_with_another_database_loads_no_sqlite() -> None:
    _, loaded = import_alone("runyard.server.app")

    assert "sqlite3" not in loaded


def test_the_command_line_loads_no_web_framework_for_its_help() -> None:
    code = "import sys, runyard.cli\ntry:\n    runyard.cli.main(['--help'])\nexcept SystemExit:\n    pass\n"
    code += (
        "print(sorted({m.split('.')[0] for m in sys.modules} & {'fastapi', 'sqlalchemy', 'numpy', 'pydantic', 'http'}))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False, env=dict(os.environ)
    )

    assert result.stdout.splitlines()[-1] == "[]", result.stderr


COMMAND_LINES = """
import contextlib, importlib, io, os, pathlib, sys
from runyard.cli import main

folder = pathlib.Path(sys.argv[1], "runyard", "cli")
modules = [path.relative_to(sys.argv[1]).with_suffix("").parts for path in sorted(folder.rglob("*.py"))]
for parts in modules:
    if parts[-1] != "__main__":
        importlib.import_module(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
foreign = {name.split(".")[0] for name in sys.modules} & {"click", "yaml", "numpy", "sqlalchemy", "fastapi", "pydantic"}
assert len(modules) > 25 and not foreign, (modules, foreign)
pathlib.Path("train.py").write_text("pass")
lines = "--help; runs list --help; submit --dry-run -t a=b train.py -- --alpha 1; completion zsh; server status"
for line in lines.split("; "):
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            main(line.split())
    except SystemExit as left:
        print([line, left.code, said.getvalue()[:14].split()[:1]])
assert not os.path.exists(os.path.join(os.environ["RUNYARD_HOME"], "server"))
"""


@pytest.mark.parametrize("version", pythons())
def test_the_command_line_works_in_old_and_new_pythons_without_any_package(version: str, tmp_path: Path) -> None:
    result = subprocess.run(
        [pythons()[version], "-S", "-W", "error", "-c", COMMAND_LINES, SOURCE],
        cwd=tmp_path,
        env={"PYTHONPATH": SOURCE, "RUNYARD_HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert result.stdout.splitlines() == [
        "['--help', 0, ['Usage:']]",
        "['runs list --help', 0, ['Usage:']]",
        "['submit --dry-run -t a=b train.py -- --alpha 1', 0, ['experiment']]",
        "['completion zsh', 0, ['#compdef']]",
        "['server status', 3, ['status']]",
    ], result.stderr


@pytest.mark.long
def test_the_fork_server_has_loaded_what_a_run_needs(tmp_path: Path) -> None:
    rooms = "supervisor.supervisor supervisor.shipping.shipper supervisor.lifecycle.observer supervisor.lifecycle.data"
    needed = (
        f"{rooms} supervisor.diagnosis.diagnosis client.calls.content client.calls.runs environments.system".split()
    )
    code = (
        "import sys\nfrom runyard.core.config.settings import read_settings\n"
        "from runyard.supervisor.fork_server import warm_up\n"
        "warm_up(read_settings())\nprint([name for name in sys.argv[1:] if 'runyard.' + name not in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-S", "-c", code, *needed],
        env={"PYTHONPATH": SOURCE, "RUNYARD_HOME": str(tmp_path), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert result.stdout == "[]\n", result.stderr
