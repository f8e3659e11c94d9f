"""Reads MLflow's file store, `mlruns/`: a folder per experiment, a folder per run, a file per metric, param and tag."""

from __future__ import annotations

import os
from array import array
from typing import Dict, Iterator, List, Optional, Tuple

from runyard.core.names import RUN_ID
from runyard.core.yaml.cursor import YamlError
from runyard.core.yaml.reader import load
from runyard.imports.folder import is_inside, iter_names, list_files, open_inside, read_text
from runyard.imports.mlflow_runs import (
    PARENT,
    ArtifactPlaces,
    find_files,
    make_run,
    note_datasets,
    parent_of,
    step_of,
    tags_of,
    time_of,
)
from runyard.imports.records import (
    MS,
    PART_POINTS,
    ImportedModel,
    ImportedRun,
    ImportSource,
    Meta,
    PointPart,
    RunHead,
    short_id,
)

META = "meta.yaml"
MOST_META = 1 << 20  # bytes
TRASH, MODELS = ".trash", "models"
_NO_EXPERIMENTS = (MODELS, TRASH, "traces")


def is_file_store(folder: str) -> bool:
    """Return whether a folder looks like `mlruns`: a folder in it has the `meta.yaml` of an experiment."""
    try:
        names = os.listdir(folder)
    except OSError:
        return False
    return any(os.path.isfile(os.path.join(folder, name, META)) for name in names if name not in _NO_EXPERIMENTS)


class MlflowFiles(ImportSource):
    kind = "mlflow"

    def __init__(self, folder: str, *, artifacts: Tuple[str, ...] = ()) -> None:
        super().__init__()
        self._root = os.path.realpath(folder)
        self._places = ArtifactPlaces([self._root, os.path.dirname(self._root), *artifacts])
        self._experiments: Dict[str, str] = {}  # id → name
        self._listed = False

    @property
    def id(self) -> str:
        self._list_experiments()
        return f"mlflow-{short_id(*sorted(self._experiments))}"

    def list_heads(self) -> List[RunHead]:
        heads = []
        for _id, name, folder in self._list_experiments():
            for run_id, place in self._folders(folder):
                if run_id in ("tags", "datasets", MODELS, "traces") or not os.path.isfile(os.path.join(place, META)):
                    continue
                head = self._head(run_id, name, place)
                if head is not None:
                    heads.append(head)
        return heads

    def read_run(self, head: RunHead) -> ImportedRun:
        folder, meta = head.place
        notes: List[str] = []
        run = make_run(
            run_id=head.id,
            experiment=head.experiment,
            status=meta.get("status"),
            start_ms=meta.get("start_time"),
            end_ms=meta.get("end_time"),
            name=meta.get("run_name"),
            user=meta.get("user_id"),
            is_deleted=meta.get("lifecycle_stage") == "deleted",
            tags=self._values(os.path.join(folder, "tags"), notes),
            parameters=self._values(os.path.join(folder, "params"), notes),
        )
        run.notes = notes
        run.read_points = lambda: self._points(os.path.join(folder, "metrics"), run.notes)
        own = os.path.join(folder, "artifacts")
        uri = str(meta.get("artifact_uri") or "")
        if os.path.isdir(own) and not os.path.islink(own):
            run.files = list_files(self._root, own, notes.append)
        else:
            run.files = find_files(self._places, uri, notes.append)
        self._add_logged_models(run, os.path.join(os.path.dirname(folder), MODELS))
        self._add_inputs(run, folder)
        return run

    def iter_models(self) -> Iterator[ImportedModel]:
        for name, folder in self._folders(os.path.join(self._root, MODELS)):
            model = self._meta(folder, f"model {name}")
            if model is None:
                continue
            aliases = self._values(os.path.join(folder, "aliases"), [])
            versions = [(entry, place) for entry, place in self._folders(folder) if entry.startswith("version-")]
            for entry, place in sorted(versions, key=lambda one: (len(one[0]), one[0])):
                found = self._meta(place, f"model {name} {entry}")
                if found is not None:
                    yield self._model(name, entry, place, found, model, aliases)

    def _model(
        self,
        folder_name: str,
        entry: str,
        place: str,
        found: Meta,
        model: Meta,
        aliases: Dict[str, str],
    ) -> ImportedModel:
        name, version = str(model.get("name") or folder_name), int(entry[len("version-") :])
        source = str(found.get("storage_location") or found.get("source") or "")
        run_id = str(found.get("run_id") or "") or None
        version_files = find_files(self._places, source, lambda why: self.skip(f"model {name}:{version}", why))
        base = source.rstrip("/").rpartition("/")[2] or "model"
        return ImportedModel(
            name=name,
            version=version,
            created_ns=int(found.get("creation_timestamp") or 0) * MS,
            updated_ns=int(found.get("last_updated_timestamp") or 0) * MS,
            description=str(found.get("description") or ""),
            tags=self._values(os.path.join(place, "tags"), []),
            properties={"mlflow.source": source, "mlflow.stage": str(found.get("current_stage") or "None")},
            aliases=[alias for alias, number in aliases.items() if number.strip() == str(version)],
            run_id=run_id if run_id and RUN_ID.fullmatch(run_id) else None,
            run_path=base,
            files=[file._replace(name=f"{base}/{file.name}") for file in version_files],
            user=str(found.get("user_id") or ""),
            about=str(model.get("description") or ""),
        )

    def _list_experiments(self) -> List[Tuple[str, str, str]]:
        """Return (id, name, folder) of the experiments, deleted ones too."""
        found = []
        for parent in (self._root, os.path.join(self._root, TRASH)):
            for entry, folder in self._folders(parent):
                if entry in _NO_EXPERIMENTS:
                    continue
                if not os.path.isfile(os.path.join(folder, META)):
                    if parent == self._root and not self._listed and not entry.startswith("."):
                        self.skip(entry, "a folder without meta.yaml is no experiment")
                    continue
                meta = self._meta(folder, f"experiment {entry}", quiet=self._listed)
                if meta is not None:
                    name = str(meta.get("name") or f"experiment-{entry}")
                    self._experiments[entry] = name
                    found.append((entry, name, folder))
        self._listed = True
        return found

    def _head(self, run_id: str, experiment: str, folder: str) -> Optional[RunHead]:
        meta = self._meta(folder, f"run {run_id}")
        if meta is None:
            return None
        run_id = str(meta.get("run_id") or meta.get("run_uuid") or run_id)
        if not RUN_ID.fullmatch(run_id):
            self.skip(f"run {run_id[:100]!r}", "that is no run id")
            return None
        try:
            tags = {PARENT: read_text(self._root, os.path.join(folder, "tags", PARENT), most=1000)}
        except (OSError, ValueError):
            tags = {}
        created = meta.get("start_time")
        return RunHead(
            run_id, experiment, created * MS if isinstance(created, int) else 0, parent_of(tags), (folder, meta)
        )

    def _folders(self, parent: str) -> List[Tuple[str, str]]:
        """Return (name, path) of the folders in a folder; links out of the store are left out and named."""
        found = []
        try:
            with os.scandir(parent) as entries:
                for entry in entries:
                    if entry.is_symlink() and not is_inside(self._root, os.path.realpath(entry.path)):
                        self.skip(entry.name, "a link out of the folder")
                    elif entry.is_dir():
                        found.append((entry.name, os.path.realpath(entry.path) if entry.is_symlink() else entry.path))
        except OSError:
            return []
        return sorted(found)

    def _meta(self, folder: str, what: str, *, quiet: bool = False) -> Optional[Meta]:
        try:
            text = read_text(self._root, os.path.join(folder, META), most=MOST_META)
            meta = _read_flat(text) or load(text)
            if not isinstance(meta, dict):
                raise ValueError("it is no mapping")
            return meta
        except (OSError, ValueError, YamlError) as error:
            if not quiet:
                self.skip(what, f"its {META} cannot be read: {error}")
            return None

    def _values(self, folder: str, notes: List[str]) -> Dict[str, str]:
        values = {}
        for name, _status in iter_names(self._root, folder, notes.append):
            try:
                values[name] = read_text(self._root, os.path.join(folder, name))
            except (OSError, ValueError) as error:
                notes.append(f"{os.path.basename(folder)}/{name[:200]}: {error}")
        return values

    def _points(self, folder: str, notes: List[str]) -> Iterator[PointPart]:
        for name, _status in iter_names(self._root, folder, notes.append):
            try:
                with open_inside(self._root, os.path.join(folder, name)) as file:
                    while True:
                        lines = file.readlines(PART_POINTS * 40)
                        if not lines:
                            break
                        part = _parse(name, lines, notes)
                        if len(part):
                            yield part
            except (OSError, ValueError) as error:
                notes.append(f"metric {name[:200]}: {error}")

    def _add_logged_models(self, run: ImportedRun, folder: str) -> None:
        """Add the files of the models that a run logged (MLflow 3), below the models' names."""
        for model_id, meta in self._logged_models(folder).get(run.id, []):
            base = str(meta.get("name") or "model")
            taken = any(file.name.startswith(f"{base}/") for file in run.files)
            prefix = f"models/{model_id}/" if taken else f"{base}/"
            run.files += list_files(
                self._root, os.path.join(folder, model_id, "artifacts"), run.notes.append, prefix=prefix
            )

    def _logged_models(self, folder: str) -> Dict[str, List[Tuple[str, Meta]]]:
        if not hasattr(self, "_models_of"):
            self._models_of: Dict[str, Dict[str, List[Tuple[str, Meta]]]] = {}
        if folder not in self._models_of:
            by_run: Dict[str, List[Tuple[str, Meta]]] = {}
            for model_id, place in self._folders(folder):
                meta = self._meta(place, f"logged model {model_id}") or {}
                by_run.setdefault(str(meta.get("source_run_id")), []).append((model_id, meta))
            self._models_of[folder] = by_run
        return self._models_of[folder]

    def _add_inputs(self, run: ImportedRun, folder: str) -> None:
        datasets = []
        for entry, place in self._folders(os.path.join(folder, "inputs")):
            meta = self._meta(place, f"run {run.id}, input {entry}") or {}
            tags = tags_of((meta.get("tags") or {}).items()) if isinstance(meta.get("tags"), dict) else {}
            source = os.path.join(os.path.dirname(folder), "datasets", str(meta.get("source_id", "")))
            known = (
                self._meta(source, f"run {run.id}, dataset {entry}")
                if "/" not in str(meta.get("source_id", "/"))
                else None
            )
            datasets.append({**(known or {"input": entry}), "tags": tags})
        note_datasets(run, datasets)


def _read_flat(text: str) -> Optional[Meta]:
    """Return a document of plain `key: value` lines, as MLflow writes them; None for all else."""
    found: Meta = {}
    for line in text.splitlines():
        key, colon, value = line.partition(": ")
        if not colon or not key.isidentifier() or key in found:
            return None
        if value.isdigit():
            found[key] = int(value)
        elif value in ("null", "~", "''"):
            found[key] = None if value != "''" else ""
        elif value and value[0].isalpha() and value.replace("/", "").replace("_", "").replace("-", "").isalnum():
            if value.lower() in ("true", "false", "yes", "no", "on", "off", "nan", "null"):
                return None
            found[key] = value
        elif value.startswith(("file:///", "/", "mlflow-artifacts:/")) and not set(value) & set("#'\"\\{}[]&*!|>%@`, "):
            found[key] = value
        else:
            return None
    return found


def _parse(metric: str, lines: List[bytes], notes: List[str]) -> PointPart:
    try:
        rows = [line.split() for line in lines]
        if all(len(row) >= 3 for row in rows):
            times = array("q", [int(row[0]) * MS for row in rows])
            return PointPart(
                metric, array("q", [int(row[2]) for row in rows]), times, array("d", [float(row[1]) for row in rows])
            )
    except (ValueError, OverflowError):
        pass
    return _parse_slowly(metric, lines, notes)


def _parse_slowly(metric: str, lines: List[bytes], notes: List[str]) -> PointPart:
    """Line by line: old lines have no step, and a line that cannot be read is noted and passed over."""
    steps, times, values, bad = array("q"), array("q"), array("d"), 0
    for line in lines:
        row = line.split()
        try:
            time, value, step = time_of(row[0]), float(row[1]), step_of(row[2]) if len(row) > 2 else 0
        except (ValueError, IndexError, OverflowError):
            bad += bool(line.strip())
            continue
        times.append(time)
        values.append(value)
        steps.append(step)
    if bad:
        notes.append(f"metric {metric[:200]}: {bad} lines are no points")
    return PointPart(metric, steps, times, values)
