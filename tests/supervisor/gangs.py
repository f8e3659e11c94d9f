"""Jobs whose nodes have supervisors of their own, each with its run folder, on loopback addresses of this machine."""

from __future__ import annotations

import os
import signal
from glob import glob
from typing import Any

from runyard.core.formats.plain import to_plain
from runyard.core.specs import DistributionSpec, NodeSpec
from tests.supervisor.supervised import Job, Site
from tests.waiting import wait_for


def node_of(rank: int) -> NodeSpec:
    return NodeSpec(rank, f"127.0.1.{rank + 1}", f"host-{rank}")


def prepare_gang(site: Site, script: str, distribution: DistributionSpec, **options: Any) -> list[Job]:
    count = distribution.node_count
    first = site.prepare(script, distribution=distribution, node_count=count, nodes=[node_of(0)], **options)
    return [first, *(site.add_node(first, rank, nodes=to_plain([node_of(rank)])) for rank in range(1, count))]


def start_gang(site: Site, script: str, distribution: DistributionSpec, **options: Any) -> list[Job]:
    return [job.start() for job in prepare_gang(site, script, distribution, **options)]


def wait_all(jobs: list[Job], *, timeout_s: float = 60.0) -> Any:
    """Wait until the run has ended and every supervisor has left."""
    run = jobs[0].wait(timeout_s=timeout_s)
    for job in jobs:
        assert job.process is not None
        job.process.wait(timeout_s)
        assert job.living() == []
    return run


def all_met(jobs: list[Job], per_node: int = 1) -> None:
    """Wait until every rank said that it is there, by a file in its work folder."""
    wait_for(lambda: all(len(glob(str(job.folder / "work" / "here_*"))) == per_node for job in jobs))


def kill_supervisor(job: Job) -> None:
    """Return when the next one is there."""
    victim = job.supervisor_pid()
    os.kill(victim, signal.SIGKILL)
    wait_for(lambda: job.find_supervisor() not in (0, victim))
