"""Which node's failure is the run's: by weight, then by arrival at the server."""

from __future__ import annotations

import json
from typing import Any

from runyard.client.calls.gang import Peer
from runyard.core.formats.plain import to_plain
from runyard.core.statuses import RunStatus
from runyard.supervisor.diagnosis.diagnosis import Finding
from runyard.supervisor.gang.gang import MOST_BYTES, decide_for_all, shortened
from runyard.supervisor.lifecycle.outcome import Outcome
from runyard.supervisor.lifecycle.stopping import CANCEL, RANK_FAILED, Stop
from runyard.supervisor.processes.exits import FailureWeight as Weight

COMPLETED = Outcome(RunStatus.COMPLETED)
OWN = Peer(0, {"host": "host-0"})


def finding(rank: int, weight: int, **more: Any) -> Finding:
    details = {"rank": rank, "node": f"host-{rank}", "log": f"{rank}.txt", "consequences": []}
    return Finding("UserError", [f"Rank {rank} said no.", f"Rank {rank} of 3 failed first."], details, weight, **more)


def failed(rank: int, weight: int, order: int, **more: Any) -> Peer:
    ended = {"status": "Failed", "finding": to_plain(finding(rank, weight, **more))}
    return Peer(rank, {"ended": ended}, failed_order=order)


def own(rank: int, weight: int, **more: Any) -> Outcome:
    return Outcome(RunStatus.FAILED, {}, finding(rank, weight, **more))


def details_of(outcome: Outcome) -> dict[str, Any]:
    assert outcome.status is RunStatus.FAILED and outcome.error is not None
    return dict(outcome.error["details"])


def test_a_cause_comes_before_consequences_whoever_spoke_first() -> None:
    found = decide_for_all(own(0, Weight.CONSEQUENCE), None, OWN._replace(failed_order=1), [failed(1, Weight.CAUSE, 2)])

    assert details_of(found)["rank"] == 1
    assert [one["rank"] for one in details_of(found)["consequences"]] == [0]
    assert found.error is not None and "Rank 0 ended because of it." in found.error["message"]


def test_of_equal_weights_the_first_to_arrive_counts() -> None:
    others = [failed(1, Weight.CAUSE, 3), failed(2, Weight.CAUSE, 1)]

    assert details_of(decide_for_all(own(0, Weight.CAUSE), None, OWN._replace(failed_order=2), others))["rank"] == 2


def test_a_lost_node_is_the_cause_of_what_its_peers_suffer() -> None:
    lost = Peer(2, {"ready": {"address": "10.0.0.3"}}, lost="no ping.", host="c", failed_order=9)
    found = decide_for_all(
        own(0, Weight.CONSEQUENCE),
        None,
        OWN._replace(failed_order=1),
        [failed(1, Weight.ABORTED, 2), lost],
    )

    assert found.error is not None and found.error["code"] == "NodeLost"
    assert found.error["message"].startswith("Node 2 (c, 10.0.0.3) was lost: no ping.")
    assert details_of(found)["failed_ranks"] == [0, 1]


def test_who_still_ran_when_all_others_had_waited_in_vain_is_the_hang() -> None:
    stop = Stop(RANK_FAILED, 0, 1.0)
    waited = own(0, Weight.CONSEQUENCE, waited=True)
    found = decide_for_all(waited, stop, OWN._replace(failed_order=1), [failed(1, Weight.STOPPED, 2)])

    assert details_of(found)["rank"] == 1
    assert found.error is not None and found.error["message"].startswith("User program did not answer")
    not_waited = decide_for_all(own(0, Weight.CONSEQUENCE), stop, OWN, [failed(1, Weight.STOPPED, 2)])
    assert details_of(not_waited)["rank"] == 0


def test_a_cancel_stays_one_and_nodes_that_ended_well_complete_the_run() -> None:
    well = Peer(1, {"ended": {"status": "Completed"}})
    canceled = Peer(1, {"ended": {"status": "Canceled"}})

    assert decide_for_all(COMPLETED, None, OWN, [well]) == COMPLETED
    assert decide_for_all(COMPLETED, None, OWN, [canceled]).status is RunStatus.CANCELED
    was_canceled = Outcome(RunStatus.CANCELED)
    assert decide_for_all(was_canceled, Stop(CANCEL, 0, 1.0), OWN, [failed(1, Weight.CAUSE, 1)]) == was_canceled


def test_whatever_a_program_wrote_fits_into_one_message() -> None:
    much = {"status": "Failed", "finding": to_plain(finding(1, Weight.CAUSE))}
    much["finding"]["details"]["last_lines"] = ["ü" * 100_000] * 5000
    short = shortened(much)

    assert len(json.dumps(short)) <= MOST_BYTES
    assert short["finding"]["about"] == ["Rank 1 said no.", "Rank 1 of 3 failed first."]
    assert shortened({"status": "Failed", "finding": {"about": ["small"]}})["finding"]["about"] == ["small"]
