"""Log to a run from a process that is not part of it: `run.log(...)` on a handle, also after the run's end.

The process writes a journal folder, and a watcher on the same machine ships it, so that records survive the process.
A server on this machine starts the watcher itself. A server elsewhere cannot see our folders, so
`start_external_supervisor` starts the same program here.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Dict, Mapping, Optional

from runyard.core.config.paths import run_folder
from runyard.core.config.settings import read_settings
from runyard.core.errors import NotAllowed, SubmitRejected
from runyard.core.formats.plain import to_plain
from runyard.core.machine.facts import boot_id, start_ticks, supervisor_command
from runyard.core.machine.files import write_whole
from runyard.core.names import make_uuid
from runyard.core.specs import JobSpec, RunSpec
from runyard.runtime.context import find_context, get_writer
from runyard.sdk.errors import azure_error

if TYPE_CHECKING:
    from runyard.client.client import Client
    from runyard.core.records import Run
    from runyard.runtime.writer import JournalWriter


def find_host(client: Client) -> str:
    """Return a word for this machine when the server is not reached over its own machine's socket, else ""."""
    if client.address.kind == "unix":
        return ""
    return hashlib.sha256(f"{socket.gethostname()} {boot_id()}".encode()).hexdigest()[:16]


def start_external_supervisor(
    client: Client,
    run: Run,
    *,
    token: str,
    attempt: int = 0,
    external_writer: int = 0,
    folders: Optional[Mapping[str, str]] = None,
) -> str:
    """Return the run folder for this process's journal, with a watcher that ships it."""
    home = read_settings().home
    folder = run_folder(home, run.id, attempt, external_writer)
    if not (folder / "job.json").exists():
        os.makedirs(str(folder), 0o700, exist_ok=True)
        job = _job(client, run, token, home, dict(folders or {}))
        _write_job(folder, replace(job, attempt=attempt, external_writer=external_writer))
        _spawn(folder)
    return str(folder)


def _job(client: Client, run: Run, token: str, home: Path, folders: Dict[str, str]) -> JobSpec:
    return JobSpec(
        run_id=run.id,
        attempt=0,
        experiment=run.experiment,
        workspace=run.workspace,
        spec=RunSpec(output_folders=[]),
        snapshot_root=None,
        server={**to_plain(client.address), "token": ""},
        token=token,
        cookie=make_uuid().replace("-", ""),
        home=str(home),
        experiment_id=run.experiment_id,
        interactive_pid=os.getpid(),
        interactive_start_ticks=start_ticks(),
        interactive_folders=folders,
    )


def _write_job(folder: Path, job: JobSpec) -> None:
    write_whole(str(folder / "job.json"), json.dumps(to_plain(job)).encode())


def _spawn(folder: Path) -> None:
    """Start it in a session of its own, with the environment that a server would give it."""
    # A process that only talks to a server on this machine needs none of it.
    from runyard.client.processes import server_variables

    null = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
    os.posix_spawn(
        sys.executable,
        [*supervisor_command(), "--watch", str(folder)],
        server_variables(read_settings(), os.environ),
        file_actions=null,
        setsid=True,
    )


def attach_writer(client: Client, run_id: str, *, beside: str = "") -> JournalWriter:
    """Return this process's journal for another run; a handle that a script made of its own run gets the run's.

    Raises:
        NotFound: there is no such run.
    """
    context = find_context()
    if context is not None and context.run_id == run_id:
        return context.writer(translate=azure_error)
    found = find_open_journal(beside, run_id) if beside else None
    if found is not None:
        return found
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
        run = client.runs.get(run_id)
        folder = start_external_supervisor(client, run, token=added.token, external_writer=added.external_writer)
    return get_writer(folder, run_id, attempt=0, translate=azure_error)


def find_open_journal(folder: str, run_id: str) -> Optional[JournalWriter]:
    """Return a journal in the run folder of the process that has the run open; None when it is not open any more.

    A worker process that got the run pickled writes there: its records are merged with the others by time, and stored
    before the run's end. On another machine the folder is not there.
    """
    try:
        with open(os.path.join(folder, "job.json"), encoding="utf-8") as file:
            job = json.load(file)
    except (OSError, ValueError):
        return None
    try:
        with open(os.path.join(folder, "seen.json"), encoding="utf-8") as file:
            ends = json.load(file).get("ends", {})
    except (OSError, ValueError):
        ends = {}
    if run_id in ends or job.get("run_id") in ends:
        return None
    return get_writer(folder, run_id, attempt=int(job["attempt"]), translate=azure_error)


def this_process() -> Dict[str, int]:
    """Return what tells this process from a later one with the same id."""
    try:
        return {"pid": os.getpid(), "start_ticks": start_ticks()}
    except OSError as error:
        raise SubmitRejected(
            "This process cannot log to a run from this system.",
            why=f"The program that sends what it logs needs Linux; this is {sys.platform}.",
            hint="Submit the script: `experiment.submit(ScriptRunConfig(...))`; inside a run it logs as everywhere.",
        ) from error
