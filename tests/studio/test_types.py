"""The page's types of records are those of the server's OpenAPI document: TypeScript itself compares them."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runyard.server.app import create_app

ROOT = Path(__file__).parent.parent.parent
WEB = ROOT / "web"
API = {name: (WEB / "src" / "api" / f"{name}.ts") for name in ("types", "assets", "services")}

# Each type of the page: the record of the document that it must be able to hold, or the route that answers with it.
RECORDS = {
    "types.RunStatus": "RunStatusAnswer",
    "types.Workspace": "WorkspaceAnswer",
    "types.Experiment": "ExperimentAnswer",
    "types.Phase": "PhaseAnswer",
    "types.Attempt": "AttemptAnswer",
    "types.EnvironmentSpec": "EnvironmentSpecAnswer",
    "types.RunSpec": "RunSpecAnswer",
    "types.Run": "get /runs/{run_id}",
    "types.RunFile": "RunFileAnswer",
    "types.SentRow": "TableRowAnswer",
    "types.Asset": "AssetAnswer",
    "types.MetricInfo": "MetricInfoAnswer",
    "types.MetricSummaries": "post /metrics/summary",
    "types.ServerFacts": "get /server",
    "types.Me": "get /users/me",
    "assets.ModelVersion": "ModelVersionAnswer",
    "assets.DataSource": "DataSourceAnswer",
    "assets.DatasetSpec": "DatasetSpecAnswer",
    "assets.DatasetAsset": "AssetAnswer",
    "assets.EnvironmentAsset": "AssetAnswer",
    "assets.BuiltFolder": "BuiltFolderAnswer",
    "assets.ComputeNode": "ComputeNodeAnswer",
    "assets.ComputeRun": "ComputeRunAnswer",
    "assets.ComputeTarget": "ComputeTargetAnswer",
    "services.Webservice": "WebserviceAnswer",
    "services.ServiceRevision": "ServiceRevisionAnswer",
    "services.RevisionSpec": "RevisionSpecAnswer",
    "services.Scaling": "ScalingAnswer",
    "services.ReplicaRef": "ReplicaRefAnswer",
    "services.ServiceOperation": "OperationAnswer",
    "services.ServiceSettings": "ServiceSettingsAnswer",
    "services.ServiceKeys": "get /workspaces/{workspace}/services/{name}/keys",
    "services.ServiceAnswer": "post /workspaces/{workspace}/services/{name}/try",
    "services.ServiceDescription": "get /workspaces/{workspace}/services/{name}/openapi",
}
# Objects that the server passes on without a type of its own.
DOCUMENTS = {"types.RunError", "assets.Definition"}
# Short names for a type of TypeScript.
ALIASES = {"types.Time", "types.Words", "types.CellValue", "types.Summaries"}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    services: Any = None  # the document is of the routes alone
    return create_app(services).openapi()


def test_each_type_holds_what_the_server_sends(document: dict[str, Any], tmp_path: Path) -> None:
    assert compared(document, tmp_path, RECORDS) == []


def test_the_server_has_no_status_less_than_the_page(document: dict[str, Any], tmp_path: Path) -> None:
    backwards = "declare const known: types.RunStatus; export const sent: RunStatusAnswer = known;"

    assert compared(document, tmp_path, {}, backwards) == []


def test_every_type_of_the_page_is_compared() -> None:
    exported = {
        f"{module}.{name}"
        for module, path in API.items()
        for name in re.findall(r"^export (?:interface|type) (\w+)", path.read_text(), re.MULTILINE)
    }

    assert exported == {*RECORDS, *DOCUMENTS, *ALIASES}


def renamed(field: dict[str, Any], schema: dict[str, Any], name: str) -> None:
    schema["properties"][f"{name}_of_old"] = schema["properties"].pop(name)


def another_kind(field: dict[str, Any], schema: dict[str, Any], name: str) -> None:
    schema["properties"][name] = {"type": "boolean"}


def maybe_null(field: dict[str, Any], schema: dict[str, Any], name: str) -> None:
    schema["properties"][name] = {"anyOf": [field, {"type": "null"}]}


def left_out(field: dict[str, Any], schema: dict[str, Any], name: str) -> None:
    schema["required"].remove(name)


@pytest.mark.parametrize("change", [renamed, another_kind, maybe_null, left_out])
def test_control_a_change_of_the_server_is_found(
    change: Callable[[dict[str, Any], dict[str, Any], str], None], document: dict[str, Any], tmp_path: Path
) -> None:
    changed = copy.deepcopy(document)
    schema = changed["components"]["schemas"]["ComputeNodeAnswer"]
    change(schema["properties"]["memory_bytes"], schema, "memory_bytes")

    errors = compared(changed, tmp_path, {"assets.ComputeNode": "ComputeNodeAnswer", "types.Me": "get /users/me"})

    assert len(errors) == 1 and "ComputeNode" in errors[0], errors


@pytest.mark.parametrize(
    ("line", "other"),
    [("  memory_bytes: number;", "  memory: number;"), ("  memory_bytes: number;", "  memory_bytes: string;")],
)
def test_control_a_change_of_the_page_is_found(line: str, other: str, document: dict[str, Any], tmp_path: Path) -> None:
    text = API["assets"].read_text()
    assert line in text
    (tmp_path / "types.ts").write_text(API["types"].read_text())
    (tmp_path / "assets.ts").write_text(text.replace(line, other))
    (tmp_path / "services.ts").write_text(API["services"].read_text())

    errors = compared(document, tmp_path, {"assets.ComputeNode": "ComputeNodeAnswer"}, api=tmp_path)

    assert len(errors) == 1 and "ComputeNode" in errors[0], errors


def compared(
    document: dict[str, Any], folder: Path, records: dict[str, str], more: str = "", *, api: Path = WEB / "src" / "api"
) -> list[str]:
    """Return what TypeScript says against handing the server's records to the page's types."""
    lines = [f"import type * as {name} from '{(api / name).as_posix()}';" for name in API]
    lines += [f"export type {name} = {typescript(one)};" for name, one in document["components"]["schemas"].items()]
    for number, (mine, theirs) in enumerate(records.items()):
        sent = typescript(answer_of(document, *theirs.split(" "))) if " " in theirs else theirs
        lines.append(f"declare const sent{number}: {sent}; export const read{number}: {mine} = sent{number};")
    (folder / "compared.ts").write_text("\n".join([*lines, more]))
    config = {
        "extends": str(WEB / "tsconfig.json"),
        "compilerOptions": {"types": [], "noUnusedLocals": False},
        "include": ["compared.ts"],
    }
    (folder / "tsconfig.json").write_text(json.dumps(config))
    tsc = WEB / "node_modules" / "typescript" / "bin" / "tsc"
    assert tsc.is_file(), "type `make studio` first"
    argv = [node(), str(tsc), "-p", str(folder), "--pretty", "false"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    errors = [line for line in done.stdout.splitlines() if re.match(r"\S", line)]
    assert bool(errors) == bool(done.returncode), done.stderr
    return errors


def answer_of(document: dict[str, Any], method: str, path: str) -> dict[str, Any]:
    found: dict[str, Any] = document["paths"][f"/api/v1{path}"][method]["responses"]["200"]
    schema: dict[str, Any] = found["content"]["application/json"]["schema"]
    return schema


def typescript(schema: dict[str, Any]) -> str:
    """Return a schema as a type of TypeScript."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return "(" + " | ".join(typescript(one) for one in schema["anyOf"]) + ")"
    if "enum" in schema or "const" in schema:
        return "(" + " | ".join(json.dumps(one) for one in schema.get("enum", [schema.get("const")])) + ")"
    if schema.get("type") == "array":
        if "prefixItems" in schema:
            return "[" + ", ".join(typescript(one) for one in schema["prefixItems"]) + "]"
        return f"({typescript(schema.get('items', {}))})[]"
    if "properties" in schema:
        required = schema.get("required", [])
        fields = schema["properties"].items()
        return "{" + "; ".join(f"{n}{'' if n in required else '?'}: {typescript(one)}" for n, one in fields) + "}"
    if schema.get("type") == "object":
        values = schema.get("additionalProperties", True)
        return f"{{[key: string]: {typescript(values) if isinstance(values, dict) else 'any'}}}"
    names = {"integer": "number", "number": "number", "string": "string", "boolean": "boolean", "null": "null"}
    return names[schema["type"]] if "type" in schema else "any"


def node() -> str:
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        from build_studio import _find_npm
    finally:
        sys.path.pop(0)
    found = _find_npm()
    assert found is not None, "there is no Node here"
    return found[0]
