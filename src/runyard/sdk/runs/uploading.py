"""Files that a client gives to a run over HTTP: content first, then the name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Dict, List, Optional, Sequence, Tuple

from runyard.core.errors import Conflict, InvalidArgument

if TYPE_CHECKING:
    from runyard.client.client import Client
    from runyard.core.records import RunFile

SMALL_BYTES = 1 << 20  # files up to this size travel in batches
BATCH_FILES = 500


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


def put_paths(client: Client, run_id: str, files: Sequence[Tuple[str, str]]) -> None:
    """Store files by (name, path), the small ones together; raises what `put_path` raises for the first that fails."""
    from runyard.core.formats.chunks import BATCH_BYTES  # most processes upload nothing

    batch: List[RunFile] = []
    chunks: Dict[str, bytes] = {}

    def send() -> None:
        client.content.send_missing(list(chunks.items()), ask_above=BATCH_BYTES // 32)
        for file, error in zip(batch, client.runs.put_files(run_id, batch, replace=False) if batch else ()):
            if error is not None:
                raise _conflict(run_id, file.name) if isinstance(error, Conflict) else error
        batch.clear()
        chunks.clear()

    for name, path in files:
        found = _read_small(name, path, chunks)
        if found is None:
            send()
            put_path(client, run_id, name, path)
            continue
        batch.append(found)
        if len(batch) >= BATCH_FILES or sum(map(len, chunks.values())) >= BATCH_BYTES - SMALL_BYTES:
            send()
    send()


def _read_small(name: str, path: str, chunks: Dict[str, bytes]) -> Optional[RunFile]:
    """Read a small file into `chunks`; None: it is large, or cannot be read."""
    from runyard.core.formats.chunks import read_chunks
    from runyard.core.records import RunFile

    try:
        with open(path, "rb", buffering=0) as file:
            if os.fstat(file.fileno()).st_size > SMALL_BYTES:
                return None
            found = read_chunks(file.fileno(), chunks.__setitem__, whole=True)
    except OSError:
        return None
    return RunFile(name=name, size=found.size, sha256=found.sha256, chunks=found.chunks)


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
        raise _conflict(run_id, name) from error


def _conflict(run_id: str, name: str) -> Conflict:
    return Conflict(
        f"Resource Conflict: ArtifactId ExperimentRun/dcid.{run_id}/{name} already exists.",
        why="A run's file cannot be replaced by another.",
        hint="Upload it under another name.",
    )
