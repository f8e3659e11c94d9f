"""Reads a live MLflow server over its REST API, as MLflow's own clients of version 1 to 3 do."""

from __future__ import annotations

import base64
import json
import os
import tempfile
import threading
import time
import urllib.error
import urllib.request
from array import array
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, BinaryIO, Dict, Iterator, List, Mapping, Optional, Tuple
from urllib.parse import quote, urlencode, urlsplit

from runyard.core.errors import InvalidArgument, NotAuthenticated, ServerUnreachable
from runyard.core.names import RUN_ID, stored_file_name
from runyard.imports.mlflow_runs import PARENT, make_run, note_datasets, parent_of, step_of, tags_of, time_of
from runyard.imports.records import (
    MS,
    PART_POINTS,
    ImportedModel,
    ImportedRun,
    ImportSource,
    Meta,
    PointPart,
    RunHead,
    SourceFile,
    short_id,
)

API = "/api/2.0/mlflow"
PAGE, MOST_PAGE = 1000, 25_000
TRIES = 6
TIMEOUT_S = 120.0
THREADS = 8  # calls at a time for the metrics of one run
_AGAIN = (408, 429, 500, 502, 503, 504)
MOST_ANSWER = 512 << 20  # bytes of one answer
MOST_FILES = 1_000_000  # of one run


class MlflowServer(ImportSource):
    """Signs in as MLflow's clients do: by `MLFLOW_TRACKING_TOKEN`, or `MLFLOW_TRACKING_USERNAME` and `…_PASSWORD`."""

    kind = "mlflow"

    def __init__(self, uri: str, environ: Optional[Mapping[str, str]] = None) -> None:
        super().__init__()
        parts = urlsplit(uri)
        host = parts.netloc.rpartition("@")[2]
        self._base = f"{parts.scheme}://{host}{parts.path.rstrip('/')}"
        self._headers = sign_in(os.environ if environ is None else environ, parts.username, parts.password)
        self._opener = urllib.request.build_opener(_NoRedirect())
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="mlflow")
        self._experiments = self._list_experiments()
        self._runs: Dict[str, Meta] = {}
        self._models_of: Dict[str, List[Meta]] = {}
        self._lock = threading.Lock()

    @property
    def id(self) -> str:
        return f"mlflow-{short_id('rest', *sorted(self._experiments))}"

    def list_heads(self) -> List[RunHead]:
        heads = []
        for experiment_id, name in self._experiments.items():
            body: Meta = {"experiment_ids": [experiment_id], "max_results": PAGE, "run_view_type": "ALL"}
            for run in self._pages("runs/search", body, "runs"):
                info = run.get("info") or {}
                run_id = str(info.get("run_id") or info.get("run_uuid") or "")
                if not RUN_ID.fullmatch(run_id):
                    self.skip(f"run {run_id[:100]!r}", "that is no run id")
                    continue
                tags = _pairs((run.get("data") or {}).get("tags"))
                started = info.get("start_time")
                created = int(str(started)) * MS if str(started).isdigit() else 0
                self._runs[run_id] = run
                heads.append(RunHead(run_id, name, created, parent_of({PARENT: tags.get(PARENT, "")})))
            self._list_logged_models(experiment_id)
        return heads

    def read_run(self, head: RunHead) -> ImportedRun:
        found = self._runs.pop(head.id, None) or self._get("runs/get", {"run_id": head.id})["run"]
        info, data = found.get("info") or {}, found.get("data") or {}
        run = make_run(
            run_id=head.id,
            experiment=head.experiment,
            status=info.get("status"),
            start_ms=info.get("start_time"),
            end_ms=info.get("end_time"),
            name=info.get("run_name"),
            user=info.get("user_id"),
            is_deleted=info.get("lifecycle_stage") == "deleted",
            tags=_pairs(data.get("tags")),
            parameters=_pairs(data.get("params")),
        )
        metrics = [str(one.get("key")) for one in data.get("metrics") or []]
        run.read_points = lambda: self._points(head.id, metrics, run.notes)
        run.files = self._files(head.id, str(info.get("artifact_uri") or ""), run.notes)
        for model in self._models_of.get(head.id, []):
            self._add_logged_model(run, model)
        inputs = (found.get("inputs") or {}).get("dataset_inputs") or []
        note_datasets(run, [{**(one.get("dataset") or {}), "tags": _pairs(one.get("tags"))} for one in inputs])
        return run

    def iter_models(self) -> Iterator[ImportedModel]:
        for model in self._pages("registered-models/search", {"max_results": 100}, "registered_models", get=True):
            name = str(model.get("name"))
            aliases = [(str(one.get("alias")), str(one.get("version"))) for one in model.get("aliases") or []]
            where = {"filter": f"name = '{_quoted(name)}'", "max_results": 1000}
            versions = list(self._pages("model-versions/search", where, "model_versions", get=True))
            for found in sorted(versions, key=lambda one: int(one.get("version") or 0)):
                yield replace(self._model(name, found, aliases), about=str(model.get("description") or ""))

    def close(self) -> None:
        self._pool.shutdown(wait=False)

    def _model(self, name: str, found: Meta, aliases: List[Tuple[str, str]]) -> ImportedModel:
        version = int(found.get("version") or 0)
        source = str(found.get("source") or "")
        base = source.rstrip("/").rpartition("/")[2] or "model"
        run_id = str(found.get("run_id") or "")
        return ImportedModel(
            name=name,
            version=version,
            created_ns=int(found.get("creation_timestamp") or 0) * MS,
            updated_ns=int(found.get("last_updated_timestamp") or 0) * MS,
            description=str(found.get("description") or ""),
            tags=_pairs(found.get("tags")),
            properties={"mlflow.source": source, "mlflow.stage": str(found.get("current_stage") or "None")},
            aliases=[alias for alias, number in aliases if number == str(version)],
            run_id=run_id if RUN_ID.fullmatch(run_id) else None,
            run_path=base,
            files=self._model_files(name, version, source, base),
            user=str(found.get("user_id") or ""),
        )

    def _model_files(self, name: str, version: int, source: str, base: str) -> List[SourceFile]:
        try:
            found = self._get("model-versions/get-download-uri", {"name": name, "version": str(version)})
            uri = str(found.get("artifact_uri") or source)
        except (OSError, ValueError):
            uri = source
        if not uri.startswith("mlflow-artifacts:"):
            return []
        faults: List[str] = []
        files = self._proxied(_below(uri), faults.append, prefix=f"{base}/")
        for fault in faults:
            self.skip(f"model {name}:{version}", fault)
        return files

    def _list_experiments(self) -> Dict[str, str]:
        body: Meta = {"max_results": PAGE, "view_type": "ALL"}
        try:
            found = list(self._pages("experiments/search", body, "experiments"))
        except ValueError as error:
            try:  # before MLflow 1.28
                found = self._get("experiments/list", {"view_type": "ALL"}).get("experiments") or []
            except ValueError:
                raise InvalidArgument(
                    f"`{self._base}` is no MLflow server.",
                    why=str(error),
                    hint="Name the address that MLFLOW_TRACKING_URI has.",
                ) from error
        return {str(one.get("experiment_id")): str(one.get("name")) for one in found}

    def _list_logged_models(self, experiment_id: str) -> None:
        """Models that runs of MLflow 3 logged; a server of MLflow 2 has none."""
        try:
            body: Meta = {"experiment_ids": [experiment_id], "max_results": 50}
            for model in self._pages("logged-models/search", body, "models"):
                info = model.get("info") or {}
                self._models_of.setdefault(str(info.get("source_run_id")), []).append(info)
        except ValueError:
            return

    def _add_logged_model(self, run: ImportedRun, info: Meta) -> None:
        base = str(info.get("name") or "model")
        taken = any(file.name.startswith(f"{base}/") for file in run.files)
        prefix = f"models/{info.get('model_id')}/" if taken else f"{base}/"
        uri = str(info.get("artifact_uri") or "")
        if uri.startswith("mlflow-artifacts:"):
            run.files += self._proxied(_below(uri), run.notes.append, prefix=prefix)
        else:
            run.notes.append(f"the files of its model {base} lie at {uri[:200]}, where only the server's machine reads")

    def _points(self, run_id: str, metrics: List[str], notes: List[str]) -> Iterator[PointPart]:
        """Yield the points in the order in which the server gives them; some metrics are asked for at a time."""
        for at in range(0, len(metrics), THREADS):
            some = metrics[at : at + THREADS]
            for metric, rows in zip(some, self._pool.map(lambda key: self._history(run_id, key), some)):
                for start in range(0, len(rows), PART_POINTS):
                    yield _columns(metric, rows[start : start + PART_POINTS], notes)

    def _history(self, run_id: str, metric: str) -> List[Meta]:
        query = {"run_id": run_id, "run_uuid": run_id, "metric_key": metric, "max_results": MOST_PAGE}
        return list(self._pages("metrics/get-history", query, "metrics", get=True))

    def _files(self, run_id: str, uri: str, notes: List[str]) -> List[SourceFile]:
        def listed(path: str) -> List[Meta]:
            query = {"run_id": run_id, "run_uuid": run_id, **({"path": path} if path else {})}
            return list(self._pages("artifacts/list", query, "files", get=True))

        def opened(path: str) -> BinaryIO:
            if uri.startswith("mlflow-artifacts:"):
                return self._download(f"/api/2.0/mlflow-artifacts/artifacts/{_below(uri)}/{quote(path)}")
            return self._download(f"/get-artifact?{urlencode({'path': path, 'run_uuid': run_id, 'run_id': run_id})}")

        return self._walk(listed, opened, notes.append)

    def _proxied(self, folder: str, note: Any, *, prefix: str) -> List[SourceFile]:
        """Return the files below a folder of the server's artifact proxy."""

        def listed(path: str) -> List[Meta]:
            below = f"{folder}/{path}" if path else folder
            found = self._request(f"/api/2.0/mlflow-artifacts/artifacts?{urlencode({'path': below})}")
            return [{**one, "path": f"{path}/{one.get('path')}" if path else one.get("path")} for one in found["files"]]

        def opened(path: str) -> BinaryIO:
            return self._download(f"/api/2.0/mlflow-artifacts/artifacts/{quote(folder)}/{quote(path)}")

        return self._walk(listed, opened, note, prefix=prefix)

    def _walk(self, listed: Any, opened: Any, note: Any, *, prefix: str = "") -> List[SourceFile]:
        found: List[SourceFile] = []
        waiting, seen = [""], set()
        while waiting:
            folder = waiting.pop()
            if folder in seen or folder.count("/") > 64 or len(found) >= MOST_FILES:
                note(f"{folder[:200]}: nested too deeply, or too many files")
                continue
            seen.add(folder)
            try:
                entries = listed(folder)
            except ValueError as error:
                note(f"its files cannot be listed: {error}")
                continue
            for entry in sorted(entries, key=lambda one: str(one.get("path"))):
                path = str(entry.get("path") or "")
                if entry.get("is_dir"):
                    waiting.append(path)
                    continue
                try:
                    name = stored_file_name(prefix + path)
                except ValueError as error:
                    note(f"{path[:200]!r}: {getattr(error, 'why', '') or error}")
                    continue
                found.append(SourceFile(name, int(entry.get("file_size") or 0), partial(opened, path)))
        return sorted(found, key=lambda file: file.name)

    def _pages(self, path: str, fields: Meta, key: str, *, get: bool = False) -> Iterator[Meta]:
        token, seen = None, set()
        while True:
            asked = {**fields, **({"page_token": token} if token else {})}
            found = self._get(path, asked) if get else self._post(path, asked)
            for one in found.get(key) or []:
                if isinstance(one, dict):
                    yield one
            token = found.get("next_page_token")
            if not token or token in seen:
                return
            seen.add(token)

    def _get(self, path: str, query: Mapping[str, object]) -> Meta:
        return self._request(f"{API}/{path}?{urlencode(query)}")

    def _post(self, path: str, body: Meta) -> Meta:
        return self._request(f"{API}/{path}", body=json.dumps(body).encode())

    def _request(self, path: str, body: Optional[bytes] = None) -> Meta:
        with self._open(path, body) as answer:
            data = answer.read(MOST_ANSWER + 1)
        if len(data) > MOST_ANSWER:
            raise ValueError(f"the answer to {path[:100]} is too large")
        found = json.loads(data)
        if not isinstance(found, dict):
            raise ValueError(f"the answer to {path[:100]} is no object")
        return found

    def _download(self, path: str) -> BinaryIO:
        """Return a file of the server as a temporary one here."""
        copy = tempfile.TemporaryFile()  # noqa: SIM115  # the caller closes it
        with self._open(path, None) as answer:
            while True:
                piece = answer.read(1 << 20)
                if not piece:
                    break
                copy.write(piece)
        copy.flush()
        copy.seek(0)
        return copy

    def _open(self, path: str, body: Optional[bytes]) -> Any:
        """Ask, and again after a pause when that can help.

        Raises:
            NotAuthenticated: the server wants a token or a password.
            ServerUnreachable: it does not answer.
            ValueError: it refuses.
        """
        headers = {**self._headers, **({"Content-Type": "application/json"} if body is not None else {})}
        request = urllib.request.Request(self._base + path, data=body, headers=headers)
        for attempt in range(TRIES):
            try:
                return self._opener.open(request, timeout=TIMEOUT_S)
            except urllib.error.HTTPError as error:
                if error.code in (401, 403):
                    raise NotAuthenticated(
                        f"The MLflow server at {self._base} does not let this request through (status {error.code}).",
                        hint="Set MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD.",
                    ) from error
                if error.code not in _AGAIN or attempt == TRIES - 1:
                    text = error.read(500).decode("utf-8", "replace").strip()
                    raise ValueError(f"{path.partition('?')[0]} was answered {error.code}: {text}") from error
            except (OSError, urllib.error.URLError) as error:
                if attempt == TRIES - 1 or isinstance(getattr(error, "reason", None), ConnectionRefusedError):
                    raise ServerUnreachable(
                        f"The MLflow server at {self._base} does not answer.",
                        why=str(getattr(error, "reason", error)),
                        hint="Is it up? The import goes on where it was with the same command.",
                    ) from error
            time.sleep(0.25 * 2**attempt)
        raise AssertionError("unreachable")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """The token goes to the server that was named, and nowhere else."""

    def redirect_request(self, *arguments: Any, **named: Any) -> None:
        return None


def sign_in(environ: Mapping[str, str], user: Optional[str], password: Optional[str]) -> Dict[str, str]:
    """Return the headers by which MLflow's own clients sign in."""
    token = environ.get("MLFLOW_TRACKING_TOKEN")
    user = user or environ.get("MLFLOW_TRACKING_USERNAME")
    password = password or environ.get("MLFLOW_TRACKING_PASSWORD")
    if user and password:
        return {"Authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}
    return {"Authorization": f"Bearer {token}"} if token else {}


def _columns(metric: str, rows: List[Meta], notes: List[str]) -> PointPart:
    steps, times, values, bad = array("q"), array("q"), array("d"), 0
    for row in rows:
        try:
            at, value, step = time_of(row.get("timestamp") or 0), float(row["value"]), step_of(row.get("step") or 0)
        except (KeyError, TypeError, ValueError, OverflowError):
            bad += 1
            continue
        times.append(at)
        values.append(value)
        steps.append(step)
    if bad:
        notes.append(f"metric {metric[:200]}: {bad} values are no points")
    return PointPart(metric, steps, times, values)


def _pairs(found: Any) -> Dict[str, str]:
    return tags_of((one.get("key"), one.get("value")) for one in found or [] if isinstance(one, dict))


def _below(uri: str) -> str:
    """Return the path that an `mlflow-artifacts:` address names, with or without a host."""
    return quote(urlsplit(uri).path.strip("/"))


def _quoted(name: str) -> str:
    return name.replace("\\", "\\\\").replace("'", "\\'")
