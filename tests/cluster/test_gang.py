"""Two supervisors on machines with addresses of their own: nothing of what virtual nodes need is set there."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runyard.core.formats.plain import to_plain
from runyard.core.machine.facts import supervisor_command
from runyard.core.specs import DistributionSpec, EnvironmentSpec, NodeSpec
from tests.cluster.ground import Ground
from tests.e2e.frameworks import MPI4PY, OPEN_MPI_5, TORCH, ensure_debian_open_mpi, interpreter_with
from tests.supervisor.gangs import wait_all
from tests.supervisor.supervised import Site

pytestmark = [pytest.mark.external, pytest.mark.timeout(600)]

ALLREDUCE = """
import os
from mpi4py import MPI
world = MPI.COMM_WORLD
total = world.allreduce(world.rank + 1)
node = world.Split_type(MPI.COMM_TYPE_SHARED)
assert (node.rank, node.size) == (int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"]))
assert os.environ["OMPI_MCA_btl_tcp_if_include"] not in ("", "lo")
print(total, os.environ["NODE_RANK"], os.uname().nodename)
"""
GLOO = """
import os
import torch
import torch.distributed as dist
assert os.environ["GLOO_SOCKET_IFNAME"] not in ("", "lo")
dist.init_process_group("gloo")
value = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(value)
print(int(value), os.environ["NODE_RANK"], os.uname().nodename)
dist.destroy_process_group()
"""
EXPECTED = ["10 0 node2\n", "10 0 node2\n", "10 1 node3\n", "10 1 node3\n"]


@pytest.fixture
def site(home: Path) -> Iterator[Site]:
    site = Site(home)
    yield site
    site.close()


def run_on_nodes(site: Site, ground: Ground, script: str, kind: str, interpreter: str) -> Any:
    """Run it on node2 and node3; the server is the tests' own, over its unix socket."""
    machines = ["node2", "node3"]
    specs = [NodeSpec(rank, ground.address(name), name) for rank, name in enumerate(machines)]
    options: dict[str, Any] = {"environment": EnvironmentSpec(interpreter=interpreter), "node_count": 2}
    first = site.prepare(script, distribution=DistributionSpec(kind, 2, 2), nodes=specs[:1], **options)
    jobs = [first, site.add_node(first, 1, nodes=to_plain(specs[1:]))]
    for job, machine in zip(jobs, machines, strict=True):
        words = ground.command(machine, [*supervisor_command(), "--run", str(job.folder)])
        job.process = subprocess.Popen(words, env=site.variables, stdin=subprocess.DEVNULL)
    return wait_all(jobs, timeout_s=120)


def printed(run: Any) -> list[str]:
    """Return the last line of each rank: before it torch may complain that there is no DNS."""
    logs = [run.logs[f"user_logs/std_log_process_0{rank}.txt"].decode() for rank in range(4)]
    return [log.splitlines(keepends=True)[-1] for log in logs]


@pytest.mark.parametrize("version", ["5", "4"])
def test_mpi_over_two_machines(site: Site, ground: Ground, version: str) -> None:
    if version == "4":
        ensure_debian_open_mpi()
    interpreter = interpreter_with(OPEN_MPI_5 if version == "5" else MPI4PY)
    run = run_on_nodes(site, ground, ALLREDUCE, "mpi", interpreter)

    assert run.status == "Completed", (run.error, run.logs)
    assert printed(run) == EXPECTED


def test_gloo_over_two_machines(site: Site, ground: Ground) -> None:
    run = run_on_nodes(site, ground, GLOO, "pytorch", interpreter_with(TORCH))

    assert run.status == "Completed", (run.error, run.logs)
    assert printed(run) == EXPECTED
