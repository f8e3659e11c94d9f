"""Places and GPUs over any sequence of submits and ends: never given twice, and nobody waits for ever."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from runyard.engine.state.allocation import Capacity, QueueEntry, Stage
from runyard.engine.state.board import Board
from runyard.engine.state.targets import AliasBook, Target, Targets

DEVICES = ("0", "1", "2")
TARGETS = {"pool": 3, "small": 1, "free": None}

jobs = st.builds(
    QueueEntry,
    run_id=st.just(""),
    target=st.sampled_from(sorted(TARGETS)),
    nodes=st.integers(1, 3),
    gpus=st.integers(0, 3),
    shares_gpus=st.booleans(),
)
steps = st.lists(st.one_of(jobs, st.integers(0, 5)), max_size=30)


def a_board() -> Board:
    known = [Target(name, slots=places, is_pool=places is not None) for name, places in TARGETS.items()]
    targets = Targets(known, AliasBook(Path("/nowhere")))
    return Board(Capacity(targets, lambda: DEVICES))


def start_all(board: Board) -> None:
    while board.take_next(now=0.0) is not None:
        check(board)


def check(board: Board) -> None:
    running = [job for job in board.jobs() if job.stage is not Stage.WAITING]
    for name, places in TARGETS.items():
        slots = [slot for job in running if job.target == name for slot in job.slots]
        if places is not None:
            assert len(slots) == len(set(slots)) and set(slots) <= set(range(places))
    owned = Counter(device for job in running for device in job.owned_gpus)
    assert set(owned) <= set(DEVICES) and all(count == 1 for count in owned.values())
    assert all(len(job.devices) == job.gpus for job in running)


def fits(job: QueueEntry) -> bool:
    places = TARGETS[job.target]
    return places is None or job.nodes <= places


@given(steps)
def test_nothing_is_given_twice_and_nobody_waits_for_ever(taken: list[QueueEntry | int]) -> None:
    board = a_board()
    for at, step in enumerate(taken):
        if isinstance(step, QueueEntry):
            board.add(
                QueueEntry(f"run-{at}", step.target, nodes=step.nodes, gpus=step.gpus, shares_gpus=step.shares_gpus)
            )
        else:
            running = [job for job in board.jobs() if job.stage is not Stage.WAITING]
            if running:
                board.remove(running[step % len(running)].run_id)
        start_all(board)

    for _ in taken:
        for job in board.jobs():
            if job.stage is not Stage.WAITING:
                board.remove(job.run_id)
        start_all(board)
    assert [job.run_id for job in board.jobs() if fits(job) and job.stage is Stage.WAITING] == []


@given(st.lists(jobs, max_size=12))
def test_runs_of_one_target_without_gpus_start_in_the_order_they_came(taken: list[QueueEntry]) -> None:
    board, order = a_board(), []
    wanted = [QueueEntry(f"run-{at}", "pool", nodes=job.nodes) for at, job in enumerate(taken)]
    for job in wanted:
        board.add(job)
    while board.jobs():
        while (started := board.take_next(now=0.0)) is not None:
            order.append(started.run_id)
        board.remove(order[len(wanted) - len(board.jobs())])

    assert order == [job.run_id for job in wanted]
