"""What every store does with workspaces and experiments."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runyard.core.errors import Conflict, NotFound
from runyard.store.base import RunQuery, RunStore
from runyard.testing.run_store.deletes import BEFORE, LATER, UNTIL, ended, family, shown
from runyard.testing.runs import a_run, a_workspace


class WorkspacesSuite:
    """The contract of `Workspaces`."""

    def test_a_workspace_is_made_once(self, store: RunStore) -> None:
        first = store.put_workspace(a_workspace("team", tags={"a": "b"}))
        again = store.put_workspace(replace(a_workspace("team"), id="other"))

        assert first == again == store.get_workspace("team")
        assert [workspace.name for workspace in store.list_workspaces()] == ["team"]

    def test_an_unknown_workspace_is_not_found(self, store: RunStore) -> None:
        with pytest.raises(NotFound, match="nowhere"):
            store.get_workspace("nowhere")
        with pytest.raises(NotFound, match="nowhere"):
            store.put_experiment("nowhere", "e")

    def test_an_experiment_is_made_once(self, store: RunStore) -> None:
        store.put_workspace(a_workspace())
        first = store.put_experiment("default", "mnist")

        assert store.put_experiment("default", "mnist") == first == store.get_experiment("default", "mnist")
        with pytest.raises(NotFound, match="cifar"):
            store.get_experiment("default", "cifar")

    def test_archived_experiments_leave_the_usual_list(self, store: RunStore) -> None:
        store.put_workspace(a_workspace())
        for name in ("b", "a"):
            store.put_experiment("default", name)
        archived = store.update_experiment("default", "a", archived=True)

        assert archived.archived_at is not None
        assert [item.name for item in store.list_experiments("default")] == ["b"]
        assert [item.name for item in store.list_experiments("default", view="ArchivedOnly")] == ["a"]
        assert [item.name for item in store.list_experiments("default", view="All")] == ["a", "b"]
        assert store.list_experiments("default", view="All", name="a") == [archived]
        assert store.update_experiment("default", "a", archived=False).archived_at is None

    def test_an_experiments_tags_are_set_and_removed(self, store: RunStore) -> None:
        store.put_workspace(a_workspace())
        store.put_experiment("default", "e")
        store.update_experiment("default", "e", tags_set={"a": "1", "b": None})
        found = store.update_experiment("default", "e", tags_set={"c": "3"}, tags_remove=["a"])

        assert found.tags == {"b": None, "c": "3"} == store.get_experiment("default", "e").tags

    def test_an_experiment_has_any_title_and_is_found_by_it(self, store: RunStore) -> None:
        store.put_workspace(a_workspace())
        odd = "loss: \n 50 %" + "x" * 480
        plain = store.create_experiment("default", "plain")
        made = store.create_experiment("default", odd, owner="ann", tags={"a": "1"}, artifact_location="s3://b/x")

        assert (plain.name, plain.title, plain.shown_name) == ("plain", None, "plain")
        assert (made.title, made.owner, made.tags, made.artifact_location) == (odd, "ann", {"a": "1"}, "s3://b/x")
        assert made.name.startswith("loss-50-xxx") and len(made.name) < 100
        assert store.get_experiment("default", odd) == made == store.put_experiment("default", odd)
        assert store.find_experiment("default", title=odd) == made == store.find_experiment("default", id=made.id)
        assert (
            store.list_experiments("default", name=odd) == [made] == store.list_experiments("default", name=made.name)
        )
        run = a_run(store, "r1", experiment=odd)
        assert (run.experiment, run.experiment_id) == (made.name, made.id)
        assert a_run(store, "r1", experiment=odd).id == "r1"
        assert [found.id for found in store.list_runs(RunQuery("default", experiment=odd)).runs] == ["r1"]
        assert store.list_owners("default", experiment=odd) == {run.owning_user}
        assert store.find_experiment("default", title=made.name) is None
        assert store.find_experiment("default", id="none") is None
        for title in (odd, "plain"):
            with pytest.raises(Conflict, match="already"):
                store.create_experiment("default", title)

    def test_a_title_changes_and_stays_unique(self, store: RunStore) -> None:
        store.put_workspace(a_workspace())
        first = store.put_experiment("default", "a")
        renamed = store.update_experiment("default", "a", title="b")
        again = store.create_experiment("default", "a")

        assert (renamed.name, renamed.title, first.changed_at) == ("a", "b", None)
        assert renamed.changed_at is not None and renamed.changed_at >= first.created_at
        assert again.title == "a" and again.name.startswith("a-")
        assert store.find_experiment("default", title="b") == renamed == store.get_experiment("default", "a")
        assert store.find_experiment("default", title="a") == again
        for name, title in (("b", "a"), (again.name, "b")):
            with pytest.raises(Conflict, match=f"`{title}` already"):
                store.update_experiment("default", name, title=title)
        store.update_experiment("default", again.name, title="c", archived=True)
        with pytest.raises(Conflict, match="archived"):
            store.create_experiment("default", "c")
        back = store.update_experiment("default", "b", title="a")
        assert back.title is None
        assert store.update_experiment("default", "a", title="a", tags_set={"t": "1"}).changed_at == back.changed_at

    def test_a_deleted_experiment_is_made_again_by_its_title_or_leaves_it(self, store: RunStore) -> None:
        store.put_workspace(a_workspace())
        made = store.create_experiment("default", "a\nb", tags={"t": "1"}, artifact_location="s3://b")
        store.hide_experiment("default", "a\nb", until=UNTIL)
        assert store.find_experiment("default", title="a\nb") is None is store.find_experiment("default", id=made.id)
        again = store.create_experiment("default", "a\nb")
        assert (again.id, again.tags, again.artifact_location) == (made.id, {}, None)

        store.hide_experiment("default", "a\nb", until=UNTIL)
        store.put_experiment("default", "other")
        assert store.update_experiment("default", "other", title="a\nb").title == "a\nb"
        store.restore_experiment("default", made.name)
        assert store.get_experiment("default", made.name).title is None
        store.hide_experiment("default", "a\nb", until=UNTIL)
        store.restore_experiment("default", "a\nb")
        assert store.get_experiment("default", "a\nb").name == "other"

    def test_an_experiment_is_deleted_when_it_has_no_runs(self, store: RunStore) -> None:
        ended(store, "r1", experiment="e")
        before = store.get_experiment("default", "e")

        with pytest.raises(Conflict, match="`e` cannot be deleted"):
            store.delete_experiment("default", "e")
        store.delete_run("r1")
        store.delete_experiment("default", "e")
        for ask in (store.get_experiment, store.delete_experiment):
            with pytest.raises(NotFound, match="`e`"):
                ask("default", "e")
        assert store.put_experiment("default", "e").id != before.id
        assert a_run(store, "r2", experiment="e").number == 1

    def test_a_workspace_is_deleted_with_its_assets_when_it_has_no_experiments(self, store: RunStore) -> None:
        for name in ("default", "other"):
            store.put_workspace(a_workspace(name))
            store.put_asset(name, "environment", "mine", {"of": name})
        store.put_experiment("default", "e")

        with pytest.raises(Conflict, match="`default` cannot be deleted"):
            store.delete_workspace("default")
        assert store.get_asset("default", "environment", "mine").document == {"of": "default"}
        assert store.get_workspace("default").name == "default"
        store.delete_experiment("default", "e")
        store.delete_workspace("default")
        for ask in (store.get_workspace, store.delete_workspace):
            with pytest.raises(NotFound, match="`default`"):
                ask("default")
        assert [found.name for found in store.list_workspaces()] == ["other"]
        assert store.get_asset("other", "environment", "mine").document == {"of": "other"}
        store.put_workspace(a_workspace())
        assert store.list_assets("default", "environment") == []

    def test_a_hidden_experiment_comes_back_with_its_runs(self, store: RunStore) -> None:
        family(store)
        store.update_experiment("default", "e", archived=True, tags_set={"a": "b"})
        before = store.get_experiment("default", "e")
        store.hide_run("stranger", until=BEFORE)

        assert store.hide_experiment("default", "e", until=UNTIL) == ["top", "child", "grandchild"]
        for ask in (store.get_experiment, lambda *names: store.hide_experiment(*names, until=UNTIL)):
            with pytest.raises(NotFound, match="`e`"):
                ask("default", "e")
        assert [found.name for found in store.list_experiments("default", view="All")] == ["other"]
        assert store.list_experiments("default", view="DeletedOnly") == [replace(before, undo_until=UNTIL)]
        assert shown(store, "deleted", experiment="e") == ["top", "child", "stranger"]

        assert store.restore_experiment("default", "e") == ["top", "child", "grandchild"]
        assert store.get_experiment("default", "e") == before
        assert shown(store, "deleted") == ["stranger"]
        for name in ("e", "unknown"):
            with pytest.raises(NotFound, match=f"no deleted experiment `{name}`"):
                store.restore_experiment("default", name)

    def test_one_run_of_a_hidden_experiment_brings_the_experiment_back(self, store: RunStore) -> None:
        ended(store, "r1", experiment="e")
        ended(store, "r2", experiment="e")
        before = store.get_experiment("default", "e")
        store.hide_experiment("default", "e", until=UNTIL)

        assert store.restore_run("r2") == ["r2"] and store.get_experiment("default", "e") == before
        assert store.restore_experiment("default", "e") == ["r1"]

    def test_an_experiment_made_again_is_new_and_old_runs_can_come_back_into_it(self, store: RunStore) -> None:
        ended(store, "r1", experiment="e")
        store.update_experiment("default", "e", archived=True, tags_set={"a": "b"})
        store.hide_experiment("default", "e", until=UNTIL)
        new = a_run(store, "r2", experiment="e")

        found = store.get_experiment("default", "e")
        assert (found.tags, found.archived_at, new.number) == ({}, None, 2) and shown(store, experiment="e") == ["r2"]
        assert store.restore_experiment("default", "e") == ["r1"] and shown(store, experiment="e") == ["r1", "r2"]

    def test_hidden_experiments_are_purged_after_their_runs(self, store: RunStore) -> None:
        for name in ("gone", "again"):
            ended(store, f"r-{name}", experiment=name)
            store.hide_experiment("default", name, until=UNTIL)
        a_run(store, "new", experiment="again")
        store.purge_experiments(LATER)

        assert [found.name for found in store.list_experiments("default", view="DeletedOnly")] == ["gone"]
        for run_id in store.list_purges(UNTIL):
            store.purge_run(run_id, UNTIL)
        store.purge_experiments(BEFORE)
        assert [found.name for found in store.list_experiments("default", view="DeletedOnly")] == ["gone"]
        store.purge_experiments(UNTIL)
        assert store.list_experiments("default", view="DeletedOnly") == [] and store.find_next_purge() is None
        assert [found.name for found in store.list_experiments("default", view="All")] == ["again"]
