"""Deleting: a server that is killed in between makes it good at its next start."""

from __future__ import annotations

from pathlib import Path

import pytest

from runyard.core.errors import Conflict, NotFound, StoreUnavailable
from runyard.core.statuses import RunStatus
from runyard.engine.streams import stream_key
from tests.engine.bench import Bench, log_frame


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def finish(bench: Bench, run_id: str) -> None:
    bench.submit(run_id)
    bench.ship(log_frame(b"text"), run_id=run_id)
    bench.report(RunStatus.COMPLETED, run_id)


def test_logs_that_a_killed_server_left_are_deleted_at_the_next_start(bench: Bench) -> None:
    finish(bench, "exp_1")
    finish(bench, "exp_2")
    bench.artifacts.put("deleting/exp_1", b"exp_1")
    bench.store.delete_run("exp_1")
    bench.restart()

    assert [key.split("/")[1] for key in bench.artifacts.iter_keys("")] == ["exp_2"]


def test_a_delete_that_was_not_committed_is_none(bench: Bench) -> None:
    finish(bench, "exp_1")
    bench.artifacts.put("deleting/exp_1", b"exp_1")
    bench.restart()

    assert [key.split("/")[0] for key in bench.artifacts.iter_keys("")] == ["streams"]
    assert bench.run().status is RunStatus.COMPLETED


def test_a_store_that_fails_leaves_the_run_whole(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    finish(bench, "exp_1")

    def full(run_id: str) -> list[str]:
        raise StoreUnavailable("The disk is full.")

    with monkeypatch.context() as patch, pytest.raises(StoreUnavailable):
        patch.setattr(bench.store, "delete_run", full)
        bench.engine.delete_run("exp_1")
    assert [key.split("/")[0] for key in bench.artifacts.iter_keys("")] == ["streams"]
    assert bench.engine.delete_run("exp_1") == ["exp_1"] and list(bench.artifacts.iter_keys("")) == []


def test_ids_that_differ_in_the_last_letter_only_keep_their_own_logs(bench: Bench) -> None:
    longest = "r" * 255
    for last in "ab":
        bench.store.create_run(bench.new(longest + last, key=last))
        bench.store.set_status(longest + last, RunStatus.COMPLETED)
        bench.artifacts.append(stream_key(longest + last, 1, "log"), 0, b"text")
    bench.engine.delete_run(longest + "a")

    assert list(bench.artifacts.iter_keys("")) == [stream_key(longest + "b", 1, "log")]


def test_children_are_deleted_with_their_logs_unless_one_lives(bench: Bench) -> None:
    bench.submit("top")
    bench.submit("child", parent_id="top")
    bench.report(RunStatus.COMPLETED, "top")
    bench.ship(log_frame(b"text"), run_id="child")

    with pytest.raises(Conflict, match="`child`"):
        bench.engine.delete_run("top")
    bench.report(RunStatus.COMPLETED, "child")
    assert sorted(bench.engine.delete_run("top")) == ["child", "top"]
    assert list(bench.artifacts.iter_keys("")) == []
    with pytest.raises(NotFound):
        bench.ship(log_frame(b"late"), run_id="child")
    assert list(bench.artifacts.iter_keys("")) == []
