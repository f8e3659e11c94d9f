"""What a shipment costs grows with what it holds, never faster: what the store is asked is counted, not the time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from runyard.core.errors import ProtocolError
from runyard.core.formats import journal
from runyard.core.formats.frames import Frame
from runyard.core.statuses import RunStatus
from runyard.engine.ingest.ship import MOST_PIECES
from runyard.store.base import RunStore
from runyard.store.record_limits import LEFT_OUT, MOST_WARNINGS
from tests.engine.bench import WRITER, Bench, header, journal_frame, name, number


def sql_bench(folder: Path) -> Bench:
    folder.mkdir(exist_ok=True)
    bench = Bench(folder, database=folder / "runs.db")
    bench.submit()
    return bench


def fails(count: int) -> list[Frame]:
    return _one([journal.pack_long(journal.FAIL, {"error_details": f"reason {at}"}) for at in range(count)])


def same_fails(count: int) -> list[Frame]:
    return _one([journal.pack_long(journal.FAIL, {"error_details": "no data"})] * count)


def children(count: int) -> list[Frame]:
    return _one([journal.pack_long(journal.CHILD, {"run_id": f"child_{at}", "name": "c"}) for at in range(count)])


def ends(count: int) -> list[Frame]:
    return _one([journal.pack_long(journal.END, {"status": "Completed"})] * count)


def odd_ends(count: int) -> list[Frame]:
    return _one([journal.pack_long(journal.END, {"status": status}) for status in ["Running", [], "x", None]] * count)


def tags(count: int) -> list[Frame]:
    return _one([journal.pack_long(journal.TAGS, {"set": {f"t{at}": "v"}}) for at in range(count)])


def removed_tags(count: int) -> list[Frame]:
    return _one([journal.pack_long(journal.TAGS, {"set": {}, "remove": [f"t{at}"]}) for at in range(count)])


def conflicting_properties(count: int) -> list[Frame]:
    both = [({f"p{at}": "1"}, {f"p{at}": "2"}) for at in range(count)]
    records = [journal.pack_long(journal.PROPERTIES, {"add": add}) for pair in both for add in pair]
    return _one(records)


def conflicting_metrics(count: int) -> list[Frame]:
    records = []
    for at in range(count):
        records.append(journal.pack_long(journal.VALUES, {"name": f"m{at}", "values": [1.0], "t": 1}))
        records.append(journal.pack_long(journal.ROW, {"name": f"m{at}", "columns": {"a": 1}, "t": 1}))
    return _one(records)


def metric_names(count: int) -> list[Frame]:
    return _one([name(at + 1, f"m{at}") + number(at + 1, 0.5) for at in range(count)])


def single_records(count: int) -> list[Frame]:
    """One frame for each record: names that were defined before are known in every one."""
    frames, at = [journal_frame(header())], len(header())
    for index in range(count):
        record = name(index + 1, f"m{index}")
        frames.append(journal_frame(record, at))
        at += len(record)
    return frames


def segments(count: int) -> list[Frame]:
    return [
        ({"kind": "journal", "writer": WRITER, "segment": at, "offset": 0}, memoryview(header() + name(1, "m")))
        for at in range(count)
    ]


def _one(records: Sequence[bytes]) -> list[Frame]:
    return [journal_frame(header() + b"".join(records))]


ALL = (
    fails,
    same_fails,
    ends,
    odd_ends,
    tags,
    removed_tags,
    conflicting_properties,
    conflicting_metrics,
    metric_names,
    single_records,
)


@pytest.mark.parametrize("make", ALL, ids=lambda make: make.__name__)
def test_more_records_ask_the_store_no_more_often(tmp_path: Path, make: Callable[[int], list[Frame]]) -> None:
    asked = [asked_for(tmp_path / str(count), make(count)) for count in (10, 40)]

    assert asked[0] == asked[1]


@pytest.mark.parametrize("make", [children, segments], ids=lambda make: make.__name__)
def test_each_child_and_each_segment_has_a_fixed_price(tmp_path: Path, make: Callable[[int], list[Frame]]) -> None:
    asked = [asked_for(tmp_path / str(count), make(count)) for count in (10, 20, 40)]

    assert asked[2] - asked[1] == 2 * (asked[1] - asked[0])


def test_a_childs_second_end_costs_nothing(tmp_path: Path) -> None:
    """Only a run without a supervisor is ended by its journal."""
    asked = []
    for count in (10, 40):
        head, body = ends(count)[0]
        before = _one([journal.pack_long(journal.CHILD, {"run_id": "child_1", "name": "c"})])
        bench = sql_bench(tmp_path / str(count))
        bench.ship(*before)
        asked.append(count_calls(bench, [({**head, "run": "child_1"}, body)]))

        assert bench.store.get_run("child_1").status is RunStatus.COMPLETED
        stored = bench.store.find_segment("child_1", 1, WRITER, 0)
        assert stored is not None and stored.mark == len(body)
    assert asked[0] == asked[1]


def asked_for(folder: Path, frames: list[Frame]) -> int:
    return count_calls(sql_bench(folder), frames)


def count_calls(bench: Bench, frames: list[Frame]) -> int:
    counted = Counted(bench.store)
    bench.store = cast("RunStore", counted)
    bench.restart()
    counted.calls = 0
    bench.ship(*frames)
    return counted.calls


def test_failures_of_one_shipment_are_all_counted(tmp_path: Path) -> None:
    bench = sql_bench(tmp_path)
    bench.ship(*fails(MOST_WARNINGS + 345))

    warnings = bench.store.get_run("exp_1").warnings

    assert len(warnings) == MOST_WARNINGS + 1
    assert warnings[0]["message"] == "reason 0"
    assert warnings[-1][LEFT_OUT] == 345
    assert "and 345 more" in warnings[-1]["message"]


def test_a_repeated_failure_is_said_once(tmp_path: Path) -> None:
    bench = sql_bench(tmp_path)
    bench.ship(*same_fails(50))
    bench.ship(journal_frame(b"".join(bytes(body) for _, body in same_fails(50))))

    assert [warning["message"] for warning in bench.store.get_run("exp_1").warnings] == ["no data"]


def test_pieces_that_do_not_continue_each_other_are_bounded(tmp_path: Path) -> None:
    bench = sql_bench(tmp_path)
    overlapping = [journal_frame(header()[:32], 0)] * (MOST_PIECES + 1)

    with pytest.raises(ProtocolError, match=f"{MOST_PIECES + 1} separate pieces") as caught:
        bench.ship(*overlapping)
    assert str(MOST_PIECES) in caught.value.why


class Counted:
    """A store that counts how often it was asked for anything."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)

        def counting(*args: Any, **more: Any) -> Any:
            self.calls += 1
            return found(*args, **more)

        return counting
