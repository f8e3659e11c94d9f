"""What a run's token reaches: its own workspace, as far as its user may, while the run lives. And its data always."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from runyard.client.calls.workspace import DatastoreFiles, SecretCalls
from runyard.client.client import Client
from runyard.core.errors import NotAuthenticated, NotFound
from runyard.core.formats.tree import encode_tree
from runyard.core.names import make_uuid
from runyard.server.access.credentials import CACHED_S, Credentials
from runyard.server.access.permissions import Principal, RunPrincipal
from runyard.server.access.signin import Signin
from tests.engine.bench import header, journal_frame, log_frame, name, number
from tests.rights.conftest import CLUSTER, HERS, THEIRS, Team, refused
from tests.server.conftest import TOKEN

Call = Callable[[], object]


def reads(client: Client, workspace: str) -> dict[str, Call]:
    datastore = DatastoreFiles(client, workspace, "workspaceblobstore")
    get = client.transport.request
    return {
        "workspace": lambda: get("GET", f"/workspaces/{workspace}"),
        "secret": lambda: SecretCalls(client.transport).get(workspace, "db-password"),
        "secrets": lambda: SecretCalls(client.transport).list(workspace),
        "datastore": lambda: datastore.list(""),
        "data file": lambda: get("GET", f"/workspaces/{workspace}/datastores/workspaceblobstore/files/data.csv"),
        "dataset by name": lambda: client.assets.get(workspace, "dataset", "data"),
        "datasets": lambda: client.assets.list(workspace, "dataset"),
        "environment": lambda: client.assets.get(workspace, "environment", "train-env"),
        "models": lambda: get("GET", f"/workspaces/{workspace}/models"),
        "experiments": lambda: get("GET", f"/workspaces/{workspace}/experiments"),
        "compute": lambda: client.compute.list(workspace),
    }


def writes(client: Client, workspace: str, file: Path) -> dict[str, Call]:
    models = f"/workspaces/{workspace}/models/stolen"
    uploaded = client.content.upload_file(str(file), name="m.bin")
    spec = {"path": "m.bin", "files": [{"name": "m.bin", "size": uploaded.size, "chunks": uploaded.chunks}]}
    return {
        "environment": lambda: client.assets.put(workspace, "environment", "train-env", {"pip": ["evil"]}),
        "dataset": lambda: client.assets.put(workspace, "dataset", "data", {"path": "evil"}),
        "datastore": lambda: client.assets.put(workspace, "datastore", "new", {"type": "folder", "path": "/"}),
        "model": lambda: client.transport.request("POST", models, json={"spec": spec}),
        "experiment": lambda: client.transport.request("PUT", f"/workspaces/{workspace}/experiments/mine"),
        "data file": lambda: DatastoreFiles(client, workspace, "workspaceblobstore").put(str(file), "poisoned.csv"),
    }


@pytest.fixture
def stocked(team: Team, tmp_path: Path) -> Team:
    """Both workspaces hold a secret that everybody may read, an environment, a dataset and a data file."""
    file = tmp_path / "data.csv"
    file.write_text("1,2\n")
    for workspace in (HERS, THEIRS):
        path = f"/workspaces/{workspace}/secrets/db-password"
        team.owner.transport.request("PUT", path, json={"value": f"hunter2-{workspace}", "readers": ["*"]})
        team.owner.assets.put(workspace, "environment", "train-env", {"pip": ["numpy"]})
        team.owner.assets.put(workspace, "dataset", "data", {"path": "data.csv"})
        DatastoreFiles(team.owner, workspace, "workspaceblobstore").put(str(file), "data.csv")
    return team


def test_a_runs_token_reaches_no_other_workspace(stocked: Team, tmp_path: Path) -> None:
    """The control: the same calls in its own workspace are answered."""
    _, run = stocked.start_logging(stocked.owner)
    file = tmp_path / "data.csv"

    assert [what for what, call in reads(run, THEIRS).items() if not refused(call)] == []
    assert [what for what, call in writes(run, THEIRS, file).items() if not refused(call)] == []
    assert [what for what, call in reads(run, HERS).items() if refused(call)] == []
    assert [what for what, call in writes(run, HERS, file).items() if refused(call)] == []
    assert [workspace.name for workspace in run.workspaces.list()] == [HERS]
    assert stocked.owner.assets.get(THEIRS, "environment", "train-env").version == 1


def test_after_its_end_a_runs_token_delivers_and_reads_its_own_run_only(stocked: Team, tmp_path: Path) -> None:
    run_id, run = stocked.start_logging(stocked.owner)
    below, _ = stocked.start_logging(run, parent_id=run_id)
    file = tmp_path / "data.csv"
    stocked.end(run_id)

    assert [what for what, call in reads(run, HERS).items() if not refused(call)] == []
    assert [what for what, call in writes(run, HERS, file).items() if not refused(call)] == []
    assert refused(lambda: stocked.start_logging(run, parent_id=run_id))
    assert refused(lambda: run.runs.update(run_id, tags_set={"by": "a thief"}))
    records = header() + name(1, "late") + number(1, 0.5)
    run.runs.ship(run_id, [*[journal_frame(records)], log_frame(b"late", name="user_logs/std.txt")])
    run.runs.put_file(run_id, run.content.upload_file(str(file), name="outputs/late.csv"))
    assert run.runs.get(run_id).status.value == "Completed" and run.runs.get(below).parent_id == run_id
    assert [metric.name for metric in run.runs.metrics(run_id)] == ["late"]
    assert run.runs.read_file(run_id, "outputs/late.csv")[0] == b"1,2\n"


def test_a_child_that_no_program_is_does_not_keep_the_reach_of_an_ended_run(stocked: Team) -> None:
    """Who holds a token while the run lives makes a child with it, which nobody ever ends."""
    run_id, run = stocked.start_logging(stocked.owner)
    child_id, child = stocked.start_logging(run, parent_id=run_id)
    _, grandchild = stocked.start_logging(child, parent_id=child_id)
    secret = "hunter2-" + HERS
    assert SecretCalls(grandchild.transport).get(HERS, "db-password") == secret
    stocked.end(run_id)

    for client in (child, grandchild):
        assert refused(lambda client=client: SecretCalls(client.transport).get(HERS, "db-password"))


def test_a_child_on_a_cluster_goes_on_with_its_own_token_after_its_parents_end(stocked: Team) -> None:
    parent = stocked.submit(stocked.owner)
    child = stocked.submit(stocked.served.as_run(parent), parent_id=parent)
    stocked.end(parent)
    run = stocked.served.as_run(child)

    assert SecretCalls(run.transport).get(HERS, "db-password") == "hunter2-" + HERS
    assert run.assets.put(HERS, "dataset", "made-by-child", {}).version == 1


def revoke(team: Team, how: str, user: str) -> None:
    if how == "removed":
        team.owner.users.remove(user)
    else:
        team.owner.users.set_role(user, "reader")
    team.served.forget_credentials()


@pytest.mark.parametrize("how", ["removed", "lowered"])
def test_a_runs_token_ends_with_its_user(stocked: Team, how: str, tmp_path: Path) -> None:
    """What the run writes still arrives: the control, before and after."""
    eve = stocked.served.as_user("eve")
    run_id, run = stocked.start_logging(eve)
    file = tmp_path / "data.csv"
    run.runs.ship(run_id, [journal_frame(header() + name(1, "m") + number(1, 0.5))])
    assert [what for what, call in reads(run, HERS).items() if refused(call)] == []
    revoke(stocked, how, "eve")

    assert [what for what, call in reads(run, HERS).items() if not refused(call)] == []
    assert [what for what, call in writes(run, HERS, file).items() if not refused(call)] == []
    assert refused(lambda: stocked.start_logging(run, parent_id=run_id))
    assert refused(lambda: stocked.submit(run, parent_id=run_id))
    more = header("w2") + name(1, "m2") + number(1, 0.5)
    run.runs.ship(run_id, [journal_frame(more, writer="w2")])
    run.runs.put_file(run_id, run.content.upload_file(str(file), name="outputs/after.csv"))
    assert {metric.name for metric in run.runs.metrics(run_id)} == {"m", "m2"}
    assert run.runs.read_file(run_id, "outputs/after.csv")[0] == b"1,2\n"
    stocked.end(run_id)


def test_a_delivery_is_not_cut_when_its_user_goes_but_an_open_download_is(team: Team) -> None:
    run_id, run = team.start_logging(team.served.as_user("eve"))
    token, skew = run.transport.address.token, [0.0]
    store, signin = team.served.services.store, Signin(token=TOKEN, server_id="s")
    credentials = Credentials(token=TOKEN, store=store, signin=signin, clock=lambda: skew[0])

    def still(method: str, principal: Principal) -> bool:
        bearer = [(b"authorization", f"Bearer {token}".encode())]
        return asyncio.run(
            credentials.is_still({"headers": bearer, "method": method, "server": ("s", None)}, principal)
        )

    before = RunPrincipal(run_id, 0, HERS, "eve", "user")
    assert still("POST", before) and still("GET", before)
    team.owner.users.remove("eve")
    skew[0] = CACHED_S
    assert still("POST", before) and not still("GET", before)
    assert not still("POST", RunPrincipal("another", 0, HERS, "eve", "user"))


def test_a_removed_users_child_and_its_child_start_and_read_nothing(stocked: Team) -> None:
    eve = stocked.served.as_user("eve")
    parent = stocked.submit(eve)
    child = stocked.submit(stocked.served.as_run(parent), parent_id=parent)
    grandchild = stocked.submit(stocked.served.as_run(child), parent_id=child)
    revoke(stocked, "removed", "eve")

    for run_id in (parent, child, grandchild):
        run = stocked.served.as_run(run_id)
        assert refused(lambda run=run, run_id=run_id: stocked.submit(run, parent_id=run_id))
        assert refused(lambda run=run: SecretCalls(run.transport).get(HERS, "db-password"))
        assert run.runs.get(run_id).submitted_by == "eve"
    with pytest.raises(NotAuthenticated):
        eve.server.info()


def test_a_users_name_on_the_owners_run_does_not_bind_it_to_that_user(stocked: Team) -> None:
    """The owner's SDK sends the name of the machine's account; a user of the same name comes and goes."""
    stocked.served.as_user("root")
    run_id, run = stocked.start_logging(stocked.owner, submitted_by="root")
    revoke(stocked, "removed", "root")

    assert SecretCalls(run.transport).get(HERS, "db-password") == "hunter2-" + HERS
    assert stocked.owner.runs.get(run_id).submitted_by == "root"


def test_readers_have_no_runs_that_reach_more_than_they_do(stocked: Team) -> None:
    """A reader finds a run's token in its log, as printed by the script. While the run lives it reads, and no more
    than the user of that run may; after the end it opens nothing that a reader may not see."""
    alice, rita = stocked.served.as_user("alice"), stocked.served.as_reader()
    run_id, run = stocked.start_logging(alice)
    run.runs.ship(run_id, [log_frame(run.transport.address.token.encode(), name="user_logs/std.txt")])
    found = rita.runs.read_file(run_id, "user_logs/std.txt")[0].decode()
    stocked.end(run_id)
    stolen = stocked.served.with_token(found)

    assert [what for what, call in reads(stolen, HERS).items() if not refused(call)] == []
    assert refused(lambda: stolen.assets.put(HERS, "environment", "train-env", {"pip": ["evil"]}))


def test_other_runs_are_not_read_by_routes_over_many(stocked: Team) -> None:
    mine, run = stocked.start_logging(stocked.owner)
    other, theirs = stocked.start_logging(stocked.owner)
    theirs.runs.ship(other, [journal_frame(header() + name(1, "m") + number(1, 0.25)), log_frame(b"x", name="l.txt")])
    ask = run.transport.request
    foreign: dict[str, Call] = {
        "runs": lambda: ask("GET", "/runs", query=[("id", mine), ("id", other)]),
        "summary": lambda: ask("POST", "/metrics/summary", json={"runs": [other]}),
        "list": lambda: ask("GET", f"/workspaces/{HERS}/runs"),
        "list of a parent": lambda: ask("GET", f"/workspaces/{HERS}/runs", query={"parent": other}),
        "table": lambda: ask("GET", f"/workspaces/{HERS}/table"),
        "columns": lambda: ask("GET", f"/workspaces/{HERS}/columns"),
        "groups": lambda: ask("GET", f"/workspaces/{HERS}/groups", query={"by": "status"}),
        "tally": lambda: ask("GET", f"/workspaces/{HERS}/tally"),
        "events of a run": lambda: ask("GET", "/events", query={"run": other}),
        "events of a list": lambda: ask("GET", "/events", query={"workspace": HERS}),
        "log lines": lambda: ask("GET", f"/runs/{other}/log/lines"),
        "log search": lambda: ask("GET", f"/runs/{other}/log/search", query={"text": "x"}),
        "zip": lambda: ask("GET", f"/runs/{other}/zip"),
        "plan": lambda: ask("GET", f"/runs/{other}/plan"),
        "bulk": lambda: ask("POST", "/runs/bulk", json={"ids": [other], "action": "cancel"}),
        "prune": lambda: ask("POST", "/environments/prune", json={}),
        "compute": lambda: ask("PATCH", f"/workspaces/{HERS}/compute/{CLUSTER}", json={"max_nodes": 9}),
        "model of its files": lambda: ask(
            "POST", f"/workspaces/{HERS}/models/m", json={"spec": {"path": "", "run_id": other}, "run_path": "l.txt"}
        ),
        "shipment for it": lambda: ask("POST", f"/runs/{other}/heartbeat", json={"attempt": 0}),
    }
    assert [what for what, call in foreign.items() if not refused(call)] == []
    charts = ask("POST", "/charts", json={"series": [{"run": other, "metric": "m"}]}).read()
    assert b"NotAllowed" in charts and b'"count":0' in charts.replace(b" ", b"")


def test_a_snapshot_of_another_run_is_not_compared_or_read(stocked: Team) -> None:
    tree = encode_tree([])
    root = hashlib.sha256(tree).hexdigest()
    stocked.owner.content.put_trees([(root, tree)])
    taken = stocked.owner.content.put_snapshot(root, 0, 0)
    _, run = stocked.start_logging(stocked.owner)
    _, fair = stocked.start_logging(stocked.owner, snapshot_id=taken)
    for path in ("", "/files", "/zip", f"/diff?with={taken}"):
        with pytest.raises(NotFound):
            run.transport.request("GET", f"/snapshots/{taken}{path}")
        fair.transport.request("GET", f"/snapshots/{taken}{path}")
    with pytest.raises(NotFound):
        run.transport.request("GET", f"/trees/{root}")


def test_a_run_of_a_user_writes_to_no_other_users_run_by_naming_it_as_parent(stocked: Team) -> None:
    alice, bob = stocked.served.as_user("alice"), stocked.served.as_user("bob")
    bobs, _ = stocked.start_logging(bob)

    assert refused(lambda: stocked.start_logging(alice, parent_id=bobs))
    assert refused(lambda: stocked.submit(alice, parent_id=bobs))
    mine, _ = stocked.start_logging(alice)
    stocked.start_logging(alice, parent_id=mine)
    stocked.start_logging(stocked.served.as_admin(), parent_id=bobs)


def test_the_owner_of_a_run_is_not_for_its_request_to_say(stocked: Team) -> None:
    with pytest.raises(Exception, match="owner"):
        body = {"key": make_uuid(), "id": "x", "workspace": HERS, "experiment": "exp", "type": None, "owner": ""}
        stocked.served.as_user().transport.request("POST", "/runs", json={"run": body, "launch": False})
    assert stocked.start_logging(stocked.served.as_user("bob"), submitted_by="alice")[1].users.me().run_id
