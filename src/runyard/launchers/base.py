"""The seam `Launcher`: placement in, processes with their variables out. Pure; Python 3.8."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import field
from typing import ClassVar, Dict, List, Optional

from runyard.core.lazy_dataclass import dataclass
from runyard.core.specs import JobSpec, NodeSpec

BY_REAPER, BY_AGENT, BY_MPIRUN = "reaper", "agent", "mpirun"
LOWEST_PORT = 20000  # below are well-known services
LEAST_PORTS = 8  # of one node's range: more than the launchers need, for what a script starts itself
MPIRUN = -1  # the `rank` of mpirun itself; below it are those of its daemons


THIS_MACHINE = NodeSpec(0, "127.0.0.1", "node-0")


def nodes_of(job: JobSpec) -> List[NodeSpec]:
    """Return the nodes of the job; one that was not given any runs on this machine alone."""
    return job.nodes or [THIS_MACHINE]


@dataclass(frozen=True)
class Process:
    """One process of a job. `$NAME` in `argv` was expanded already; `log` is below the run folder.

    A rank below zero is no rank: mpirun, or one of its daemons.
    """

    rank: int
    argv: List[str]
    variables: Dict[str, str]
    cwd: str
    log: str = "user_logs/std_log.txt"
    role: str = "worker"
    local_rank: int = 0
    counts: bool = True  # false: a helper (parameter server) that is stopped when all others have ended
    node_rank: int = 0
    # The reaper starts it at the launch; or when mpirun's launch agent asks, with the line that mpirun wants executed
    # as the last word of `argv`; or mpirun does, through runtime/rank_shim.py.
    started_by: str = BY_REAPER
    hostname: str = ""  # of its own, where it needs one


@dataclass(frozen=True)
class MpiInstallation:
    """An Open MPI, 4.x or 5.x. `libmpi` is what mpi4py shall load; `library_folder` is set where nobody knows it."""

    mpirun: str = "mpirun"
    major: int = 5
    bin_folder: str = ""
    libmpi: str = ""
    library_folder: str = ""


@dataclass(frozen=True)
class Placement:
    """Where a node's part of a job runs. `nodes` are all nodes of the job, `ports` the ports that each of them has."""

    work_folder: str
    interpreter: str
    base_variables: Dict[str, str]  # submitter's (local), environment's, run_config's and ours, merged in that order
    node_rank: int = 0
    nodes: List[NodeSpec] = field(default_factory=lambda: [THIS_MACHINE])
    ports: List[List[int]] = field(default_factory=list)
    run_folder: str = ""
    injection: str = ""  # the folder that goes first on PYTHONPATH
    shared_folder: str = ""  # that all nodes see: the first node's work folder
    interface: str = ""  # of this machine, that has the node's address; "": not known
    cores: int = 0  # of this machine, for all processes of the job on it; 0: not known
    mpi: MpiInstallation = field(default_factory=MpiInstallation)

    @property
    def node(self) -> NodeSpec:
        return next(node for node in self.nodes if node.rank == self.node_rank)


class Launcher(ABC):
    """Lays out the processes of one node. Touches nothing, so a dry run can print it."""

    preferred_port: ClassVar[Optional[int]] = None  # Azure's number: the first node's first port, when it is free

    @abstractmethod
    def layout(self, job: JobSpec, placement: Placement) -> List[Process]: ...

    def count_ports(self, job: JobSpec) -> List[int]:
        """Return how many ports each node needs, by its rank."""
        return []

    def show_ports(self, job: JobSpec) -> List[List[int]]:
        """Return the ports of a machine where everything is free, for a dry run."""
        counts = [max(count, LEAST_PORTS) for count in self.count_ports(job)]
        starts = [LOWEST_PORT + sum(counts[:rank]) for rank in range(len(counts))]
        found = [list(range(start, start + count)) for start, count in zip(starts, counts)]
        if found and self.preferred_port is not None:
            found[0].insert(0, self.preferred_port)
        return found
