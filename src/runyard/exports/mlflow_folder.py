"""Writes MLflow's file store, `mlruns/`, as its clients of 2.x and 3.x read it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from typing import Dict, List, Mapping, Optional

from runyard.client.calls.workspace import ModelCalls
from runyard.client.client import Client
from runyard.core.errors import Conflict, InvalidArgument
from runyard.core.machine.files import atomic_write
from runyard.core.names import true_file_name
from runyard.core.records import Experiment, ModelVersion, RunFile
from runyard.core.yaml.cursor import YamlError
from runyard.core.yaml.reader import load
from runyard.exports.runs import (
    LOGGED,
    MARK,
    TABLES,
    ExportedRun,
    experiment_id,
    file_paths,
    iter_metrics,
    iter_tables,
    milliseconds,
)
from runyard.exports.targets import CHANGED, NEW, SAME, ExportReport, ExportTarget

META, TRASH, MODELS = "meta.yaml", ".trash", "models"
UNFINISHED = "unfinished"
STATUS_NUMBERS = {"RUNNING": 1, "SCHEDULED": 2, "FINISHED": 3, "FAILED": 4, "KILLED": 5}
_ODD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")  # no YAML holds these
_NO_MODEL_NAME = re.compile(r"[/:%\\]")


class MlflowFolder(ExportTarget):
    def __init__(self, folder: str) -> None:
        """Open the store in a folder, or begin one.

        Raises:
            InvalidArgument: the folder holds something else.
        """
        self._root = os.path.realpath(folder)
        os.makedirs(self._root, exist_ok=True)
        self._experiments = self._read_experiments()
        others = [name for name in os.listdir(self._root) if name not in (MODELS, TRASH)]
        if others and not self._experiments:
            raise InvalidArgument(
                f"`{folder}` holds something else than an MLflow store.",
                why=f"It has `{sorted(others)[0]}`, and no experiment (a folder with `{META}`).",
                hint="Name a folder that is new or empty, or the `mlruns` of a store: --to ./mlruns.",
            )
        if "0" not in self._experiments.values():
            self._write_experiment("0", "Default", 0, 0, {}, is_deleted=False)

    def put_experiment(self, experiment: Experiment) -> str:
        known = self._experiments.get(experiment.shown_name)
        if known is not None:
            return known
        created = milliseconds(experiment.created_at)
        changed = milliseconds(experiment.changed_at or experiment.archived_at or experiment.created_at)
        found = experiment_id(experiment)
        tags = {key: value or "" for key, value in experiment.tags.items()}
        is_deleted = experiment.archived_at is not None
        self._write_experiment(found, experiment.shown_name, created, changed, tags, is_deleted=is_deleted)
        return found

    def find_mark(self, experiment_id: str, run_id: str) -> Optional[str]:
        folder = self._run_folder(experiment_id, run_id)
        if not os.path.isdir(folder):
            return None
        try:
            with open(os.path.join(folder, "tags", MARK), encoding="utf-8") as file:
                mark = file.read()
        except FileNotFoundError:
            if not os.listdir(folder):
                return ""
            raise Conflict(
                f"The run `{run_id}` is in the store already.",
                why=f"It has no tag `{MARK}`: it was not exported from here.",
                hint="Export into another folder.",
            ) from None
        return "" if mark == UNFINISHED else mark

    def put_run(self, client: Client, experiment_id: str, exported: ExportedRun, report: ExportReport) -> None:
        folder = self._run_folder(experiment_id, exported.run.id)
        _write(os.path.join(folder, "tags", MARK), UNFINISHED)
        for part in ("metrics", "params", "inputs"):
            shutil.rmtree(os.path.join(folder, part), ignore_errors=True)
        for name in os.listdir(os.path.join(folder, "tags")):
            if name != MARK:
                _remove(os.path.join(folder, "tags", name))
        for part in ("metrics", "params", "artifacts"):
            os.makedirs(os.path.join(folder, part), exist_ok=True)
        self._write_metrics(client, folder, exported, report)
        self._write_files(client, folder, exported, report)
        for part, values in (("params", exported.params), ("tags", exported.tags)):
            for name, value in values.items():
                _write(os.path.join(folder, part, *name.split("/")), value)
        self._write_inputs(folder, exported)
        _write_yaml(os.path.join(folder, META), self._meta_of(experiment_id, folder, exported))
        _write(os.path.join(folder, "tags", MARK), exported.digest)

    def put_model(self, client: Client, model: ModelVersion, report: ExportReport) -> str:
        name = _NO_MODEL_NAME.sub("_", model.name)
        if name != model.name:
            report.note(f"model {model.name}", f"models are called by what MLflow takes: {name}")
        folder = os.path.join(self._root, MODELS, name)
        version = os.path.join(folder, f"version-{model.version}")
        updated, spec = milliseconds(model.updated_at), model.spec
        mark = f"{updated}-{len(spec.files)}-{','.join(model.aliases)}"
        known = _read(os.path.join(version, "tags", MARK))
        if known == mark:
            return SAME
        if known is None and os.path.exists(os.path.join(version, META)):
            raise Conflict(f"Model {name}:{model.version} is in the store, and was not exported from here.")
        place = os.path.join(version, "artifacts")
        for file in spec.files:
            ModelCalls(client.transport).download(
                model, file, os.path.join(place, *true_file_name(file.name).split("/"))
            )
            report.files, report.bytes = report.files + 1, report.bytes + file.size
        self._write_model_name(folder, name, model)
        source = f"file://{os.path.join(place, *spec.path.split('/'))}" if spec.files else spec.location or spec.source
        _write_yaml(
            os.path.join(version, META),
            {
                "aliases": [],
                "creation_timestamp": milliseconds(model.created_at),
                "current_stage": spec.stage or "None",
                "description": spec.description,
                "last_updated_timestamp": updated,
                "name": name,
                "run_id": spec.run_id,
                "run_link": None,
                "source": source,
                "status": "READY",
                "status_message": None,
                "storage_location": source,
                "user_id": spec.created_by or None,
                "version": model.version,
            },
        )
        tags = {**{key: value for key, value in spec.properties.items() if "imported_from" not in key}, **spec.tags}
        for key, value in {**tags, MARK: mark}.items():
            _write(os.path.join(version, "tags", *_tag_path(key)), value)
        return CHANGED if known is not None else NEW

    def _write_model_name(self, folder: str, name: str, model: ModelVersion) -> None:
        known = load(_read(os.path.join(folder, META)) or "{}")
        created = known.get("creation_timestamp") if isinstance(known, dict) else None
        for alias in model.aliases:
            _write(os.path.join(folder, "aliases", alias), str(model.version))
        for key, value in model.about.tags.items():
            _write(os.path.join(folder, "tags", *_tag_path(key)), value)
        _write_yaml(
            os.path.join(folder, META),
            {
                "creation_timestamp": created or milliseconds(model.created_at),
                "description": model.about.description or None,
                "last_updated_timestamp": milliseconds(model.updated_at),
                "name": name,
            },
        )

    def _write_metrics(self, client: Client, folder: str, exported: ExportedRun, report: ExportReport) -> None:
        for metric in iter_metrics(client, exported):
            path = os.path.join(folder, "metrics", *metric.name.split("/"))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(f"{ms} {value} {step}\n" for ms, value, step in metric.points)
            report.points += len(metric.points)

    def _write_inputs(self, folder: str, exported: ExportedRun) -> None:
        """Write which datasets the run read; a dataset is kept once for all runs of the experiment."""
        for dataset in exported.inputs:
            dataset_id = _hash(dataset.name, dataset.digest)
            facts = {key: value for key, value in vars(dataset).items() if key != "tags"}
            _write_yaml(os.path.join(os.path.dirname(folder), "datasets", dataset_id, META), facts)
            about = {
                "source_type": "DATASET",
                "source_id": dataset_id,
                "destination_type": "RUN",
                "destination_id": dataset_id,
                "tags": dataset.tags,
            }
            _write_yaml(os.path.join(folder, "inputs", _hash(dataset_id, exported.run.id), META), about)

    def _write_files(self, client: Client, folder: str, exported: ExportedRun, report: ExportReport) -> None:
        root, tables = os.path.join(folder, "artifacts"), []
        for table in iter_tables(client, exported):
            path = os.path.join(root, *table.name.split("/"))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(table.content)
            if table.name.startswith(TABLES):
                tables.append({"path": table.name, "type": "table"})
        if tables:
            exported.tags.setdefault(LOGGED, json.dumps(tables))
        paths = file_paths(exported)
        places = [(file, os.path.join(root, *paths[file.name].split("/"))) for file in exported.files]
        wanted = [(file, path) for file, path in places if not _is_there(path, file)]
        if wanted:
            client.runs.download_many(exported.run.id, wanted)
        report.files += len(exported.files)
        report.bytes += sum(file.size for file in exported.files)

    def _meta_of(self, experiment_id: str, folder: str, exported: ExportedRun) -> Mapping[str, object]:
        run = exported.run
        meta: Dict[str, object] = {
            "artifact_uri": f"file://{folder}/artifacts",
            "end_time": exported.end_ms,
            "entry_point_name": "",
            "experiment_id": experiment_id,
            "lifecycle_stage": "deleted" if exported.is_deleted else "active",
            "run_id": run.id,
            "run_name": run.display_name,
            "run_uuid": run.id,
            "source_name": "",
            "source_type": 4,
            "source_version": "",
            "start_time": exported.start_ms,
            "status": STATUS_NUMBERS[exported.status],
            "tags": [],
            "user_id": run.user,
        }
        if run.archived_at is not None:
            meta["deleted_time"] = milliseconds(run.archived_at)
        return meta

    def _read_experiments(self) -> Dict[str, str]:
        """Return the ids of the experiments that are there, by their names."""
        found: Dict[str, str] = {}
        for parent in (os.path.join(self._root, TRASH), self._root):
            for name in sorted(os.listdir(parent)) if os.path.isdir(parent) else []:
                text = _read(os.path.join(parent, name, META)) if name not in (MODELS, TRASH) else None
                try:
                    meta = load(text) if text else None
                except YamlError:
                    continue
                if isinstance(meta, dict) and meta.get("name"):
                    found[str(meta["name"])] = name
        return found

    def _write_experiment(
        self, found: str, name: str, created: int, changed: int, tags: Mapping[str, str], *, is_deleted: bool
    ) -> None:
        parent = os.path.join(self._root, TRASH) if is_deleted else self._root
        folder = os.path.join(parent, found)
        for key, value in tags.items():
            _write(os.path.join(folder, "tags", *_tag_path(key)), value)
        _write_yaml(
            os.path.join(folder, META),
            {
                "artifact_location": f"file://{os.path.join(self._root, found)}",
                "creation_time": created,
                "experiment_id": found,
                "last_update_time": changed,
                "lifecycle_stage": "deleted" if is_deleted else "active",
                "name": name,
            },
        )
        self._experiments[name] = found

    def _run_folder(self, experiment_id: str, run_id: str) -> str:
        trash = os.path.join(self._root, TRASH, experiment_id)
        return os.path.join(trash if os.path.isdir(trash) else os.path.join(self._root, experiment_id), run_id)


def _hash(first: str, second: str) -> str:
    """Return the id that MLflow makes of two texts."""
    return hashlib.md5(f"{first}{second}".encode("utf-8", "replace")).hexdigest()


def _tag_path(key: str) -> List[str]:
    """Return the path of a tag's file: below its folder, whatever the tag is called."""
    return [part for part in re.sub(r"[^/\w.\- :]", "_", key).split("/") if part.strip(".")] or ["_"]


def _is_there(path: str, file: RunFile) -> bool:
    """Whether a file came by an earlier export."""
    digest = hashlib.sha256()
    try:
        if file.sha256 is None or os.path.getsize(path) != file.size:
            return False
        with open(path, "rb") as content:
            for piece in iter(lambda: content.read(1 << 20), b""):
                digest.update(piece)
    except OSError:
        return False
    return digest.hexdigest() == file.sha256


def _read(path: str) -> Optional[str]:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return None


def _write(path: str, text: str) -> None:
    """Write a small file. One that is cut off by a crash is written again: the mark of its run comes last."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8", errors="replace", newline="") as file:
        file.write(text)


def _remove(path: str) -> None:
    shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)


def _write_yaml(path: str, values: Mapping[str, object]) -> None:
    """Write plain values, each on its line; JSON texts are YAML too."""
    lines = [f"{key}: {_ODD.sub('_', json.dumps(value, ensure_ascii=False))}\n" for key, value in values.items()]
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with atomic_write(path) as beside, open(beside, "w", encoding="utf-8", errors="replace", newline="") as file:
        file.write("".join(lines))
