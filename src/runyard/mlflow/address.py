"""`azureml://` addresses as text: the host and the workspace that one names, and the place of files below it."""

from __future__ import annotations

from typing import Tuple
from urllib.parse import unquote, urlsplit

from runyard.core.errors import InvalidArgument

SCHEME = "azureml"
RUNS = "runs"
_WORKSPACES = "/workspaces/"


def split_uri(uri: str) -> Tuple[str, str]:
    """Return (host with port, workspace).

    Raises:
        InvalidArgument: the text has another form.
    """
    parts = urlsplit(uri)
    _, _, rest = parts.path.partition(_WORKSPACES)
    workspace = unquote(rest.partition("/")[0])
    if parts.scheme != SCHEME or not parts.netloc or not workspace:
        raise InvalidArgument(
            f"{uri!r} is not the address of a workspace for MLflow.",
            why="It has the form azureml://HOST:PORT/mlflow/v2.0/subscriptions/…/workspaces/NAME.",
            hint="`ws.get_mlflow_tracking_uri()` returns it; inside a run MLFLOW_TRACKING_URI holds it.",
        )
    return parts.netloc, workspace


def base_of(uri: str) -> str:
    """Return the address up to the workspace's name: what a place of files is appended to."""
    text = uri.partition("?")[0].partition("#")[0]
    head, separator, rest = text.partition(_WORKSPACES)
    return head + separator + rest.partition("/")[0]


def artifact_uri(tracking_uri: str, run_id: str, path: str = "") -> str:
    """Return the address of a run's files."""
    return f"{base_of(tracking_uri)}/{RUNS}/{run_id}" + (f"/{path}" if path else "")


def place_of(uri: str) -> str:
    """Return the place of files that an address names, or the beginning of one.

    Places are `runs/<id>/…`, `models/<id>/…` and `registered/<name>/<version>`.

    Raises:
        InvalidArgument: it names none.
    """
    _, _, rest = urlsplit(uri).path.partition(_WORKSPACES)
    place = rest.partition("/")[2].strip("/")
    if not place:
        raise InvalidArgument(
            f"{uri!r} names no run's files.", hint="Use the artifact_uri that MLflow shows for a run."
        )
    return place


def split_place(place: str) -> Tuple[str, str]:
    """Return (run id, path within the run's files); the id is "" where the place is not a run's."""
    kind, _, rest = place.partition("/")
    run_id, _, path = rest.partition("/")
    return (run_id, path) if kind == RUNS else ("", "")
