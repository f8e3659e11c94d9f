from __future__ import annotations

from pathlib import Path
from typing import Any

from my_runyard.replicas import ReplicasLauncher

from runyard.core.specs import DistributionSpec, JobSpec, NodeSpec, RunSpec
from runyard.launchers import get_launcher
from runyard.launchers.base import Placement

SCRIPT = """
import os
open(os.path.join({folder!r}, os.environ["REPLICA"]), "w").write(os.environ["REPLICAS"])
"""


def test_each_node_lays_out_its_own_copies() -> None:
    spec = RunSpec(script="train.py", distribution=DistributionSpec("replicas", node_count=2, processes_per_node=3))
    job = JobSpec("exp_1_ab", 1, "exp", "ws", spec, None, {}, "token", "cookie", "/home")
    nodes = [NodeSpec(0, "10.0.0.1", "a"), NodeSpec(1, "10.0.0.2", "b")]
    placement = Placement("/work", "/env/bin/python", {"PATH": "/bin"}, node_rank=1, nodes=nodes)

    processes = get_launcher("replicas").layout(job, placement)

    assert isinstance(get_launcher("replicas"), ReplicasLauncher)
    assert [(one.rank, one.local_rank, one.variables["REPLICA"]) for one in processes] == [
        (3, 0, "3"),
        (4, 1, "4"),
        (5, 2, "5"),
    ]
    assert {one.variables["REPLICAS"] for one in processes} == {"6"}
    assert processes[0].argv == ["/env/bin/python", "train.py"]


def test_a_run_starts_all_copies(bench: Any, tmp_path: Path) -> None:
    job = bench.job(
        SCRIPT.format(folder=str(tmp_path)), distribution=DistributionSpec("replicas", processes_per_node=3)
    )
    bench.backend.submit(bench.backend.plan(job))
    bench.wait_for_end(job.run_id)

    assert bench.status(job.run_id) == "Completed", bench.server.runs[job.run_id].error
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"0": "3", "1": "3", "2": "3"}
