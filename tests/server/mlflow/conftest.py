"""MLflow's REST door of a server in this process, asked by plain HTTP."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.server.conftest import TOKEN, Served, serve


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("runyard", timeout=30)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(30)
        self.sock.connect(self._path)


@dataclass(frozen=True)
class Door:
    """Requests to `/mlflow/<workspace>`; an answer is its status and its JSON."""

    served: Served
    authorization: str = f"Bearer {TOKEN}"
    base: str = "/mlflow/default"

    def as_token(self, token: str) -> Door:
        return replace(self, authorization=f"Bearer {token}")

    def as_password(self, token: str) -> Door:
        encoded = base64.b64encode(f"anyone:{token}".encode()).decode()
        return replace(self, authorization=f"Basic {encoded}")

    def at(self, base: str) -> Door:
        return replace(self, base=base)

    def raw(
        self, method: str, path: str, body: bytes | None = None, *, content_type: str = "application/json"
    ) -> tuple[int, bytes]:
        """Ask for a path below the base."""
        connection = _UnixConnection(str(self.served.address.path))
        headers = {"Authorization": self.authorization} if self.authorization else {}
        if body is not None:
            headers["Content-Type"] = content_type
        with closing(connection):
            try:
                connection.request(method, f"{self.base}{path}", body, headers)
            except BrokenPipeError:  # refused by the head alone; the answer is there
                pass
            answer = connection.getresponse()
            status, read = answer.status, answer.read()
        return status, read

    def get(self, path: str) -> tuple[int, dict[str, Any]]:
        status, body = self.raw("GET", f"/api/2.0/mlflow/{path}")
        return status, json.loads(body)

    def post(self, path: str, **fields: Any) -> tuple[int, dict[str, Any]]:
        status, body = self.raw("POST", f"/api/2.0/mlflow/{path}", json.dumps(fields).encode())
        return status, json.loads(body)


@pytest.fixture
def door(session_folder: Path) -> Iterator[Door]:
    with tempfile.TemporaryDirectory(prefix="f", dir=session_folder) as folder, serve(Path(folder)) as served:
        yield Door(served)
