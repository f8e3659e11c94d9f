"""The JSON files of a run folder by their keys; docs/internals/run-folder.md says who writes each. For type checkers.

The run's own program can write to its folder, too, and an older program of ours wrote fewer keys: readers use `get` for
what they can do without.
"""

from __future__ import annotations

from typing import Dict, List, Mapping, Optional, TypedDict

from runyard.core.formats.documents import RunError


class PlannedProcess(TypedDict, total=False):
    """A process of `launch.json`: a `launchers.base.Process`, whose docstring explains the keys."""

    rank: int
    argv: List[str]
    variables: Dict[str, str]
    cwd: str
    log: str
    role: str
    local_rank: int
    counts: bool
    node_rank: int
    started_by: str
    hostname: str
    contained: bool  # `argv` is a container runtime's, which reports a signal as an exit code


class RemoveCommand(TypedDict):
    """A command that removes what is left of a rank's container."""

    argv: List[str]
    variables: Dict[str, str]


class LaunchPlan(TypedDict, total=False):
    """`launch.json`: the processes of the nodes that run here."""

    processes: List[PlannedProcess]
    ports: List[List[int]]  # by node
    umask: int
    cgroup: str
    ranks: int  # of the whole job, where other supervisors run more of them
    remove: List[RemoveCommand]


class RankStart(TypedDict, total=False):
    """An entry of `ranks.json`, and `starts/<rank>.json`, which has the shim's keys as well."""

    rank: int
    pid: int
    start_ticks: int
    started_boot_ns: int
    boot_id: str
    shim_pid: int
    shim_start_ticks: int


class ResourceUsage(TypedDict, total=False):
    """What a process used until its end."""

    user_s: float
    system_s: float
    max_rss_kb: int


class RankExit(TypedDict, total=False):
    """`exits/<rank>.json`: how a rank ended."""

    rank: int
    pid: int
    code: Optional[int]
    signal: Optional[int]
    oom: bool  # the kernel killed it because memory ran out
    memory_limit_bytes: Optional[int]  # with `oom`
    rusage: ResourceUsage
    ended_boot_ns: int
    boot_id: str
    error: str  # why it could not be started
    unknown: bool  # nobody knows how it ended
    lost: bool  # it was killed together with everything else of the run on this node


class FinalState(TypedDict, total=False):
    """`final.json`: the end that the supervisor reports."""

    status: str
    error: Optional[RunError]
    finding: Mapping[str, object]  # a Finding as plain data, for the other nodes' supervisors
