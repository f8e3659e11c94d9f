"""Files of a run that were never written by a script: straight into a server's store."""

from __future__ import annotations

import hashlib

from runyard.client.client import Client
from runyard.core.names import make_uuid
from runyard.core.records import NewRun, RunFile
from runyard.core.statuses import RunStatus
from runyard.store.base import RunStore


def add_run(store: RunStore, run_id: str) -> str:
    """Add a finished run and return its id."""
    new = NewRun(key=make_uuid(), id=run_id, workspace="default", experiment="stored", status=RunStatus.COMPLETED)
    return store.create_run(new)[0].id


def add_file(client: Client, run_id: str, name: str, data: bytes) -> str:
    """Give the run a file and return the path of its download."""
    digest = hashlib.sha256(data).hexdigest()
    client.content.put([(digest, data)])
    client.runs.put_file(run_id, RunFile(name=name, size=len(data), sha256=digest, chunks=[digest]))
    return f"/api/v1/runs/{run_id}/files/{name}"
