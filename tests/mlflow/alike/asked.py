"""Ask a server of MLflow's API, and keep its answers in a form in which two servers can be compared.

It runs in MLflow's environment, so it imports only MLflow and what that needs. Ids, addresses of files and times of now
differ from server to server: they become labels.
"""

from __future__ import annotations

import json
import math
import os
import re
import time
from collections.abc import Callable
from typing import Any

import requests
from mlflow.exceptions import MlflowException

from mlflow import MlflowClient

BASE = os.environ["MLFLOW_TRACKING_URI"]
TOKEN = os.environ.get("MLFLOW_TRACKING_TOKEN", "")
BEGAN_MS = int(time.time() * 1000) - 600_000
PLACES = ("artifact_uri", "artifact_location", "root_uri", "source")
UNCOMPARED = (
    "run_uuid",
    "workspace",  # of MLflow's server; here the address names it
    "trace_location",
    "user_id",
)
_SPEECH = re.compile(r"^(?:mlflow-artifacts|file|/).*", re.DOTALL)

client = MlflowClient(BASE)
answers: dict[str, Any] = {}
_labels: dict[str, str] = {}  # what this server calls it: what both are compared by


def label(value: Any, name: str) -> Any:
    """Give an id of this server a name."""
    _labels[str(value)] = name
    return value


def note(case: str, call: Callable[[], Any]) -> Any:
    """Keep what a call of the client answers, or the code of its error; return the answer."""
    assert case not in answers, f"{case} is asked twice"
    try:
        answer = call()
    except MlflowException as error:
        answers[case] = {"error": error.error_code}
        return None
    except Exception as error:  # the client itself refuses what it is given, or cannot read the answer
        answers[case] = {"client": type(error).__name__}
        return None
    answers[case] = plain(answer, "made_id" if case.startswith("experiments/") else "")
    return answer


def rest(case: str, method: str, address: str, body: Any = None, **query: Any) -> Any:
    """Keep the status and the JSON of a plain request, of an error its code; return the JSON."""
    assert case not in answers, f"{case} is asked twice"
    headers = {"Authorization": f"Bearer {TOKEN}"} if TOKEN else {}
    data: dict[str, Any] = {"json": body}
    if isinstance(body, str):
        data, headers["Content-Type"] = {"data": body}, "application/json"
    answer = requests.request(method, f"{BASE}/api/2.0/{address}", params=query, headers=headers, timeout=60, **data)
    try:
        found = answer.json()
    except ValueError:
        found = None
    if answer.status_code != 200:
        code = found.get("error_code") if isinstance(found, dict) else None
        is_path = answer.status_code in (404, 405) and code in (None, "ENDPOINT_NOT_FOUND")
        answers[case] = {"error": "no such endpoint"} if is_path else {"status": answer.status_code, "error": code}
        return None
    answers[case] = plain(found)
    return found


def plain(value: Any, key: str = "") -> Any:
    """Return an answer as JSON, without what must differ."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= BEGAN_MS and _is_time(key):
        return "<now>"
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return _text(value, key)
    if isinstance(value, dict):
        return {
            _text(str(name), ""): plain(item, str(name))
            for name, item in value.items()
            if name not in UNCOMPARED and name != "mlflow.user" and item not in (None, [], {})
        }
    if isinstance(value, (list, tuple, set)):
        found = [plain(item) for item in value if not _is_user(item)]
        return _sorted_pairs(found)
    if hasattr(value, "to_dictionary"):
        points = getattr(getattr(value, "data", None), "_metric_objs", None)
        whole = plain(value.to_dictionary())
        if points:
            whole["latest"] = sorted([point.key, point.step, point.timestamp, plain(point.value)] for point in points)
        return whole
    try:
        return plain(dict(value))
    except (TypeError, ValueError):
        return f"<{type(value).__name__}>"


def page(found: Any) -> dict[str, Any]:
    """Return a page of the client as its entries, and whether another one follows."""
    return {"rows": list(found), "more": bool(found.token)}


def note_failure(part: Callable[[], None]) -> None:
    """Ask a part; what ends it early is an answer too."""
    try:
        part()
    except Exception as error:
        answers[f"{part.__name__} ends early"] = f"{type(error).__name__}: {error}"


def write(path: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        json.dump(answers, file, indent=1, sort_keys=True)


def _is_time(key: str) -> bool:
    return key.endswith(("time", "timestamp", "timestamp_ms"))


def _is_user(item: Any) -> bool:
    return isinstance(item, dict) and item.get("key") == "mlflow.user"


def _text(value: str, key: str) -> str:
    if key in PLACES and _SPEECH.match(value):
        return "<place>"
    for known in sorted(_labels, key=len, reverse=True):
        if len(known) > 8:
            value = value.replace(known, _labels[known])
        elif value == known and key.endswith("_id"):  # MLflow's server counts experiments
            return _labels[known]
    return value


def _sorted_pairs(found: list[Any]) -> list[Any]:
    """Sort lists of keys and values, whose order means nothing."""
    if all(isinstance(item, dict) and "key" in item and "step" not in item for item in found):
        return sorted(found, key=lambda item: str(item["key"]))
    return found
