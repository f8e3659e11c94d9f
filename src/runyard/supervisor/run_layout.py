"""The processes of all nodes of a job that run here, with the ports they use: what `launch.json` says."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import Any, Dict, Mapping

from runyard.core.plain import to_plain
from runyard.core.specs import JobSpec, NodeSpec
from runyard.launchers import get_launcher
from runyard.launchers.base import Placement, nodes_of
from runyard.supervisor.folder import RunFolder
from runyard.supervisor.ports import Ports
from runyard.supervisor.work_folders import work_folder

MPI = "mpi"


def lay_out(
    folder: RunFolder,
    job: JobSpec,
    *,
    interpreter: str,
    variables: Mapping[str, str],
    injection: str,
    ports: Ports,
) -> Dict[str, Any]:
    """Take ports and return `{processes, ports}`.

    Raises:
        SubmitRejected: it cannot be laid out, or what it needs is not installed.
        SystemFailure: there are no free ports.
    """
    launcher = get_launcher(job.spec.distribution.kind)
    first = work_folder(folder, job, 0)
    placement = Placement(
        work_folder=first,
        interpreter=interpreter,
        base_variables=dict(variables),
        nodes=nodes_of(job),
        ports=ports.take(launcher.count_ports(job), preferred=launcher.preferred_port),
        run_folder=folder.path,
        injection=injection,
        shared_folder=first,
        cores=len(os.sched_getaffinity(0)),
    )
    if job.spec.distribution.kind == MPI:
        placement = _with_mpi(folder, placement)
    placements = [_at_node(folder, job, placement, node) for node in placement.nodes]
    processes = [process for one in placements for process in launcher.layout(job, one)]
    return {"processes": [to_plain(process) for process in processes], "ports": placement.ports}


def _at_node(folder: RunFolder, job: JobSpec, placement: Placement, node: NodeSpec) -> Placement:
    return replace(placement, node_rank=node.rank, work_folder=work_folder(folder, job, node.rank))


def _with_mpi(folder: RunFolder, placement: Placement) -> Placement:
    # What only MPI jobs need is loaded for them alone.
    from runyard.supervisor.agent_server import write_agent
    from runyard.supervisor.mpi_search import find_mpi

    mpi = find_mpi(placement.interpreter, placement.base_variables.get("PATH", os.defpath))
    write_agent(folder, sys.executable)
    return replace(placement, mpi=mpi)
