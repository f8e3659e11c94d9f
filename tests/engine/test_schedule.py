"""Who starts next, and what the others wait for."""

from __future__ import annotations

from pathlib import Path

import pytest

from runyard.core.errors import StoreUnavailable
from runyard.core.specs import RunSpec
from runyard.core.statuses import RunStatus
from runyard.engine.runs.submit import ExternalProcess
from tests.engine.bench import Bench


@pytest.fixture
def narrow(tmp_path: Path) -> Bench:
    return Bench(tmp_path, local_runs=2)


def started(bench: Bench) -> list[str]:
    return [request.run_id for request in bench.backend.submitted]


def test_a_full_target_makes_runs_wait_and_says_for_whom(narrow: Bench) -> None:
    for at in range(1, 5):
        narrow.submit(f"exp_{at}")

    third, fourth = narrow.run("exp_3"), narrow.run("exp_4")
    assert started(narrow) == ["exp_1", "exp_2"]
    assert third.status is RunStatus.QUEUED and third.attempt == 0
    assert narrow.engine.explained(third).waits_for == (
        "It waits for a free place on `local`: 2 of 2 taken by `exp_1`, `exp_2`. It is the next."
    )
    assert "In front of it: `exp_3`." in narrow.engine.explained(fourth).waits_for


def test_the_oldest_waiting_run_starts_when_a_place_is_free(narrow: Bench) -> None:
    for at in range(1, 5):
        narrow.submit(f"exp_{at}")

    narrow.report(RunStatus.COMPLETED, "exp_1")
    narrow.engine.loop.tick()

    assert started(narrow) == ["exp_1", "exp_2", "exp_3"]
    assert narrow.engine.explained(narrow.run("exp_4")).waits_for.endswith("It is the next.")
    assert narrow.engine.explained(narrow.run("exp_1")).waits_for == ""


def test_the_queue_keeps_its_order_across_a_restart(narrow: Bench) -> None:
    for at in range(1, 5):
        narrow.submit(f"exp_{at}")

    narrow.restart()
    narrow.report(RunStatus.COMPLETED, "exp_1")
    narrow.report(RunStatus.COMPLETED, "exp_2")
    narrow.engine.loop.tick()

    assert started(narrow) == ["exp_1", "exp_2", "exp_3", "exp_4"]


def test_a_run_that_cannot_be_handed_over_does_not_hold_up_the_others(narrow: Bench) -> None:
    narrow.backend.fault = OSError("not now")
    narrow.submit("exp_1")
    narrow.backend.fault = None

    narrow.submit("exp_2")

    assert started(narrow) == ["exp_2"]


def test_watched_runs_take_no_place(narrow: Bench) -> None:
    for at in range(1, 4):
        narrow.engine.register_external_run(
            narrow.new(f"note_{at}", type=None, spec=RunSpec()), ExternalProcess(at, at)
        )
    narrow.submit("exp_1")
    narrow.submit("exp_2")

    assert started(narrow) == ["note_1", "note_2", "note_3", "exp_1", "exp_2"]


def test_a_store_that_fails_during_the_hand_over_delays_the_run_only(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = bench.store.start_attempt, []

    def fails_once(*args: object, **more: object) -> object:
        calls.append(args)
        if len(calls) == 1:
            raise StoreUnavailable("The disk is full.")
        return real(*args, **more)  # type: ignore[arg-type]  # passed through

    monkeypatch.setattr(bench.store, "start_attempt", fails_once)
    run = bench.submit()
    assert run.status is RunStatus.NOT_STARTED and started(bench) == []

    bench.pass_time(3)

    assert started(bench) == ["exp_1"] and bench.run().attempt == 1


def test_the_engine_is_idle_only_without_waiting_or_live_runs(narrow: Bench) -> None:
    assert narrow.engine.is_idle()
    for at in range(1, 4):
        narrow.submit(f"exp_{at}")
    assert narrow.engine.live_runs() == 3 and not narrow.engine.is_idle()

    for at in range(1, 4):
        narrow.engine.loop.tick()
        narrow.report(RunStatus.COMPLETED, f"exp_{at}")

    assert narrow.engine.is_idle()


def test_a_child_of_a_running_run_starts_in_its_parents_place(tmp_path: Path) -> None:
    """The parent waits for it: with one place, both would wait for ever."""
    bench = Bench(tmp_path, local_runs=1)
    bench.submit("parent")
    bench.submit("stranger")
    for child in ("child_1", "child_2"):
        bench.submit(child, parent_id="parent")
    assert started(bench) == ["parent", "child_1"]
    assert bench.engine.explained(bench.run("child_2")).waits_for.startswith(
        "It waits for a free place on `local`: 1 of 1"
    )

    bench.submit("grandchild", parent_id="child_1")
    assert started(bench)[2:] == ["grandchild"]
    for run_id, next_one in (("grandchild", None), ("child_1", "child_2"), ("child_2", None), ("parent", "stranger")):
        bench.report(RunStatus.COMPLETED, run_id)
        bench.engine.loop.tick()
        assert started(bench)[-1] == (next_one or started(bench)[-1])
        assert started(bench).count("stranger") == int(run_id == "parent")


def test_a_lent_place_is_lent_once_after_a_restart_too(tmp_path: Path) -> None:
    bench = Bench(tmp_path, local_runs=1)
    bench.submit("parent")
    bench.submit("child_1", parent_id="parent")
    bench.submit("child_2", parent_id="parent")
    bench.restart()
    bench.engine.loop.tick()
    assert started(bench) == ["parent", "child_1"]

    bench.report(RunStatus.COMPLETED, "child_1")
    bench.engine.loop.tick()
    assert started(bench) == ["parent", "child_1", "child_2"]
