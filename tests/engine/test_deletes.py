"""Deleting: a server that is killed in between makes it good at its next start."""

from __future__ import annotations

import queue
import threading
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from runyard.core.errors import Conflict, NotFound, StoreUnavailable
from runyard.core.statuses import RunStatus
from runyard.engine.deletes import AGAIN_S, Deleted, Purging
from runyard.engine.runs.streams import stream_key
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
        bench.engine.delete_run("exp_1", now=True)
    assert [key.split("/")[0] for key in bench.artifacts.iter_keys("")] == ["streams"]
    assert bench.engine.delete_run("exp_1", now=True).deleted == ["exp_1"]
    assert list(bench.artifacts.iter_keys("")) == []


def test_ids_that_differ_in_the_last_letter_only_keep_their_own_logs(bench: Bench) -> None:
    longest = "r" * 255
    for last in "ab":
        bench.store.create_run(bench.new(longest + last, key=last))
        bench.store.set_status(longest + last, RunStatus.COMPLETED)
        bench.artifacts.append(stream_key(longest + last, 1, "log"), 0, b"text")
    bench.engine.delete_run(longest + "a", now=True)

    assert list(bench.artifacts.iter_keys("")) == [stream_key(longest + "b", 1, "log")]


def test_children_are_deleted_with_their_logs_unless_one_lives(bench: Bench) -> None:
    bench.submit("top")
    bench.submit("child", parent_id="top")
    bench.report(RunStatus.COMPLETED, "top")
    bench.ship(log_frame(b"text"), run_id="child")

    for now in (False, True):
        with pytest.raises(Conflict, match="`child`"):
            bench.engine.delete_run("top", now=now)
    bench.report(RunStatus.COMPLETED, "child")
    assert sorted(bench.engine.delete_run("top", now=True).deleted) == ["child", "top"]
    assert list(bench.artifacts.iter_keys("")) == []
    with pytest.raises(NotFound):
        bench.ship(log_frame(b"late"), run_id="child")
    assert list(bench.artifacts.iter_keys("")) == []


def streams(bench: Bench) -> list[str]:
    return [key.split("/")[1] for key in bench.artifacts.iter_keys("streams/")]


def test_a_deleted_run_keeps_its_logs_until_its_time_is_over(bench: Bench) -> None:
    finish(bench, "exp_1")
    finish(bench, "exp_2")
    deleted = bench.engine.delete_run("exp_1")

    assert deleted.deleted == ["exp_1"] and deleted.undo_until == bench.clock.now() + timedelta(days=1)
    assert bench.changes[-1] == "exp_1" and bench.store.find_run("exp_1") is None
    with pytest.raises(NotFound):
        bench.ship(log_frame(b"late"), run_id="exp_1")
    bench.clock.seconds += 86_399
    assert bench.engine.purge() == [] and streams(bench) == ["exp_1", "exp_2"]
    bench.clock.seconds += 1
    bench.restart()
    assert bench.engine.purge() == ["exp_1"] and streams(bench) == ["exp_2"]
    assert bench.store.find_hidden("exp_1") is None and bench.engine.purge() == []


def test_a_restored_run_is_whole_and_not_purged(bench: Bench) -> None:
    finish(bench, "exp_1")
    bench.engine.delete_run("exp_1")
    bench.restart()
    assert bench.engine.restore_run("exp_1") == ["exp_1"]
    assert bench.engine.restore_run("exp_1") == []
    bench.clock.seconds += 100_000

    assert bench.engine.purge() == [] and streams(bench) == ["exp_1"]
    assert bench.run().status is RunStatus.COMPLETED


def test_a_server_killed_before_a_purge_was_committed_leaves_the_deleted_run_restorable(bench: Bench) -> None:
    finish(bench, "exp_1")
    bench.engine.delete_run("exp_1")
    bench.artifacts.put("deleting/exp_1", b"exp_1")
    bench.restart()

    assert streams(bench) == ["exp_1"] and list(bench.artifacts.iter_keys("deleting/")) == []
    assert bench.engine.restore_run("exp_1") == ["exp_1"]


def test_a_deleted_run_is_let_go_at_once_when_asked(bench: Bench) -> None:
    finish(bench, "exp_1")
    bench.engine.delete_run("exp_1")
    assert bench.engine.delete_run("exp_1", now=True).deleted == ["exp_1"]

    assert streams(bench) == [] and bench.store.find_hidden("exp_1") is None
    with pytest.raises(NotFound, match="`exp_1`"):
        bench.engine.delete_run("exp_1", now=True)


def test_without_time_to_undo_a_delete_is_for_good(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.settings = replace(bench.settings, undo_s=0)
    bench.restart()
    finish(bench, "exp_1")

    assert bench.engine.delete_run("exp_1") == Deleted(["exp_1"], None)
    assert list(bench.artifacts.iter_keys("")) == [] and bench.store.find_hidden("exp_1") is None


def test_a_deleted_experiment_is_purged_or_let_go_with_its_runs(bench: Bench) -> None:
    finish(bench, "exp_1")
    bench.submit("other_1", experiment="other")
    bench.report(RunStatus.COMPLETED, "other_1")
    for name in ("exp", "other"):
        bench.engine.delete_experiment("default", name)

    assert [one.name for one in bench.store.list_experiments("default", view="DeletedOnly")] == ["exp", "other"]
    assert bench.engine.delete_experiment("default", "other", now=True).deleted == ["other_1"]
    assert bench.engine.restore_experiment("default", "exp") == ["exp_1"]
    bench.engine.delete_experiment("default", "exp")
    bench.clock.seconds += 86_400
    assert bench.engine.purge() == ["exp_1"] and streams(bench) == []
    assert bench.store.list_experiments("default", view="DeletedOnly") == []
    bench.engine.delete_workspace("default")


def test_a_workspace_goes_with_what_is_deleted_in_it(bench: Bench) -> None:
    for run_id in ("exp_1", "exp_2"):
        finish(bench, run_id)
    bench.engine.delete_run("exp_1")
    bench.submit("other_1", experiment="other")
    bench.report(RunStatus.COMPLETED, "other_1")
    bench.engine.delete_experiment("default", "other")

    assert sorted(bench.engine.delete_workspace("default")) == ["exp_1", "exp_2", "other_1"]
    assert list(bench.artifacts.iter_keys("")) == [] and bench.store.find_next_purge() is None


def test_the_thread_lets_go_what_is_due_and_waits_for_the_rest() -> None:
    now = datetime(2026, 1, 1, tzinfo=timezone.utc)
    due: list[datetime] = []
    rounds: queue.Queue[int] = queue.Queue()

    def purge() -> None:
        due[:] = [at for at in due if at > now]
        rounds.put(len(due))

    purging = Purging(purge, lambda: min(due, default=None), lambda: now)
    purging.note()
    purging.start()
    assert rounds.empty()  # not before the start, and nothing is deleted
    due += [now, now + timedelta(hours=5)]
    purging.note()
    assert rounds.get(timeout=10) == 1
    due.append(now)
    purging.note()
    assert rounds.get(timeout=10) == 1
    purging.stop()
    purging.note()
    assert rounds.empty() and "purging" not in [thread.name for thread in threading.enumerate()]


def test_what_cannot_be_purged_now_is_tried_again() -> None:
    def fail() -> None:
        raise StoreUnavailable("The disk is full.")

    now = datetime(2026, 1, 1, tzinfo=timezone.utc)
    assert Purging(fail, lambda: now, lambda: now)._round() == AGAIN_S
    assert Purging(lambda: None, lambda: now, lambda: now)._round() == AGAIN_S
    assert Purging(lambda: None, lambda: now + timedelta(seconds=9), lambda: now)._round() == 9
    assert Purging(lambda: None, lambda: None, lambda: now)._round() is None


def test_children_leave_the_lists_with_an_archived_run(bench: Bench) -> None:
    bench.submit("top")
    bench.submit("child", parent_id="top")
    run = bench.engine.archive("top", True)

    assert run.archived_at is not None and bench.run("child").archived_at is not None
    assert bench.changes[-2:] == ["child", "top"]
    bench.engine.cancel("top")
    assert bench.run("child").desired == "cancel"  # out of the lists, not out of reach
    bench.engine.archive("top", False)
    assert bench.run("child").archived_at is None


@pytest.mark.parametrize("days", [2, 30, 400, -1])
def test_a_wall_clock_that_jumps_for_a_moment_purges_nothing(bench: Bench, days: int) -> None:
    """L3: it is wrong for some seconds, and something is deleted meanwhile."""
    for run_id in ("exp_1", "exp_2"):
        finish(bench, run_id)
    bench.engine.delete_run("exp_1")
    bench.clock.seconds += 3600
    bench.clock.jump(days=days)
    bench.engine.delete_run("exp_2")
    for _ in range(5):
        bench.clock.seconds += 2
        assert bench.engine.purge() == []
    bench.clock.jump(days=-days)
    bench.clock.seconds += 3600

    assert bench.engine.purge() == [] and streams(bench) == ["exp_1", "exp_2"]
    assert bench.engine.restore_run("exp_1") == ["exp_1"]


def test_a_server_that_starts_with_a_wrong_clock_purges_nothing(bench: Bench) -> None:
    finish(bench, "exp_1")
    bench.engine.delete_run("exp_1")
    for _ in range(3):
        bench.clock.jump(days=2)
        bench.restart()
        bench.clock.seconds += 600
        assert bench.engine.purge() == []
        bench.clock.jump(days=-2)
        bench.restart()

    assert bench.engine.purge() == [] and bench.engine.restore_run("exp_1") == ["exp_1"]


def test_what_was_deleted_before_a_server_was_away_goes_after_a_whole_day_of_service(bench: Bench) -> None:
    finish(bench, "exp_1")
    bench.engine.delete_run("exp_1")
    bench.clock.jump(days=30)  # for all that the next server knows
    bench.restart()
    served_h = 0
    while bench.engine.purge() == []:
        bench.clock.seconds += 3600
        served_h += 1
        if served_h % 5 == 0:
            bench.engine.horizon.save()
            bench.restart()
        assert served_h < 100

    assert served_h == 24
