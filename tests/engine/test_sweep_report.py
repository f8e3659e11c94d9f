"""The report of a sweep: what each child reached and when, and why it was cut short."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from runyard.core.formats.plain import to_plain
from runyard.core.statuses import RunStatus
from tests.engine.bench import Bench
from tests.engine.test_sweeps import BANDIT, end, log, start


def report(bench: Bench) -> dict[str, Any]:
    plain: dict[str, Any] = to_plain(bench.engine.show_sweep("HD_1"))
    return plain


def cut_short(bench: Bench) -> list[Any]:
    return [
        child["cut_short"] and (child["cut_short"]["kind"], child["cut_short"]["reason"])
        for child in report(bench)["children"]
    ]


def test_each_child_says_what_cut_it_short(bench: Bench) -> None:
    start(bench, **BANDIT)
    log(bench, "HD_1_0", 0.9)
    log(bench, "HD_1_1", 0.3)
    bench.engine.loop.tick()
    assert cut_short(bench)[0] is None
    assert cut_short(bench)[1][0] == "policy"
    end(bench, "HD_1_1", status=RunStatus.CANCELED)
    end(bench, "HD_1_2", status=RunStatus.FAILED)
    bench.engine.cancel("HD_1_3")
    end(bench, "HD_1_3", status=RunStatus.CANCELED)
    end(bench, "HD_1_0")
    policy = report(bench)["children"][1]["stopped"]["reason"]

    assert "its best was 0.3, worse than 0.8" in policy
    assert cut_short(bench) == [
        None,
        ("policy", policy),
        ("crash", "UserError: boom"),
        ("cancel", "It was cancelled."),
    ]


def test_children_that_the_time_limit_ended_say_so_and_those_before_it_do_not(bench: Bench) -> None:
    start(bench)
    bench.engine.cancel("HD_1_0")
    end(bench, "HD_1_0", status=RunStatus.CANCELED)
    bench.clock.seconds += (bench.run("HD_1").created_at - bench.clock.now()).total_seconds() + 604801
    bench.engine.loop.tick()
    end(bench, "HD_1_1", status=RunStatus.CANCELED)
    end(bench, "HD_1_2", 0.5)

    assert cut_short(bench) == [
        ("cancel", "It was cancelled."),
        ("cap", "max_duration_minutes is over (10080 minutes)"),
        None,
    ]


def test_children_of_a_cancelled_sweep_say_so(bench: Bench) -> None:
    start(bench)
    bench.engine.cancel("HD_1")
    bench.engine.loop.tick()
    end(bench, "HD_1_0", status=RunStatus.CANCELED)
    end(bench, "HD_1_1", 0.2)

    assert cut_short(bench) == [("cancel", "The sweep was cancelled."), None]


def test_best_values_come_with_the_time_they_were_noticed(bench: Bench) -> None:
    start(bench, **BANDIT)
    log(bench, "HD_1_0", 0.5)
    bench.engine.loop.tick()
    bench.clock.seconds += 60
    log(bench, "HD_1_1", 0.6)
    bench.engine.loop.tick()
    bench.clock.seconds += 60
    log(bench, "HD_1_0", 0.7)
    bench.engine.loop.tick()
    bench.clock.seconds += 60
    end(bench, "HD_1_0", 0.65)
    found = report(bench)
    times = [datetime.fromisoformat(best["at"]) for best in found["bests"]]

    assert [(best["run_id"], best["value"]) for best in found["bests"]] == [
        ("HD_1_0", 0.5),
        ("HD_1_1", 0.6),
        ("HD_1_0", 0.7),
    ]
    assert [(time - times[0]).total_seconds() for time in times] == [0.0, 60.0, 120.0]
    assert [child["best_at"] for child in found["children"][:2]] == [found["bests"][2]["at"], found["bests"][1]["at"]]


def test_a_child_without_a_policy_shows_its_best_while_it_runs(bench: Bench) -> None:
    start(bench)
    log(bench, "HD_1_0", 0.5, 0.8, 0.6)
    bench.engine.loop.tick()

    assert [child["best"] for child in report(bench)["children"]] == [0.8, None]
