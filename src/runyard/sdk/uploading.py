"""Files that a client gives to a run over HTTP: content first, then the name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runyard.core.errors import Conflict, InvalidArgument

if TYPE_CHECKING:
    from runyard.client.client import Client


def put_path(client: Client, run_id: str, name: str, path: str, *, replace: bool = False) -> None:
    """Store the file `path` as the run's file `name`.

    Raises:
        InvalidArgument: it cannot be read.
        Conflict: the run has another file of that name, and `replace` is false.
    """
    try:
        _put(client, run_id, name, path, replace=replace)
    except OSError as error:
        if error.errno is None:  # a lost connection, not the file
            raise
        raise InvalidArgument(
            f"`{path}` cannot be uploaded.", why=f"{error.strerror}.", hint="Give the path of a file that can be read."
        ) from error


def put_bytes(client: Client, run_id: str, name: str, content: bytes, *, replace: bool = True) -> None:
    """Store `content` as the run's file `name`."""
    from tempfile import TemporaryFile  # most processes upload nothing

    with TemporaryFile() as file:
        file.write(content)
        file.flush()
        _put(client, run_id, name, file.fileno(), replace=replace)


def _put(client: Client, run_id: str, name: str, source: str | int, *, replace: bool) -> None:
    file = client.content.upload_file(source, name=name)
    try:
        client.runs.put_file(run_id, file, replace=replace)
    except Conflict as error:
        raise Conflict(
            f"Resource Conflict: ArtifactId ExperimentRun/dcid.{run_id}/{name} already exists.",
            why="A run's file cannot be replaced by another.",
            hint="Upload it under another name.",
        ) from error
