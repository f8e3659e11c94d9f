"""Everything has an owner: others read it; changing, ending and deleting it takes its owner or an admin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from runyard.client.calls.workspace import SecretCalls
from runyard.client.client import Client
from runyard.core.errors import NotAllowed
from runyard.core.names import make_uuid
from tests.rights.conftest import HERS, Team, again, refused

Call = Callable[[], object]


def changes_of_run(by: Client, run_id: str) -> dict[str, Call]:
    ask = by.transport.request
    return {
        "tag": lambda: by.runs.update(run_id, tags_set={"by": "me"}),
        "name": lambda: by.runs.update(run_id, display_name="mine"),
        "archive": lambda: by.runs.update(run_id, archived=True),
        "cancel": lambda: by.runs.cancel(run_id),
        "fail": lambda: by.runs.fail(run_id, message="no"),
        "log on it": lambda: ask("POST", f"/runs/{run_id}/writers", json={"pid": 1, "start_ticks": 1, "host": "x"}),
        "add a file": lambda: ask(
            "POST", f"/runs/{run_id}/files", json={"file": {"name": "outputs/x", "size": 0, "chunks": []}}
        ),
        "delete": lambda: ask("DELETE", f"/runs/{run_id}"),
        "delete now": lambda: ask("DELETE", f"/runs/{run_id}", query={"now": "true"}),
    }


def test_a_run_is_changed_by_its_owner_and_by_admins(team: Team) -> None:
    alice, bob, ada = team.served.as_user("alice"), team.served.as_user("bob"), team.served.as_admin()
    run_id = team.submit(bob)

    assert [what for what, call in changes_of_run(alice, run_id).items() if not refused(call)] == []
    assert alice.runs.get(run_id).status.value and alice.runs.files(run_id) == []
    assert again(alice, run_id) == "alice"
    for by in (bob, ada):
        by.runs.update(run_id, tags_set={"by": "me"}, display_name="mine", archived=False)
    bob.runs.cancel(run_id)
    team.end(run_id, "Canceled")
    assert refused(lambda: alice.transport.request("DELETE", f"/runs/{run_id}"))
    bob.transport.request("DELETE", f"/runs/{run_id}")
    assert refused(lambda: alice.transport.request("POST", f"/runs/{run_id}/restore"))
    ada.transport.request("POST", f"/runs/{run_id}/restore")


def test_a_change_of_many_runs_leaves_others_runs_alone(team: Team) -> None:
    alice, bob = team.served.as_user("alice"), team.served.as_user("bob")
    hers, his = team.submit(alice), team.submit(bob)
    before = team.owner.runs.get(his)
    for action in ("tag", "untag", "archive", "unarchive", "delete", "restore", "cancel"):
        body = {"ids": [his, hers], "action": action}
        answer = alice.transport.request("POST", "/runs/bulk", json=body).json()
        assert [one["id"] for one in answer["failed"] if one["error"]["code"] == NotAllowed.code] == [his], action
        after = team.owner.runs.get(his)
        assert (after.tags, after.desired, after.archived_at) == (before.tags, None, None)


def test_an_experiment_with_others_runs_is_not_deleted_by_its_maker(team: Team) -> None:
    alice, bob = team.served.as_user("alice"), team.served.as_user("bob")
    hers, his = team.submit(alice, experiment="shared"), team.submit(bob, experiment="shared")
    lone = team.submit(bob, experiment="his")
    for run_id in (hers, his, lone):
        team.end(run_id)
    path, own = f"/workspaces/{HERS}/experiments/shared", f"/workspaces/{HERS}/experiments/his"

    assert team.owner.experiments.get(HERS, "shared").owner == "alice"
    for by in (alice, bob):
        assert refused(lambda by=by: by.transport.request("DELETE", path))
        assert refused(lambda by=by: by.transport.request("DELETE", path, query={"now": "true"}))
    assert refused(lambda: bob.transport.request("PATCH", path, json={"archived": True}))
    alice.transport.request("PATCH", path, json={"archived": True})
    assert refused(lambda: alice.transport.request("DELETE", own))
    bob.transport.request("DELETE", own)
    assert refused(lambda: alice.transport.request("POST", f"{own}/restore"))
    bob.transport.request("POST", f"{own}/restore")
    team.served.as_admin().transport.request("DELETE", path)


def test_a_workspace_with_others_work_is_deleted_by_admins_alone(team: Team) -> None:
    alice, bob = team.served.as_user("alice"), team.served.as_user("bob")
    alice.workspaces.put("hers")
    alice.workspaces.put("shared")
    bob.assets.put("shared", "dataset", "his", {})

    assert refused(lambda: bob.transport.request("DELETE", "/workspaces/hers"))
    assert refused(lambda: alice.transport.request("DELETE", "/workspaces/shared"))
    assert refused(lambda: alice.transport.request("DELETE", f"/workspaces/{HERS}"))
    alice.transport.request("DELETE", "/workspaces/hers")
    team.served.as_admin().transport.request("DELETE", "/workspaces/shared")


def test_assets_are_changed_and_unregistered_by_their_owner(team: Team) -> None:
    alice, bob = team.served.as_user("alice"), team.served.as_user("bob")
    for kind in ("dataset", "environment", "datastore"):
        check_asset(team, kind, alice, bob)


def check_asset(team: Team, kind: str, alice: Client, bob: Client) -> None:
    made = bob.assets.put(HERS, kind, "thing", {"type": "folder", "path": "/data"})

    assert made.owner == "bob" and alice.assets.get(HERS, kind, "thing") == made
    assert refused(lambda: alice.assets.update(HERS, kind, "thing", version=1, document={"path": "/evil"}))
    assert refused(lambda: alice.assets.delete(HERS, kind, "thing"))
    bob.assets.update(HERS, kind, "thing", version=1, document={"path": "/other"})
    if kind != "datastore":  # a next version is somebody's own work, and does not replace what others named
        assert alice.assets.put(HERS, kind, "thing", {"path": "/more"}).owner == "alice"
        assert refused(lambda: bob.assets.delete(HERS, kind, "thing"))
    team.owner.assets.delete(HERS, kind, "thing")


def test_a_datastore_leads_elsewhere_only_by_its_owner(team: Team) -> None:
    alice, bob = team.served.as_user("alice"), team.served.as_user("bob")
    document = {"type": "folder", "path": "/data"}
    bob.assets.put(HERS, "datastore", "his", document)

    assert refused(lambda: alice.assets.put(HERS, "datastore", "his", {**document, "path": "/evil"}))
    assert refused(lambda: alice.assets.put(HERS, "datastore", "workspaceblobstore", {**document, "path": "/evil"}))
    alice.assets.put(HERS, "datastore", "his", {**document, "default_at": "2026-01-01"})
    alice.assets.put(HERS, "datastore", "workspaceblobstore", {"default_at": "2026-01-02"})
    bob.assets.put(HERS, "datastore", "his", {**document, "path": "/moved"})


def test_models_are_changed_and_unregistered_by_their_owner(team: Team, tmp_path: Path) -> None:
    alice, bob = team.served.as_user("alice"), team.served.as_user("bob")
    (tmp_path / "m.bin").write_bytes(b"m")
    file = bob.content.upload_file(str(tmp_path / "m.bin"), name="m.bin")
    spec = {"path": "m.bin", "files": [{"name": "m.bin", "size": file.size, "chunks": file.chunks}]}
    path = f"/workspaces/{HERS}/models/net"
    bob.transport.request("POST", path, json={"spec": spec})

    assert refused(lambda: alice.transport.request("PATCH", f"{path}/1", json={"tags_set": {"by": "me"}}))
    assert refused(lambda: alice.transport.request("DELETE", f"{path}/1"))
    assert alice.transport.request("GET", f"{path}/1/files/m.bin").read() == b"m"
    bob.transport.request("PATCH", f"{path}/1", json={"tags_set": {"by": "me"}})
    bob.transport.request("DELETE", f"{path}/1")


def test_what_was_made_before_there_were_owners_is_its_submitters_or_for_admins(team: Team) -> None:
    store = team.served.services.store
    alice, bob = team.served.as_user("alice"), team.served.as_user("bob")
    from runyard.core.records import NewRun

    for name in ("alice", "root"):
        store.create_run(NewRun(make_uuid(), f"old-{name}", HERS, f"old-{name}", type=None, submitted_by=name))
    store.put_asset(HERS, "dataset", "old", {})

    alice.runs.update("old-alice", tags_set={"a": "b"})
    alice.transport.request("PATCH", f"/workspaces/{HERS}/experiments/old-alice", json={"archived": True})
    for call in (
        lambda: bob.runs.update("old-alice", tags_set={"a": "b"}),
        lambda: alice.runs.update("old-root", tags_set={"a": "b"}),
        lambda: alice.assets.delete(HERS, "dataset", "old"),
        lambda: alice.transport.request("PATCH", f"/workspaces/{HERS}/experiments/old-root", json={"archived": True}),
    ):
        assert refused(call)
    team.served.as_admin().assets.delete(HERS, "dataset", "old")


def secret(by: Client, name: str = "key") -> str:
    return SecretCalls(by.transport).get(HERS, name)


def put(by: Client, **body: object) -> object:
    return by.transport.request("PUT", f"/workspaces/{HERS}/secrets/key", json=body)


def test_a_secret_is_read_by_its_maker_by_admins_and_by_named_readers(team: Team) -> None:
    alice, bob, ada = team.served.as_user("alice"), team.served.as_user("bob"), team.served.as_admin()
    rita = team.served.as_reader()
    _, alices = team.start_logging(alice)
    _, bobs = team.start_logging(bob)
    _, adas = team.start_logging(ada)
    _, owners = team.start_logging(team.owner)
    SecretCalls(alice.transport).put(HERS, "key", "v1")

    assert [secret(by) for by in (alice, ada, team.owner, alices, adas, owners)] == ["v1"] * 6
    for by in (bob, bobs, rita):
        assert refused(lambda by=by: secret(by))
    for by in (bob, rita, alices):
        assert refused(lambda by=by: put(by, value="stolen"))
        assert refused(lambda by=by: put(by, readers=["*"]))
        assert refused(lambda by=by: SecretCalls(by.transport).delete(HERS, "key"))
    put(alice, readers=["bob"])
    assert secret(bob) == secret(bobs) == "v1"
    put(alice, value="v2")
    assert secret(bob) == "v2"
    put(ada, readers=[])
    assert refused(lambda: secret(bob))
    put(alice, readers=["*"])
    assert secret(bobs) == "v2" and refused(lambda: secret(rita))


def test_secrets_from_before_there_were_readers_are_everybodys_until_somebody_says(team: Team) -> None:
    store, vault = team.served.services.store, team.served.services.vault
    vault.put(HERS, "key", "old")
    asset = store.get_asset(HERS, "secret", "key")
    store.update_asset(HERS, "secret", "key", version=1, document={"sealed": asset.document["sealed"]})
    bob = team.served.as_user("bob")

    assert secret(bob) == "old" and replace(asset, owner="").owner == ""
    put(team.served.as_admin(), readers=[])
    assert refused(lambda: secret(bob))
