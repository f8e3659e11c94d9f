"""What each tool answers: plain, bounded documents. What is left out is said, with how to ask for it."""

from __future__ import annotations

import json
import math
import time
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence

from runyard.core.config.logins import HIDDEN
from runyard.core.errors import InvalidArgument, NotFound
from runyard.core.secret_names import is_secret
from runyard.core.secret_values import LineRedactor
from runyard.native.finding import get, runs
from runyard.native.handle import RunHandle
from runyard.native.places import find_workspace
from runyard.native.submitting import run as submit
from runyard.sdk.runs.log_stream import pick_log

if TYPE_CHECKING:
    from runyard.agents.tools import ToolCall
    from runyard.core.records import MetricInfo, Run

Document = Dict[str, object]
MOST_PARAMETERS = 50
MOST_METRICS = 100
MOST_FILES = 500
MOST_ASSETS = 200
LONGEST = 500  # characters of one value or line
LOG_BYTES = 256 << 10  # of a log's end, in which lines are looked for
FILE_BYTES = 64 << 10
POLL_S = 1.0


def list_runs(
    filter: Optional[str] = None,
    experiment: Optional[str] = None,
    status: Optional[str] = None,
    sort: Optional[str] = None,
    limit: int = 20,
    children: bool = False,
) -> Document:
    found = runs(filter, experiment=experiment, status=status, sort=sort, limit=limit + 1, children=children)
    answer: Document = {"runs": [_brief(one) for one in found[:limit]]}
    if len(found) > limit:
        answer["left_out"] = f"There are more than {limit} runs. Ask for a larger limit (100 at most), or filter."
    return answer


def show_run(run: str, log_lines: int = 30) -> Document:
    return _shown(get(run), log_lines)


def get_metrics(run: str, names: Optional[Sequence[str]] = None, points: int = 20) -> Document:
    handle = get(run)
    client = find_workspace()._client
    infos = {info.name: info for info in client.runs.metrics(handle.id)}
    for name in names or ():
        if name not in infos:
            known = ", ".join(list(infos)[:50]) or "none"
            raise NotFound(f"{handle.name} has no metric `{name}`.", why=f"Its metrics: {known}.")
    chosen = [infos[name] for name in names] if names else list(infos.values())[:20]
    answer: Document = {"run": handle.name, "metrics": {info.name: _course(handle, info, points) for info in chosen}}
    if not names and len(infos) > len(chosen):
        answer["left_out"] = f"{len(infos) - len(chosen)} further metrics: {', '.join(list(infos)[20:70])}"
    return answer


def compare_runs(runs: Sequence[str]) -> Document:
    handles = [get(name) for name in runs]
    names = _distinct(handles)
    parameters = {name: handle.parameters for name, handle in zip(names, handles)}
    values = {name: _last_values(handle) for name, handle in zip(names, handles)}
    keys = list(dict.fromkeys(key for one in parameters.values() for key in one))
    differ = [key for key in keys if len({one.get(key) for one in parameters.values()}) > 1]
    metrics = list(dict.fromkeys(key for one in values.values() for key in one))
    answer: Document = {
        "status": {name: handle.status for name, handle in zip(names, handles)},
        "parameters_that_differ": {
            key: {name: _short(one.get(key)) for name, one in parameters.items()} for key in differ[:MOST_PARAMETERS]
        },
        "parameters_in_common": {
            key: _short(next(iter(parameters.values()))[key]) for key in keys if key not in differ
        },
        "metrics": {key: {name: one.get(key) for name, one in values.items()} for key in metrics[:MOST_METRICS]},
    }
    left_out = max(0, len(differ) - MOST_PARAMETERS) + max(0, len(metrics) - MOST_METRICS)
    if left_out:
        answer["left_out"] = f"{left_out} further parameters and metrics"
    return answer


def read_log(run: str, file: Optional[str] = None, lines: int = 100, containing: Optional[str] = None) -> Document:
    handle = get(run)
    name = file or _log_of(handle)
    if name is None:
        return {"run": handle.name, "file": None, "lines": [], "note": "The run has no log yet."}
    text, is_whole = _end_of(handle, name)
    found = [line for line in text if containing is None or containing in line]
    answer: Document = {"run": handle.name, "file": name, "lines": [line[:LONGEST] for line in found[-lines:]]}
    if len(found) > lines or not is_whole:
        answer["left_out"] = "Earlier lines. `read_file` reads the log from any byte."
    return answer


def list_files(run: str, folder: str = "") -> Document:
    handle = get(run)
    below = f"{folder.rstrip('/')}/" if folder else ""
    found = [one for one in find_workspace()._client.runs.files(handle.id) if one.name.startswith(below)]
    answer: Document = {
        "run": handle.name,
        "files": [{"name": one.name, "size_bytes": one.size} for one in found[:MOST_FILES]],
    }
    if len(found) > MOST_FILES:
        answer["left_out"] = f"{len(found) - MOST_FILES} further files. Name a `folder`."
    return answer


def read_file(run: str, file: str, offset: int = 0) -> Document:
    handle = get(run)
    client = find_workspace()._client
    if offset < 0:
        offset = max(0, client.runs.read_file(handle.id, file, limit=0).size + offset)
    part = client.runs.read_file(handle.id, file, offset=offset, limit=FILE_BYTES)
    if b"\0" in part.data:
        raise InvalidArgument(
            f"The file `{file}` of {handle.name} is not text.", hint=f"`runyard runs download {handle.id} {file}`"
        )
    text = part.data.decode("utf-8", "replace")
    end = offset + len(part.data)
    answer: Document = {"run": handle.name, "file": file, "size_bytes": part.size, "offset": offset, "text": text}
    if end < part.size:
        answer["left_out"] = f"{part.size - end} bytes. Go on with offset {end}."
    return answer


def wait_for_run(call: ToolCall, run: str, timeout_s: float = 60.0) -> Document:
    handle = get(run)
    until = time.monotonic() + timeout_s
    while not handle.is_done and time.monotonic() < until and not call.stop.is_set():
        call.stop.wait(min(POLL_S, max(0.0, until - time.monotonic())))
    shown = _shown(handle, 30)
    if not handle.is_done:
        shown["note"] = f"It has not ended within {timeout_s:g} s, and goes on. ToolCall wait_for_run again."
    return shown


def submit_script(
    script: Optional[str] = None,
    packages: Optional[Sequence[str]] = None,
    environment: Optional[str] = None,
    tags: Optional[Mapping[str, Any]] = None,
    **settings: Any,
) -> Document:
    if packages and environment:
        raise InvalidArgument("Both packages and environment are given.", hint="Give one of them.")
    handle = submit(script, environment=packages or environment, tags=tags, **settings)
    return {**_brief(handle), "url": _page(handle), "note": "It was submitted. wait_for_run waits for its end."}


def cancel_run(run: str) -> Document:
    handle = get(run)
    was_done = handle.is_done
    handle.cancel()
    note = "It had ended already." if was_done else "It was asked to stop. wait_for_run waits for its end."
    return {**_brief(handle), "note": note}


def list_experiments() -> Document:
    workspace = find_workspace()
    found = workspace._client.experiments.list(workspace.name)
    return _bounded("experiments", [{"name": one.title or one.name, "created_at": one.created_at} for one in found])


def list_targets() -> Document:
    workspace = find_workspace()
    found = workspace._client.compute.list(workspace.name)
    shown: List[Document] = [
        {
            "name": one.name,
            "kind": one.spec.type,
            "nodes": len(one.nodes),
            "running": len(one.running),
            "waiting": len(one.waiting),
        }
        for one in found
    ]
    shown += (
        [] if any(one["name"] == "local" for one in shown) else [{"name": "local", "kind": "this server's machine"}]
    )
    return _bounded("targets", shown)


def list_models(name: Optional[str] = None) -> Document:
    from runyard.sdk.models.model import Model  # few agents ask for models

    found = Model.list(find_workspace(), name=name, latest=name is None)
    if name is not None and not found:
        raise NotFound(f"There is no model `{name}`.", hint="list_models without a name lists them all.")
    fields = ("name", "version", "created_time", "run_id", "tags", "description")
    return _bounded("models", [{field: getattr(one, field) for field in fields} for one in found])


def list_services() -> Document:
    workspace = find_workspace()
    found = workspace._client.webservices.list(workspace.name)
    return _bounded(
        "services",
        [
            {"name": one.name, "state": one.state, "address": one.scoring_uri, "created_at": one.created_at}
            for one in found
        ],
    )


def without_secrets(value: Any, name: str = "") -> Any:
    """Return a document with what looks like a password, token or key hidden, wherever it stands."""
    if isinstance(value, dict):
        return {key: without_secrets(item, str(key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        redactor = LineRedactor()  # a private key goes over many lines
        return [redactor.hide(item) if isinstance(item, str) else without_secrets(item) for item in value]
    if not isinstance(value, str):
        return value
    if is_secret(name, value):
        return HIDDEN
    redactor = LineRedactor()
    return "\n".join(redactor.hide(line) for line in value.split("\n"))


def as_text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False, default=str)


def _bounded(what: str, found: Sequence[Document]) -> Document:
    answer: Document = {what: list(found[:MOST_ASSETS])}
    if len(found) > MOST_ASSETS:
        answer["left_out"] = f"{len(found) - MOST_ASSETS} further {what}"
    return answer


def _brief(handle: RunHandle) -> Document:
    record = handle.azure._facts
    answer: Document = {
        "id": handle.id,
        "name": handle.name,
        "experiment": record.experiment,
        "status": str(record.status),
        "created_at": record.created_at,
        "duration_s": _duration(record),
        "target": record.spec.target,
        "parameters": {key: _short(value) for key, value in list(record.parameters.items())[:MOST_PARAMETERS]},
    }
    error = str((record.error or {}).get("message") or "").strip()
    if error:
        answer["error"] = _short(error.splitlines()[0])
    return answer


def _shown(handle: RunHandle, log_lines: int) -> Document:
    handle.azure._refresh()
    record = handle.azure._facts
    values = _last_values(handle)
    answer: Document = {
        **_brief(handle),
        "description": record.description,
        "tags": {key: _short(value) for key, value in record.tags.items()},
        "started_at": record.started_at,
        "ended_at": record.ended_at,
        "metrics": dict(list(values.items())[:MOST_METRICS]),
        "url": _page(handle),
    }
    if record.error:
        details = record.error.get("details") or {}
        answer["failure"] = {
            "code": record.error.get("code"),
            "message": _lines(str(record.error.get("message") or ""), 40),
            "hint": details.get("hint", ""),
        }
    if record.waits_for and not record.status.is_terminal:
        answer["waits_for"] = record.waits_for
    if len(values) > MOST_METRICS:
        answer["left_out"] = f"{len(values) - MOST_METRICS} further metrics: `get_metrics` with their names"
    name = _log_of(handle) if log_lines else None
    if name is not None:
        text, _ = _end_of(handle, name)
        answer["log"] = {"file": name, "last_lines": [line[:LONGEST] for line in text[-log_lines:]]}
    return answer


def _page(handle: RunHandle) -> str:
    """Return the address of the run's page, without a code that signs in."""
    address = handle.azure._client.address.web_url
    return f"{address.rstrip('/')}/runs/{handle.id}" if address else ""


def _last_values(handle: RunHandle) -> Document:
    infos = handle.azure._client.runs.metrics(handle.id)
    return {info.name: _value(info.artifact if info.kind == "artifact" else info.last) for info in infos}


def _course(handle: RunHandle, info: MetricInfo, points: int) -> Document:
    if info.kind != "scalar":
        return {"kind": info.kind, "count": info.count, "last": _value(info.artifact or info.last)}
    chart = handle.azure._client.runs.chart(handle.id, info.name, width=points)
    columns = ("last_step", "last", "minimum", "maximum")
    rows = zip(*(chart[name] for name in columns))
    return {
        "count": info.count,
        "last": _value(info.last),
        "minimum": _value(info.minimum),
        "maximum": _value(info.maximum),
        "points": [dict(zip(("step", "last", "minimum", "maximum"), map(_value, row))) for row in rows],
    }


def _distinct(handles: Sequence[RunHandle]) -> List[str]:
    """Return a name of each run that no other has."""
    names = [handle.name for handle in handles]
    return [name if names.count(name) == 1 else handle.id for name, handle in zip(names, handles)]


def _log_of(handle: RunHandle) -> Optional[str]:
    """Return the log to show: of a failed rank where that is known, else of the first process."""
    names = [one.name for one in handle.azure._client.runs.files(handle.id)]
    details = (handle.azure._facts.error or {}).get("details") or {}
    failed = details.get("log")
    if failed in names:
        return str(failed)
    return pick_log(names) or next((one for one in names if one.endswith(("user_log.txt", "std_log.txt"))), None)


def _end_of(handle: RunHandle, name: str) -> tuple[List[str], bool]:
    """Return the last lines of a log, and whether these are all."""
    client = handle.azure._client
    size = client.runs.read_file(handle.id, name, limit=0).size
    start = max(0, size - LOG_BYTES)
    lines = client.runs.read_file(handle.id, name, offset=start, limit=LOG_BYTES).data.decode("utf-8", "replace")
    found = lines.splitlines()[1 if start else 0 :]
    return [line.rpartition("\r")[2] for line in found], start == 0


def _duration(record: Run) -> Optional[float]:
    if record.started_at is None or record.ended_at is None:
        return None
    return round((record.ended_at - record.started_at).total_seconds(), 1)


def _value(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return _short(value) if isinstance(value, str) else value


def _short(value: Any) -> Any:
    if not isinstance(value, str) or len(value) <= LONGEST:
        return value
    return f"{value[:LONGEST]}… ({len(value)} characters)"


def _lines(text: str, most: int) -> str:
    lines = text.splitlines()
    return "\n".join(line[:LONGEST] for line in (lines if len(lines) <= most else ["…", *lines[-most:]]))
