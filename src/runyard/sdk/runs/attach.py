"""Write about a run that this process is not: `run.log(...)` on a handle, also after the run's end.

A journal folder on this machine has a watcher that ships it, so what was logged survives this process.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Dict

from runyard.core.errors import NotAllowed
from runyard.core.machine.facts import start_ticks
from runyard.runtime.context import find_context, get_writer
from runyard.sdk.errors import azure_error
from runyard.sdk.runs.own_watcher import find_host, start_watcher

if TYPE_CHECKING:
    from runyard.client.client import Client
    from runyard.runtime.writer import JournalWriter


def attach_writer(client: Client, run_id: str) -> JournalWriter:
    """Return this process's journal for another run; a handle that a script made of its own run gets the run's.

    Raises:
        NotFound: there is no such run.
    """
    context = find_context()
    if context is not None and context.run_id == run_id:
        return context.writer(translate=azure_error)
    try:
        host = find_host(client)
        added = client.runs.add_writer(run_id, **this_process(), host=host)
    except NotAllowed:
        if context is None:
            raise
        client.runs.update(run_id)  # refused unless it is below this run or its parent: their records travel with ours
        return context.writer().for_run(run_id)
    folder = added.folder
    if host:
        folder = start_watcher(client, client.runs.get(run_id), token=added.token, attempt=added.attempt)
    return get_writer(folder, run_id, attempt=added.attempt, translate=azure_error)


def this_process() -> Dict[str, int]:
    """Return what tells this process from a later one with the same id."""
    return {"pid": os.getpid(), "start_ticks": start_ticks()}
