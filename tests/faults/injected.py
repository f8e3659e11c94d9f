"""Faults put into one rank of a run, and what the run's diagnosis says of them."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from runyard.compute.local import virtual_nodes
from runyard.core.specs import DistributionSpec, EnvironmentSpec
from tests.supervisor.supervised import Site
from tests.waiting import wait_for

SCRIPTS = Path(__file__).parent / "scripts"
NODES, RANKS = 2, 4
HANG_AFTER_S = 2
WITHIN_S = 10.0  # of the failure, or of the limit for a hang
OF_FRAMEWORKS_S = 25.0  # theirs take longer to end
MEMORY_LIMIT = 256 << 20

# The kind that each fault must be told as.
KINDS = {
    "exception": "exception",
    "lingering": "exception",
    "kill": "signal",
    "import": "import error",
    "port": "port in use",
    "memory": "out of memory",
    "hang": "hang",
    "exit": "exit code",
    "segfault": "crash",
}
OPTIONS = {
    "pytorch": {"world_size": RANKS},
    "tensorflow": {"worker_count": RANKS - 1, "parameter_server_count": 1},
    "mpi": {},
}


preparing = Lock()  # a site is made for one thread


class Verdict(NamedTuple):
    rank: int
    kind: str
    node: str


def inject(
    site: Site, launcher: str, script: str, faults: dict[str, int], *, interpreter: str = "", at_once: int = 4
) -> dict[str, Verdict]:
    """Run a job for each fault, which happens in the given rank; return what was diagnosed, in time."""
    with ThreadPoolExecutor(at_once) as pool:
        asked = {
            fault: pool.submit(diagnose, site, launcher, script, fault, rank, interpreter)
            for fault, rank in faults.items()
        }
        return {fault: answer.result() for fault, answer in asked.items()}


def diagnose(site: Site, launcher: str, script: str, fault: str, rank: int, interpreter: str) -> Verdict:
    mark = site.home / f"{launcher}-{fault}"
    options = {"environment": EnvironmentSpec(interpreter=interpreter)} if interpreter else {}
    with argument_of(fault) as argument:
        with preparing:
            job = site.prepare(
                script,
                arguments=[fault, str(rank), str(mark), argument],
                distribution=DistributionSpec(launcher, NODES, RANKS // NODES, options=OPTIONS[launcher]),
                nodes=virtual_nodes(NODES),
                node_count=NODES,
                variables={"RUNYARD_HANG_AFTER": str(HANG_AFTER_S), "RUNYARD_HANG_FAILS": "1"},
                **options,
            )
        job.start()
        wait_for(lambda: mark.exists() or job.run.is_over, timeout_s=60)
        within_s = OF_FRAMEWORKS_S if interpreter else WITHIN_S
        run = job.wait(timeout_s=within_s + (HANG_AFTER_S if fault == "hang" else 0))
    assert run.status == "Failed", (fault, run.status)
    assert run.error is not None and "diagnosis.json" in run.files
    details = run.error["details"]
    assert details["evidence"], fault
    assert {one["rank"] for one in details["consequences"]} <= set(range(RANKS)) - {details["rank"]}
    return Verdict(details["rank"], details["kind"], details["node"])


def script_of(name: str) -> str:
    """Return the ranks of `scripts/<name>.py` with the faults."""
    return "".join((SCRIPTS / f"{part}.py").read_text() for part in (name, "faults"))


def possible(faults: dict[str, int]) -> dict[str, int]:
    """Leave out the fault that only root can make: a group with little memory."""
    return {fault: rank for fault, rank in faults.items() if fault != "memory" or os.geteuid() == 0}


def expected(launcher: str, faults: dict[str, int]) -> dict[str, Verdict]:
    """Return the right diagnosis: TensorFlow's tasks are dealt to the nodes in turn, other ranks go node by node."""
    nodes = {rank: rank % NODES if launcher == "tensorflow" else rank // (RANKS // NODES) for rank in range(RANKS)}
    return {fault: Verdict(rank, KINDS[fault], f"node-{nodes[rank]}") for fault, rank in faults.items()}


@contextmanager
def argument_of(fault: str) -> Iterator[str]:
    """Yield what the fault needs: a port that somebody has, a group with little memory."""
    if fault == "port":
        with socket.create_server(("127.0.0.1", 0)) as taken:
            yield str(taken.getsockname()[1])
    elif fault == "memory":
        with memory_group() as folder:
            yield str(folder)
    else:
        yield ""


@contextmanager
def memory_group() -> Iterator[Path]:
    """A real cgroup with a memory limit: of version 1, or 2 where that has the controller."""
    name = f"runyard-test-{os.urandom(4).hex()}"
    first = Path("/sys/fs/cgroup/memory")
    folder, limit = (first / name, "memory.limit_in_bytes") if first.exists() else (second(name), "memory.max")
    folder.mkdir()
    (folder / limit).write_text(str(MEMORY_LIMIT))
    if (folder / "memory.swap.max").exists():
        (folder / "memory.swap.max").write_text("0")
    try:
        yield folder
    finally:
        wait_for(lambda: not (folder / "cgroup.procs").read_text().split())
        folder.rmdir()


def second(name: str) -> Path:
    return Path("/sys/fs/cgroup") / name
