"""Environments, datasets and datastores of an Azure ML workspace become ours: what their SDK wrote is read by ours."""

from __future__ import annotations

import ast
import json
import os
import tempfile
from typing import Any, Mapping, cast

from runyard.core.errors import RunyardError
from runyard.core.formats.plain import to_plain
from runyard.core.names import check_plain_name
from runyard.core.specs import FILE, TABULAR, DatasetSpec, DataSource
from runyard.imports.assets import MadeAsset
from runyard.imports.records import ImportedAsset
from runyard.sdk.data.abstract_dataset import content_key
from runyard.sdk.data.datastore_files import azure_documents
from runyard.sdk.environments.environment import Environment
from runyard.sdk.environments.registry import definition_of, is_reserved
from runyard.sdk.exceptions import AzureMLException
from runyard.sdk.workspaces.workspace import Workspace

Facts = Mapping[str, Any]
BUILT_IN = ("workspaceblobstore", "workspacefilestore")
# What Azure's engine calls the steps of a dataset, each with the reader that means the same here.
_READERS = {"ParseDelimited": "delimited", "ReadParquetFile": "parquet", "ParseJsonLines": "json_lines"}
_SOURCES = ("GetDatastoreFiles", "GetFiles", "CreateDataset", "CreateDatasetFiles")
# Steps that a reader's own settings stand for: the path's column is left out, types are set or found.
_SILENT = ("DropColumns", "SetColumnTypes", "AutoDetectColumnTypes", "SetRowKeyColumns")
_TYPES = {0: "string", 1: "bool", 2: "long", 3: "float", 4: "datetime"}
_ENCODINGS = {0: "utf8", 1: "iso88591", 2: "latin1", 3: "ascii", 4: "utf16", 5: "utf32", 6: "utf8bom", 7: "windows1252"}
_HEADERS = {0: False, 1: "first", 2: "combined", 3: True}


class AzureAssets:
    """Makes what an export has of named things."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def make(self, asset: ImportedAsset) -> MadeAsset | None:
        """Return an environment or a dataset as it is kept here; None for a datastore that was there.

        Raises:
            ValueError: it cannot be had here; the text says why.
        """
        if asset.kind == "environment":
            return _environment(asset)
        return _dataset(asset) if asset.kind == "dataset" else _datastore(self._workspace, asset)


def _environment(asset: ImportedAsset) -> MadeAsset | None:
    files = asset.document.get("files")
    if not isinstance(files, dict) or is_reserved(asset.name):
        if is_reserved(asset.name):
            return None  # a curated one: its name is answered here without a registration
        raise ValueError("the export has no definition of it")
    with tempfile.TemporaryDirectory(prefix="runyard-environment-") as folder:
        for name, text in files.items():
            if os.path.basename(name) == name and name not in ("", ".", ".."):
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.write(str(text))
        try:
            made = Environment.load_from_directory(folder)
            made.name = asset.name
            definition, key = definition_of(made)
        except (RunyardError, AzureMLException, OSError) as error:
            raise ValueError(str(error).replace(folder + os.sep, "")) from error
    notes = (
        [] if asset.version else [f"its version {asset.document.get('version')!r} is no number: it is the next here"]
    )
    return MadeAsset({"definition": definition, "labels": []}, key, notes)


def _dataset(asset: ImportedAsset) -> MadeAsset:
    facts, notes = asset.document, cast("list[str]", [])
    definition = facts.get("definition")
    definition = definition if isinstance(definition, dict) else {}
    sources = [_source(text) for text in definition.get("source") or []]
    if not sources:
        raise ValueError("its definition names no files; what is known of it is in datasets.jsonl")
    kind = TABULAR if facts.get("kind") == "TabularDataset" else FILE
    steps = [str(step).rpartition(".")[2].replace("Block", "") for step in definition.get("definition") or []]
    reader = _reader(steps, _blocks(facts.get("steps")), notes) if kind == TABULAR else {}
    known = {*_SOURCES, *_SILENT, *_READERS}
    others = [step for step in steps if step not in known]
    if others:
        notes.append(f"its steps {', '.join(others)} are not applied here: it reads the same files, in whole")
    spec = DatasetSpec(str(facts.get("id") or f"{asset.name}-{asset.version}"), kind, sources, reader={**reader})
    tags = {str(key): str(value) for key, value in (facts.get("tags") or {}).items()}
    document = {"spec": to_plain(spec), "description": str(facts.get("description") or ""), "tags": tags}
    return MadeAsset(document, content_key(spec), notes)


def _source(text: Any) -> DataSource:
    """Return a source as `str(dataset)` tells it: `('datastore', 'path')`, or an address."""
    if isinstance(text, str) and text.lower().startswith(("http://", "https://")):
        return DataSource(url=text)
    try:
        datastore, path = ast.literal_eval(text)
        return DataSource(str(datastore), str(path).lstrip("/"))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise ValueError(f"its source {str(text)[:200]!r} is no path on a datastore, and no address") from None


def _blocks(steps: Any) -> dict[str, Facts]:
    """Return the arguments of the steps by their names, where the export has them."""
    try:
        found = json.loads(steps) if isinstance(steps, str) else None
    except (ValueError, RecursionError):
        return {}
    blocks = found.get("blocks") if isinstance(found, dict) else None
    return {
        str(block.get("type", "")).rpartition(".")[2].replace("Block", ""): block.get("arguments") or {}
        for block in blocks or []
        if isinstance(block, dict)
    }


def _reader(steps: list[str], blocks: Mapping[str, Facts], notes: list[str]) -> Facts:
    step = next((step for step in steps if step in _READERS), "")
    if not step:
        notes.append("how its files are read is not known: they are read as CSV")
    reader = {"format": _READERS.get(step, "delimited"), "include_path": False, "types": _types(blocks)}
    arguments = blocks.get(step)
    if reader["format"] == "delimited":
        if arguments is None:
            notes.append("its separator, header and encoding are not in the export: comma, a header, UTF-8")
        found = arguments or {}
        reader["separator"] = str(found.get("separator") or ",")
        reader["header"] = _HEADERS.get(found.get("columnHeadersMode", 3), True)
        reader["encoding"] = _ENCODINGS.get(found.get("fileEncoding", 0), "utf8")
        reader["support_multi_line"] = bool(found.get("handleQuotedLineBreaks"))
        reader["infer_column_types"] = True
    elif reader["format"] == "json_lines":
        reader["encoding"] = _ENCODINGS.get((arguments or {}).get("encoding", 0), "utf8")
    return reader


def _types(blocks: Mapping[str, Facts]) -> dict[str, str]:
    found = {}
    for one in (blocks.get("SetColumnTypes") or {}).get("columnConversion") or []:
        try:
            column, kind = one["column"]["details"]["selectedColumn"], _TYPES[one["typeProperty"]]
        except (KeyError, TypeError):
            continue
        found[str(column)] = kind
    return found


def _datastore(workspace: Workspace, asset: ImportedAsset) -> MadeAsset | None:
    """Return a blob container or file system by its address; without a key, which the export does not have."""
    facts, name = asset.document, check_plain_name(asset.name)
    if name in BUILT_IN:
        return None
    client = workspace._client
    known = {one.name: one.document for one in client.assets.list(workspace.name, "datastore")}
    if name in known:
        return None
    kind = str(facts.get("datastore_type") or "")
    account, container = facts.get("account_name"), facts.get("container_name")
    if kind not in ("AzureBlob", "AzureDataLakeGen2") or not account or not container:
        raise ValueError(
            f"a datastore of the kind {kind or 'unknown'} has no place here: register a folder or a bucket of that name"
        )
    document, _keys = azure_documents(
        str(container), str(account), {}, facts.get("protocol") or None, facts.get("endpoint") or None
    )
    return MadeAsset(document, "", ["its key is not in the export: register it again with the key to read it"])
