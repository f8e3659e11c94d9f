"""Places of machines that do not answer are given to nobody, and the others are."""

from __future__ import annotations

from pathlib import Path

from runyard.engine.state.allocation import Capacity, QueueEntry, Stage
from runyard.engine.state.board import Board
from runyard.engine.state.spool import Spool, Spooled
from runyard.engine.state.targets import AliasBook, Target, Targets


def test_a_run_gets_the_places_that_are_open_and_waits_when_they_are_too_few() -> None:
    closed = {0}
    targets = Targets([Target("boxes", slots=3, is_pool=True)], AliasBook(Path("/nowhere")))
    board = Board(Capacity(targets, tuple, closed=lambda target: frozenset(closed)))
    for run_id, nodes in (("one", 1), ("two", 2)):
        board.add(QueueEntry(run_id, "boxes", nodes=nodes))
    first = board.take_next(now=0.0)

    assert first is not None and (first.run_id, first.slots) == ("one", (1,))
    assert board.take_next(now=0.0) is None, "one place is open and two are wanted"
    closed.clear()
    second = board.take_next(now=0.0)
    assert second is not None and second.slots == (0, 2)


def test_runs_that_an_earlier_server_placed_keep_their_places_unless_another_has_them() -> None:
    targets = Targets([Target("boxes", slots=3, is_pool=True)], AliasBook(Path("/nowhere")))
    board = Board(Capacity(targets, tuple))
    told = [("one", (2,)), ("two", (2,)), ("three", ())]
    found = [board.add(QueueEntry(run_id, "boxes", stage=Stage.HANDED, slots=slots)).slots for run_id, slots in told]

    assert found == [(2,), (0,), (1,)]


def test_the_places_of_a_run_outlive_the_server(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    spool.write("exp_1_0000abcd", Spooled({"A": "b"}))
    spool.note_handed("exp_1_0000abcd", 1, (2, 0))

    assert spool.read("exp_1_0000abcd") == Spooled({"A": "b"}, handed=1, slots=(2, 0))
