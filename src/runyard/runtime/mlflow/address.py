"""`azureml://` addresses: the server and the workspace that one names, and the token for that server alone."""

from __future__ import annotations

import os
import socket
from typing import NamedTuple, Optional, Tuple
from urllib.parse import unquote, urlsplit

from runyard.core.errors import InvalidArgument
from runyard.runtime.context import RunContext, find_context

SCHEME = "azureml"
CONNECT_S = 1.0
_RUNS = "/runs/"


class MlflowDoor(NamedTuple):
    """The MLflow door of one workspace. `base` is what stock clients would be given."""

    base: str
    token: str
    context: Optional[RunContext]

    def check_reachable(self) -> None:
        """Raises OSError within a second or so where no server listens: MLflow's own client tries for minutes."""
        parts = urlsplit(self.base)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        socket.create_connection((parts.hostname or "", port), CONNECT_S).close()


def find_target(uri: str) -> MlflowDoor:
    """Return the target of an `azureml://` address.

    Raises:
        InvalidArgument: the text has another form.
    """
    host, workspace = split_uri(uri)
    context = find_context()
    scheme, token = _from_run(context, host)
    return MlflowDoor(f"{scheme}://{host}/mlflow/{workspace}", token, context)


def split_uri(uri: str) -> Tuple[str, str]:
    """Return (host with port, workspace)."""
    parts = urlsplit(uri)
    names = [unquote(part) for part in parts.path.split("/")]
    try:
        workspace = names[names.index("workspaces") + 1]
    except (ValueError, IndexError):
        workspace = ""
    if parts.scheme != SCHEME or not parts.netloc or not workspace:
        raise InvalidArgument(
            f"{uri!r} is not the address of a workspace for MLflow.",
            why="It has the form azureml://HOST:PORT/mlflow/v2.0/subscriptions/…/workspaces/NAME.",
            hint="Inside a run, MLFLOW_TRACKING_URI holds it; use no other azureml:// address there.",
        )
    return parts.netloc, workspace


def artifact_uri(tracking_uri: str, run_id: str, path: str = "") -> str:
    """Return the address of a run's files."""
    base = tracking_uri.partition("?")[0].rstrip("/")
    return f"{base}{_RUNS}{run_id}" + (f"/{path}" if path else "")


def split_artifact_uri(uri: str) -> Tuple[str, str]:
    """Return (run id, path within the run's files) of such an address.

    Raises:
        InvalidArgument: it names no run.
    """
    _, separator, rest = urlsplit(uri).path.partition(_RUNS)
    run_id, _, path = rest.partition("/")
    if not separator or not run_id:
        raise InvalidArgument(
            f"{uri!r} names no run's files.", hint="Use the artifact_uri that MLflow shows for a run."
        )
    return run_id, path.strip("/")


def _from_run(context: Optional[RunContext], host: str) -> Tuple[str, str]:
    """Return the scheme and the token of the run's server, where it is the one that is meant."""
    if context is None:
        return "http", os.environ.get("MLFLOW_TRACKING_TOKEN", "")
    try:
        job = context.read_job()
    except (OSError, ValueError):
        return "http", ""
    server = job.get("server") or {}
    url = str(
        server.get("web_url") or f"http{'s' if server.get('tls') else ''}://{server.get('host')}:{server.get('port')}"
    )
    scheme, _, authority = url.rstrip("/").partition("://")
    return scheme, str(job.get("token") or "") if authority == host else ""
