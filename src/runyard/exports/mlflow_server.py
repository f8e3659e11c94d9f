"""Writes runs to an MLflow server over its REST API. It gives runs ids of its own; a tag has ours."""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
import tempfile
import urllib.error
import urllib.request
from collections import Counter
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set, Tuple
from urllib.parse import quote

from runyard.client.client import Client
from runyard.core.errors import InvalidArgument, NotAllowed, ServerUnreachable
from runyard.core.records import Experiment, ModelVersion
from runyard.exports.runs import MARK, RUN_ID_TAG, ExportedRun, file_paths, iter_metrics, iter_tables
from runyard.exports.targets import NEW, SAME, ExportReport, ExportTarget
from runyard.imports.mlflow_server import sign_in

AT_ONCE = 1000  # metrics of one request; of parameters and tags a tenth
MOST_PARAM, MOST_TAG = 6000, 5000  # characters
TIMEOUT_S = 60.0
PROXY = "mlflow-artifacts:"
PARENT = "mlflow.parentRunId"
FILES_MARK = "runyard.exported_files"  # tag of a run: a digest of the files that it has there
_LARGEST = sys.float_info.max
_SENT_APART = ("mlflow.runName", PARENT)
Point = Tuple[int, str, int]  # ms, value, step
Answer = Mapping[str, Any]


class _Refused(ValueError):
    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class MlflowRest(ExportTarget):
    def __init__(self, address: str) -> None:
        """Look whether the server answers.

        Raises:
            ServerUnreachable: it does not.
            NotAllowed: it wants a user and password, or a token.
        """
        self._address = address.rstrip("/")
        self._headers = sign_in(os.environ, None, None)
        self._runs: Dict[str, Answer] = {}  # of the server, by our ids
        self._versions: Dict[str, List[Answer]] = {}
        self._ask("POST", "experiments/search", {"max_results": 1})

    def put_experiment(self, experiment: Experiment) -> str:
        name = experiment.shown_name
        try:
            found = self._ask("GET", f"experiments/get-by-name?experiment_name={quote(name, safe='')}")["experiment"]
        except _Refused as error:
            if error.code != "RESOURCE_DOES_NOT_EXIST":
                raise
            tags = [{"key": key, "value": value or ""} for key, value in experiment.tags.items()]
            return str(self._ask("POST", "experiments/create", {"name": name, "tags": tags})["experiment_id"])
        if found.get("lifecycle_stage") == "deleted":
            raise ValueError(f"its experiment {name!r} is deleted there: `mlflow experiments restore` brings it back")
        return str(found["experiment_id"])

    def find_mark(self, experiment_id: str, run_id: str) -> Optional[str]:
        found = self._find(run_id, experiment_id)
        return None if found is None else _tags(found).get(MARK, "")

    def put_run(self, client: Client, experiment_id: str, exported: ExportedRun, report: ExportReport) -> None:
        there = self._runs.get(exported.run.id) or self._create(experiment_id, exported)
        run_id = str(there["info"]["run_id"])
        if there["info"].get("lifecycle_stage") == "deleted":
            self._ask("POST", "runs/restore", {"run_id": run_id})
        data = there.get("data") or {}
        points = []
        for metric in iter_metrics(client, exported):
            known = self._points(run_id, metric.name) if metric.name in _names(data.get("metrics")) else Counter()
            for ms, value, step in metric.points:
                if known[_point(ms, value, step)]:
                    known[_point(ms, value, step)] -= 1
                else:
                    points.append({"key": metric.name, "value": _number(value), "timestamp": ms, "step": step})
        self._log(run_id, "metrics", points, AT_ONCE)
        report.points += len(points)
        for kind, values, most in (("params", exported.params, MOST_PARAM), ("tags", exported.tags, MOST_TAG)):
            old = _pairs(data.get(kind))
            named = [
                (key, value)
                for key, value in values.items()
                if key not in (*_SENT_APART, MARK) and old.get(key) != value[:most]
            ]
            long = [key for key, value in named if len(value) > most]
            if long:
                exported.notes.append(f"{kind} longer than {most:,} characters are cut there")
            self._log(run_id, kind, [{"key": key, "value": value[:most]} for key, value in named], AT_ONCE // 10)
        self._log_inputs(run_id, exported)
        digest = _digest_of_files(exported)
        if digest != _tags(there).get(FILES_MARK):
            self._put_files(client, str(there["info"].get("artifact_uri") or ""), exported, report)
            self._ask("POST", "runs/set-tag", {"run_id": run_id, "key": FILES_MARK, "value": digest})
        end: Dict[str, object] = {"run_id": run_id, "status": exported.status}
        if exported.end_ms is not None:
            end["end_time"] = exported.end_ms
        self._ask("POST", "runs/update", end)
        self._ask("POST", "runs/set-tag", {"run_id": run_id, "key": MARK, "value": exported.digest})
        if exported.is_deleted:
            self._ask("POST", "runs/delete", {"run_id": run_id})

    def put_model(self, client: Client, model: ModelVersion, report: ExportReport) -> str:
        if model.name not in self._versions:
            self._make_model(model)
        mark, spec = str(model.version), model.spec
        for found in self._versions[model.name]:
            if _tags({"data": found}).get(MARK) == mark:
                return SAME
        run = self._find(spec.run_id) if spec.run_id else None
        if run is None:
            raise ValueError("a version is made of the files of a run, and its run is not there")
        tags = [{"key": key, "value": value[:MOST_TAG]} for key, value in {**spec.tags, MARK: mark}.items()]
        made = self._ask(
            "POST",
            "model-versions/create",
            {
                "name": model.name,
                "source": f"{str(run['info']['artifact_uri']).rstrip('/')}/{spec.run_path or spec.path}",
                "run_id": run["info"]["run_id"],
                "description": spec.description,
                "tags": tags,
            },
        )["model_version"]
        self._versions[model.name].append(made)
        if str(made["version"]) != mark:
            report.note(
                f"model {model.name}:{mark}", f"it is version {made['version']} there: a server numbers them itself"
            )
        for alias in model.aliases:
            body = {"name": model.name, "alias": alias, "version": str(made["version"])}
            self._ask("POST", "registered-models/alias", body)
        return NEW

    def _make_model(self, model: ModelVersion) -> None:
        body = {"name": model.name, "description": model.about.description}
        try:
            self._ask("POST", "registered-models/create", body)
        except _Refused as error:
            if error.code != "RESOURCE_ALREADY_EXISTS":
                raise
        where = quote(f"name='{model.name}'", safe="")
        found = self._ask("GET", f"model-versions/search?filter={where}&max_results=1000")
        self._versions[model.name] = [*(found.get("model_versions") or [])]

    def _find(self, run_id: str, experiment_id: str = "") -> Optional[Answer]:
        """Return the run of the server that one of ours became."""
        if run_id not in self._runs:
            ids = [experiment_id] if experiment_id else [one["experiment_id"] for one in self._experiments()]
            where = f"tags.`{RUN_ID_TAG}` = '{run_id}'"
            body = {"experiment_ids": ids, "filter": where, "run_view_type": "ALL", "max_results": 1}
            found = self._ask("POST", "runs/search", body).get("runs") or []
            if not found:
                return None
            self._runs[run_id] = found[0]
        return self._runs[run_id]

    def _experiments(self) -> List[Answer]:
        return [*(self._ask("POST", "experiments/search", {"max_results": 1000}).get("experiments") or [])]

    def _create(self, experiment_id: str, exported: ExportedRun) -> Answer:
        tags = {RUN_ID_TAG: exported.run.id}
        parent_id = exported.tags.get(PARENT)
        parent = self._find(parent_id, experiment_id) if parent_id else None
        if parent is not None:
            tags[PARENT] = str(parent["info"]["run_id"])
        elif parent_id:
            exported.notes.append("its parent is not there: the tag `runyard.parent_id` names it")
            tags["runyard.parent_id"] = parent_id
        body = {
            "experiment_id": experiment_id,
            "start_time": exported.start_ms,
            "run_name": exported.run.display_name,
            "user_id": exported.run.user,
            "tags": [{"key": key, "value": value} for key, value in tags.items()],
        }
        made: Answer = self._ask("POST", "runs/create", body)["run"]
        self._runs[exported.run.id] = made
        return made

    def _log(self, run_id: str, kind: str, values: Sequence[Answer], at_once: int) -> None:
        for at in range(0, len(values), at_once):
            self._ask("POST", "runs/log-batch", {"run_id": run_id, kind: values[at : at + at_once]})

    def _points(self, run_id: str, name: str) -> Counter[Point]:
        """Return the points that a metric has there."""
        answer = self._ask("GET", f"metrics/get-history?run_id={run_id}&metric_key={quote(name, safe='')}")
        points = answer.get("metrics") or []
        return Counter(_point(int(one["timestamp"]), float(one["value"]), int(one.get("step") or 0)) for one in points)

    def _log_inputs(self, run_id: str, exported: ExportedRun) -> None:
        inputs = [
            {
                "dataset": {key: value for key, value in vars(one).items() if key != "tags" and value is not None},
                "tags": [{"key": key, "value": value} for key, value in one.tags.items()],
            }
            for one in exported.inputs
        ]
        if inputs:  # those that are there stay one
            self._ask("POST", "runs/log-inputs", {"run_id": run_id, "datasets": inputs})

    def _put_files(self, client: Client, uri: str, exported: ExportedRun, report: ExportReport) -> None:
        tables = [*iter_tables(client, exported)]
        if not uri.startswith(PROXY):
            if exported.files or tables:
                exported.notes.append(
                    f"files: the server keeps them at {uri.partition(':')[0]}:, which it does not pass on"
                )
            return
        below = uri[len(PROXY) :].lstrip("/")
        for table in tables:
            self._put(f"{below}/{table.name}", table.content)
        with tempfile.TemporaryDirectory(prefix="runyard-export-") as folder:
            paths = file_paths(exported)
            for number, file in enumerate(exported.files):
                path = os.path.join(folder, str(number))
                client.runs.download(exported.run.id, file.name, path, expected=file)
                with open(path, "rb") as content:
                    self._put(f"{below}/{paths[file.name]}", content, size=os.path.getsize(path))
                os.remove(path)
                report.files, report.bytes = report.files + 1, report.bytes + file.size

    def _put(self, path: str, content: Any, *, size: Optional[int] = None) -> None:
        headers = {} if size is None else {"Content-Length": str(size)}
        self._send("PUT", f"api/2.0/mlflow-artifacts/artifacts/{quote(path)}", content, headers)

    def _ask(self, method: str, path: str, body: Optional[Answer] = None) -> Answer:
        data = None if body is None else json.dumps(body).encode()
        answer = self._send(method, f"api/2.0/mlflow/{path}", data, {"Content-Type": "application/json"})
        found = json.loads(answer or b"{}")
        return found if isinstance(found, dict) else {}

    def _send(self, method: str, path: str, body: Any, headers: Mapping[str, str]) -> bytes:
        every = {**self._headers, **headers}
        request = urllib.request.Request(f"{self._address}/{path}", data=body, headers=every, method=method)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                return bytes(answer.read())
        except urllib.error.HTTPError as error:
            raise self._refusal(error) from None
        except (urllib.error.URLError, OSError) as error:
            raise ServerUnreachable(
                f"The MLflow server at {self._address} does not answer.",
                why=str(getattr(error, "reason", error)),
                hint="Start it, and export again: it goes on where it was.",
            ) from error

    def _refusal(self, error: urllib.error.HTTPError) -> Exception:
        text = error.read(10_000).decode("utf-8", "replace")
        if error.code in (401, 403):
            return NotAllowed(
                f"The MLflow server at {self._address} refused the request ({error.code}).",
                hint="Set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN.",
            )
        try:
            found = json.loads(text)
            return _Refused(str(found["error_code"]), str(found.get("message") or ""))
        except (ValueError, KeyError, TypeError):
            pass
        if error.code == 500:
            return _Refused("INTERNAL_ERROR", f"the server failed at {error.url}: {text[:300]}")
        if error.code > 500:
            return ServerUnreachable(f"The MLflow server at {self._address} failed ({error.code}).", why=text[:300])
        return InvalidArgument(
            f"{self._address} is no MLflow server.",
            why=f"It answered {error.code} to a request of MLflow's API.",
            hint="Name it as MLFLOW_TRACKING_URI does: http://host:5000.",
        )


def _tags(run: Answer) -> Dict[str, str]:
    return _pairs((run.get("data") or {}).get("tags"))


def _pairs(items: Any) -> Dict[str, str]:
    return {str(one["key"]): str(one.get("value", "")) for one in items or []}


def _names(metrics: Any) -> Set[str]:
    return {str(one["key"]) for one in metrics or []}


def _point(ms: int, value: float, step: int) -> Point:
    """Return a point as stock servers keep it: NaN is one value, infinities are the largest numbers."""
    return ms, "nan" if math.isnan(value) else repr(max(-_LARGEST, min(_LARGEST, value))), step


def _digest_of_files(exported: ExportedRun) -> str:
    """Return a digest of all that is written below the run's artifacts."""
    files = [[file.name, file.size, file.sha256] for file in exported.files]
    kinds = [[info.name, info.kind, info.count] for info in exported.infos]
    return hashlib.sha256(json.dumps([files, kinds]).encode()).hexdigest()[:32]


def _number(value: float) -> object:
    if math.isnan(value):
        return "NaN"
    return value if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"
