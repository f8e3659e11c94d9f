"""A run as MLflow's words have it: its tags, parameters and metrics, under names that MLflow takes."""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from runyard.client.client import Client
from runyard.core.formats.plain import to_plain
from runyard.core.formats.run_inputs import (
    OLD_DATASETS,
    DatasetInput,
    dataset_property,
    datasets_of,
    output_models,
    read_dataset,
)
from runyard.core.names import SYSTEM_METRICS, true_file_name
from runyard.core.records import IMPORTED_PROPERTY, USER_TAG, Experiment, MetricInfo, Run, RunFile
from runyard.core.statuses import RunStatus

MARK = "runyard.exported"  # tag of a run that was exported: a digest of what it was then
RUN_ID_TAG = "runyard.run_id"
TABLES, TEXTS = "tables", "texts"  # folders of artifacts for metrics that are no numbers
LOGGED = "mlflow.loggedArtifacts"  # tag by which MLflow's pages find tables
FINISHED, FAILED, KILLED, RUNNING, SCHEDULED = "FINISHED", "FAILED", "KILLED", "RUNNING", "SCHEDULED"
MOST_NAME = 250
_ENDS = {RunStatus.COMPLETED: FINISHED, RunStatus.FAILED: FAILED, RunStatus.CANCELED: KILLED}
_NOT_ALLOWED = re.compile(r"[^/\w.\- :]")
_SYSTEM = re.compile(f"^{re.escape(SYSTEM_METRICS)}")  # MLflow's own machine metrics are called system/…
_MS = 1_000_000  # ns
Point = Tuple[int, float, int]  # ms, value, step
TextPoint = Tuple[int, int, Any]  # step, ms, value


class TableFile(NamedTuple):
    """Values that are no numbers, as the JSON of a table that `mlflow.load_table` reads."""

    name: str
    content: bytes


@dataclass
class MetricPoints:
    name: str
    points: List[Point]


@dataclass
class ExportedRun:
    """What is written of a run. `notes` say what has another name there, or no place."""

    run: Run
    status: str
    params: Dict[str, str]
    tags: Dict[str, str]
    files: List[RunFile]
    digest: str
    infos: Sequence[MetricInfo]
    inputs: List[DatasetInput] = field(default_factory=list)
    texts: Dict[str, List[TextPoint]] = field(default_factory=dict)  # by metric, once its points were read
    is_deleted: bool = False
    notes: List[str] = field(default_factory=list)

    @property
    def start_ms(self) -> int:
        return milliseconds(self.run.started_at or self.run.created_at)

    @property
    def end_ms(self) -> Optional[int]:
        return None if self.run.ended_at is None else milliseconds(self.run.ended_at)


def read_run(client: Client, run: Run) -> ExportedRun:
    """Return a run with its files and what there is of metrics, whose points are read later."""
    infos = [info for wanted in (False, True) for info in client.runs.metrics(run.id, system=wanted)]
    files = client.runs.files(run.id)
    notes: List[str] = []
    exported = ExportedRun(
        run=run,
        status=_ENDS.get(run.status, RUNNING if run.started_at else SCHEDULED),
        params=_fitted(run.parameters, "parameter", notes),
        tags=_fitted(_tags_of(run), "tag", notes),
        files=files,
        digest=_digest(run, infos, files),
        infos=infos,
        inputs=_inputs_of(run),
        is_deleted=run.archived_at is not None,
        notes=notes,
    )
    if run.snapshot_id:
        notes.append("its source folder (snapshot) stays here")
    if output_models(run.properties):
        notes.append("its logged models are there by their files alone: tags and metrics of the models stay here")
    return exported


def iter_metrics(client: Client, exported: ExportedRun) -> Iterator[MetricPoints]:
    """Yield the metrics that are numbers, each with all its points; what else there is comes by `iter_tables`."""
    names = _PathNames()
    for info in exported.infos:
        if info.kind != "scalar":
            continue
        points, exported.texts[info.name] = _read_values(client, exported.run.id, info.name)
        if points:
            name = names.fit(_SYSTEM.sub("system/", info.name))
            if name != info.name and not _SYSTEM.match(info.name):
                exported.notes.append(f"metric {info.name[:100]!r} is called {name[:100]!r} there")
            yield MetricPoints(name, points)


def iter_tables(client: Client, exported: ExportedRun) -> Iterator[TableFile]:
    """Yield tables, and values that are texts, as files."""
    run_id = exported.run.id
    taken = {path for file in exported.files for path in (file.name, *_above(file.name))}
    for info in exported.infos:
        if info.kind == "table":
            columns = {
                entry.column: entry.to_list() for entry in client.runs.metric_values(run_id, info.name) if entry.column
            }
            yield _table(TABLES, info.name, [*columns], [*zip(*columns.values())], taken)
        elif info.kind == "scalar":
            known = exported.texts.get(info.name)  # read with the numbers
            rows = _read_values(client, run_id, info.name)[1] if known is None else known
            if rows:
                exported.notes.append(
                    f"metric {info.name[:100]!r}: {len(rows):,} values that are no numbers are a table"
                )
                yield _table(TEXTS, info.name, ["step", "timestamp", "value"], rows, taken)


def _read_values(client: Client, run_id: str, name: str) -> Tuple[List[Point], List[TextPoint]]:
    """Return the values of a metric that are numbers, and those that are none."""
    series = client.runs.metric_series(run_id, name)
    points: List[Point] = []
    texts: List[TextPoint] = []
    for step, at, value in zip(series.steps, series.times, series.values):
        if isinstance(value, (int, float)):
            points.append((int(at) // _MS, float(value), int(step)))
        else:
            texts.append((int(step), int(at) // _MS, value))
    return points, texts


def file_paths(exported: ExportedRun) -> Dict[str, str]:
    """Return the path of each file: its name, but where that is a folder of others too."""
    folders = {above for file in exported.files for above in _above(file.name)}
    found = {}
    for file in exported.files:
        found[file.name] = path = true_file_name(file.name) + (" (file)" if file.name in folders else "")
        if path != file.name:
            exported.notes.append(f"file {file.name[:100]!r} is called {path[:100]!r} there")
    return found


def experiment_id(experiment: Experiment) -> str:
    """Return the id under which MLflow's clients know an experiment."""
    return "0" if experiment.name == "Default" else experiment.id


def milliseconds(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def _table(folder: str, name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], taken: Set[str]) -> TableFile:
    base = _NOT_ALLOWED.sub("_", name).replace("/", "_").strip(". ")[:100] or "table"
    folder += "_" if folder in taken else ""
    path, number = f"{folder}/{base}.json", 2
    while path in taken:
        path, number = f"{folder}/{base}-{number}.json", number + 1
    taken.add(path)
    content = json.dumps({"columns": [*columns], "data": [[*row] for row in rows]}, default=str)
    return TableFile(path, content.encode())


def _tags_of(run: Run) -> Dict[str, str]:
    """Return tags and properties as MLflow's tags, and what of the record MLflow keeps there."""
    script = run.spec.script or ""
    known = {
        "mlflow.runName": run.display_name,
        "mlflow.note.content": run.description,
        USER_TAG: run.user,
        "mlflow.parentRunId": run.parent_id,
        "mlflow.source.name": script,
        "mlflow.source.type": "JOB" if script else "",
        "mlflow.source.git.commit": run.properties.get("azureml.git.commit"),
        "mlflow.source.git.branch": run.properties.get("azureml.git.branch"),
        "mlflow.source.git.repoURL": run.properties.get("azureml.git.repository_uri"),
        RUN_ID_TAG: run.id,
        "runyard.error": None if run.error is None else str(run.error.get("message") or ""),
    }
    sent_apart = {IMPORTED_PROPERTY, *(dataset_property(one)[0] for one in datasets_of(run.properties))}
    properties = {key: value for key, value in run.properties.items() if key not in sent_apart}
    tags = {key: value or "" for key, value in run.tags.items()}
    return {**properties, **tags, **{key: value for key, value in known.items() if value}}


def _inputs_of(run: Run) -> List[DatasetInput]:
    found = {(one.name, one.digest): one for one in datasets_of(run.properties)}
    try:
        imported = json.loads(run.properties.get(OLD_DATASETS, "[]"))
    except ValueError:
        imported = []
    for one in filter(None, map(read_dataset, imported if isinstance(imported, list) else [])):
        found.setdefault((one.name, one.digest), one)
    return [*found.values()]


class _PathNames:
    """Makes names fit to be paths below a folder: no name is another's folder, and no two become one."""

    def __init__(self) -> None:
        self._files: Set[str] = set()
        self._folders: Set[str] = set()

    def fit(self, name: str) -> str:
        base = posixpath.normpath("/".join(part for part in _NOT_ALLOWED.sub("_", name).split("/") if part.strip(".")))
        base = base.strip("/ ")[:MOST_NAME] or "_"
        found, number = base, 2
        while found in self._files or found in self._folders or _above(found) & self._files:
            found, number = f"{base.replace('/', '.')[: MOST_NAME - 8]}-{number}", number + 1
        self._files.add(found)
        self._folders |= _above(found)
        return found


def _above(name: str) -> Set[str]:
    parts = name.split("/")
    return {"/".join(parts[:count]) for count in range(1, len(parts))}


def _fitted(values: Mapping[str, str], noun: str, notes: List[str]) -> Dict[str, str]:
    names = _PathNames()
    found = {}
    for key, value in values.items():
        name = names.fit(key)
        found[name] = value
        if name != key:
            notes.append(f"{noun} {key[:100]!r} is called {name[:100]!r} there")
    return found


def _digest(run: Run, infos: Sequence[MetricInfo], files: Sequence[RunFile]) -> str:
    plain = [to_plain(run), [to_plain(info) for info in infos], [[file.name, file.size, file.sha256] for file in files]]
    return hashlib.sha256(json.dumps(plain, sort_keys=True, default=str).encode()).hexdigest()[:32]
