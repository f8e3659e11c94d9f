"""The processes of the nodes of a job that run here, with the ports they use: what `launch.json` says."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import Any, Dict, List, Mapping, NamedTuple

from runyard.core.formats.plain import to_plain
from runyard.core.specs import JobSpec, NodeSpec
from runyard.launchers import get_launcher
from runyard.launchers.base import Launcher, Placement, nodes_of
from runyard.supervisor.lifecycle.interfaces import find_interface
from runyard.supervisor.lifecycle.ports import Ports
from runyard.supervisor.run_folder import RunFolder
from runyard.supervisor.work_folders import work_folder

MPI = "mpi"


class Meeting(NamedTuple):
    """All nodes of a job with the ports that each has, by rank."""

    nodes: List[NodeSpec]
    ports: List[List[int]]


def take_ports(job: JobSpec, ports: Ports) -> List[List[int]]:
    """Take ports for the nodes that run here.

    Raises:
        SystemFailure: there are no free ports.
    """
    launcher = get_launcher(job.spec.distribution.kind)
    counts = launcher.count_ports(job)
    if job.is_gang:
        counts = counts[job.node_rank : job.node_rank + 1]
    return ports.take(counts, preferred=launcher.preferred_port if job.node_rank == 0 else None)


def lay_out(
    folder: RunFolder,
    job: JobSpec,
    *,
    interpreter: str,
    variables: Mapping[str, str],
    injection: str,
    meeting: Meeting,
) -> Dict[str, Any]:
    """Return `{processes, ports}` of the nodes that run here; `ranks`, too, when others run more nodes of the job.

    Raises:
        SubmitRejected: it cannot be laid out, or what it needs is not installed.
    """
    launcher = get_launcher(job.spec.distribution.kind)
    first = work_folder(folder, job, 0)
    placement = Placement(
        work_folder=first,
        interpreter=interpreter,
        base_variables=dict(variables),
        node_rank=job.node_rank,
        nodes=meeting.nodes,
        ports=meeting.ports,
        run_folder=folder.path,
        injection=injection,
        shared_folder="" if job.is_gang and not job.shared_folder else first,
        interface=find_interface(meeting.nodes[job.node_rank].address) if job.is_gang else "",
        cores=len(os.sched_getaffinity(0)),
    )
    if job.spec.distribution.kind == MPI:
        placement = _with_mpi(folder, placement)
    own = nodes_of(job)
    placements = [_at_node(folder, job, placement, node) for node in own]
    processes = [process for one in placements for process in launcher.layout(job, one)]
    ports = [meeting.ports[node.rank] for node in own if meeting.ports]
    plan = {"processes": [to_plain(process) for process in processes], "ports": ports}
    return {**plan, "ranks": _count_ranks(launcher, job, placement)} if job.is_gang else plan


def _count_ranks(launcher: Launcher, job: JobSpec, placement: Placement) -> int:
    everywhere = (launcher.layout(job, replace(placement, node_rank=node.rank)) for node in placement.nodes)
    return sum(process.rank >= 0 for processes in everywhere for process in processes)


def _at_node(folder: RunFolder, job: JobSpec, placement: Placement, node: NodeSpec) -> Placement:
    return replace(placement, node_rank=node.rank, work_folder=work_folder(folder, job, node.rank))


def _with_mpi(folder: RunFolder, placement: Placement) -> Placement:
    # What only MPI jobs need is loaded for them alone.
    from runyard.supervisor.mpi.agent_server import write_agent, write_rank_program
    from runyard.supervisor.mpi.find import find_mpi

    mpi = find_mpi(placement.interpreter, placement.base_variables.get("PATH", os.defpath))
    write_agent(folder, sys.executable)
    write_rank_program(folder, placement)
    return replace(placement, mpi=mpi)
