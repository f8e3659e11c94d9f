"""How a process finds the run it belongs to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runyard.runtime.context import find_context, get_writer
from tests.runtime.journals import read_segments, read_values


def variables(run_folder: Path, **more: str) -> dict[str, str]:
    return {"RUNYARD_RUN_FOLDER": str(run_folder), "RUNYARD_RUN_ID": "exp_1_ab", **more}


def test_outside_of_a_run_there_is_no_context(run_folder: Path) -> None:
    assert find_context({}) is None
    assert find_context({"RUNYARD_RUN_FOLDER": str(run_folder)}) is None
    assert find_context(variables(run_folder / "gone")) is None


def test_the_context_is_read_from_the_variables(run_folder: Path) -> None:
    (run_folder / "job.json").write_text(json.dumps({"run_id": "exp_1_ab", "token": "t"}))
    context = find_context(
        variables(run_folder, RUNYARD_ATTEMPT="2", RUNYARD_RANK="3", RUNYARD_ROLE="ps", RUNYARD_HOME="/h")
    )

    assert context is not None
    assert (context.run_id, context.attempt, context.rank, context.role, context.home) == ("exp_1_ab", 2, 3, "ps", "/h")
    assert context.read_job()["token"] == "t"


def test_odd_numbers_fall_back_to_the_first_attempt_and_rank(run_folder: Path) -> None:
    context = find_context(variables(run_folder, RUNYARD_ATTEMPT="x", RUNYARD_RANK=""))

    assert context is not None
    assert (context.attempt, context.rank, context.role) == (1, 0, "worker")


LAUNCHERS = {
    "none": ({}, 1),
    "torchrun": ({"LOCAL_RANK": "1", "WORLD_SIZE": "4", "TORCHELASTIC_RUN_ID": "x"}, 3),
    "deepspeed": ({"LOCAL_RANK": "1", "WORLD_SIZE": "4", "CROSS_RANK": "0"}, 3),
    "too small a world": ({"LOCAL_RANK": "1", "WORLD_SIZE": "2"}, 1),
    "no number": ({"LOCAL_RANK": "x", "WORLD_SIZE": "4"}, 1),
}


@pytest.mark.parametrize(("more", "rank"), LAUNCHERS.values(), ids=LAUNCHERS.keys())
def test_a_process_of_a_launcher_has_the_rank_that_it_was_given(
    run_folder: Path, more: dict[str, str], rank: int
) -> None:
    context = find_context(variables(run_folder, RUNYARD_RANK="1", RANK="3", **more))

    assert context is not None
    assert context.rank == rank


def test_one_writer_per_process_and_run(run_folder: Path) -> None:
    context = find_context(variables(run_folder))
    assert context is not None
    writer = context.writer()
    assert context.writer() is writer
    child = get_writer(str(run_folder), "child_run")
    assert child is not writer
    writer.log("loss", 1.0)
    child.log("loss", 2.0)
    child.close()
    again = get_writer(str(run_folder), "child_run")
    again.log("loss", 3.0)
    for open_writer in (writer, again):
        open_writer.close()

    by_run = sorted((segment.header["run"], [p.value for p in segment.points]) for segment in read_segments(run_folder))
    assert by_run == [("child_run", [2.0]), ("child_run", [3.0]), ("exp_1_ab", [1.0])]
    assert sorted(read_values(run_folder, "loss")) == [1.0, 2.0, 3.0]
