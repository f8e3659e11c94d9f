"""Deleting, hiding and restoring runs: a part of RunRecordsSuite."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from runyard.core.errors import Conflict, InvalidArgument, NotFound
from runyard.core.records import Run, RunChange, RunFile
from runyard.core.statuses import RunStatus
from runyard.core.users import RunAccess
from runyard.store.base import RunQuery, RunStore
from runyard.testing.runs import Journal, a_new_run, a_run, points

VALUES = [float(value) for value in range(5000)]  # more than one chunk of points
UNTIL = datetime(2030, 1, 2, tzinfo=timezone.utc)
BEFORE, LATER = UNTIL - timedelta(seconds=1), UNTIL + timedelta(days=1)


def ended(store: RunStore, run_id: str, **fields: str) -> Run:
    a_run(store, run_id, **fields)
    return store.set_status(run_id, RunStatus.CANCELED)


def log(store: RunStore, run_id: str) -> None:
    Journal(store, run_id).ship(points("loss", VALUES))


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


class DeletedRunsSuite:
    """What becomes of runs that are archived, hidden, restored, purged or deleted."""

    def test_a_deleted_run_leaves_nothing_behind(self, store: RunStore) -> None:
        ended(store, "gone")
        ended(store, "stays")
        for run_id in ("gone", "stays"):
            log(store, run_id)
            store.put_file(run_id, RunFile(name="outputs/m.pkl", size=1, chunks=["a" * 64]))
            store.add_token(f"hash-{run_id}", run_id=run_id, attempt=0)

        assert store.delete_run("gone") == ["gone"]
        assert store.find_run("gone") is None and store.find_token("hash-gone") is None
        assert [run.id for run in store.list_runs(RunQuery("default")).runs] == ["stays"]
        for ask in (store.get_run, store.list_metrics, store.list_files, store.delete_run):
            with pytest.raises(NotFound, match="gone"):
                ask("gone")
        assert [metric.name for metric in store.list_metrics("stays")] == ["loss"]
        assert list(store.read_series("stays", "loss").values) == VALUES
        assert [file.name for file in store.list_files("stays")] == ["outputs/m.pkl"]
        assert store.find_token("hash-stays") == RunAccess("stays", 0, "default")

    def test_a_run_made_again_starts_empty_with_a_new_number(self, store: RunStore) -> None:
        first = ended(store, "r1")
        log(store, "r1")
        store.delete_run("r1")
        run, is_new = store.create_run(a_new_run("r1"))

        assert is_new and (first.number, run.number) == (1, 2)
        assert store.list_metrics("r1") == [] and store.list_marks("r1", 1) == []
        log(store, "r1")
        assert list(store.read_series("r1", "loss").values) == VALUES

    def test_child_runs_go_with_their_parent(self, store: RunStore) -> None:
        ended(store, "top")
        for child, parent in (("child", "top"), ("grandchild", "child")):
            store.create_run(replace(a_new_run(child), parent_id=parent))
            store.set_status(child, RunStatus.CANCELED)
        ended(store, "other")

        assert sorted(store.delete_run("top")) == ["child", "grandchild", "top"]
        assert [run.id for run in store.list_runs(RunQuery("default", include_children=True)).runs] == ["other"]

    def test_a_run_that_goes_on_is_not_deleted(self, store: RunStore) -> None:
        ended(store, "top")
        store.create_run(replace(a_new_run("child"), parent_id="top"))

        for run_id in ("child", "top"):
            with pytest.raises(Conflict, match="`child` cannot be deleted") as caught:
                store.delete_run(run_id)
        assert "NotStarted" in caught.value.why and "runyard runs cancel child" in caught.value.hint
        assert store.find_run("top") is not None and store.find_run("child") is not None

    def test_archived_runs_are_in_a_view_of_their_own(self, store: RunStore) -> None:
        for run_id in ("a", "b", "c"):
            a_run(store, run_id)
        at = store.update_run("b", RunChange(archived=True)).archived_at
        again = store.update_run("b", RunChange(archived=True, tags_set={"x": "y"}))

        assert at is not None and again.archived_at == at and store.get_run("b") == again
        assert (shown(store), shown(store, "archived"), shown(store, "all")) == (["a", "c"], ["b"], ["a", "b", "c"])
        assert shown(store, "all", tags={"x": "y"}) == ["b"] and shown(store, tags={"x": "y"}) == []
        log(store, "b")
        assert shown(store, "archived", order="metrics.loss") == ["b"]
        assert shown(store, order="metrics.loss") == ["a", "c"]
        assert store.update_run("b", RunChange(archived=False)).archived_at is None
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
