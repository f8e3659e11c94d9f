"""The Launcher `mpi`: Open MPI's mpirun on the first node starts the ranks of all nodes.

mpirun reaches a node through our launch agent (supervisor/mpi/agent.py) instead of ssh, and starts every rank through
runtime/rank_shim.py, which finds the rank's own command, variables and log in `launch.json`. All settings are
variables: nothing of a user's shows in the process list.
"""

from __future__ import annotations

import os
from typing import Dict, List

from runyard.core.specs import JobSpec
from runyard.launchers.base import BY_AGENT, BY_MPIRUN, MPIRUN, Launcher, Placement, Process
from runyard.launchers.processes import (
    is_virtual,
    job_variables,
    master_variables,
    process_argv,
    process_log,
    rank_variables,
)

AGENT = "runyard-launch-agent"  # a program in AGENT_FOLDER below the run folder, which is on mpirun's PATH
AGENT_FOLDER = "agent"
RANK_PROGRAM = "runyard-rank"  # beside it: the rank shim for this node's run folder


class MpiLauncher(Launcher):
    preferred_port = 6105

    def count_ports(self, job: JobSpec) -> List[int]:
        return [1] * job.spec.distribution.node_count

    def layout(self, job: JobSpec, placement: Placement) -> List[Process]:
        helpers = [_mpirun(job, placement)] if placement.node_rank == 0 else []
        if len(placement.nodes) > 1:
            helpers.append(_daemon(job, placement))
        count = job.spec.distribution.processes_per_node
        return [*helpers, *(_rank(job, placement, local_rank) for local_rank in range(count))]


def daemon_rank(node_rank: int) -> int:
    """Return the number that stands for mpirun's daemon on a node."""
    return MPIRUN - 1 - node_rank


def _mpirun(job: JobSpec, placement: Placement) -> Process:
    per_node, nodes = job.spec.distribution.processes_per_node, placement.nodes
    # An only node is where mpirun itself runs: by this name it needs neither agent nor daemon.
    hosts = [node.address for node in nodes] if len(nodes) > 1 else ["localhost"]
    argv = [placement.mpi.mpirun, "--host", ",".join(f"{host}:{per_node}" for host in hosts)]
    argv += ["-n", str(per_node * len(nodes)), "--map-by", "slot", "--bind-to", "none"]
    shim = os.path.join(placement.injection, "runyard", "runtime", "rank_shim.py")
    own = [placement.interpreter, "-I", "-S", shim, "--folder", placement.run_folder]
    return Process(
        rank=MPIRUN,
        # Other machines have other folders: there each rank begins in one that all have, and with a word on the PATH.
        argv=[*argv, RANK_PROGRAM] if job.is_gang else [*argv, *own],
        variables=_helper_variables(job, placement),
        cwd="/" if job.is_gang else placement.work_folder,
        log="system_logs/mpirun.log",
        role="mpirun",
        counts=False,
    )


def _daemon(job: JobSpec, placement: Placement) -> Process:
    return Process(
        rank=daemon_rank(placement.node_rank),
        argv=["/bin/sh", "-c"],
        variables=_helper_variables(job, placement),
        cwd=placement.work_folder,
        log=f"system_logs/mpi_node_{placement.node_rank:02d}.log",
        role="daemon",
        counts=False,
        node_rank=placement.node_rank,
        started_by=BY_AGENT,
        hostname=_hostname(placement),
    )


def _hostname(placement: Placement) -> str:
    """Return the name that a virtual node's daemon shall report; an address, because that can be resolved."""
    return placement.node.address if is_virtual(placement) and placement.mpi.major >= 5 else ""


def _rank(job: JobSpec, placement: Placement, local_rank: int) -> Process:
    per_node = job.spec.distribution.processes_per_node
    rank = placement.node_rank * per_node + local_rank
    variables = {
        **rank_variables(placement, rank=rank),
        **_mpi_variables(job, placement),
        **_interface(placement),
        "RANK": str(rank),
        "WORLD_SIZE": str(per_node * len(placement.nodes)),
        "LOCAL_RANK": str(local_rank),
        "LOCAL_WORLD_SIZE": str(per_node),
    }
    known = {**variables, **_told_by_mpirun(job, placement, rank, local_rank)}
    return Process(
        rank=rank,
        argv=process_argv(job.spec, placement.interpreter, known),
        variables=variables,
        cwd=placement.work_folder,
        log=process_log(rank),
        local_rank=local_rank,
        node_rank=placement.node_rank,
        started_by=BY_MPIRUN,
    )


def _told_by_mpirun(job: JobSpec, placement: Placement, rank: int, local_rank: int) -> Dict[str, str]:
    """Return what mpirun will tell the rank, for `$OMPI_COMM_WORLD_RANK` in arguments."""
    per_node = job.spec.distribution.processes_per_node
    return {
        "OMPI_COMM_WORLD_RANK": str(rank),
        "OMPI_COMM_WORLD_SIZE": str(per_node * len(placement.nodes)),
        "OMPI_COMM_WORLD_LOCAL_RANK": str(local_rank),
        "OMPI_COMM_WORLD_LOCAL_SIZE": str(per_node),
    }


def _helper_variables(job: JobSpec, placement: Placement) -> Dict[str, str]:
    variables = {**placement.base_variables, **_mpi_variables(job, placement), **_start_variables(placement)}
    folders = [os.path.join(placement.run_folder, AGENT_FOLDER), placement.mpi.bin_folder, variables.get("PATH", "")]
    variables["PATH"] = os.pathsep.join(folder for folder in folders if folder)
    variables["PWD"] = placement.work_folder
    return variables


def _mpi_variables(job: JobSpec, placement: Placement) -> Dict[str, str]:
    """Return what ranks and mpirun have in common; what a user said about Open MPI's parameters is kept."""
    processes = job.spec.distribution.processes_per_node * max(1, len(job.nodes))
    defaults = _virtual_defaults(placement)
    if placement.cores and processes > placement.cores:
        defaults["OMPI_MCA_mpi_yield_when_idle"] = "1"  # ranks that share a core must not wait by spinning
    if placement.mpi.libmpi:
        defaults["MPI4PY_LIBMPI"] = placement.mpi.libmpi
    if placement.mpi.major < 5:
        defaults["TMPDIR"] = "/tmp"  # else a rank would have its daemon's
    given = placement.base_variables
    found = {name: given.get(name, value) for name, value in defaults.items()}
    if placement.mpi.library_folder:
        path = given.get("LD_LIBRARY_PATH", "")
        found["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, [placement.mpi.library_folder, path]))
    return {**job_variables(placement, processes=processes), **master_variables(placement), **found}


def _virtual_defaults(placement: Placement) -> Dict[str, str]:
    """Keep nodes of one machine on its loopback: their shared memory would collide, their other addresses are one."""
    if not is_virtual(placement):
        return {}
    defaults = {"OMPI_MCA_oob_tcp_if_include": "lo"} if placement.mpi.major < 5 else {}
    if len(placement.nodes) > 1:
        defaults.update(OMPI_MCA_pml="ob1", OMPI_MCA_btl="self,tcp", OMPI_MCA_btl_tcp_if_include="lo")
        defaults["PMIX_MCA_gds"] = "hash"
    return defaults


def _interface(placement: Placement) -> Dict[str, str]:
    """Keep a rank's TCP on the interface by which nodes know each other: others, as docker0, look alike everywhere.

    Not for mpirun: it would pass the name on to machines whose interfaces have other names.
    """
    if (
        is_virtual(placement)
        or not placement.interface
        or any("btl_tcp_if" in name for name in placement.base_variables)
    ):
        return {}
    return {"OMPI_MCA_btl_tcp_if_include": placement.interface}


def _start_variables(placement: Placement) -> Dict[str, str]:
    """Return what mpirun and its daemons need. In 5.x the agent's option has another name; the old one is ignored."""
    agent = "OMPI_MCA_plm_rsh" if placement.mpi.major < 5 else "PRTE_MCA_plm_ssh"
    return {
        **_scratch(placement),
        f"{agent}_agent": AGENT,
        f"{agent}_no_tree_spawn": "1",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_ALLOW_RUN_AS_ROOT": "1",
        "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }


def _scratch(placement: Placement) -> Dict[str, str]:
    """Return where mpirun and its daemons keep files: in a folder that goes with the run, also when they were killed.

    A daemon of 4.x clears its job's folder when it starts, so each node of a machine has its own. By a variable that
    mpirun does not know: it would pass a parameter of its own on to all of them.
    """
    folder = os.path.join(placement.run_folder, AGENT_FOLDER)
    if placement.mpi.major >= 5:
        return {"PRTE_MCA_prte_tmpdir_base": folder}
    return {"TMPDIR": os.path.join(folder, f"node_{placement.node_rank:02d}")}
