"""What an import costs and loads, seen from a fresh process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = str(Path(__file__).parent.parent / "src")

PROBE = """
import sys, time
before = set(sys.modules)
start = time.process_time()
import importlib
importlib.import_module({name!r})
spent = time.process_time() - start
import json
print(json.dumps([spent, sorted({{m.split(".")[0] for m in set(sys.modules) - before}})]))
"""


def import_alone(name: str) -> tuple[float, list[str]]:
    """Return (CPU seconds, top-level packages loaded) of importing `name` with only our source on the path."""
    environ = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    result = subprocess.run(
        [sys.executable, "-S", "-c", PROBE.format(name=name)],
        env={**environ, "PYTHONPATH": SOURCE},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    spent, loaded = json.loads(result.stdout)
    return spent, loaded


@pytest.mark.parametrize("name", ["runyard", "runyard.runtime", "runyard.sdk", "azureml.core"])
def test_import_loads_the_standard_library_alone(name: str) -> None:
    _, loaded = import_alone(name)

    foreign = set(loaded) - set(sys.stdlib_module_names) - {"runyard", "azureml"}
    assert not foreign


@pytest.mark.parametrize(("name", "limit_s"), [("runyard", 0.1), ("runyard.runtime", 0.1), ("azureml.core", 0.06)])
def test_import_is_quick(name: str, limit_s: float) -> None:
    # The least of a few: other work on the machine only ever adds.
    best = min(import_alone(name)[0] for _ in range(5))

    assert best <= limit_s


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


def test_a_run_that_finds_no_spare_starts_without_the_slow_part_of_the_standard_library() -> None:
    _, loaded = import_alone("runyard.supervisor.main")

    # `tempfile` alone brings in `shutil`, `random` and two compression libraries.
    assert not {"tempfile", "shutil", "random", "lzma", "bz2", "hashlib", "subprocess"} & set(loaded)


def test_the_command_line_loads_no_web_framework_for_its_help() -> None:
    code = "import sys, runyard.cli\ntry:\n    runyard.cli.main(['--help'])\nexcept SystemExit:\n    pass\n"
    code += (
        "print(sorted({m.split('.')[0] for m in sys.modules} & {'fastapi', 'sqlalchemy', 'numpy', 'pydantic', 'http'}))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False, env=dict(os.environ)
    )

    assert result.stdout.splitlines()[-1] == "[]", result.stderr
