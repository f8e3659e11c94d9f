"""Decisions of one look at a service: replicas whose node does not answer."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from runyard.core.webservices import READY, ReplicaRef, RevisionSpec, ServiceRevision, ServiceSettings, Webservice
from runyard.server.serving.rounds import AWAY_S, Memory, Sight, look

NOW = datetime(2030, 1, 1, tzinfo=timezone.utc)


class Watched:
    """A service with one replica that is ready; `look` is one round."""

    def __init__(self) -> None:
        spec = RevisionSpec(entry="score.py", snapshot_id="s")
        revision = ServiceRevision(1, NOW, spec, state=READY, replicas=[ReplicaRef("run_1", 1)], workers=1)
        self.service = Webservice(
            workspace="w",
            name="svc",
            id="i",
            run_id="run",
            created_at=NOW,
            updated_at=NOW,
            settings=ServiceSettings(),
            revisions=[revision],
            current={"": 1},
            last_replica=1,
        )
        self.memory = Memory()

    def look(self, now: float, *connected: int, gateway: bool = True) -> list[tuple[int, bool]]:
        """Return the replicas' numbers and whether they are wanted."""
        replicas = [{"name": str(number), "host": True, "ready": 1, "workers": [{"pid": 1}]} for number in connected]
        live: dict[str, Any] = {"revisions": [{"number": 1, "workers": len(connected), "replicas": replicas}]}
        sight = Sight(live if gateway else {}, lambda run_id: None, NOW, now)
        self.service = look(self.service, sight, self.memory)
        return [(ref.number, ref.is_wanted) for ref in self.service.revisions[0].replicas]


def test_a_replica_that_is_away_is_replaced_and_left_alone() -> None:
    watched = Watched()
    assert watched.look(0.0, 1) == [(1, True)]

    assert watched.look(1.0) == [(1, True)]
    assert watched.look(AWAY_S) == [(1, True)]
    assert watched.look(AWAY_S + 1.0) == [(1, False), (2, True)]
    assert watched.memory.away_since == {1: 1.0}, "its run is not cancelled"
    assert watched.look(AWAY_S + 2.0, 2) == [(1, False), (2, True)]


def test_one_that_comes_back_in_time_stays() -> None:
    watched = Watched()
    watched.look(0.0, 1)
    watched.look(1.0)

    assert watched.look(AWAY_S, 1) == [(1, True)]
    assert watched.look(AWAY_S + 5.0) == [(1, True)]
    assert watched.look(AWAY_S + 10.0, 1) == [(1, True)]


def test_one_that_comes_back_late_is_one_too_many() -> None:
    watched = Watched()
    watched.look(0.0, 1)
    watched.look(1.0)
    watched.look(AWAY_S + 1.0)

    assert watched.look(AWAY_S + 2.0, 1, 2) == [(1, False), (2, True)]
    assert watched.memory.away_since == {}, "it may be cancelled"


def test_one_that_was_never_connected_is_still_starting() -> None:
    watched = Watched()

    assert watched.look(0.0) == watched.look(AWAY_S * 10) == [(1, True)]


def test_a_gateway_that_does_not_answer_says_nothing_of_replicas() -> None:
    watched = Watched()
    watched.look(0.0, 1)

    assert watched.look(1.0, gateway=False) == [(1, True)]
    assert watched.look(AWAY_S * 2, gateway=False) == [(1, True)]
    assert watched.look(AWAY_S * 2 + 1, 1) == [(1, True)]


def test_a_replica_that_ended_is_no_loss_of_a_node() -> None:
    watched = Watched()
    watched.look(0.0, 1)
    surplus = replace(watched.service.revisions[0], replicas=[ReplicaRef("run_1", 1, is_wanted=False)])
    watched.service = replace(watched.service, revisions=[surplus])

    assert watched.look(1.0, 1) == [(1, False), (2, True)]
