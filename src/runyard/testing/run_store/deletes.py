"""What every `RunStore` does when runs and experiments are deleted.

What every `RunStore` does with runs that are archived, and with what is deleted and can still come back.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from runyard.core.errors import Conflict, InvalidArgument, NotFound
from runyard.core.records import Run, RunChange, RunFile
from runyard.core.statuses import RunStatus
from runyard.core.users import RunAccess
from runyard.store.base import References, RunQuery, RunStore
from runyard.testing.runs import Journal, a_new_run, a_run, a_workspace, points

VALUES = [float(value) for value in range(5000)]  # more than one chunk of points


class DeleteSuite:
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
        store.delete_experiment("default", "e")
        store.delete_workspace("default")
        for ask in (store.get_workspace, store.delete_workspace):
            with pytest.raises(NotFound, match="`default`"):
                ask("default")
        assert [found.name for found in store.list_workspaces()] == ["other"]
        assert store.get_asset("other", "environment", "mine").document == {"of": "other"}
        store.put_workspace(a_workspace())
        assert store.list_assets("default", "environment") == []

    def test_what_runs_refer_to_is_told(self, store: RunStore) -> None:
        ended(store, "r1", snapshot_id="s1", snapshot_root="a" * 64)
        ended(store, "r2")
        store.put_file("r2", RunFile(name="m", size=1, chunks=["b" * 64, "c" * 64]))
        store.put_file("r2", RunFile(name="log", size=1, kind="stream", chunks=["streams/r2/x"]))

        assert store.read_references() == References({"a" * 64}, {"b" * 64, "c" * 64})
        store.delete_run("r1")
        assert store.read_references().roots == set()

    def test_snapshots_are_listed_and_forgotten(self, store: RunStore) -> None:
        for name in ("s1", "s2"):
            store.put_snapshot(name, name * 32, files=1, size_bytes=1)
        store.delete_snapshots(["s1", "unknown"])

        assert store.list_snapshots() == {"s2": "s2" * 32} and store.find_snapshot("s1") is None

    def test_chunks_are_forgotten_and_packs_replaced(self, store: RunStore) -> None:
        store.add_chunks("packs/old", {"a": (0, 5, 9, "zstd"), "b": (5, 3, 3, "raw"), "c": (8, 1, 1, "raw")})
        store.add_chunks("packs/empty", {"d": (0, 1, 1, "raw")})
        store.remove_chunks(["a", "d", "unknown"])
        store.replace_pack("packs/old", "packs/new", {"b": (0, 3, 3, "raw"), "c": (3, 1, 1, "raw")})
        store.replace_pack("packs/empty", None, {})

        assert sorted(store.iter_chunk_places()) == [
            ("b", "packs/new", 0, 3, 3, "raw"),
            ("c", "packs/new", 3, 1, 1, "raw"),
        ]
        assert list(store.iter_packs()) == ["packs/new"]
        assert store.find_chunks(["a", "c"]) == {"c": ("packs/new", 3, 1, 1, "raw")}


def ended(store: RunStore, run_id: str, **fields: str) -> Run:
    a_run(store, run_id, **fields)
    return store.set_status(run_id, RunStatus.CANCELED)


def log(store: RunStore, run_id: str) -> None:
    Journal(store, run_id).ship(points("loss", VALUES))


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
