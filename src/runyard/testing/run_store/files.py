"""What every store does with files, snapshots and the index of packed content."""

from __future__ import annotations

import pytest

from runyard.core.errors import Conflict, NotFound
from runyard.core.records import RunFile
from runyard.store.base import References, RunStore
from runyard.testing.run_store.deletes import ended
from runyard.testing.runs import a_run


class FilesSuite:
    """The contract of `Files`."""

    def test_a_file_is_replaced_or_refused(self, store: RunStore) -> None:
        a_run(store, "r1")
        first = store.put_file("r1", RunFile("outputs/m", 3, sha256="a" * 64, chunks=["c1"]))
        same = store.put_file("r1", RunFile("outputs/m", 3, sha256="a" * 64, chunks=["c1"]), replace=False)

        assert first.updated_at is not None
        assert same.sha256 == first.sha256
        with pytest.raises(Conflict, match="outputs/m"):
            store.put_file("r1", RunFile("outputs/m", 4, sha256="b" * 64, chunks=["c2"]), replace=False)
        assert store.put_file("r1", RunFile("outputs/m", 4, sha256="b" * 64)).size == 4
        found = store.find_file("r1", "outputs/m")
        assert found is not None and (found.size, found.sha256) == (4, "b" * 64)

    def test_many_files_are_stored_at_once_and_a_refused_one_keeps_none_out(self, store: RunStore) -> None:
        a_run(store, "r1")
        store.put_file("r1", RunFile("b", 3, sha256="a" * 64, chunks=["c1"]))
        files = [RunFile(name, 4, sha256="b" * 64, chunks=["c2"]) for name in ("a", "b", "é")]

        first, refused, last = store.put_files("r1", files, replace=False)

        assert isinstance(refused, Conflict) and "`b`" in refused.what
        assert isinstance(first, RunFile) and isinstance(last, RunFile) and first.updated_at is not None
        assert [(file.name, file.size) for file in store.list_files("r1")] == [("a", 4), ("b", 3), ("é", 4)]
        assert store.put_files("r1", files)[1] == store.find_file("r1", "b")
        assert {name: file.size for name, file in store.find_files("r1", ["b", "é", "none"]).items()} == {
            "b": 4,
            "é": 4,
        }
        assert store.put_files("r1", []) == []

    def test_deleted_files_are_gone_and_others_stay(self, store: RunStore) -> None:
        a_run(store, "r1")
        a_run(store, "r2")
        store.put_files("r1", [RunFile("a", 1), RunFile("a/b", 2), RunFile("c", 3)])
        store.put_file("r2", RunFile("a", 4))
        store.delete_files("r1", ["a", "c", "unknown"])

        assert [file.name for file in store.list_files("r1")] == ["a/b"]
        assert store.find_file("r1", "a") is None
        assert [file.size for file in store.list_files("r2")] == [4]
        with pytest.raises(NotFound):
            store.delete_files("unknown", ["a"])

    def test_the_last_of_two_files_of_one_name_counts(self, store: RunStore) -> None:
        a_run(store, "r1")
        store.put_files("r1", [RunFile("a", 1), RunFile("a", 2)])
        _, second = store.put_files("r1", [RunFile("n", 1), RunFile("n", 2)], replace=False)

        assert [(file.name, file.size) for file in store.list_files("r1")] == [("a", 2), ("n", 1)]
        assert isinstance(second, Conflict)

    def test_files_of_an_unknown_run_are_refused(self, store: RunStore) -> None:
        with pytest.raises(NotFound, match="nobody"):
            store.put_files("nobody", [RunFile("a", 1)])

    def test_files_are_listed_by_name(self, store: RunStore) -> None:
        a_run(store, "r1")
        for name in ("outputs/b", "logs/a", "outputs/é"):
            store.put_file("r1", RunFile(name, 1, kind="stream", complete=False))

        assert [file.name for file in store.list_files("r1")] == ["logs/a", "outputs/b", "outputs/é"]
        assert store.find_file("r1", "outputs/none") is None

    def test_files_are_listed_without_chunks_and_summed_up(self, store: RunStore) -> None:
        for run_id, user in (("r1", "ann"), ("r2", "ann"), ("r3", "bob")):
            a_run(store, run_id, submitted_by=user)
            store.put_file(run_id, RunFile("outputs/m", 10, chunks=["c1", "c1"]))
        store.put_file("r1", RunFile("log", 5, kind="stream", chunks=["s1"]))

        assert [file.chunks for file in store.list_files("r1")] == [["s1"], ["c1", "c1"]]
        assert [file.chunks for file in store.list_files("r1", with_chunks=False)] == [["s1"], []]
        assert (store.sum_file_sizes(run_id="r1"), store.sum_file_sizes(run_id="r2")) == (15, 10)
        assert [store.sum_file_sizes(submitted_by=user) for user in ("ann", "bob", "eve")] == [25, 10, 0]

    def test_a_snapshot_keeps_its_root(self, store: RunStore) -> None:
        store.put_snapshot("s1", "root1", files=2, size_bytes=10)
        store.put_snapshot("s1", "root1", files=2, size_bytes=10)

        assert store.find_snapshot("s1") == "root1"
        assert store.find_snapshot("s2") is None

    def test_content_is_found_where_it_was_packed_first(self, store: RunStore) -> None:
        ids = [f"{index:064x}" for index in range(2500)]
        store.add_chunks("pack-1", {id: (index, 10, 20, "zstd") for index, id in enumerate(ids)})
        store.add_chunks("pack-2", {ids[0]: (99, 1, 1, "raw"), "f" * 64: (7, 1, 2, "raw")})
        found = store.find_chunks([*ids, "f" * 64, "e" * 64])

        assert len(found) == 2501
        assert found[ids[0]] == ("pack-1", 0, 10, 20, "zstd")
        assert found[ids[2499]] == ("pack-1", 2499, 10, 20, "zstd")
        assert found["f" * 64] == ("pack-2", 7, 1, 2, "raw")
        assert list(store.iter_packs()) == ["pack-1", "pack-2"]
        assert store.find_chunks([]) == {}

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
