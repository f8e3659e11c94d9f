"""Who may import whom: between packages, and between the rooms of a package. A break names the file and the arrow."""

from __future__ import annotations

import ast
import re
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
    "serving": {"core"},
    "data": {"core", "artifacts"},
    "supervisor": {"core", "client", "snapshots", "data", "environments", "launchers", "imports"},
    "engine": {"core", "compute", "store", "artifacts", "tuning"},
    "studio": {"core"},
    "server": {"core", "engine", "store", "artifacts", "studio", "serving"},
    "client": {"core"},
    "imports": {"core", "client"},
    "exports": {"core", "client", "imports"},
    "mlflow": {"core", "client", "runtime", "sdk"},
    "sdk": {"core", "client", "runtime", "snapshots", "data"},
    "native": {"core", "runtime", "sdk"},
    "integrations": {"core", "native", "mlflow"},
    "agents": {"core", "sdk", "native"},
    "cli": {"core", "sdk", "imports", "exports", "agents"},
    "testing": {"core"} | SEAMS,
    "azureml": {"sdk", "runtime", "core", "mlflow"},
}

# One module beyond the table: who starts ranks must put in place what they import (docs/internals/run-folder.md).
# The plan of a dry run is the target's request and the launcher's processes; launchers are pure.
# Nodes of a cluster get what is injected into runs from the server.
# The private server's own environment is built like those of runs, by the client that needs it first.
# Entry scripts name Azure's request and response; they may be tried outside of services.
# Old imports of scripts are answered in runs and in replicas of services.
# The server's machine is the node of `local`: what is built there is listed and pruned through it.
ALSO = {
    ("client", "runyard.environments.server_environment"),
    ("supervisor", "runyard.runtime.injection"),
    ("engine", "runyard.runtime.bundle"),
    ("engine", "runyard.launchers"),
    ("engine", "runyard.launchers.base"),
    ("engine", "runyard.launchers.variables"),
    ("serving", "runyard.runtime"),
    ("azureml", "runyard.serving.worker.raw_http"),
    ("azureml", "runyard.serving.worker.answers"),
    ("server", "runyard.data.datastores"),
    ("server", "runyard.data.folder"),
    ("server", "runyard.data.folder"),
    ("server", "runyard.environments.pruning"),
    ("server", "runyard.environments.uv_program"),
}

# These run inside the user's environment: Python 3.8, and nothing installed but the standard library.
INJECTED = {
    "core", "runtime", "client", "snapshots", "data", "environments", "launchers", "supervisor", "sdk", "azureml",
    "cli", "imports", "exports", "mlflow", "serving", "native", "integrations", "agents",
}  # fmt: skip
GATEWAY = Path("runyard/serving/gateway")  # in the server's interpreter, with its packages
MLFLOW_PLUGIN = Path("runyard/mlflow")  # MLflow itself loads it
INTEGRATIONS = Path("runyard/integrations")  # each module is loaded by a script that has its framework
MOST_MODULES = 16  # of one room
# Where keys are known there is a dataclass, or a TypedDict where the value is a dict on a wire or in a file
# (core/formats/documents.py, core/formats/run_files.py). What is left are options, parameters and Azure's own JSON.
LOOSE_DICT = re.compile(r"[dD]ict\[str, Any\]")
MOST_LOOSE_DICTS = 254

# The rooms and loose modules of each package, lowest first: a module may import what stands in its own line or above.
# Imports inside functions count; those for type checkers do not. `testing` and flat packages have no order.
INSIDE: dict[str, list[str]] = {
    "core": [
        "errors lazy_dataclass",
        "names statuses users attempts plugins secret_names provided_packages",
        "machine formats yaml",
        "specs",
        "compute_options",
        "compute records tickets",
        "config webservices",
        "secret_values",
    ],
    "environments": [
        "base",
        "process uv_program editable folder_requirements git_requirements",
        "system",
        "pythons horovod",
        "pip",
        "cache wheels",
        "uv pruning",
        "server_environment",
        "conda",
        "container",
    ],
    "compute": ["base", "fork_server", "local node_start poller", "ray slurm ssh"],
    "client": [
        "address",
        "http1",
        "tls",
        "transport",
        "decoding",
        "server_code",
        "server_python",
        "client processes",
        "calls",
        "login private_server",
    ],
    "supervisor": [
        "proc own_processes",
        "run_folder",
        "disk",
        "processes",
        "shipping",
        "diagnosis",
        "mpi",
        "lifecycle",
        "gang",
        "supervisor",
        "entry external_run fork_server",
        "main",
        "node",
        "__main__",
    ],
    "engine": ["sanitize", "state", "context", "runs", "compute sweeps", "ingest", "deletes loop", "engine"],
    "store": [
        "types",
        "base record_limits mounts text",
        "rules serial_sets table_rows",
        "imported",
        "metrics",
        "memory sql",
        "sqlite postgres",
        "migrations repair",
    ],
    "server": [
        "errors live log_setup",
        "access logs",
        "net",
        "storage",
        "serving",
        "services",
        "http",
        "routes",
        "mlflow registry",
        "app loop",
        "lifecycle",
        "__main__",
    ],
    "imports": [
        "records report",
        "folder frames uploads snapshots",
        "writer verify assets",
        "mlflow_runs",
        "mlflow_files mlflow_sql mlflow_server",
        "mlflow azureml tensorboard wandb",
    ],
    "serving": [
        "protocol scripts tokens config paths",
        "control_client worker",
        "gateway scorers",
        "local standalone replay",
    ],
    "sdk": [
        "exceptions compat foreign",
        "errors placeholders names azure_class absent config",
        "environments",
        "run_config",
        "workspaces",
        "data",
        "models",
        "runs tensorboard",
        "sweeps compute",
        "submit",
        "estimators serving",
        "webservices",
        "migration",
    ],
    "cli": [
        "text exit_codes",
        "parsing",
        "failures",
        "app output lookup plan_report",
        "commands runs transfer",
        "__main__",
    ],
}
# Imports upwards, all inside functions. The first four are hubs: users reach everything from a workspace, an
# experiment, a run or a client, and each of their methods loads its subject when it is called.
UPWARDS = {
    ("runyard.sdk.workspaces.workspace", "*"),
    ("runyard.sdk.workspaces.experiment", "*"),
    ("runyard.sdk.runs.run", "*"),
    ("runyard.client.client", "calls"),
    ("runyard.sdk.environments.environment", "submit"),  # `Environment.build` is a submitted run
    ("runyard.sdk.run_config.script_run_config", "data"),  # datasets among the arguments
    ("runyard.sdk.run_config.run_configuration", "submit"),  # arguments are checked as at a submit
    ("runyard.sdk.models.model", "runs"),  # `Model.run` is the run that made it
    ("runyard.sdk.models.model", "webservices"),  # `Model.deploy` makes one
    ("runyard.sdk.models.model", "serving"),  # `Model.package` and `Model.profile` make them
    ("runyard.store.sql.writes", "migrations"),  # an old database is brought up to date when it is opened
}
# The same noun on purpose: the record in `core` and the class of that name which users know.
# `Image` is Azure's word for a stored definition, and everyone's for what a container starts from.
TWICE = {"ComputeTarget", "Experiment", "Image", "Run", "Webservice", "Workspace"}

NAMES_WITHOUT_A_JOB = {"utils", "util", "helpers", "helper", "common", "manager", "misc"}

FILES = sorted(path for path in SOURCE.rglob("*.py") if "__pycache__" not in path.parts)


def layer_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).parts
    if parts[0] == "azureml":
        return "azureml"
    return parts[1] if len(parts) > 2 else ""


def is_injected(path: Path) -> bool:
    return layer_of(path) in INJECTED and path.relative_to(SOURCE).parent != GATEWAY


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
    if place.parent == MLFLOW_PLUGIN:
        known.add("mlflow")
    if place.parent == INTEGRATIONS:
        known |= {"keras", "lightning", "pytorch_lightning", "tensorflow", "transformers"}
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


def test_rooms_are_one_level_below_their_package_and_small() -> None:
    rooms: dict[str, int] = {}
    for path in FILES:
        room = path.parent.relative_to(SOURCE)
        if room.parts[0] == "runyard" and path.name != "__init__.py" and room.parts[-1] != "versions":
            rooms[str(room)] = rooms.get(str(room), 0) + 1

    assert not [room for room in rooms if room.count("/") > 2], "a room has no rooms"
    assert not {room: count for room, count in rooms.items() if count > MOST_MODULES}


def test_every_room_says_what_it_is_for() -> None:
    silent = []
    for path in FILES:
        room = path.relative_to(SOURCE).parent
        if path.name == "__init__.py" and room.parts[0] == "runyard" and room.name != "versions":
            text = ast.get_docstring(ast.parse(path.read_text())) or ""
            is_room = len(room.parts) == 3 and room.name != "migrations"
            if not text or (is_room and not ("May enter:" in text and "Loads:" in text)):
                silent.append(str(room))

    assert not silent


def entries_of(package: str) -> set[str]:
    folder = SOURCE / "runyard" / package
    return {path.stem for path in folder.iterdir() if path.suffix == ".py" and path.stem != "__init__"} | {
        path.name for path in folder.iterdir() if (path / "__init__.py").exists()
    }


@pytest.mark.parametrize("package", INSIDE)
def test_every_room_has_its_line(package: str) -> None:
    names = [name for line in INSIDE[package] for name in line.split()]

    assert len(names) == len(set(names))
    assert set(names) == entries_of(package)


def test_packages_without_an_order_are_flat() -> None:
    flat = {
        path.parent.relative_to(SOURCE / "runyard").parts for path in FILES if path.is_relative_to(SOURCE / "runyard")
    }

    assert {parts[0] for parts in flat if len(parts) > 1} == set(INSIDE) | {"testing"}


def without_type_checking(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)):
            yield child
            yield from without_type_checking(child)


def imported_entries(tree: ast.AST, package: str) -> Iterator[tuple[int, str]]:
    """Yield (line, entry) for each import from that package: the room or loose module that is imported from."""
    for node in without_type_checking(tree):
        if isinstance(node, ast.ImportFrom) and node.module == f"runyard.{package}":
            yield from ((node.lineno, alias.name) for alias in node.names if alias.name in entries_of(package))
        else:
            for line, name in imported_by(node):
                if name.startswith(f"runyard.{package}."):
                    yield line, name.split(".")[2]


def imports_upwards(path: Path, text: str) -> Iterator[tuple[str, int, str]]:
    """Yield (module, line, entry) for each import of an entry that stands above the module's own."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    package = parts[1] if len(parts) > 2 else ""
    if package not in INSIDE or parts[2] == "__init__":
        return
    rank = {name: at for at, line in enumerate(INSIDE[package]) for name in line.split()}
    for line, entry in imported_entries(ast.parse(text), package):
        if rank[entry] > rank[parts[2]]:
            yield ".".join(parts), line, entry


def arrows_upwards(path: Path, text: str) -> list[str]:
    return [
        f"{path.relative_to(SOURCE)}:{line} imports {entry}, which stands above it in the order of its package"
        for module, line, entry in imports_upwards(path, text)
        if not {(module, entry), (module, "*")} & UPWARDS
    ]


def test_rooms_import_downwards() -> None:
    broken = [line for path in FILES for line in arrows_upwards(path, path.read_text())]

    assert not broken, "\n".join(broken)


def test_an_arrow_upwards_is_found() -> None:
    lazy = "def f():\n    from runyard.engine.engine import Engine"

    assert arrows_upwards(SOURCE / "runyard/engine/runs/x.py", lazy)
    assert not arrows_upwards(SOURCE / "runyard/engine/runs/x.py", "from runyard.engine.state import board")
    assert not arrows_upwards(SOURCE / "runyard/sdk/runs/run.py", "def f():\n    import runyard.sdk.submit.submission")


def test_every_exception_is_needed() -> None:
    arrows = {(module, entry) for path in FILES for module, _, entry in imports_upwards(path, path.read_text())}

    assert not UPWARDS - arrows - {(module, "*") for module, _ in arrows}


def test_no_two_classes_have_one_name() -> None:
    homes: dict[str, list[str]] = {}
    for path in FILES:
        if layer_of(path) not in ("azureml", "testing"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    homes.setdefault(node.name, []).append(str(path.relative_to(SOURCE)))

    assert {name: places for name, places in homes.items() if len(places) > 1 and name not in TWICE} == {}


def test_few_dicts_have_unknown_keys() -> None:
    lines = [line for path in FILES for line in path.read_text().splitlines() if LOOSE_DICT.search(line)]

    assert len(lines) <= MOST_LOOSE_DICTS


def reaches_through_engine(text: str) -> list[int]:
    """Return the lines that use the engine's context, such as `services.engine.context.board`."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute)
        and node.attr == "context"
        and getattr(node.value, "attr", getattr(node.value, "id", "")).endswith("engine")
    ]


def test_the_server_calls_the_engine_by_its_methods() -> None:
    server = [path for path in FILES if layer_of(path) == "server"]
    broken = [
        f"{path.relative_to(SOURCE)}:{line}" for path in server for line in reaches_through_engine(path.read_text())
    ]

    assert not broken, "\n".join(broken)
    assert reaches_through_engine("call.services.engine.context.board")
    assert not reaches_through_engine("self._team.context")


def test_the_engine_context_stays_small() -> None:
    tree = ast.parse((SOURCE / "runyard/engine/context.py").read_text())
    classes = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    fields = [node for node in classes["EngineContext"].body if isinstance(node, ast.AnnAssign)]

    assert len(fields) <= 12
    assert not [ast.unparse(one) for one in fields if "Any" in ast.unparse(one.annotation)]


def test_file_names_say_what_is_inside() -> None:
    bad = [str(path.relative_to(SOURCE)) for path in FILES if path.stem in NAMES_WITHOUT_A_JOB]

    assert not bad, f"find the noun of: {', '.join(bad)}"


def test_injected_code_is_python_3_8() -> None:
    broken = []
    for path in FILES:
        if is_injected(path) or path.parent == SOURCE / "runyard":
            try:
                ast.parse(path.read_text(), feature_version=(3, 8))
            except SyntaxError as error:
                broken.append(f"{path.relative_to(SOURCE)}:{error.lineno} {error.msg}")

    assert not broken, "\n".join(broken)


NEWER_KEYWORDS = {("zip", "strict"), ("dataclass", "slots"), ("dataclass", "kw_only")}


def newer_than_3_8(text: str) -> list[int]:
    """Return the lines that call what the standard library got after 3.8 and that is easily typed."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and (
            getattr(node.func, "attr", "") in ("removeprefix", "removesuffix", "is_relative_to", "cache")
            or {(getattr(node.func, "id", ""), word.arg) for word in node.keywords} & NEWER_KEYWORDS
        )
    ]


def test_injected_code_calls_nothing_newer_than_python_3_8() -> None:
    injected = [path for path in FILES if is_injected(path)]
    broken = [f"{path.relative_to(SOURCE)}:{line}" for path in injected for line in newer_than_3_8(path.read_text())]

    assert not broken, "\n".join(broken)
    assert newer_than_3_8("zip(a, b, strict=True)") and newer_than_3_8("name.removeprefix('a')")
    assert not newer_than_3_8("zip(a, b)\njson.loads(a, strict=False)")


def test_injected_code_imports_the_standard_library_alone() -> None:
    broken = [line for path in FILES if is_injected(path) for line in foreign_imports(path, path.read_text())]

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
