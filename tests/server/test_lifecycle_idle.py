"""When the private server may leave."""

from __future__ import annotations

from runyard.server.access.activity import Activity, should_leave


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def leaves(activity: Activity, *, idle_stop_s: float = 60.0, engine_is_idle: bool = True) -> bool:
    return should_leave(activity, idle_stop_s=idle_stop_s, engine_is_idle=lambda: engine_is_idle)


def test_it_leaves_after_the_idle_time_and_not_before() -> None:
    clock = Clock()
    activity = Activity(clock)
    clock.now += 59
    assert not leaves(activity)
    clock.now += 1
    assert leaves(activity)


def test_a_request_starts_the_time_anew() -> None:
    clock = Clock()
    activity = Activity(clock)
    clock.now += 59
    with activity.open():
        pass
    clock.now += 59

    assert not leaves(activity)
    assert activity.idle_s() == 59


def test_an_open_stream_counts_as_use_for_as_long_as_it_lasts() -> None:
    clock = Clock()
    activity = Activity(clock)
    with activity.open(), activity.open():
        clock.now += 10_000
        assert activity.open_count == 2
        assert not leaves(activity)
    assert not leaves(activity)
    clock.now += 60
    assert leaves(activity)


def test_unfinished_runs_keep_it_and_the_time_counts_from_their_end() -> None:
    clock = Clock()
    activity = Activity(clock)
    clock.now += 1000
    assert not leaves(activity, engine_is_idle=False)
    assert not leaves(activity)
    clock.now += 60
    assert leaves(activity)


def test_zero_keeps_it_for_ever() -> None:
    clock = Clock()
    activity = Activity(clock)
    clock.now += 1e9

    assert not leaves(activity, idle_stop_s=0.0)
