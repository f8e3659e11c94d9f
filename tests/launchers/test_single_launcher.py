"""The launcher `single`: the very process that would be started."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from runyard.core.errors import NotFound, SubmitRejected
from runyard.core.formats.plain import from_plain, to_plain
from runyard.core.specs import DistributionSpec, JobSpec, RunSpec
from runyard.launchers import get_launcher
from runyard.launchers.base import Placement, Process
from runyard.launchers.processes import expand
from runyard.launchers.single import SingleLauncher

VARIABLES = {"PATH": "/bin", "AZUREML_DATAREFERENCE_data": "/mnt/data", "EMPTY": ""}


def a_job(**spec: Any) -> JobSpec:
    return JobSpec(
        run_id="exp_1_ab",
        attempt=1,
        experiment="exp",
        workspace="ws",
        spec=RunSpec(**spec),
        snapshot_root=None,
        server={},
        token="t",
        cookie="c",
        home="/home",
    )


def layout(job: JobSpec) -> list[Process]:
    placement = Placement(work_folder="/runs/1/work", interpreter="/env/bin/python", base_variables=VARIABLES)
    return get_launcher(job.spec.distribution.kind).layout(job, placement)


def test_a_script_is_one_process_with_its_arguments_expanded() -> None:
    job = a_job(
        script="src/train.py", arguments=["--data", "$AZUREML_DATAREFERENCE_data/x", "${EMPTY}", "$UNKNOWN", "5$"]
    )
    [process] = layout(job)

    assert process == Process(
        rank=0,
        argv=["/env/bin/python", "src/train.py", "--data", "/mnt/data/x", "", "$UNKNOWN", "5$"],
        variables={**VARIABLES, "RUNYARD_RANK": "0", "RUNYARD_ROLE": "worker", "PWD": "/runs/1/work"},
        cwd="/runs/1/work",
        log="user_logs/std_log.txt",
    )
    assert from_plain(Process, to_plain(process)) == process


def test_a_command_goes_to_the_shell_as_it_is() -> None:
    [process] = layout(a_job(command="python train.py --x $X | tee out", arguments=["ignored"]))

    assert process.argv == ["/bin/sh", "-c", "python train.py --x $X | tee out"]


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$A", "1"),
        ("${A}", "1"),
        ("$A$A", "11"),
        ("x${A}y", "x1y"),
        ("$AB", "2"),
        ("${A", "${A"),
        ("$", "$"),
        ("$$A", "$1"),
        ("${A-x}", "${A-x}"),
        ("$Ä", "$Ä"),
        ("$RECURSIVE", "$A"),
        ("", ""),
    ],
)
def test_variables_in_arguments(text: str, expanded: str) -> None:
    assert expand(text, {"A": "1", "AB": "2", "RECURSIVE": "$A"}) == expanded


def test_neither_script_nor_command_is_refused() -> None:
    with pytest.raises(SubmitRejected, match="neither a script nor a command"):
        layout(a_job())


def test_several_processes_need_another_launcher() -> None:
    job = replace(a_job(script="train.py"), spec=RunSpec(script="t.py", distribution=DistributionSpec(node_count=2)))

    with pytest.raises(SubmitRejected, match="2 nodes"):
        SingleLauncher().layout(job, Placement(work_folder="/w", interpreter="/p", base_variables={}))


def test_an_unknown_launcher_lists_the_known_ones() -> None:
    with pytest.raises(NotFound, match="Known: mpi, pytorch, single, tensorflow"):
        get_launcher("carrier-pigeon")
