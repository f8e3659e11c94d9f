"""The conformance suites of RunStore and of its parts. Each needs a fixture `store` that gives an empty store.

May enter: tests of stores, here and in plug-ins.
Loads: in tests.
"""

from runyard.testing.run_store.assets import AssetsSuite, UsersSuite
from runyard.testing.run_store.files import FilesSuite
from runyard.testing.run_store.imports import ImportsSuite
from runyard.testing.run_store.metrics import MetricSeriesSuite
from runyard.testing.run_store.runs import RunRecordsSuite
from runyard.testing.run_store.store import RunStoreSuite
from runyard.testing.run_store.table import QueriesSuite
from runyard.testing.run_store.workspaces import WorkspacesSuite

__all__ = [
    "AssetsSuite",
    "FilesSuite",
    "ImportsSuite",
    "MetricSeriesSuite",
    "QueriesSuite",
    "RunRecordsSuite",
    "RunStoreSuite",
    "UsersSuite",
    "WorkspacesSuite",
]
