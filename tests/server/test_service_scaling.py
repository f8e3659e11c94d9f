"""How many replicas there shall be, second by second: Azure's rule, and none where that is allowed."""

from __future__ import annotations

from runyard.core.webservices import RevisionSpec, Scaling
from runyard.server.serving.scaling import Load, wanted_replicas

DOWN_AFTER_S, TO_ZERO_AFTER_S = Scaling().down_after_s, Scaling().idle_s


class Watched:
    """A revision whose load is looked at; it has as many replicas as were wanted last."""

    def __init__(self, *, workers: int = 1, threads: int = 1, start: int = 1, **scaling: object) -> None:
        scaled = Scaling(is_on=True, **scaling)  # type: ignore[arg-type]  # as the test says
        self.spec = RevisionSpec(entry="score.py", workers=workers, threads=threads, scaling=scaled)
        self.load = Load()
        self.present = start
        self.requests = 0

    def look(self, now: float, asked: int = 0, new: int = 0) -> int:
        self.requests += new
        self.present = wanted_replicas(
            self.spec, self.load, now=now, present=self.present, asked=asked, requests=self.requests
        )
        return self.present


def test_as_many_as_keep_busy_workers_below_the_target() -> None:
    watched = Watched(max_replicas=10, target_utilization=70.0)

    assert [watched.look(1.0, asked=asked) for asked in (0, 1, 2, 4, 7)] == [1, 2, 3, 6, 10]
    assert watched.look(1.0, asked=1000) == 10, "the most that there may be"
    assert Watched(workers=2, threads=4, max_replicas=10, target_utilization=50.0).look(1.0, asked=8) == 2


def test_replicas_go_a_minute_after_they_were_last_needed() -> None:
    watched = Watched(max_replicas=3)
    assert watched.look(0.0, asked=9) == 3

    assert watched.look(DOWN_AFTER_S - 1) == 3
    assert watched.look(DOWN_AFTER_S, asked=2) == 3, "they were needed once more"
    assert watched.look(2 * DOWN_AFTER_S - 1) == 3
    assert watched.look(2 * DOWN_AFTER_S) == 1


def test_none_stays_where_nothing_was_asked_for_ten_minutes_and_one_comes_back() -> None:
    watched = Watched(min_replicas=0)
    assert watched.look(0.0, new=1) == 1

    assert watched.look(TO_ZERO_AFTER_S - 1) == 1
    assert watched.look(TO_ZERO_AFTER_S + DOWN_AFTER_S) == 0
    assert watched.look(TO_ZERO_AFTER_S + DOWN_AFTER_S + 5, asked=1, new=0) >= 1, "a request waits"


def test_requests_between_two_looks_keep_it() -> None:
    watched = Watched(min_replicas=0)
    for minute in range(60):
        assert watched.look(minute * 60.0, new=1) == 1

    assert watched.look(59 * 60.0 + TO_ZERO_AFTER_S + DOWN_AFTER_S) == 0


def test_a_fixed_number_does_not_follow_the_load() -> None:
    spec = RevisionSpec(entry="score.py", scaling=Scaling(replicas=4))

    assert wanted_replicas(spec, Load(), now=1e6, present=1, asked=500, requests=9) == 4
