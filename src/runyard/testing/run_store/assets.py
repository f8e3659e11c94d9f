"""What every `RunStore` does with assets, named things in versions, and with the journals of sweeps."""

from __future__ import annotations

import pytest

from runyard.core.errors import Conflict, NotFound
from runyard.store.base import RunStore
from runyard.testing.runs import a_run, a_workspace


class AssetSuite:
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

        assert set(store.read_references().chunks) == {"c1", "c2", "c3"}
        store.delete_asset("default", "model", "net", version=1)
        assert set(store.read_references().chunks) == {"c3"}

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


class EventSuite:
    def test_events_come_back_in_order_from_any_place(self, store: RunStore) -> None:
        a_run(store, "sweep")
        assert store.append_events("sweep", [{"kind": "planned", "n": 1}, {"kind": "planned", "n": 2}], after=0) == 2
        assert store.append_events("sweep", [{"kind": "ended", "value": 0.1}], after=2) == 3

        assert store.list_events("sweep", after=1) == [{"kind": "planned", "n": 2}, {"kind": "ended", "value": 0.1}]
        assert len(store.list_events("sweep")) == 3

    def test_a_writer_that_missed_an_event_writes_nothing(self, store: RunStore) -> None:
        a_run(store, "sweep")
        store.append_events("sweep", [{"n": 1}], after=0)

        with pytest.raises(Conflict, match="has 1 events"):
            store.append_events("sweep", [{"n": 2}], after=0)
        assert store.list_events("sweep") == [{"n": 1}]

    def test_only_a_run_has_a_journal(self, store: RunStore) -> None:
        with pytest.raises(NotFound, match="nobody"):
            store.append_events("nobody", [{}], after=0)
        with pytest.raises(NotFound, match="nobody"):
            store.list_events("nobody")
