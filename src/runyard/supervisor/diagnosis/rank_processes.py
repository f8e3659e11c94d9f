"""The processes of every rank, whoever started them: known by the run's cookie and the rank in their variables."""

from __future__ import annotations

import os
from typing import Dict, List, Optional

from runyard.supervisor.proc import ProcessEntry, list_processes

_TICKS = os.sysconf("SC_CLK_TCK")


def list_rank_processes(cookie: str) -> Dict[int, List[ProcessEntry]]:
    """Return the living processes by rank; of a rank, who started the others comes first."""
    found: Dict[int, List[ProcessEntry]] = {}
    for entry in list_processes():
        rank = _rank_of(entry.pid, cookie) if entry.state not in "ZX" else None
        if rank is not None:
            found.setdefault(rank, []).append(entry)
    return {rank: _by_birth(found[rank]) for rank in sorted(found)}


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that the process has used, 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _rank_of(pid: int, cookie: str) -> Optional[int]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = file.read().split(b"\0")
    except OSError:
        return None
    if not cookie or b"RUNYARD_COOKIE=" + cookie.encode() not in variables:
        return None
    ranks = [one[len(b"RUNYARD_RANK=") :] for one in variables if one.startswith(b"RUNYARD_RANK=")]
    return int(ranks[0]) if ranks and ranks[0].isdigit() else None


def _by_birth(entries: List[ProcessEntry]) -> List[ProcessEntry]:
    return sorted(entries, key=lambda entry: (entry.start_ticks, entry.pid))
