"""The gateway's rows become metrics of the service's run, each of them once."""

from __future__ import annotations

from runyard.server.serving.figures import keep
from runyard.store.memory.store import MemoryRunStore
from runyard.testing.runs import a_run

ROWS = [{"row": number, "time": 10.0 * number, "requests": number} for number in (1, 2, 3)]


def test_rows_that_come_again_are_stored_once() -> None:
    """A server that is killed between rows and record asks for the same ones again."""
    store = MemoryRunStore()
    a_run(store, "service_1")
    for rows in (ROWS[:2], ROWS[:2], ROWS):
        keep(store, "service_1", rows)

    assert store.read_series("service_1", "requests").values.tolist() == [1.0, 2.0, 3.0]


def test_a_gateway_that_counts_anew_goes_on() -> None:
    store = MemoryRunStore()
    a_run(store, "service_1")
    keep(store, "service_1", ROWS[:2])
    keep(store, "service_1", [{"row": 1, "time": 40.0, "requests": 7}])

    assert store.read_series("service_1", "requests").values.tolist() == [1.0, 2.0, 7.0]
    assert [info.name for info in store.list_metrics("service_1")] == ["requests"]
