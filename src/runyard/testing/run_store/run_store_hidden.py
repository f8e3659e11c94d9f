"""What every `RunStore` does with runs that are archived, and with what is deleted and can still come back."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from runyard.core.errors import Conflict, InvalidArgument, NotFound
from runyard.core.records import RunFile
from runyard.core.statuses import RunStatus
from runyard.core.users import RunAccess
from runyard.store.base import RunQuery, RunStore
from runyard.testing.run_store.deletes import VALUES, ended, log
from runyard.testing.runs import a_new_run, a_run

UNTIL = datetime(2030, 1, 2, tzinfo=timezone.utc)
BEFORE, LATER = UNTIL - timedelta(seconds=1), UNTIL + timedelta(days=1)


def shown(store: RunStore, view: str = "active", **query: object) -> list[str]:
    wanted = RunQuery("default", include_children=True, descending=False, view=view, **query)  # type: ignore[arg-type]  # spread
    return [run.id for run in store.list_runs(wanted).runs]


def family(store: RunStore) -> None:
    """`top` in experiment `e`, a child in `e`, a grandchild in another, and a stranger; all ended."""
    ended(store, "top", experiment="e")
    for child, parent, experiment in (("child", "top", "e"), ("grandchild", "child", "other")):
        store.create_run(replace(a_new_run(child, experiment=experiment), parent_id=parent))
        store.set_status(child, RunStatus.CANCELED)
    ended(store, "stranger", experiment="e")


class HiddenSuite:
    def test_archived_runs_are_in_a_view_of_their_own(self, store: RunStore) -> None:
        for run_id in ("a", "b", "c"):
            a_run(store, run_id)
        at = store.update_run("b", archived=True).archived_at
        again = store.update_run("b", archived=True, tags_set={"x": "y"})

        assert at is not None and again.archived_at == at and store.get_run("b") == again
        assert (shown(store), shown(store, "archived"), shown(store, "all")) == (["a", "c"], ["b"], ["a", "b", "c"])
        assert shown(store, "all", tags={"x": "y"}) == ["b"] and shown(store, tags={"x": "y"}) == []
        log(store, "b")
        assert shown(store, "archived", order="metrics.loss") == ["b"]
        assert shown(store, order="metrics.loss") == ["a", "c"]
        assert store.update_run("b", archived=False).archived_at is None
        assert shown(store) == ["a", "b", "c"] and shown(store, "archived") == []
        with pytest.raises(InvalidArgument, match="'odd'"):
            shown(store, "odd")

    def test_a_hidden_run_is_as_if_gone_and_comes_back_whole(self, store: RunStore) -> None:
        family(store)
        log(store, "child")
        store.put_file("child", RunFile(name="m", size=1, chunks=["b" * 64]))
        store.add_token("hash", run_id="child", attempt=0)
        before = [store.get_run(run_id) for run_id in ("top", "child", "grandchild")]

        assert store.hide_run("top", until=UNTIL) == ["top", "child", "grandchild"]
        assert shown(store) == shown(store, "all") == ["stranger"] and store.find_token("hash") is None
        for ask in (store.get_run, store.list_metrics, store.list_files, lambda id: store.hide_run(id, until=UNTIL)):
            with pytest.raises(NotFound, match="child"):
                ask("child")
        assert store.find_run("child") is None
        assert store.read_references().chunks == {"b" * 64}
        assert shown(store, "deleted") == ["top", "child", "grandchild"]
        assert shown(store, "deleted", experiment="other") == ["grandchild"]
        hidden = store.find_hidden("child")
        assert hidden is not None and hidden == replace(before[1], undo_until=UNTIL)
        assert store.list_family("top") == ["top", "child", "grandchild"] and store.list_family("nobody") == []
        assert store.find_hidden("stranger") is None and store.find_hidden("nobody") is None

        assert store.restore_run("top") == ["top", "child", "grandchild"]
        assert [store.get_run(run_id) for run_id in ("top", "child", "grandchild")] == before
        assert list(store.read_series("child", "loss").values) == VALUES
        assert [file.name for file in store.list_files("child")] == ["m"] and store.find_token("hash") == RunAccess(
            "child", 0, "default"
        )
        assert shown(store, "deleted") == [] and store.find_next_purge() is None

    def test_the_id_and_key_of_a_hidden_run_stay_taken(self, store: RunStore) -> None:
        ended(store, "r1")
        store.hide_run("r1", until=UNTIL)

        for new in (a_new_run("r1"), replace(a_new_run("r1"), key="another")):
            with pytest.raises(Conflict, match="`r1` is taken") as caught:
                store.create_run(new)
        assert "runyard runs delete --now r1" in caught.value.hint
        assert store.delete_run("r1") == ["r1"]
        assert store.create_run(a_new_run("r1"))[1]

    def test_a_run_that_goes_on_is_not_hidden(self, store: RunStore) -> None:
        ended(store, "top", experiment="e")
        store.create_run(replace(a_new_run("child", experiment="other"), parent_id="top"))

        with pytest.raises(Conflict, match="`child` cannot be deleted"):
            store.hide_run("top", until=UNTIL)
        with pytest.raises(Conflict, match="`child` cannot be deleted"):
            store.hide_experiment("default", "e", until=UNTIL)
        assert shown(store) == ["top", "child"] and store.find_next_purge() is None

    def test_what_is_below_a_hidden_run_comes_back_with_it_only(self, store: RunStore) -> None:
        family(store)
        store.hide_run("grandchild", until=BEFORE)
        store.hide_run("top", until=UNTIL)

        for run_id in ("child", "grandchild"):
            with pytest.raises(Conflict, match=f"`{run_id}` cannot be restored alone") as caught:
                store.restore_run(run_id)
            assert "runyard runs restore top" in caught.value.hint
        assert store.restore_run("top") == ["top", "child"]
        assert shown(store, "deleted") == ["grandchild"]
        assert store.restore_run("grandchild") == ["grandchild"]
        for run_id in ("top", "nobody"):
            with pytest.raises(NotFound, match=f"no deleted run `{run_id}`"):
                store.restore_run(run_id)

    def test_hidden_runs_are_purged_when_their_time_has_come(self, store: RunStore) -> None:
        family(store)
        store.hide_run("top", until=UNTIL)

        assert store.find_next_purge() == UNTIL
        assert store.list_purges(BEFORE) == [] and store.purge_run("top", BEFORE) == []
        assert store.list_purges(UNTIL) == ["top", "child", "grandchild"]
        assert store.purge_run("top", UNTIL) == ["top", "child", "grandchild"]
        assert store.list_purges(LATER) == [] and shown(store, "deleted") == []
        assert store.purge_run("top", LATER) == []
        assert store.create_run(a_new_run("top"))[1]

    def test_a_run_that_was_restored_is_not_purged(self, store: RunStore) -> None:
        family(store)
        store.hide_run("top", until=UNTIL)
        due = store.list_purges(LATER)
        store.restore_run("top")

        assert [store.purge_run(run_id, LATER) for run_id in due] == [[], [], []]
        assert store.purge_run("stranger", LATER) == []
        assert shown(store) == ["top", "child", "grandchild", "stranger"]

    def test_a_run_is_not_purged_before_one_below_it(self, store: RunStore) -> None:
        family(store)
        store.hide_run("grandchild", until=LATER)
        store.hide_run("top", until=UNTIL)

        assert store.purge_run("top", UNTIL) == []
        assert store.purge_run("top", LATER) == ["top", "child", "grandchild"]

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
