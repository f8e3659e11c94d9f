"""`runyard compute test`: a tiny run on each node of a target, and what its nodes found."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, List

from runyard.core.compute import LOCAL, ComputeTarget
from runyard.sdk.compute.node_check import METRIC, UnreachableNode
from runyard.sdk.compute.target import is_unusable
from runyard.sdk.run_config.run_configuration import PyTorchConfiguration
from runyard.sdk.run_config.script_run_config import ScriptRunConfig
from runyard.sdk.runs.run import Run
from runyard.sdk.workspaces.experiment import Experiment

if TYPE_CHECKING:
    from runyard.sdk.workspaces.workspace import Workspace

EXPERIMENT = "compute-test"
SCRIPT = "compute_test.py"
TIME_LIMIT_S = 300
MOST_SKEW_S, LEAST_DISK_BYTES = 2.0, 5 * 10**9
_SOURCE = "from runyard.sdk.compute.node_check import main\n\nmain()\n"
_OPEN = (
    "Runs over several nodes need TCP between them on all ports: look at firewalls, and at which address a node has."
)


@dataclass(frozen=True)
class NodeReport:
    """What one node found."""

    rank: int
    host: str = ""
    address: str = ""
    python: str = ""
    runyard: str = ""
    cpus: int = 0
    gpus: List[str] = field(default_factory=list)
    disk_free_bytes: int = 0
    clock_offset_s: float = 0.0  # the server's clock, less this node's
    server_s: float = 0.0
    server_error: str = ""
    meet_error: str = ""
    unreachable: List[UnreachableNode] = field(default_factory=list)
    absent: List[int] = field(default_factory=list)


def node_count_of(target: ComputeTarget) -> int:
    """Return on how many nodes a target is tested: all that can be used."""
    if target.name == LOCAL:
        return 1
    if not target.spec.backend:
        return max(1, target.spec.max_nodes)
    usable = sum(not is_unusable(node) for node in target.nodes)
    return max(1, min(usable, target.spec.max_nodes or usable))


def submit_test(workspace: Workspace, target: str, nodes: int) -> Run:
    """Start the run; it is an ordinary one of experiment `compute-test`."""
    with tempfile.TemporaryDirectory(prefix="runyard-compute-test-") as folder:
        with open(os.path.join(folder, SCRIPT), "w", encoding="utf-8") as file:
            file.write(_SOURCE)
        config = ScriptRunConfig(
            folder,
            SCRIPT,
            compute_target=target,
            distributed_job_config=PyTorchConfiguration(node_count=nodes) if nodes > 1 else None,
            max_run_duration_seconds=TIME_LIMIT_S,
        )
        # The test only counts GPUs, so it must not wait for free ones.
        config.run_config.environment_variables["RUNYARD_GPUS"] = "0"
        return Experiment(workspace, EXPERIMENT).submit(config)


def read_reports(run: Run) -> List[NodeReport]:
    """Return what the nodes found, by rank; those that did not say anything are missing."""
    found = [json.loads(value) for name, value in run.get_metrics().items() if name.startswith(METRIC)]
    known = set(NodeReport.__dataclass_fields__)
    reports = [NodeReport(**{key: value for key, value in one.items() if key in known}) for one in found]
    return sorted(reports, key=lambda report: report.rank)


def find_faults(reports: List[NodeReport], *, nodes: int, version: str) -> List[str]:
    """Return what is wrong and what to do about it, one sentence or two each."""
    missing = sorted(set(range(nodes)) - {report.rank for report in reports})
    found = [f"Node {rank} did not report. `runyard runs logs` of the run says how far it came." for rank in missing]
    for report in reports:
        found += _node_faults(report, version)
    return found


def _node_faults(report: NodeReport, version: str) -> List[str]:
    host = f"node {report.rank} ({report.host})"
    found = []
    if report.server_error:
        found.append(f"On {host} the run's code does not reach the server: {report.server_error}.")
    if abs(report.clock_offset_s) > MOST_SKEW_S:
        side = "behind" if report.clock_offset_s > 0 else "ahead of"
        found.append(
            f"The clock of {host} is {abs(report.clock_offset_s):.1f} s {side}"
            " the server's. Times of its metrics are wrong: set up NTP there (`timedatectl set-ntp true`)."
        )
    if report.disk_free_bytes < LEAST_DISK_BYTES:
        gigabytes = report.disk_free_bytes / 1e9
        found.append(
            f"On {host} only {gigabytes:.1f} GB are free for work folders and environments. Free some, or attach the "
            "target with a node_home on a bigger disk."
        )
    if report.runyard != version:
        found.append(f"On {host} Runyard {report.runyard} runs and the server is {version}. Attach the target again.")
    return found + _network_faults(report, host)


def _network_faults(report: NodeReport, host: str) -> List[str]:
    found = [f"On {host}: {report.meet_error}. {_OPEN}"] if report.meet_error else []
    found += [f"Node {rank} did not come to the others within a minute. {_OPEN}" for rank in report.absent]
    for other in report.unreachable:
        found.append(f"From {host} node {other['rank']} ({other['address']}) is not reached: {other['why']}. {_OPEN}")
    return found
