"""What every `RunStore` does with the users of a team's server."""

from __future__ import annotations

import threading

import pytest

from runyard.core.errors import Conflict, NotFound
from runyard.core.records import NewRun
from runyard.core.users import Access, RunAccess
from runyard.store.base import RunStore
from runyard.testing.runs import a_workspace


class UserSuite:
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
