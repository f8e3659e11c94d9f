"""What every `RunStore` does when runs and experiments are deleted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runyard.core.errors import Conflict, NotFound
from runyard.core.records import Run, RunFile
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
