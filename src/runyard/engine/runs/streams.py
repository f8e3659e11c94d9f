"""Logs that grow: which stream of the artifact store holds which file of a run."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import replace

from runyard.artifacts.base import ArtifactStore
from runyard.core.errors import Conflict, RunyardError
from runyard.core.formats.documents import RunWarning
from runyard.core.records import Run, RunChange, RunFile
from runyard.store.base import RunStore

logger = logging.getLogger(__name__)


def stream_key(run_id: str, attempt: int, name: str) -> str:
    """Return the stream's key: made of checked ids and a digest, so a file's name never becomes a path.

    `attempt` is the number of an external writer where such a process sent the log.
    """
    digest = hashlib.sha256(f"{run_id}\0{attempt}\0{name}".encode("utf-8", "surrogatepass")).hexdigest()
    return stream_folder(run_id) + digest


def stream_folder(run_id: str) -> str:
    """Return what the keys of a run's streams begin with."""
    return f"streams/{key_part(run_id)}/"


def key_part(run_id: str) -> str:
    """Return the run's part of a key. A part has at most 255 bytes, a run id may have one more."""
    return run_id if len(run_id) <= 255 else hashlib.sha256(run_id.encode()).hexdigest()


def stream_size(artifacts: ArtifactStore, run_id: str, attempt: int, name: str) -> int:
    """Return how many bytes of the log are stored."""
    return artifacts.stream_size(stream_key(run_id, attempt, name))


def register_stream(store: RunStore, run: Run, attempt: int, name: str) -> None:
    """List the stream as a file of the run. A newer attempt's log takes the name over. It may be repeated."""
    key = stream_key(run.id, attempt, name)
    found = store.find_file(run.id, name)
    if found is not None and (found.kind != "stream" or found.chunks == [key] or attempt != run.due_attempt):
        return
    try:
        store.put_file(run.id, RunFile(name=name, size=0, kind="stream", chunks=[key], complete=False))
    except Conflict:
        logger.warning("run %s: %s is another file already", run.id, name)


def close_streams(store: RunStore, artifacts: ArtifactStore, run: Run) -> None:
    """Store the final sizes of a run's logs. Called before the run's end is stored, under the run's lock."""
    for file in store.list_files(run.id, with_chunks=False):
        if file.kind == "stream" and not file.complete:
            key = key_of(run, file)
            store.put_file(
                run.id,
                replace(file, chunks=[key], size=_final_size(store, artifacts, run, file), complete=True),
            )


def _final_size(store: RunStore, artifacts: ArtifactStore, run: Run, file: RunFile) -> int:
    """Return the log's size; one that cannot be read (a link was put in its place, say) must not keep a run alive."""
    try:
        return artifacts.stream_size(key_of(run, file))
    except RunyardError as error:
        logger.warning("run %s: the log %s cannot be read: %s", run.id, file.name, error)
        note: RunWarning = {"source": "server", "message": f"The log `{file.name}` cannot be read. {error.what}"}
        store.update_run(run.id, RunChange(warnings_add=[note]))
        return file.size


def key_of(run: Run, file: RunFile) -> str:
    """Return the key of the stream that holds the file's content."""
    return file.chunks[0] if file.chunks else stream_key(run.id, run.attempt, file.name)
