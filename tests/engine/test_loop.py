"""The background thread: sleeps without work, wakes at once for new work, ends when told."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from runyard.core.statuses import RunStatus
from runyard.engine import loop
from tests.engine.bench import Bench
from tests.waiting import wait_for


def test_a_freed_place_is_taken_at_once_by_the_next_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "TICK_S", 600.0)  # no round comes by itself
    bench = Bench(tmp_path, local_runs=1)
    bench.engine.loop.start()
    bench.submit("exp_1")
    bench.submit("exp_2")

    bench.report(RunStatus.COMPLETED, "exp_1")
    wait_for(lambda: bench.backend.jobs_of("exp_2"), what="the second run starts")
    bench.engine.stop()


def test_stop_ends_the_thread_and_lets_the_backends_go(bench: Bench) -> None:
    bench.engine.loop.start()

    bench.engine.stop()
    bench.engine.stop()

    assert bench.backend.is_closed
    assert "engine-loop" not in [thread.name for thread in threading.enumerate()]


def test_a_round_that_fails_does_not_end_the_loop(bench: Bench) -> None:
    bench.submit()
    bench.clock.seconds += 10
    bench.backend.poll = None  # type: ignore[method-assign, assignment]  # whatever a backend can do wrong
    bench.engine.loop.start()
    del bench.backend.poll
    bench.clock.seconds += 10
    bench.submit("exp_2")

    wait_for(lambda: bench.backend.jobs_of("exp_2"), what="the loop goes on")
    bench.engine.stop()
