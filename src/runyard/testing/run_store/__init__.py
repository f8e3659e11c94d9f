"""The conformance suite of RunStore.

May enter: tests of stores, here and in plug-ins.
Loads: in tests.
"""

from runyard.testing.run_store.runs import RunStoreSuite

__all__ = ["RunStoreSuite"]
