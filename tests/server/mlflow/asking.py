"""Requests to MLflow's door of any method, and what they are answered."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

from tests.server.mlflow.conftest import Door


def ask(door: Door, method: str, path: str, **fields: Any) -> dict[str, Any]:
    """Return the answer of a request that must be answered."""
    status, answer = call(door, method, path, **fields)
    assert status == 200, answer
    return answer


def call(door: Door, method: str, path: str, **fields: Any) -> tuple[int, dict[str, Any]]:
    """Send the fields as the query of a GET, or as the body of another request."""
    if method == "GET":
        return door.get(f"{path}?{urlencode(fields, doseq=True)}")
    status, body = door.raw(method, f"/api/2.0/mlflow/{path}", json.dumps(fields).encode())
    return status, json.loads(body)


def refused(door: Door, method: str, path: str, **fields: Any) -> tuple[str, str]:
    """Return the code and the message of a refusal."""
    status, answer = call(door, method, path, **fields)
    assert status in (400, 403, 404), answer
    assert set(answer) == {"error_code", "message"}
    return answer["error_code"], answer["message"]
