"""What every store does with assets, and with users and their tokens."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import datetime, timezone

import pytest

from runyard.core.errors import Conflict, NotFound
from runyard.core.records import NewRun
from runyard.core.users import Access, RunAccess
from runyard.store.base import RunStore
from runyard.testing.runs import a_workspace


class AssetsSuite:
    """The contract of `Assets`."""

    def test_each_registration_is_the_next_version(self, store: RunStore) -> None:
        store.put_workspace(a_workspace())
        first, is_new = store.put_asset("default", "environment", "train", {"packages": ["a"]})
        second, _ = store.put_asset("default", "environment", "train", {"packages": ["a"]})

        assert is_new
        assert (first.version, second.version) == (1, 2)
        assert store.get_asset("default", "environment", "train") == second
        assert store.get_asset("default", "environment", "train", version=1) == first
        assert first.document == {"packages": ["a"]}
        assert (first.workspace, first.kind, first.name) == ("default", "environment", "train")

    def test_the_newest_versions_key_again_is_that_version(self, store: RunStore) -> None:
        store.put_workspace(a_workspace())
        first, _ = store.put_asset("default", "environment", "train", {"x": 1}, key="k1")
        again, is_new = store.put_asset("default", "environment", "train", {"x": 1}, key="k1")
        store.put_asset("default", "environment", "train", {"x": 2}, key="k2")
        back, is_back_new = store.put_asset("default", "environment", "train", {"x": 1}, key="k1")

        assert (again, is_new) == (first, False)
        assert (back.version, is_back_new) == (3, True)

    def test_an_imported_version_keeps_its_number_and_times(self, store: RunStore) -> None:
        store.put_workspace(a_workspace())
        first, _ = store.put_asset("default", "environment", "train", {"x": 1})
        then = datetime(2021, 5, 4, 3, 2, 1, tzinfo=timezone.utc)
        old = replace(first, version=5, created_at=then, updated_at=then, document={"x": 5}, key="k")
        between = replace(old, version=3, document={"x": 3})

        assert store.import_asset(old) == (old, True)
        assert store.import_asset(between) == (between, True)
        assert store.import_asset(replace(old, document={"x": 6})) == (old, False), "what is there stays"
        assert [one.version for one in store.list_assets("default", "environment", name="train")] == [1, 3, 5]
        assert store.get_asset("default", "environment", "train") == old
        assert store.put_asset("default", "environment", "train", {"x": 7})[0].version == 6
        with pytest.raises(NotFound, match="nowhere"):
            store.import_asset(replace(old, workspace="nowhere"))

    def test_kinds_and_workspaces_do_not_share_names(self, store: RunStore) -> None:
        for name in ("default", "other"):
            store.put_workspace(a_workspace(name))
        store.put_asset("default", "environment", "x", {"is": "environment"})
        store.put_asset("default", "compute", "x", {"is": "compute"})

        assert store.get_asset("default", "compute", "x").document == {"is": "compute"}
        assert store.get_asset("default", "environment", "x").version == 1
        with pytest.raises(NotFound, match="environment `x`"):
            store.get_asset("other", "environment", "x")
        with pytest.raises(NotFound, match="nowhere"):
            store.put_asset("nowhere", "environment", "x", {})

    def test_the_list_holds_the_newest_of_each_name_or_all_of_one(self, store: RunStore) -> None:
        store.put_workspace(a_workspace())
        for name in ("b", "a", "b"):
            store.put_asset("default", "environment", name, {})
        listed = store.list_assets("default", "environment")

        assert [(asset.name, asset.version) for asset in listed] == [("a", 1), ("b", 2)]
        assert [asset.version for asset in store.list_assets("default", "environment", name="b")] == [1, 2]
        assert store.list_assets("default", "environment", name="c") == []
        assert store.list_assets("default", "compute") == []

    def test_a_versions_document_can_be_changed_in_place(self, store: RunStore) -> None:
        store.put_workspace(a_workspace())
        store.put_asset("default", "compute", "pool", {"max_nodes": 2})
        changed = store.update_asset("default", "compute", "pool", version=1, document={"max_nodes": 4})

        assert store.get_asset("default", "compute", "pool") == changed
        assert changed.document == {"max_nodes": 4}
        assert changed.updated_at >= changed.created_at
        with pytest.raises(NotFound, match="version 7"):
            store.update_asset("default", "compute", "pool", version=7, document={})

    def test_a_version_is_edited_in_one_transaction(self, store: RunStore) -> None:
        store.put_workspace(a_workspace())
        store.put_asset("default", "compute", "pool", {"count": 0})
        made, _ = store.put_asset("default", "compute", "pool", {"count": 0})

        def count() -> None:
            for _ in range(20):
                store.edit_asset("default", "compute", "pool", lambda old: {"count": old.document["count"] + 1})

        threads = [threading.Thread(target=count) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        stamped = store.get_asset("default", "compute", "pool")
        kept = store.edit_asset("default", "compute", "pool", lambda old: old.document, version=1, stamp=False)

        assert stamped.document == {"count": 80}
        assert stamped.updated_at > made.updated_at
        assert (kept.version, kept.document, kept.updated_at) == (1, {"count": 0}, kept.created_at)
        with pytest.raises(NotFound, match="version 7"):
            store.edit_asset("default", "compute", "pool", lambda old: old.document, version=7)

    def test_all_versions_of_all_names_are_listed_by_name(self, store: RunStore) -> None:
        store.put_workspace(a_workspace())
        for name in ("b", "a", "b"):
            store.put_asset("default", "model", name, {})
        listed = store.list_assets("default", "model", all_versions=True)

        assert [(asset.name, asset.version) for asset in listed] == [("a", 1), ("b", 1), ("b", 2)]

    def test_a_name_with_its_versions_is_renamed(self, store: RunStore) -> None:
        store.put_workspace(a_workspace())
        for number in (1, 2, 3):
            store.put_asset("default", "model", "old", {"number": number})
        store.put_asset("default", "about", "old", {"is": "about"})
        store.delete_asset("default", "model", "old", version=3)
        store.put_asset("default", "model", "taken", {})
        for kinds in (["model", "about"], ["about", "model"]):
            with pytest.raises(Conflict, match="taken"):
                store.rename_assets("default", kinds, "old", "taken")
        with pytest.raises(NotFound, match="never"):
            store.rename_assets("default", ["model", "about"], "never", "new")
        store.rename_assets("default", ["model", "about", "absent"], "old", "new")
        renamed = store.list_assets("default", "model", name="new")

        assert [(asset.name, asset.version, asset.document["number"]) for asset in renamed] == [
            ("new", 1, 1), ("new", 2, 2)
        ]  # fmt: skip
        assert store.get_asset("default", "about", "new").document == {"is": "about"}
        assert [asset.name for asset in store.list_assets("default", "model")] == ["new", "taken"]
        assert [store.put_asset("default", "model", name, {})[0].version for name in ("new", "old")] == [4, 4]

    def test_services_and_images_keep_the_snapshots_that_they_are_made_from(self, store: RunStore) -> None:
        store.put_workspace(a_workspace())
        revisions = [{"spec": {"snapshot_id": "s1"}}, {"spec": {"snapshot_id": None}}, {"spec": {"snapshot_id": "s2"}}]
        store.put_asset("default", "webservice", "digits", {"record": {"revisions": revisions}, "sealed": {}})
        store.put_asset("default", "image", "digits", {"revision": {"snapshot_id": "s3"}})
        store.put_asset("default", "image", "digits", {"revision": {"snapshot_id": "s4"}})
        store.put_asset("default", "image", "digits", {"revision": {}, "deleted": True})
        store.put_asset("default", "environment", "digits", {"revision": {"snapshot_id": "s5"}})

        assert store.read_references().snapshots == {"s1", "s2", "s3", "s4"}
        store.delete_asset("default", "webservice", "digits")
        assert store.read_references().snapshots == {"s3", "s4"}

    def test_one_version_can_go_and_the_others_stay(self, store: RunStore) -> None:
        store.put_workspace(a_workspace())
        for number in (1, 2, 3):
            store.put_asset("default", "model", "net", {"number": number})
        store.delete_asset("default", "model", "net", version=3)
        store.delete_asset("default", "model", "net", version=1)
        store.delete_asset("default", "model", "net", version=7)

        assert [asset.version for asset in store.list_assets("default", "model", name="net")] == [2]
        assert store.get_asset("default", "model", "net").document == {"number": 2}
        assert store.put_asset("default", "model", "net", {})[0].version == 4

    def test_the_content_of_models_is_in_use(self, store: RunStore) -> None:
        store.put_workspace(a_workspace())
        store.put_asset("default", "model", "net", {"files": [{"name": "a", "chunks": ["c1", "c2"]}]})
        store.put_asset("default", "model", "net", {"files": [{"name": "a", "chunks": ["c3"]}]})
        store.put_asset("default", "environment", "net", {"files": [{"name": "a", "chunks": ["c9"]}]})
        store.put_asset("default", "logged_model", "m-1", {"files": [{"name": "a", "chunks": ["c4"]}]})

        assert set(store.read_references().chunks) == {"c1", "c2", "c3", "c4"}
        store.delete_asset("default", "model", "net", version=1)
        assert set(store.read_references().chunks) == {"c3", "c4"}

    def test_a_deleted_asset_is_gone_and_its_numbers_are_not_given_again(self, store: RunStore) -> None:
        store.put_workspace(a_workspace())
        store.put_asset("default", "environment", "train", {}, key="k")
        for _ in range(2):
            store.delete_asset("default", "environment", "train")
        store.delete_asset("default", "environment", "never")

        with pytest.raises(NotFound, match="train"):
            store.get_asset("default", "environment", "train")
        assert store.list_assets("default", "environment") == []
        assert store.put_asset("default", "environment", "train", {}, key="k")[0].version == 2


class UsersSuite:
    """The contract of `Users`, and what a run's token opens for its user."""

    def test_a_user_is_found_by_the_hash_of_its_token_and_by_the_tokens_id(self, store: RunStore) -> None:
        made = store.add_user("ada", role="user", label="first", token_hash="h1")
        store.add_user("bob", role="reader", label="first", token_hash="h2")
        access = store.find_access("h1")

        assert (made.name, made.role, [token.label for token in made.tokens]) == ("ada", "user", ["first"])
        assert access is not None and (access.name, access.role) == ("ada", "user")
        assert store.find_access_by_id(access.token_id) == access
        assert store.find_access("H1") is None and store.find_access_by_id(access.token_id + 100) is None
        assert [user.name for user in store.list_users()] == ["ada", "bob"]
        assert store.get_user("ada") == made

    def test_a_name_is_given_once_whoever_asks_at_the_same_time(self, store: RunStore) -> None:
        ends: list[str] = []

        def add(number: int) -> None:
            try:
                ends.append(store.add_user("ada", role="user", label="first", token_hash=f"h{number}").name)
            except Conflict:
                ends.append("taken")

        threads = [threading.Thread(target=add, args=[number]) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert sorted(ends) == ["ada", "taken", "taken", "taken"]
        assert len(store.get_user("ada").tokens) == 1

    def test_a_removed_user_opens_nothing_and_another_of_that_name_is_another(self, store: RunStore) -> None:
        store.add_user("ada", role="admin", label="first", token_hash="h1")
        old = store.find_access("h1")
        store.remove_user("ada")
        store.remove_user("ada")

        assert old is not None
        assert store.find_access("h1") is None and store.find_access_by_id(old.token_id) is None
        with pytest.raises(NotFound, match="ada"):
            store.get_user("ada")
        store.add_user("ada", role="reader", label="first", token_hash="h2")
        assert store.find_access_by_id(old.token_id) is None
        assert store.find_access("h2") != Access("ada", "reader", old.token_id)

    def test_tokens_are_added_removed_and_replaced_by_one(self, store: RunStore) -> None:
        store.add_user("ada", role="user", label="first", token_hash="h1")
        store.add_user_token("ada", label="laptop", token_hash="h2")
        with pytest.raises(Conflict, match="laptop"):
            store.add_user_token("ada", label="laptop", token_hash="h3")
        assert [token.label for token in store.get_user("ada").tokens] == ["first", "laptop"]
        assert store.find_access("h3") is None

        store.remove_user_token("ada", "first")
        store.remove_user_token("ada", "first")
        assert store.find_access("h1") is None and store.find_access("h2") is not None
        assert [token.label for token in store.replace_user_tokens("ada", label="new", token_hash="h4").tokens] == [
            "new"
        ]
        assert store.find_access("h2") is None and store.find_access("h4") is not None
        for change in (store.add_user_token, store.replace_user_tokens):
            with pytest.raises(NotFound, match="bob"):
                change("bob", label="x", token_hash="h5")
        with pytest.raises(NotFound, match="bob"):
            store.remove_user_token("bob", "x")

    def test_a_role_is_what_it_was_set_to_last(self, store: RunStore) -> None:
        store.add_user("ada", role="reader", label="first", token_hash="h1")

        assert store.set_user_role("ada", "admin").role == "admin" == store.get_user("ada").role
        access = store.find_access("h1")
        assert access is not None and access.role == "admin"
        with pytest.raises(NotFound, match="bob"):
            store.set_user_role("bob", "user")

    def test_a_runs_token_tells_its_workspace_and_what_its_user_may_now(self, store: RunStore) -> None:
        store.add_user("ada", role="user", label="first", token_hash="h1")
        store.put_workspace(a_workspace())
        owners = {"hers": "ada", "servers": "", "old": None, "odd": None}
        for run_id, owner in owners.items():
            by = "ada" if run_id == "old" else "root"
            store.create_run(NewRun(run_id, run_id, "default", run_id, type=None, submitted_by=by, owner=owner))
            store.add_token(f"token-{run_id}", run_id=run_id, attempt=0)

        def found() -> dict[str, tuple[str, str | None]]:
            accesses = {run_id: store.find_token(f"token-{run_id}") for run_id in owners}
            return {run_id: (one.user, one.role) for run_id, one in accesses.items() if one is not None}

        servers: tuple[str, str | None] = ("", None)
        assert store.find_token("token-hers") == RunAccess("hers", 0, "default", "ada", "user")
        assert found() == {"hers": ("ada", "user"), "servers": servers, "old": ("ada", "user"), "odd": servers}
        store.set_user_role("ada", "reader")
        assert found()["hers"] == ("ada", "reader")
        store.remove_user("ada")
        assert found() == {"hers": ("ada", None), "servers": servers, "old": servers, "odd": servers}
        assert store.list_owners("default") == {"ada", "", "root"}
        assert store.list_owners("default", experiment="hers") == {"ada"}
        assert store.list_owners("default", experiment="none") == set()
        assert store.get_experiment("default", "hers").owner == "ada"

    def test_when_a_token_was_last_seen_is_kept(self, store: RunStore) -> None:
        store.add_user("ada", role="user", label="first", token_hash="h1")
        access = store.find_access("h1")
        assert access is not None and store.get_user("ada").tokens[0].seen_at is None
        store.note_token_seen(access.token_id)
        store.note_token_seen(access.token_id + 100)
        token = store.get_user("ada").tokens[0]

        assert token.seen_at is not None and token.seen_at >= token.created_at
