"""The server's MLflow door as the plug-in uses it: requests, with connections of our own client.

MLflow's HTTP client knows neither the unix socket of a private server, which is started again outside of runs, nor the
certificate that `runyard login` trusted.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Any, Callable, Iterator, List, Mapping, Optional, Tuple, TypeVar

from mlflow.environment_variables import MLFLOW_HTTP_REQUEST_MAX_RETRIES, MLFLOW_HTTP_REQUEST_TIMEOUT
from mlflow.exceptions import MlflowException, RestException
from mlflow.protos.databricks_pb2 import TEMPORARILY_UNAVAILABLE, UNAUTHENTICATED

from runyard.client.client import Client
from runyard.client.http1 import Request, UploadBody, quote
from runyard.client.transport import Response, Transport
from runyard.core.errors import NotAuthenticated, RunyardError
from runyard.mlflow.address import base_of, split_uri
from runyard.mlflow.servers import Document, client_of_run, find_client, find_own_job, scheme_of
from runyard.runtime.context import RunContext, find_context

SERVED = "mlflow-artifacts:/"  # how the server names a place of files
ARTIFACTS = "/api/2.0/mlflow-artifacts/artifacts"
QUICK_S = 2.0  # for what training can do without
_PAUSE_S = 30.0  # after a quick request that got no answer
_BUSY = (429, 503)
_ONCE = ("/create", "/logged-models")  # ends of endpoints whose request makes a second one when it is sent again
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 8.0
_URI_KEYS = frozenset({"artifact_uri", "artifact_location", "source", "storage_location", "root_uri"})
_SAFE = b"/%:@,~!$&'()*+;="
T = TypeVar("T")


class Door:
    """The MLflow door of one workspace; shared by the threads of a process. Opens no connection before a request."""

    def __init__(self, uri: str) -> None:
        self.host, self.workspace = split_uri(uri)
        self.uri = base_of(uri)
        context = find_context()
        job = find_own_job(context, self.host, self.workspace)
        self.context: Optional[RunContext] = None if job is None else context
        self._job = job
        self._client: Optional[Client] = None
        self._lock = threading.Lock()
        self._away_until = 0.0

    @property
    def scheme(self) -> str:
        """`http` for a server on this machine, else `https`."""
        return scheme_of(self.host)

    @property
    def transport(self) -> Transport:
        """Our client's connection to the server.

        Raises:
            RunyardError: there is no login for it, or no server answers.
        """
        with self._lock:
            if self._client is None:
                self._client = find_client(self.host) if self._job is None else client_of_run(self._job)
            return self._client.transport

    def call(self, method: str, endpoint: str, document: Optional[Mapping[str, Any]] = None) -> Document:
        """Return the answer's JSON object.

        Raises:
            RestException: what the server answered.
            MlflowException: it does not answer.
        """
        given = self._translate(dict(document or {}), f"{self.uri}/", SERVED)
        path = quote(endpoint, safe=_SAFE)
        if method == "GET":
            request = self._request(method, path, query=list(_pairs(given)))
        else:
            request = self._request(method, path, json=given)
        is_once = method == "POST" and path.endswith(_ONCE)
        if is_once:  # a private server that is not there is started by a request that may be sent again
            self._send(lambda: self.transport.exchange(self._request("GET", "/health"), timeout_s=_timeout_s()))
        tries = MLFLOW_HTTP_REQUEST_MAX_RETRIES.get()
        wait_s = _FIRST_WAIT_S
        while True:
            response = self._send(lambda: self.transport.exchange(request, timeout_s=_timeout_s(), retry=not is_once))
            if response.status not in _BUSY or tries <= 0 or _is_quick():
                break
            time.sleep(wait_s)
            tries, wait_s = tries - 1, min(2 * wait_s, _LONGEST_WAIT_S)
        _raise_for_status(response)
        found: Document = response.json()
        answer: Document = self._translate(found, SERVED, f"{self.uri}/")
        return answer

    def try_quickly(self, ask: Callable[[], T]) -> Optional[T]:
        """Return what `ask` returns, None where the server does not answer within seconds.

        A server that did not is left alone for half a minute, so that training never waits for it again and again.
        """
        if time.monotonic() < self._away_until:
            return None
        before = getattr(_limits, "timeout_s", None)
        _limits.timeout_s = QUICK_S
        try:
            return ask()
        except MlflowException as error:
            if error.error_code != "TEMPORARILY_UNAVAILABLE":
                raise
            self._away_until = time.monotonic() + _PAUSE_S
            return None
        finally:
            _limits.timeout_s = before

    def list_files(self, place: str) -> List[Document]:
        """Return the files and folders right below a place, with paths relative to it."""
        listed = self.call("GET", ARTIFACTS, {"path": place}).get("files") or []
        return [dict(item) for item in listed]

    def put_file(self, place: str, path: str) -> None:
        """Store a file. Raises OSError when it cannot be read."""
        body = UploadBody(path, os.stat(path).st_size)
        request = self._request("PUT", f"{ARTIFACTS}/{quote(place, safe=b'/')}", file=body)
        _raise_for_status(self._send(lambda: self.transport.exchange(request, timeout_s=_timeout_s())))

    def delete_files(self, place: str) -> None:
        """Delete a file, or all below a folder."""
        self.call("DELETE", f"{ARTIFACTS}/{quote(place, safe=b'/')}")

    def download(self, place: str, path: str) -> None:
        """Write a stored file to `path`."""
        request = self._request("GET", f"{ARTIFACTS}/{quote(place, safe=b'/')}")
        self._send(lambda: self._download(request, path))

    def _download(self, request: Request, path: str) -> None:
        with self.transport.exchange_stream(request, timeout_s=_timeout_s()) as response:
            _raise_for_status(response)
            with open(path, "wb") as file:
                for piece in response.iter_bytes():
                    file.write(piece)

    def _request(self, method: str, path: str, **more: Any) -> Request:
        return Request(method, path, base=f"/mlflow/{quote(self.workspace)}", **more)

    def _send(self, send: Callable[[], T]) -> T:
        try:
            return send()
        except NotAuthenticated as error:
            raise MlflowException(str(error), error_code=UNAUTHENTICATED) from error
        except RunyardError as error:
            more = (
                " What a run logs about itself is kept without the server; this call needs it." if self.context else ""
            )
            raise MlflowException(f"{error}{more}", error_code=TEMPORARILY_UNAVAILABLE) from error

    def _translate(self, value: Any, old: str, new: str) -> Any:
        """Name places of files as the other side does, wherever a field holds one."""
        if isinstance(value, dict):
            return {
                key: new + found[len(old) :]
                if key in _URI_KEYS and isinstance(found, str) and found.startswith(old)
                else self._translate(found, old, new)
                for key, found in value.items()
            }
        return [self._translate(found, old, new) for found in value] if isinstance(value, list) else value


_limits = threading.local()


def _is_quick() -> bool:
    return getattr(_limits, "timeout_s", None) is not None


def _timeout_s() -> float:
    limit: Optional[float] = getattr(_limits, "timeout_s", None)
    return float(MLFLOW_HTTP_REQUEST_TIMEOUT.get()) if limit is None else limit


def _pairs(document: Mapping[str, Any]) -> Iterator[Tuple[str, Any]]:
    for key, value in document.items():
        for item in value if isinstance(value, (list, tuple)) else (value,):
            yield key, item


def _raise_for_status(response: Response) -> None:
    if response.status < 400:
        return
    plain = response.json()
    if "error_code" in plain:
        raise RestException(plain)
    error = plain["error"]
    raise MlflowException(str(error.get("message") or error.get("what") or error))
