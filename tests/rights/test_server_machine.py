"""The server's own machine: its processes, folders and programs are for its account and for admins, not for users."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard.client.client import Client
from runyard.core.compute import ComputeSpec
from runyard.core.config.server_settings import (
    ServerSettings,
    read_server_settings,
    with_setting,
    write_server_settings,
)
from runyard.core.errors import Conflict, InvalidArgument, NotAllowed, SubmitRejected
from runyard.core.names import make_uuid
from runyard.core.records import NewRun
from runyard.core.specs import RunSpec
from runyard.testing.compute_backend import FakeBackend
from tests.rights.conftest import CLUSTER, HERS, Team, again, refused
from tests.server.conftest import Served, serve
from tests.server.guarded import BEARER, Guarded, serving

WATCHED = {"pid": 1, "start_ticks": 1, "folders": {"server": "/etc"}}


@pytest.fixture(scope="module")
def guarded() -> Iterator[Guarded]:
    with serving(backends={"local": FakeBackend()}) as found:
        yield found


def interactive(told: dict[str, object]) -> bytes:
    run = {"key": make_uuid(), "id": f"w-{make_uuid()}", "workspace": HERS, "experiment": "exp", "type": None}
    return json.dumps({"run": run, "launch": False, "interactive": told}).encode()


def bearer(token: str) -> list[str]:
    return [f"Authorization: Bearer {token}", "Content-Type: application/json"]


@pytest.mark.parametrize("told", [WATCHED, {"pid": 1, "start_ticks": 1}], ids=["folders", "a pid"])
def test_folders_and_processes_of_the_servers_machine_come_over_its_socket_only(
    guarded: Guarded, told: dict[str, object]
) -> None:
    owner = guarded.client()
    known = {user.name for user in owner.users.list()}
    tokens = {
        role: (
            owner.users.add(f"h3-{role}", role=role) if f"h3-{role}" not in known else owner.users.rotate(f"h3-{role}")
        ).token
        for role in ("admin", "user", "reader")
    }
    owners = [BEARER, "Content-Type: application/json"]
    for headers in (owners, *(bearer(token) for token in tokens.values())):
        assert guarded.tcp.ask("POST", "/api/v1/runs", headers, interactive(told)).status == 403
    for role in ("user", "reader"):
        assert guarded.unix.ask("POST", "/api/v1/runs", bearer(tokens[role]), interactive(told)).status == 403
    elsewhere = {"pid": 1, "start_ticks": 1, "host": "laptop"}
    made = guarded.tcp.ask("POST", "/api/v1/runs", bearer(tokens["user"]), interactive(elsewhere))
    assert made.status == 201


def test_a_process_that_logs_on_a_run_from_outside_is_watched_by_its_own_machine(guarded: Guarded) -> None:
    owner = guarded.client()
    token = owner.users.add("h3-writer").token
    made = guarded.tcp.ask(
        "POST", "/api/v1/runs", bearer(token), interactive({"pid": 1, "start_ticks": 1, "host": "x"})
    )
    path = f"/api/v1/runs/{json.loads(made.body)['run']['id']}/writers"
    here, elsewhere = b'{"pid": 1, "start_ticks": 1}', b'{"pid": 1, "start_ticks": 1, "host": "x"}'

    assert guarded.tcp.ask("POST", path, bearer(token), here).status == 403
    assert guarded.unix.ask("POST", path, bearer(token), here).status == 403
    assert guarded.tcp.ask("POST", path, bearer(token), elsewhere).status == 201


def to(target: str) -> RunSpec:
    return RunSpec(script="train.py", target=target)


def ways_to_run_here(team: Team) -> list[str]:
    team.owner.compute.create(HERS, "virtual", ComputeSpec(max_nodes=2))
    return ["local", "virtual", "amlcompute", "containerinstance", "ray:127.0.0.1:6379"]


def test_programs_on_the_servers_machine_are_for_admins(team: Team) -> None:
    """The control: the same submits to a cluster, and those of an admin."""
    alice = team.served.as_user("alice")
    for target in ways_to_run_here(team):
        assert refused(lambda target=target: team.submit(alice, spec=to(target))), target
        new = NewRun(make_uuid(), f"p-{make_uuid()}", HERS, "exp", to(target))
        assert refused(lambda new=new: alice.runs.plan(new)), target
    with pytest.raises(NotAllowed, match=r"runyard server set compute\.local\.for_users true"):
        team.submit(alice, spec=to("local"))
    team.submit(alice, spec=to(CLUSTER))
    for by in (team.served.as_admin(), team.owner):
        for target in ("local", "virtual"):
            team.submit(by, spec=to(target))


def test_a_run_of_the_owner_is_not_submitted_again_by_a_user_on_the_servers_machine(team: Team) -> None:
    alice = team.served.as_user("alice")
    here, there = team.submit(team.owner, spec=to("local")), team.submit(team.owner)

    assert refused(lambda: again(alice, here))
    assert again(alice, there) == "alice"


def test_an_admins_run_starts_no_program_here_once_its_user_is_no_admin_any_more(team: Team) -> None:
    ada = team.served.as_admin("ada")
    parent = team.submit(ada, spec=to("local"))
    run = team.served.as_run(parent)
    team.submit(run, spec=to("local"), parent_id=parent)
    team.owner.users.set_role("ada", "user")
    team.served.forget_credentials()

    assert refused(lambda: team.submit(run, spec=to("local"), parent_id=parent))


def test_an_admin_opens_local_to_users(session_folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="o", dir=session_folder) as folder:
        home = Path(folder)
        write_server_settings(home, with_setting(ServerSettings(), "compute.local.for_users", "true"))
        settings = read_server_settings(home)
        assert settings == ServerSettings(local_for_users=True)
        with serve(home, settings=settings) as served:
            alice = served.as_user("alice")
            run_id = served.submit("open-1", by=alice)
            assert served.client.runs.get(run_id).owner == "alice"
            assert submits_a_child(served, run_id)


def submits_a_child(served: Served, run_id: str) -> bool:
    run: Client = served.as_run(run_id)
    return run.runs.get(served.submit(f"{run_id}-child", by=run, parent_id=run_id)).owner == "alice"


def test_the_private_servers_owner_is_not_affected(team: Team) -> None:
    run_id = team.submit(team.owner, spec=to("local"))
    run = team.served.as_run(run_id)

    assert run.runs.get(team.submit(run, spec=to("local"), parent_id=run_id)).owner == ""


def test_an_unknown_target_is_said_to_be_unknown(team: Team) -> None:
    with pytest.raises((SubmitRejected, InvalidArgument, Conflict), match="no compute target"):
        team.submit(team.served.as_user("alice"), spec=to("nowhere"))
