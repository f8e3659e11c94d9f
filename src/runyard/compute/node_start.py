"""The program that every cluster backend executes on a node, and the ticket that the node gets."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import runyard
from runyard.core.specs import JobSpec
from runyard.core.tickets import VARIABLE, ticket_of, write_ticket

__all__ = ["VARIABLE", "node_command", "node_start_script", "node_ticket"]


@lru_cache(maxsize=1)
def node_start_script() -> str:
    """Return the Python program (3.8, standard library) that gets our code from the server and becomes the supervisor.

    It takes the ticket from RUNYARD_TICKET and stays in the foreground until the node's part has ended.
    """
    return (Path(runyard.__file__).parent / "supervisor" / "node" / "bootstrap.py").read_text(encoding="utf-8")


def node_command(python: str) -> list[str]:
    """Return the argv of a node's process, where the program can be given as an argument."""
    return [python, "-I", "-S", "-c", node_start_script()]


def node_ticket(job: JobSpec, *, node_rank: int | None = None, node_home: str = "", address: str = "") -> str:
    """Return the value of RUNYARD_TICKET for a node of the job."""
    return write_ticket(
        ticket_of(job, node_rank=node_rank, node_home=node_home, address=address, shared_folder=job.shared_folder)
    )
