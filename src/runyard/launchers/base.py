"""The seam `Launcher`: placement in, processes with their variables out. Pure; Python 3.8."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Dict, List, Optional

from runyard.core.specs import JobSpec


@dataclass(frozen=True)
class Process:
    """One process that the reaper starts. `$NAME` in `argv` was expanded already; `log` is below the run folder."""

    rank: int
    argv: List[str]
    variables: Dict[str, str]
    cwd: str
    log: str = "user_logs/std_log.txt"
    role: str = "worker"
    local_rank: int = 0
    counts: bool = True  # false: a helper (parameter server) that is stopped when all others have ended


@dataclass(frozen=True)
class Placement:
    """Where a node's part of a job runs: addresses of all nodes, this node's rank, its work folder and interpreter."""

    work_folder: str
    interpreter: str
    base_variables: Dict[str, str]  # submitter's (local), environment's, run_config's and ours, merged in that order
    node_rank: int = 0
    addresses: List[str] = field(default_factory=lambda: ["127.0.0.1"])
    master_port: Optional[int] = None


class Launcher(ABC):
    """Lays out the processes of one node. Touches nothing, so a dry run can print it."""

    @abstractmethod
    def layout(self, job: JobSpec, placement: Placement) -> List[Process]: ...
