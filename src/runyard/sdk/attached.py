"""Write about a run that this process is not: `run.log(...)` on a handle, also after the run's end.

The server makes a journal folder on this machine and a watcher that ships it, so what was logged survives this process.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Dict

from runyard.core.errors import NotFound
from runyard.runtime.current import get_writer
from runyard.sdk.edge import azure_error
from runyard.sdk.not_yet import not_yet

if TYPE_CHECKING:
    from runyard.client.client import Client
    from runyard.runtime.writer import JournalWriter


def attach_writer(client: Client, run_id: str) -> JournalWriter:
    """Return this process's journal for another run.

    Raises:
        NotFound: there is no such run.
    """
    client.runs.get(run_id)
    try:
        response = client.transport.request("POST", f"/runs/{run_id}/writers", json=this_process())
    except NotFound as error:  # the run is there, so it is the route that the server does not have
        raise not_yet(
            "Logging on a run from outside of it", hint="Log inside the script: Run.get_context().log(...)."
        ) from error
    found: Dict[str, Any] = response.json()
    return get_writer(found["folder"], run_id, attempt=int(found["attempt"]), translate=azure_error)


def this_process() -> Dict[str, int]:
    """Return what tells this process from a later one with the same id."""
    return {"pid": os.getpid(), "start_ticks": _start_ticks()}


def _start_ticks() -> int:
    with open("/proc/self/stat", "rb") as file:
        # The command's name, in parentheses, may hold spaces; field 22 is the 20th after it.
        return int(file.read().rpartition(b")")[2].split()[19])
