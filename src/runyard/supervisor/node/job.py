"""Turns the server's answer to a joining node into a run folder with that node's part of the job.

A node without `uv` gets the server's own copy, which later runs on that node use, too. All of this runs in the process
that becomes the supervisor.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Dict, List, Mapping, Optional

from runyard.client.address import Address
from runyard.client.calls.nodes import NodeCalls, read_joined
from runyard.client.transport import Transport
from runyard.core.config.paths import cache_folder, runs_folder
from runyard.core.config.settings import Settings
from runyard.core.errors import RunyardError, is_later
from runyard.core.formats.plain import from_plain, to_plain
from runyard.core.machine.facts import node_variables
from runyard.core.machine.files import atomic_write
from runyard.core.machine.gpus import NO_DEVICE, VISIBLE
from runyard.core.names import check_run_id
from runyard.core.specs import JobSpec, NodeSpec
from runyard.core.tickets import NodeTicket
from runyard.supervisor.lifecycle.environment_here import environment_here
from runyard.supervisor.run_folder import SNAPSHOT, RunFolder
from runyard.supervisor.shipping.loops import Backoff

if TYPE_CHECKING:
    from runyard.supervisor.node.node import Here


logger = logging.getLogger(__name__)

_BUILT = ("uv", "conda")  # kinds of environments that are built with `uv`


def with_uv(job: JobSpec) -> Dict[str, str]:
    """Return the variables of the job's processes; where `uv` is needed and missing, PATH ends in a folder that has it.

    Waits for a server that is away. Where the server has no `uv` either, the build reports what is missing.
    """
    environment = job.spec.environment
    fallback = environment.container.fallback if environment.container is not None else {}
    if environment.kind not in _BUILT and fallback.get("kind") not in _BUILT:
        return job.submitter
    import shutil  # only loaded where an environment is built

    path = job.submitter.get("PATH") or os.defpath
    if shutil.which("uv", path=path):
        return job.submitter
    folder = cache_folder(Path(job.home)) / "tools"
    backoff = Backoff()
    while not (folder / "uv").exists():
        try:
            _fetch(job, folder)
        except (OSError, RunyardError) as error:
            logger.warning("uv could not be fetched from the server: %s", error)
            if not isinstance(error, RunyardError) or not is_later(error):
                break
            time.sleep(backoff.next_s())
    return {**job.submitter, "PATH": f"{path}{os.pathsep}{folder}"}


def _fetch(job: JobSpec, folder: Path) -> None:
    import platform

    nodes = NodeCalls(Transport(from_plain(Address, {**job.server, "token": job.token})))
    with atomic_write(str(folder / "uv")) as beside:
        with open(beside, "xb") as file:
            for part in nodes.iter_uv(platform.system(), platform.machine()):
                file.write(part)
        os.chmod(beside, 0o700)


def take_part(here: Here, answer: bytes, settings: Settings, environ: Mapping[str, str]) -> RunFolder:
    """Write the run folder of this node's job from the server's answer; return it. May be repeated."""
    job, snapshot = read_joined(answer)
    node = NodeSpec(here.rank, here.address, here.host, _list_gpus(environ))
    placed = _on_this_node(job, here.ticket, node, settings, environ)
    return _write(settings, replace(placed, submitter=with_uv(placed)), snapshot)


def node_folder(settings: Settings, run_id: str, attempt: int, rank: int) -> str:
    """Return the path of a node's run folder; nodes of one job on one machine have different ones."""
    name = str(attempt) if rank == 0 else f"{attempt}-{rank}"
    return str(runs_folder(settings.home) / check_run_id(run_id) / name)


def _on_this_node(
    job: JobSpec, ticket: NodeTicket, node: NodeSpec, settings: Settings, environ: Mapping[str, str]
) -> JobSpec:
    shared = os.path.join(ticket.shared_folder, job.run_id, str(job.attempt)) if ticket.shared_folder else ""
    return replace(
        job,
        server={**ticket.server, "token": ticket.token, "home": None},
        token=ticket.token,
        # Nodes on one machine must not take each other's processes for their own.
        cookie=hashlib.sha256(f"{job.cookie}\0{node.rank}".encode()).hexdigest()[:32],
        home=str(settings.home),
        node_rank=node.rank,
        nodes=[node],
        submitter=node_variables(environ),
        spec=replace(job.spec, environment=environment_here(job.spec.environment)),
        shared_folder=shared,
    )


def _write(settings: Settings, job: JobSpec, snapshot: bytes) -> RunFolder:
    path = node_folder(settings, job.run_id, job.attempt, job.node_rank)
    try:
        os.makedirs(path, 0o700, exist_ok=True)
    except FileNotFoundError:  # the previous attempt has just removed the empty parent folder
        os.makedirs(path, 0o700, exist_ok=True)
    folder = RunFolder(path)
    if snapshot:
        folder.write_bytes(SNAPSHOT, snapshot)
    folder.write("job.json", to_plain(job))  # the reaper syncs it
    return folder


def _list_gpus(environ: Mapping[str, str]) -> List[str]:
    """Return the devices that the cluster gave to this node; [] where it does not say."""
    said: Optional[str] = environ.get(VISIBLE)
    return [] if said is None else [part.strip() for part in said.split(",") if part.strip()] or [NO_DEVICE]
