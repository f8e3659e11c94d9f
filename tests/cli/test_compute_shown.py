"""What `runyard compute` and `runs show --plan` print about machines that somebody else runs."""

from __future__ import annotations

import pytest

from runyard.cli.commands.compute import _cluster, _nodes, _print_target
from runyard.cli.plan_report import print_handed
from runyard.core.compute import ComputeNode, ComputeRun, ComputeSpec, ComputeTarget
from runyard.sdk.compute.self_test import NodeReport, find_faults, node_count_of

NODES = [
    ComputeNode("n1", "exp_1", address="10.0.0.1", state="alloc", cpus=4, gpu_count=2, memory_bytes=8 << 30),
    ComputeNode("n2", state="down", note="Not responding"),
]
SLURM = ComputeSpec(type="Slurm", max_nodes=0, backend="slurm", options={"partition": "gpu", "env": "********"})
TARGET = ComputeTarget(
    "default",
    "cluster",
    SLURM,
    nodes=NODES,
    waiting=[ComputeRun("exp_2", 2, waits_for="Slurm job 7 waits: Resources.")],
    note="slurmctld answers late.",
)


def test_an_attached_target_is_shown_with_its_engines_nodes_and_words(capsys: pytest.CaptureFixture[str]) -> None:
    _print_target(TARGET)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]

    assert "cluster slurm:gpu" in lines and "note slurmctld answers late." in lines
    assert "n1 alloc 4 2 8.6 GB exp_1" in lines and "n2 down 0 0 Not responding" in lines
    assert "exp_2 2 Slurm job 7 waits: Resources." in lines


@pytest.mark.parametrize(
    ("spec", "alias", "said"),
    [
        (ComputeSpec(), "", ""),
        (ComputeSpec(cluster="cluster", backend="ray", options={"address": "h:1"}), "", "cluster"),
        (ComputeSpec(type="Ray", backend="ray", options={"address": "auto"}), "", "ray:auto"),
        (ComputeSpec(type="VirtualMachine", backend="ssh", options={"hosts": []}), "", "ssh"),
        (ComputeSpec(cluster="slurm:gpu", backend="slurm"), "slurm:gpu", "alias of slurm:gpu"),
    ],
)
def test_where_runs_of_a_target_are_is_said_in_few_words(spec: ComputeSpec, alias: str, said: str) -> None:
    assert _cluster(ComputeTarget("default", "x", spec, alias_of=alias)) == said


def test_a_plan_of_a_cluster_is_its_script_and_what_it_asks_for(capsys: pytest.CaptureFixture[str]) -> None:
    print_handed(
        {
            "run_id": "exp_1",
            "target": "cluster",
            "node_count": 2,
            "nodes": [],
            "run_folder": "/var/tmp/x",
            "argv": ["sbatch", "--nodes=2"],
            "script": "#!/bin/bash\n\nsrun \x1b[31mx\n",
            "resources": {"partition": "gpu"},
            "processes": [],
        }
    )
    shown = capsys.readouterr().out

    assert "sbatch --nodes=2" in shown and "  partition" in shown
    assert "\nscript\n  #!/bin/bash\n\n  srun " in shown and "\x1b" not in shown


def test_a_pool_on_an_engine_counts_the_nodes_of_its_runs() -> None:
    spec = ComputeSpec(max_nodes=4, cluster="slurm:gpu", backend="slurm")
    assert _nodes(ComputeTarget("default", "p", spec, nodes=NODES, running=[ComputeRun("exp_1", 3)])) == "3 of 4"
    assert _nodes(TARGET) == "2"


def test_all_nodes_that_can_be_used_are_tested() -> None:
    assert node_count_of(TARGET) == 1
    assert node_count_of(ComputeTarget("default", "local", ComputeSpec(max_nodes=9))) == 1
    assert node_count_of(ComputeTarget("default", "pool", ComputeSpec(max_nodes=9))) == 9


def test_what_is_wrong_with_nodes_is_told_with_what_to_do() -> None:
    fine = NodeReport(0, "a", python="3.11", runyard="1.0", disk_free_bytes=10**12)
    late = NodeReport(1, "b", runyard="0.9", disk_free_bytes=10**9, clock_offset_s=90.0, meet_error="no route")
    deaf = NodeReport(
        2,
        "c",
        runyard="1.0",
        disk_free_bytes=10**12,
        server_error="refused",
        unreachable=[{"rank": 1, "address": "10.0.0.2", "why": "timed out"}],
    )
    faults = find_faults([fine, late, deaf], nodes=4, version="1.0")

    assert [fault.partition(".")[0] for fault in faults] == [
        "Node 3 did not report",
        "The clock of node 1 (b) is 90",
        "On node 1 (b) only 1",
        "On node 1 (b) Runyard 0",
        "On node 1 (b): no route",
        "On node 2 (c) the run's code does not reach the server: refused",
        "From node 2 (c) node 1 (10",
    ]
    assert "s behind the server's" in faults[1] and "set-ntp" in faults[1] and "firewalls" in faults[-1]
    assert find_faults([fine], nodes=1, version="1.0") == []
