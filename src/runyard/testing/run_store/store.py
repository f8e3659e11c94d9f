"""What every RunStore does: the union of the suites of its parts."""

from __future__ import annotations

from runyard.store.base import RunStore
from runyard.testing.run_store.assets import AssetsSuite, UsersSuite
from runyard.testing.run_store.files import FilesSuite
from runyard.testing.run_store.imports import ImportsSuite
from runyard.testing.run_store.metrics import MetricSeriesSuite
from runyard.testing.run_store.runs import RunRecordsSuite
from runyard.testing.run_store.table import QueriesSuite
from runyard.testing.run_store.workspaces import WorkspacesSuite


class RunStoreSuite(
    WorkspacesSuite, RunRecordsSuite, MetricSeriesSuite, FilesSuite, AssetsSuite, UsersSuite, QueriesSuite, ImportsSuite
):
    """The contract of `RunStore`. Subclass it with a fixture `store` that gives an empty store."""

    def test_a_value_is_kept_and_replaced(self, store: RunStore) -> None:
        assert store.find_value("port") is None
        store.set_value("port", "1")
        store.set_value("port", "2")

        assert store.find_value("port") == "2"
