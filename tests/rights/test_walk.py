"""An answer other than the table of rights says is a fault: every route × every principal × every object."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest

from runyard.client.client import Client
from runyard.core.names import make_uuid
from runyard.core.specs import RunSpec
from runyard.core.users import ADMIN, READER, ROLES, USER
from runyard.core.webservices import KIND, ServiceSettings, Webservice
from runyard.server.access.permissions import RIGHTS
from runyard.server.access.route_rights import API, API_ROUTES
from runyard.server.serving.stored import ServiceStore
from runyard.store import open_store
from tests.rights.conftest import CLUSTER, HERS, THEIRS, Team
from tests.rights.walk import EACH, FINAL, OPENED, Asking, Step, Thing, Who, is_allowed, iter_steps
from tests.server.conftest import TOKEN, serve

HERE = RunSpec(target=CLUSTER)


def things_of(team: Team) -> list[Thing]:
    found = []
    for what, user, workspace in (("hers", "alice", HERS), ("his", "bob", HERS), ("elsewhere", "bob", THEIRS)):
        by, names = team.served.as_user(user), f"of-{what}"
        run_id, _ = team.start_logging(by, workspace=workspace, experiment=names, spec=HERE)
        by.assets.put(workspace, "dataset", names, {})
        by.transport.request("POST", f"/workspaces/{workspace}/models/{names}", json={"spec": stored(by)})
        by.transport.request("PUT", f"/workspaces/{workspace}/secrets/{names}", json={"value": "v"})
        add_service(team, workspace, names, run_id=run_id, owner=user)
        found.append(Thing(what, workspace, run_id, user, names))
    return found


def add_service(team: Team, workspace: str, name: str, *, run_id: str, owner: str) -> None:
    """Store a web service that no gateway knows."""
    now = datetime.now(timezone.utc)
    record = Webservice(workspace, name, make_uuid(), run_id, now, now, ServiceSettings(), [], owner=owner)
    services = ServiceStore(team.served.services.store, team.served.services.vault)
    services.add(services.make(record, primary=None, secondary=None))


def stored(by: Client) -> dict[str, object]:
    with tempfile.NamedTemporaryFile() as file:
        uploaded = by.content.upload_file(file.name, name="m.bin")
    return {"path": "m.bin", "files": [{"name": "m.bin", "size": uploaded.size, "chunks": uploaded.chunks}]}


def principals_of(team: Team, things: list[Thing]) -> list[Who]:
    served, owner = team.served, team.owner
    hers, his, elsewhere = things
    people = [
        Who("owner", TOKEN),
        Who("admin", served.as_admin("ada").transport.address.token, "ada", ADMIN),
        Who("user", served.as_user("alice").transport.address.token, "alice", USER),
        Who("other user", served.as_user("bob").transport.address.token, "bob", USER),
        Who("reader", served.as_reader("rita").transport.address.token, "rita", READER),
        Who("nobody", ""),
    ]
    runs = []
    for what, thing in (("run of hers", hers), ("run of his", his), ("run elsewhere", elsewhere)):
        token = token_of(team, thing.run_id)
        runs.append(Who(what, token, thing.owner, run_id=thing.run_id, workspace=thing.workspace, is_live=True))
    writer = owner.transport.request(
        "POST", f"/runs/{hers.run_id}/writers", json={"pid": 1, "start_ticks": 1, "host": "x"}
    ).json()["token"]
    runs.append(Who("writer", writer, "alice", run_id=hers.run_id, workspace=HERS, is_writer=True))
    ended, ends = team.start_logging(served.as_user("alice"), spec=HERE)
    team.end(ended)
    runs.append(Who("ended run", ends.transport.address.token, "alice", run_id=ended, workspace=HERS, is_ended=True))
    for what, user in (("removed user's run", "eve"), ("lowered user's run", "frank")):
        run_id, client = team.start_logging(served.as_user(user), spec=HERE)
        runs.append(Who(what, client.transport.address.token, user, run_id=run_id, workspace=HERS))
    owner.users.remove("eve")
    owner.users.set_role("frank", "reader")
    served.forget_credentials()
    return [*people, *runs]


def token_of(team: Team, run_id: str) -> str:
    from runyard.engine.state.spool import hash_token, mint_run_token

    token = mint_run_token()
    team.served.services.store.add_token(hash_token(token), run_id=run_id, attempt=0)
    return token


async def answers(asking: Asking, steps: list[Step], *, about_nothing: bool) -> list[tuple[Step, int, bytes]]:
    return [(step, *(await asking.status_of(step, about_nothing=about_nothing))) for step in steps]


def check_walk(team: Team) -> None:
    """What must be refused is asked first, so that nothing of it has changed when the rest is asked."""
    things = things_of(team)
    steps = [
        step
        for step in iter_steps(principals_of(team, things), things)
        if f"{step.method} {step.template}" not in OPENED
    ]
    allowed = [step for step in steps if is_allowed(step)]
    denied = [step for step in steps if not is_allowed(step)]
    asking = Asking(team.served.app)
    before = record_of(team, things)

    found = asyncio.run(answers(asking, denied, about_nothing=False))
    wrong = [f"{step}: {status}" for step, status, body in found if not is_refused(step, status, body)]
    assert wrong == [], f"{len(wrong)} of {len(denied)} are not refused:\n" + "\n".join(wrong)
    assert record_of(team, things) == before

    harmless = [step for step in allowed if f"{step.method} {step.template}" not in FINAL]
    final = [step for step in allowed if step not in harmless and not step.who.run_id and step.verb != "stop_server"]
    found = asyncio.run(answers(asking, harmless, about_nothing=False))
    found += asyncio.run(answers(asking, final, about_nothing=True))
    wrong = [f"{step}: {status}" for step, status, body in found if status in (401, 403, 500)]
    assert wrong == [], f"{len(wrong)} of {len(allowed)} are refused:\n" + "\n".join(wrong)
    assert len(steps) > 3500 and len(denied) > 2000 and len(allowed) > 1000


def is_refused(step: Step, status: int, body: bytes) -> bool:
    if not step.who.token:
        return status == 401
    if f"{step.method} {step.template}" in EACH and status == 200:
        return b"NotAllowed" in body and b'"done":["' not in body.replace(b" ", b"")
    return status == 403


def record_of(team: Team, things: list[Thing]) -> list[object]:
    store = team.served.services.store
    runs = [run for workspace in (HERS, THEIRS) for run in team.owner.runs.iter(workspace, include_children="true")]
    facts: list[object] = [(run.id, run.status, run.tags, run.desired, run.display_name) for run in runs]
    facts += [
        store.list_assets(thing.workspace, kind) for thing in things for kind in ("dataset", "secret", "model", KIND)
    ]
    facts += [store.list_files(thing.run_id) for thing in things]
    return [*facts, [(user.name, user.role) for user in store.list_users()], store.list_workspaces()]


@pytest.fixture
def walked(session_folder: Path) -> Iterator[Team]:
    with tempfile.TemporaryDirectory(prefix="w", dir=session_folder) as folder:
        with serve(Path(folder), cluster=CLUSTER) as served:
            served.client.workspaces.put(THEIRS)
            yield Team(served)


@pytest.mark.external
@pytest.mark.timeout(600)  # thousands of requests; seconds on a machine with nothing else to do
def test_every_route_answers_everybody_about_everything_as_the_table_says(walked: Team) -> None:
    check_walk(walked)


@pytest.mark.external
@pytest.mark.timeout(600)
def test_every_route_answers_as_the_table_says_on_postgresql(session_folder: Path) -> None:
    from tests.store.postgres import new_schema, running_postgres

    with running_postgres() as url, tempfile.TemporaryDirectory(prefix="w", dir=session_folder) as folder:
        with serve(Path(folder), cluster=CLUSTER, store=open_store(new_schema(url))) as served:
            served.client.workspaces.put(THEIRS)
            check_walk(Team(served))


def test_the_table_has_every_route_and_only_verbs_that_are_there(walked: Team) -> None:
    document = walked.owner.transport.request("GET", "/openapi.json").json()
    live = {
        f"{method.upper()} {path.removeprefix(API)}"
        for path, methods in document["paths"].items()
        for method in methods
    }

    assert live == set(API_ROUTES)
    assert {verb for verbs in API_ROUTES.values() for verb in verbs} == set(RIGHTS)
    assert {right.role for right in RIGHTS.values()} <= set(ROLES)
    assert [route for route, verbs in API_ROUTES.items() if not verbs] == ["GET /health"]
