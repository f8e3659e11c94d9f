"""Reads the folder that the export script of an Azure ML workspace writes."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, Iterator, List, Optional, Tuple

from runyard.core.errors import InvalidArgument
from runyard.core.names import RUN_ID, clean_file_name, stored_file_name
from runyard.imports.azureml.metrics import iter_points, time_ns
from runyard.imports.folder import is_inside, iter_names, open_inside, read_text
from runyard.imports.records import (
    FAILED,
    FINISHED,
    KILLED,
    UNFINISHED,
    ImportedAsset,
    ImportedExperiment,
    ImportedModel,
    ImportedRun,
    ImportSource,
    Meta,
    Part,
    RunHead,
    SourceFile,
    short_id,
)

FORMAT = 1  # of the folder, that this reader knows
MOST_DOCUMENT = 1 << 30  # bytes of one run's metrics
SNAPSHOT = "ContentSnapshotId"  # of the run here it is that of the snapshot here
STATUSES = {"Completed": FINISHED, "Finished": FINISHED, "Failed": FAILED, "NotResponding": FAILED, "Canceled": KILLED}
_RUN_FILES = "ExperimentRun"  # in the container `azureml` of the workspace's storage account


def open_azureml(folder: str, *, blobs: Optional[str] = None) -> AzureFolder:
    """Return a reader of an export.

    Args:
        blobs: a copy of the container `azureml` of the storage account, for files that the export does not have.

    Raises:
        InvalidArgument: the folder is no export.
    """
    if not os.path.isfile(os.path.join(folder, "workspace.json")) or not os.path.isdir(os.path.join(folder, "runs")):
        raise InvalidArgument(
            f"`{folder}` is no export of an Azure ML workspace.",
            why="It has no `workspace.json` and `runs`." if os.path.isdir(folder) else "There is no such folder.",
            hint="`runyard import azureml --script > export.py` prints the script that makes one: it is started where "
            "azureml-core is installed, and the folder that it was given comes here.",
        )
    if blobs is not None and not os.path.isdir(os.path.join(blobs, _RUN_FILES)):
        raise InvalidArgument(
            f"`{blobs}` is no copy of the container `azureml`.",
            why=f"It has no folder `{_RUN_FILES}`.",
            hint="azcopy copies it: `azcopy copy https://ACCOUNT.blob.core.windows.net/azureml FOLDER --recursive`.",
        )
    return AzureFolder(folder, blobs=blobs)


class AzureFolder(ImportSource):
    kind = "azureml"

    def __init__(self, folder: str, *, blobs: Optional[str] = None) -> None:
        super().__init__()
        self._root = os.path.realpath(folder)
        self._blobs = None if blobs is None else os.path.realpath(blobs)
        self._workspace = self._document("workspace.json") or {}
        self.version = str(self._workspace.get("sdk") or "")
        self._say_what_is_unfinished()

    @property
    def id(self) -> str:
        names = [str(self._workspace.get(name) or "") for name in ("subscription_id", "resource_group", "name")]
        return f"azureml-{short_id(*names)}"

    def list_heads(self) -> List[RunHead]:
        heads = []
        with os.scandir(os.path.join(self._root, "runs")) as entries:
            found = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        for run_id in found:
            facts = self._document("runs", run_id, "run.json")
            if facts is None:
                self.skip(f"run {run_id[:300]}", "the export does not have all of it: start the script again")
            elif facts.get("id") != run_id or not RUN_ID.fullmatch(run_id):
                self.skip(f"run {run_id[:300]}", "that is no run id, or its folder has another name")
            else:
                parent = facts.get("parent")
                created = time_ns(facts.get("created")) or time_ns(facts.get("started")) or 0
                heads.append(RunHead(run_id, str(facts.get("experiment") or ""), created, _run_id(parent)))
        return heads

    def read_run(self, head: RunHead) -> ImportedRun:
        facts = self._document("runs", head.id, "run.json") or {}
        details, record = _dict(facts.get("details")), _dict(facts.get("record"))
        notes = [str(note) for note in facts.get("notes") or []]
        status = STATUSES.get(str(facts.get("status")), UNFINISHED)
        error = _dict(_dict(details.get("error")).get("error"))
        run = ImportedRun(
            id=head.id,
            experiment=head.experiment,
            created_ns=head.created_ns,
            status=status,
            name=str(facts.get("display_name") or ""),
            description=str(facts.get("description") or ""),
            started_ns=time_ns(facts.get("started")),
            ended_ns=time_ns(facts.get("ended")),
            parent_id=head.parent_id,
            user=_user(record.get("created_by")) or _user(record.get("user")),
            tags={key: None if value is None else _text(value) for key, value in _dict(facts.get("tags")).items()},
            properties=self._properties(facts, details),
            error=str(error.get("message") or "") if status == FAILED else "",
            error_code=str(error.get("code") or ""),
            definition=self._definition(details),
            notes=notes,
        )
        run.read_points = lambda: self._points(head, notes)
        run.files = self._files(head.id, notes)
        snapshot = str(facts.get("snapshot") or "")
        if snapshot:
            run.snapshot_zip = self._snapshot(snapshot, notes)
        return run

    def iter_experiments(self) -> Iterator[ImportedExperiment]:
        for facts in self._lines("experiments.jsonl"):
            yield ImportedExperiment(
                str(facts.get("name") or ""), _texts(facts.get("tags")), facts.get("archived") is not None
            )

    def iter_models(self) -> Iterator[ImportedModel]:
        for facts in self._lines("models.jsonl"):
            name, version = str(facts.get("name") or ""), facts.get("version")
            if not name or not isinstance(version, int):
                self.skip(f"model {name[:300]}:{version}", "it has no name, or its version is no number")
                continue
            base, files = self._model_files(facts, f"model {name}:{version}")
            created = time_ns(facts.get("created_time")) or 0
            yield ImportedModel(
                name=name,
                version=version,
                created_ns=created,
                updated_ns=created,
                description=str(facts.get("description") or ""),
                tags=_texts(facts.get("tags")),
                properties=_texts(facts.get("properties")),
                run_id=_run_id(facts.get("run_id")),
                run_path=base,
                files=files,
                user=_user(facts.get("created_by")),
                framework=str(facts.get("model_framework") or ""),
                framework_version=str(facts.get("model_framework_version") or ""),
                experiment=str(facts.get("experiment_name") or ""),
                datasets=[[str(one) for one in use] for use in facts.get("datasets") or [] if len(use) == 2],
            )

    def iter_assets(self) -> Iterator[ImportedAsset]:
        for facts in self._lines("datastores.jsonl"):
            yield ImportedAsset("datastore", str(facts.get("name") or ""), 0, facts)
        for facts in self._lines("datasets.jsonl"):
            version = facts.get("version")
            number = version if isinstance(version, int) else 0
            yield ImportedAsset("dataset", str(facts.get("name") or ""), number, facts)
        for facts in self._lines("environments.jsonl"):
            text = str(facts.get("version") or "")
            number = int(text) if text.isdecimal() and len(text) < 10 else 0
            yield ImportedAsset("environment", str(facts.get("name") or ""), number, facts)

    def _say_what_is_unfinished(self) -> None:
        if self._workspace.get("format") != FORMAT:
            self.skip("workspace.json", f"its format is {self._workspace.get('format')!r}; this program knows {FORMAT}")
        for problem in self._lines("problems.jsonl"):
            self.skip(f"{problem.get('name')}", f"the export could not read it: {problem.get('why')}")
        if not os.path.exists(os.path.join(self._root, "done")):
            self.skip("the export", "it has not come to its end: start the script again, then import once more")

    def _points(self, head: RunHead, notes: List[str]) -> Iterator[Part]:
        found = self._document("runs", head.id, "metrics.json")
        if found is None:
            notes.append("its metrics are not in the export")
            return
        yield from iter_points(found, head.created_ns, notes)

    def _properties(self, facts: Meta, details: Meta) -> Dict[str, str]:
        """Return the run's own properties, and what has no other place here."""
        found = _texts(facts.get("properties"))
        if SNAPSHOT in found:
            found[f"azureml.{SNAPSHOT}"] = found.pop(SNAPSHOT)
        more = {
            "azureml.runType": facts.get("type"),
            "azureml.number": facts.get("number"),
            "azureml.inputDatasets": details.get("inputDatasets") or None,
            "azureml.outputDatasets": details.get("outputDatasets") or None,
        }
        for name, value in more.items():
            if value is not None:
                found.setdefault(name, value if isinstance(value, str) else json.dumps(value, sort_keys=True))
        return found

    def _definition(self, details: Meta) -> Meta:
        definition = dict(_dict(details.get("runDefinition")))
        if definition and details.get("target"):
            definition.setdefault("target", details["target"])
        return definition

    def _files(self, run_id: str, notes: List[str]) -> List[SourceFile]:
        listed = self._json("runs", run_id, "files.json")
        folder = os.path.join(self._root, "runs", run_id, "files")
        files: Dict[str, SourceFile] = {}
        for entry in listed if isinstance(listed, list) else []:
            name, place = str(_dict(entry).get("name") or ""), str(_dict(entry).get("path") or "")
            try:
                file = self._file(self._root, os.path.join(folder, *place.split("/")), _name_of(name, place, notes))
                files[file.name] = file
            except (OSError, ValueError) as error:
                notes.append(f"file {name[:200]}: {getattr(error, 'strerror', None) or error}")
        if self._blobs is not None:
            self._add_blobs(run_id, files, notes)
        elif not isinstance(listed, list):
            notes.append("its files are not in the export (--files none)")
        return [*files.values()]

    def _add_blobs(self, run_id: str, files: Dict[str, SourceFile], notes: List[str]) -> None:
        """Add what the copy of the storage account has beyond the export."""
        root = str(self._blobs)
        folder = os.path.join(root, _RUN_FILES, f"dcid.{run_id}")
        for name, _status in iter_names(root, folder, notes.append):
            try:
                stored = stored_file_name(name)
            except ValueError as error:
                notes.append(f"{name[:200]!r}: {error}")
                continue
            if stored not in files:
                files[stored] = self._file(root, os.path.join(folder, name), stored)

    def _model_files(self, facts: Meta, what: str) -> Tuple[str, List[SourceFile]]:
        place = [part for part in str(facts.get("folder") or "").split("/") if part not in ("", ".", "..")]
        done = self._document(*place, "done") if place else None
        base = str((done or {}).get("path") or "")
        folder = os.path.join(self._root, *place, "files")
        if done is None:
            self.skip(what, "the export does not have its files")
            return base or "model", []
        files = []
        for name, status in iter_names(self._root, folder, lambda why: self.skip(what, why)):
            stored = stored_file_name(name if base else f"model/{name}")
            path = os.path.join(folder, name)
            files.append(SourceFile(stored, status.st_size, _opener(self._root, path)))
        return stored_file_name(base) if base else "model", files

    def _snapshot(self, snapshot: str, notes: List[str]) -> Optional[SourceFile]:
        try:
            return self._file(self._root, os.path.join(self._root, "snapshots", f"{snapshot}.zip"), f"{snapshot}.zip")
        except (OSError, ValueError):
            notes.append(f"its snapshot {snapshot[:100]} is not in the export")
            return None

    def _file(self, root: str, path: str, name: str) -> SourceFile:
        real = os.path.realpath(path)
        if not is_inside(root, real):
            raise ValueError("it lies outside of the folder")
        return SourceFile(name, os.stat(real).st_size, _opener(root, real))

    def _document(self, *place: str) -> Optional[Meta]:
        found = self._json(*place)
        return found if isinstance(found, dict) else None

    def _json(self, *place: str) -> Any:
        path = os.path.realpath(os.path.join(self._root, *place))
        if not is_inside(self._root, path):
            return None
        try:
            return json.loads(read_text(self._root, path, most=MOST_DOCUMENT))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            self.skip("/".join(place), f"it cannot be read: {error}")
            return None

    def _lines(self, name: str) -> Iterator[Meta]:
        try:
            text = read_text(self._root, os.path.join(self._root, name), most=MOST_DOCUMENT)
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            self.skip(name, f"it cannot be read: {error}")
            return
        for number, line in enumerate(text.splitlines(), 1):
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):
                found = None
            if isinstance(found, dict):
                yield found
            else:
                self.skip(f"{name}, line {number}", "it cannot be read")


def _opener(root: str, path: str) -> Any:
    return lambda: open_inside(root, path)


def _name_of(name: str, place: str, notes: List[str]) -> str:
    """Return the name of a file of the service here; one that no file can have is called as in the export."""
    try:
        return clean_file_name(name)
    except ValueError:
        stored = stored_file_name(place)
        notes.append(f"file {name[:200]!r} is called {stored[:200]!r} here")
        return stored


def _dict(value: Any) -> Meta:
    return value if isinstance(value, dict) else {}


def _texts(value: Any) -> Dict[str, str]:
    return {key: _text(item) for key, item in _dict(value).items() if not key.startswith("runyard.")}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, sort_keys=True)


def _run_id(value: Any) -> Optional[str]:
    return value if isinstance(value, str) and RUN_ID.fullmatch(value) else None


def _user(value: Any) -> str:
    """Return the name of a user as the service tells it: a text, or facts of an account."""
    if isinstance(value, dict):
        value = next((value[key] for key in ("user_name", "userName", "name", "upn") if value.get(key)), "")
    return str(value or "")
