"""Jobs and placements for the launchers' tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from runyard.core.specs import DistributionSpec, JobSpec, NodeSpec, RunSpec
from runyard.launchers import get_launcher
from runyard.launchers.base import MpiInstallation, Placement, Process

VARIABLES = {"PATH": "/bin", "AZUREML_RUN_ID": "exp_1_ab"}


def nodes(count: int, *, gpus: tuple[str, ...] = ()) -> list[NodeSpec]:
    return [NodeSpec(rank, f"127.0.1.{rank + 1}", f"node-{rank}", list(gpus)) for rank in range(count)]


def a_job(distribution: DistributionSpec, **spec: Any) -> JobSpec:
    spec = {"script": "train.py", **spec} if "command" not in spec else spec
    return JobSpec(
        run_id="exp_1_ab",
        attempt=1,
        experiment="exp",
        workspace="ws",
        spec=RunSpec(distribution=distribution, **spec),
        snapshot_root=None,
        server={},
        token="t",
        cookie="c",
        home="/home",
        node_count=distribution.node_count,
        nodes=nodes(distribution.node_count),
    )


def lay_out(job: JobSpec, **changes: Any) -> list[Process]:
    """Return the processes of all nodes; `changes` are fields of the placement."""
    launcher = get_launcher(job.spec.distribution.kind)
    fields: dict[str, Any] = {
        "work_folder": "/runs/1/work",
        "interpreter": "/env/bin/python",
        "base_variables": VARIABLES,
        "nodes": job.nodes,
        "ports": [[7000 + 100 * rank + place for place in range(8)] for rank in range(len(job.nodes))],
        "run_folder": "/runs/1",
        "injection": "/cache/injection/1",
        "cores": 8,
        "mpi": MpiInstallation("/mpi/bin/mpirun", 5, "/mpi/bin", "/mpi/lib/libmpi.so.40", "/mpi/lib"),
        **changes,
    }
    placement = Placement(**fields)
    return [one for node in placement.nodes for one in launcher.layout(job, replace(placement, node_rank=node.rank))]
