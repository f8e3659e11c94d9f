"""Who may import whom: the table of the style guide. A break names the file and the arrow that is not allowed."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src"

SEAMS = {"artifacts", "compute", "environments", "launchers", "store", "tuning"}
MAY_IMPORT: dict[str, set[str]] = {
    "core": set(),
    "runtime": {"core"},
    "snapshots": {"core"},
    "environments": {"core"},
    "launchers": {"core"},
    "compute": {"core"},
    "store": {"core"},
    "artifacts": {"core"},
    "tuning": {"core"},
    "data": {"core", "artifacts"},
    "supervisor": {"core", "client", "snapshots", "data", "environments", "launchers"},
    "engine": {"core", "compute", "store", "artifacts", "tuning"},
    "studio": {"core"},
    "server": {"core", "engine", "store", "artifacts", "studio"},
    "client": {"core"},
    "sdk": {"core", "client", "runtime", "snapshots", "data"},
    "cli": {"core", "sdk", "server"},
    "testing": {"core"} | SEAMS,
    "azureml": {"sdk", "runtime", "core"},
}

# One module beyond the table: who starts ranks must put in place what they import (docs/internals/run-folder.md).
# The plan of a dry run is the target's request and the launcher's processes; launchers are pure.
# Nodes of a cluster get what is injected into runs from the server.
# The server's machine is the node of `local`: what is built there is listed and pruned through it.
ALSO = {
    ("supervisor", "runyard.runtime.injection"),
    ("engine", "runyard.runtime.bundle"),
    ("engine", "runyard.launchers"),
    ("engine", "runyard.launchers.base"),
    ("engine", "runyard.launchers.variables"),
    ("server", "runyard.data.datastores"),
    ("server", "runyard.data.folder"),
    ("server", "runyard.data.folder"),
    ("server", "runyard.environments.pruning"),
    ("server", "runyard.environments.uv_program"),
}

# These run inside the user's environment: Python 3.8, and nothing installed but the standard library.
INJECTED = {
    "core", "runtime", "client", "snapshots", "data", "environments", "launchers", "supervisor", "sdk", "azureml",
}  # fmt: skip
NESTED = {"server/routes", "store/migrations", "store/migrations/versions"}
NAMES_WITHOUT_A_JOB = {"utils", "util", "helpers", "helper", "common", "manager", "misc"}

FILES = sorted(path for path in SOURCE.rglob("*.py") if "__pycache__" not in path.parts)


def layer_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).parts
    if parts[0] == "azureml":
        return "azureml"
    return parts[1] if len(parts) > 2 else ""


def layer_of_module(name: str) -> str | None:
    """Return the layer that a dotted name belongs to; None: not ours; "": the package `runyard` itself."""
    parts = name.split(".")
    if parts[0] == "azureml":
        return "azureml"
    if parts[0] != "runyard":
        return None
    return parts[1] if len(parts) > 1 and parts[1] in MAY_IMPORT else ""


def imports_of(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        yield from imported_by(node)


def imported_by(node: ast.AST) -> Iterator[tuple[int, str]]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield node.lineno, alias.name
    elif isinstance(node, ast.ImportFrom):
        # `from runyard import sdk` is an import of runyard.sdk.
        names = [alias.name for alias in node.names] if node.module == "runyard" else [""]
        for name in names:
            yield node.lineno, "." * node.level + ".".join(filter(None, (node.module, name)))


def at_import_time(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that run when the module is imported, those for type checkers only left out."""
    for statement in body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.dump(statement.test):
            yield from at_import_time(statement.orelse)
            continue
        yield statement
        for field in ("body", "orelse", "finalbody"):
            yield from at_import_time(getattr(statement, field, []))
        for handler in getattr(statement, "handlers", []):
            yield from at_import_time(handler.body)


def broken_arrows(path: Path, text: str) -> list[str]:
    layer = layer_of(path)
    place = path.relative_to(SOURCE)
    allowed = MAY_IMPORT.get(layer, set()) | {layer, ""}
    found = []
    for line, name in imports_of(ast.parse(text)):
        target = layer_of_module(name)
        if name.startswith("."):
            found.append(f"{place}:{line} imports {name!r}: imports are absolute")
        elif layer and target is not None and target not in allowed and (layer, name) not in ALSO:
            found.append(f"{place}:{line} imports {name}: {layer} → {target} is not in the table")
    return found


def foreign_imports(path: Path, text: str) -> list[str]:
    known = set(sys.stdlib_module_names) | {"runyard", "azureml"}
    place = path.relative_to(SOURCE)
    return [
        f"{place}:{line} imports {name} when it is imported itself: only the standard library may be"
        for statement in at_import_time(ast.parse(text).body)
        for line, name in imported_by(statement)
        if name.split(".")[0] not in known
    ]


def test_imports_follow_the_table() -> None:
    broken = [line for path in FILES for line in broken_arrows(path, path.read_text())]

    assert not broken, "\n".join(broken)


def test_every_folder_is_in_the_table() -> None:
    folders = {layer_of(path) for path in FILES} - {""}

    assert folders <= set(MAY_IMPORT), f"not in MAY_IMPORT: {sorted(folders - set(MAY_IMPORT))}"


def test_seams_never_import_each_other() -> None:
    assert all(not (MAY_IMPORT[seam] & SEAMS) for seam in SEAMS)


def test_folders_are_one_level_deep() -> None:
    deep = {str(path.parent.relative_to(SOURCE / "runyard")) for path in FILES if (SOURCE / "runyard") in path.parents}
    deep = {folder for folder in deep if "/" in folder} - NESTED

    assert not deep, f"nested folders: {sorted(deep)}"


def test_file_names_say_what_is_inside() -> None:
    bad = [str(path.relative_to(SOURCE)) for path in FILES if path.stem in NAMES_WITHOUT_A_JOB]

    assert not bad, f"find the noun of: {', '.join(bad)}"


def test_injected_code_is_python_3_8() -> None:
    broken = []
    for path in FILES:
        if layer_of(path) in INJECTED or path.parent == SOURCE / "runyard":
            try:
                ast.parse(path.read_text(), feature_version=(3, 8))
            except SyntaxError as error:
                broken.append(f"{path.relative_to(SOURCE)}:{error.lineno} {error.msg}")

    assert not broken, "\n".join(broken)


def test_injected_code_imports_the_standard_library_alone() -> None:
    broken = [line for path in FILES if layer_of(path) in INJECTED for line in foreign_imports(path, path.read_text())]

    assert not broken, "\n".join(broken)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        pytest.param("runyard/store/x.py", "from runyard.artifacts import base", id="seam to seam"),
        pytest.param("runyard/core/x.py", "import runyard.client.address", id="core to client"),
        pytest.param("runyard/cli/x.py", "from runyard import client", id="through the package"),
        pytest.param("runyard/sdk/x.py", "def f():\n    import runyard.engine", id="inside a function"),
        pytest.param("runyard/sdk/x.py", "from . import run", id="relative"),
        pytest.param("azureml/core/x.py", "from runyard.client import client", id="facade to client"),
    ],
)
def test_a_forbidden_arrow_is_found(file: str, text: str) -> None:
    assert broken_arrows(SOURCE / file, text)


@pytest.mark.parametrize(
    ("text", "foreign"),
    [
        ("import json, numpy", True),
        ("try:\n    import numpy\nexcept ImportError:\n    pass", True),
        ("class A:\n    import numpy", True),
        ("def f():\n    import numpy", False),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import numpy", False),
        ("from runyard.core import names", False),
    ],
)
def test_foreign_imports_are_found_where_they_cost(text: str, foreign: bool) -> None:
    assert bool(foreign_imports(SOURCE / "runyard/sdk/x.py", text)) is foreign
