"""Keys that make a repeated request the same run belong to who sent them: no token by somebody else's key."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest

from runyard.client.client import Client
from runyard.core.errors import Conflict, InvalidArgument, NotAllowed
from runyard.core.formats import journal
from runyard.core.names import make_sweep_id, make_uuid
from runyard.core.records import NewRun
from runyard.core.specs import RunSpec, SweepSpec
from tests.engine.bench import header, journal_frame
from tests.rights.conftest import CLUSTER, HERS, Team
from tests.server.conftest import serve


def post(by: Client, *, launch: bool = False, spec: RunSpec | None = None, **fields: Any) -> Any:
    named = {"key": make_uuid(), "id": f"k-{make_uuid()}", "workspace": HERS, "experiment": "exp", "type": None}
    return by.runs.create(NewRun(**{**named, "spec": spec or RunSpec(), **fields}), launch=launch)


def sweep_of(team: Team, by: Client) -> str:
    space = {"lr": ["choice", [[0.1, 0.2, 0.3, 0.4]]]}
    spec = SweepSpec(
        sampling="RANDOM", space=space, primary_metric="loss", goal="MINIMIZE", max_total_runs=4, max_concurrent_runs=1
    )
    run_id = make_sweep_id()
    run = NewRun(
        make_uuid(), run_id, HERS, "exp", spec=RunSpec(script="train.py", target=CLUSTER, sweep=spec), type="hyperdrive"
    )
    by.runs.create(run)
    return run_id


def child_record(child_id: str) -> bytes:
    return journal.pack_long(journal.CHILD, {"run_id": child_id, "name": "", "tags": {}, "t": 0})


def test_the_key_of_another_users_child_gives_no_token_of_it(team: Team) -> None:
    alice, bob = team.served.as_user("alice"), team.served.as_user("bob")
    bobs, run = team.start_logging(bob)
    run.runs.ship(bobs, [journal_frame(header() + child_record("bobs-child"))])
    hers, mine = team.start_logging(alice)

    for client in (mine, alice):
        with pytest.raises((Conflict, NotAllowed)):
            post(client, key="child:bobs-child", id="bobs-child", parent_id=hers)
        for key in (f"run:{bobs}:child:bobs-child", f"user:bob:{bobs}", "owner:x"):
            with pytest.raises((Conflict, NotAllowed)):
                post(client, key=key, id="bobs-child", parent_id=hers)


def test_the_key_of_a_sweeps_child_gives_no_token_of_it_made_or_to_come(team: Team) -> None:
    alice, bob = team.served.as_user("alice"), team.served.as_user("bob")
    sweep = sweep_of(team, bob)
    first, later = f"{sweep}_0", f"{sweep}_3"
    team.served.as_run(first)  # its first child is at work
    hers, mine = team.start_logging(alice)

    for child in (first, later, f"{sweep}_99"):
        for client in (mine, alice, bob):
            with pytest.raises((Conflict, NotAllowed, InvalidArgument)):
                post(client, key=f"sweep:{child}", id=child, parent_id=None if client is bob else hers)
    mine.runs.ship(hers, [journal_frame(header() + child_record(later))])  # a journal names it, too
    assert [run.id for run in team.owner.runs.iter(HERS, parent=sweep)] == [first]
    assert later not in [run.id for run in team.owner.runs.iter(HERS, include_children="true")]


def test_a_repeated_request_is_the_same_run_for_its_principal_alone(team: Team) -> None:
    alice, bob = team.served.as_user("alice"), team.served.as_user("bob")
    made = post(alice, key="same", id="same-1")
    again = post(alice, key="same", id="same-1")

    assert made.run.id == again.run.id and again.token
    with pytest.raises(Conflict):
        post(bob, key="same", id="same-1")
    assert post(bob, key="same", id="same-2").run.submitted_by == "bob"
    assert post(team.owner, key="same", id="same-3").run.id == "same-3"


def test_a_repeated_request_is_the_same_run_after_a_restart(session_folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="k", dir=session_folder) as folder:
        with serve(Path(folder), cluster=CLUSTER) as served:
            alice = served.as_user("alice")
            token = alice.transport.address.token
            assert post(alice, key="k", id="again-1").run.number == 1
        with serve(Path(folder), cluster=CLUSTER) as served:
            assert post(served.with_token(token), key="k", id="again-1").run.number == 1


def test_a_child_by_journal_and_by_request_is_one_run(team: Team) -> None:
    run_id, run = team.start_logging(team.served.as_user("alice"))
    run.runs.ship(run_id, [journal_frame(header() + child_record("one-child"))])
    made = post(run, key="child:one-child", id="one-child", parent_id=run_id)

    assert made.run.parent_id == run_id and made.token
    assert [child.id for child in team.owner.runs.iter(HERS, parent=run_id)] == ["one-child"]


def test_no_token_is_made_for_a_run_that_was_launched(team: Team) -> None:
    """The same key and id without a program would ask for a token of the running attempt."""
    alice = team.served.as_user("alice")
    spec = RunSpec(script="train.py", target=CLUSTER)
    launched = post(alice, key="l", id="launched-1", launch=True, spec=spec, type="azureml.scriptrun")
    assert launched.token is None

    with pytest.raises(Conflict):
        post(alice, key="l", id="launched-1")


def test_a_key_cannot_be_longer_than_it_may(team: Team) -> None:
    with pytest.raises(InvalidArgument, match="1 to 200"):
        post(team.served.as_user("alice"), key="k" * 201)
    assert post(team.served.as_user("alice"), key="k" * 200).run
