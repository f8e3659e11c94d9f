"""Journal bytes become points, rows, tags; hostile bytes end in quarantine."""

from __future__ import annotations

import math
import struct
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runyard.core.formats import journal
from runyard.engine.ingest.decode import Decoded, SegmentOrigin, decode
from runyard.store.base import ArtifactMetric, Points, Rows
from tests.engine.bench import WRITER, header, name, number
from tests.engine.naive import read_series


def decoded(data: bytes, **more: Any) -> Decoded:
    return decode(data, **{"writer": WRITER, "segment": 0, "base": 0, "names": {}, **more})


def pack(kind: int, /, **payload: Any) -> bytes:
    return journal.pack_long(kind, payload)


def points(found: Decoded) -> list[tuple[str, str, list[Any]]]:
    return [
        (item.metric, item.kind, item.values if isinstance(item.values, list) else item.values.tolist())
        for item in found.part.content
        if isinstance(item, Points)
    ]


def test_interleaved_numbers_become_one_column_a_metric_in_the_order_first_logged() -> None:
    data = header(rank=3) + name(7, "loss") + name(2, "acc")
    data += b"".join(number(7, at / 4, time=at) + number(2, at, time=at) for at in range(3))

    found = decoded(data)

    assert points(found) == [("loss", "f8", [0.0, 0.25, 0.5]), ("acc", "i8", [0, 1, 2])]
    assert (found.part.start, found.part.end, found.part.rank) == (0, len(data), 3)
    assert found.part.wall_offset_ns == 4_000
    assert found.part.names == {7: "loss", 2: "acc"}


def test_later_bytes_of_a_segment_know_its_names_rank_and_clock() -> None:
    first = decoded(header(rank=5) + name(1, "loss"))

    origin = SegmentOrigin(first.part.rank, first.part.role, first.part.wall_offset_ns)
    later = decoded(number(1, 1.5, time=9), base=first.part.end, names=first.part.names, origin=origin)

    assert points(later) == [("loss", "f8", [1.5])]
    assert (later.part.rank, later.part.wall_offset_ns, later.part.names) == (5, 4_000, {})


MIXED: dict[str, tuple[list[Any], str, list[Any]]] = {
    "floats": ([1.5, -0.0, math.inf], "f8", [1.5, -0.0, math.inf]),
    "ints": ([1, -(2**63), 2**63 - 1], "i8", [1, -(2**63), 2**63 - 1]),
    "bools": ([True, False], "b1", [1, 0]),
    "ints and floats": ([1, 0.5], "f8", [1.0, 0.5]),
    "ints and bools": ([3, True], "json", [3, True]),
    "floats and bools": ([0.5, True], "json", [0.5, True]),
    "large ints and floats": ([2**62 + 1, 0.5], "json", [2**62 + 1, 0.5]),
}


@pytest.mark.parametrize(("logged", "kind", "values"), MIXED.values(), ids=MIXED.keys())
def test_kinds_of_numbers_in_one_metric(logged: list[Any], kind: str, values: list[Any]) -> None:
    found = decoded(header() + name(0, "m") + b"".join(number(0, value) for value in logged))

    assert points(found) == [("m", kind, values)]


def test_nan_keeps_its_bits() -> None:
    odd = struct.unpack("<d", b"\x01\x02\x03\x04\x05\x06\xf8\x7f")[0]
    found = decoded(header() + name(0, "m") + number(0, odd))

    [item] = found.part.content
    assert isinstance(item, Points) and not isinstance(item.values, list)
    assert item.values.tobytes() == struct.pack("<d", odd)


def test_steps_are_kept_where_given_and_the_order_with_them() -> None:
    data = header() + name(0, "m") + number(0, 1.0, step=5) + number(0, 2.0, step=-3) + number(0, 3.0)
    data += number(0, 4.0, step=2**63 - 1)

    found = [item for item in decoded(data).part.content if isinstance(item, Points)]

    steps = [None if item.steps is None else item.steps.tolist() for item in found]
    assert steps == [[5, -3], None, [2**63 - 1]]
    assert [list(item.values) for item in found] == [[1.0, 2.0], [3.0], [4.0]]


def test_two_ids_for_one_name_are_one_series_in_journal_order() -> None:
    data = header() + name(0, "m") + name(1, "m") + number(1, 1.0) + number(0, 2.0) + number(1, 3.0)

    assert points(decoded(data)) == [("m", "f8", [1.0, 2.0, 3.0])]


def test_text_and_numbers_of_one_metric_keep_their_order() -> None:
    data = header() + name(0, "m") + name(1, "n")
    data += number(0, 1.0) + number(1, 9.0) + pack(journal.VALUES, name="m", values=["a", None], step=None, t=5)
    data += pack(journal.VALUES, name="m", values=[2**70], step=None, t=6) + number(0, 2.0)

    assert points(decoded(data)) == [
        ("m", "f8", [1.0]),
        ("m", "json", ["a", None, 2**70]),
        ("m", "f8", [2.0]),
        ("n", "f8", [9.0]),
    ]


def test_lists_of_plain_numbers_are_columns_too() -> None:
    data = header() + pack(journal.VALUES, name="f", values=[1.5, 2.5], step=4, t=1)
    data += pack(journal.VALUES, name="i", values=[1, 2], step=None, t=1)
    data += pack(journal.VALUES, name="b", values=[True], step=None, t=1)

    found = decoded(data)

    assert points(found) == [("f", "f8", [1.5, 2.5]), ("i", "i8", [1, 2]), ("b", "b1", [1])]
    assert isinstance(found.part.content[0], Points) and found.part.content[0].steps is not None
    assert found.part.content[0].steps.tolist() == [4, 4]


def test_rows_and_tables_of_one_metric_are_one_table_filled_with_none() -> None:
    data = header() + pack(journal.ROW, name="t", columns={"a": 1, "b": "x"}, t=10)
    data += pack(journal.ROW, name="t", columns={"b": "y", "c": True}, t=11)
    data += pack(journal.TABLE, name="t", columns={"a": [2.5, 3.5]}, t=12)

    [rows] = decoded(data).part.content

    assert isinstance(rows, Rows)
    assert rows.columns == {"a": [1, None, 2.5, 3.5], "b": ["x", "y", None, None], "c": [None, True, None, None]}
    assert list(rows.times) == [10, 11, 12, 12]


def test_the_first_value_of_a_logged_parameter_stays_and_another_is_told() -> None:
    data = header() + pack(journal.PARAM, key="lr", value="0.1") + pack(journal.PARAM, key="lr", value="0.1")
    data += pack(journal.PARAM, key="lr", value="0.2") + pack(journal.PARAM, key="a\x00", value=3)
    data += pack(journal.PARAM, value="nameless")

    part = decoded(data).part

    assert dict(part.parameters_log) == {"lr": "0.1", "a\ufffd": "3"}
    assert ["`lr` has another value" in str(one["reason"]) for one in part.quarantine] == [True, False]


def test_artifacts_tags_and_properties() -> None:
    data = header() + pack(journal.ARTIFACT, name="plot", kind="image", file="plot_1.png", t=3)
    data += pack(journal.TAGS, set={"a": "1", "b": None, "c": "2"}, remove=[])
    data += pack(journal.TAGS, set={"d": 4}, remove=["a", "zz"]) + pack(journal.TAGS, set={"zz": "back"}, remove=["c"])
    data += pack(journal.PROPERTIES, add={"p": "1"}) + pack(journal.PROPERTIES, add={"p": "2", "q": "\x00\ud800"})

    part = decoded(data).part

    assert list(part.content) == [ArtifactMetric("plot", "image", "plot_1.png", 3)]
    assert dict(part.tags_set) == {"b": None, "d": "4", "zz": "back"}
    assert sorted(part.tags_remove) == ["a", "c"]
    assert dict(part.properties_add) == {"p": "1", "q": "\ufffd\ufffd"}


def test_a_side_file_is_read_in_the_place_of_its_record() -> None:
    body = journal.dump({"name": "m", "values": ["x"] * 3, "step": None, "t": 1})
    side = pack(journal.SIDE, kind=journal.VALUES, file="f.side", length=len(body), crc=zlib.crc32(body))
    data = header() + side + pack(journal.PROPERTIES, add={"after": "1"})

    found = decoded(data, sides={"f.side": memoryview(body)})
    waiting = decoded(data)
    damaged = decoded(data, sides={"f.side": memoryview(body[:-1])})

    assert points(found) == [("m", "json", ["x", "x", "x"])]
    assert waiting.part.end == len(header()) and dict(waiting.part.properties_add) == {}
    assert damaged.part.end == len(data) and "not the one" in damaged.part.quarantine[0]["reason"]


def test_an_end_record_stops_the_part_until_it_was_acted_on() -> None:
    data = header() + name(0, "m") + number(0, 1.0)
    end = len(data)
    data += pack(journal.END, status="Completed", error=None, t=1) + number(0, 2.0)

    stopped = decoded(data)
    assert stopped.part.end == end and stopped.end is not None and stopped.end.payload["status"] == "Completed"

    rest = decoded(data[end:], base=end, names=stopped.part.names, stops_at_end=False)
    assert rest.end is None and points(rest) == [("m", "f8", [2.0])]


HOSTILE: dict[str, tuple[bytes, str]] = {
    "unknown kind": (pack(99, x=1), "kind 99 is not known"),
    "payload is a list": (journal.pack_payload(journal.VALUES, b"[1]"), "metric name"),
    "payload is no JSON": (journal.pack_payload(journal.ROW, b"{" * 50), "no columns"),
    "deep JSON": (journal.pack_payload(journal.TABLE, b"[" * 100_000), "no columns"),
    "nested value": (pack(journal.VALUES, name="m", values=[{"a": 1}], step=None, t=1), "no scalar"),
    "values are text": (pack(journal.VALUES, name="m", values="abc", step=None, t=1), "not a list"),
    "step is text": (pack(journal.VALUES, name="m", values=[1], step="now", t=1), "step"),
    "metric name missing": (pack(journal.VALUES, values=[1], step=None, t=1), "metric name"),
    "metric name NUL": (pack(journal.NAME, id=1, name="a\0b"), "control character"),
    "metric name surrogate": (pack(journal.NAME, id=1, name="\ud800"), "not valid UTF-8"),
    "metric name long": (pack(journal.NAME, id=1, name="x" * 10_000), "255"),
    "name id huge": (pack(journal.NAME, id=2**40, name="m"), "32-bit"),
    "name id text": (pack(journal.NAME, id="1", name="m"), "32-bit"),
    "table uneven": (pack(journal.TABLE, name="m", columns={"a": [1], "b": [1, 2]}, t=1), "different lengths"),
    "row of a list": (pack(journal.ROW, name="m", columns={"a": [1]}, t=1), "no scalar"),
    "too many columns": (pack(journal.ROW, name="m", columns={str(i): 1 for i in range(2000)}, t=1), "2000 columns"),
    "artifact outside": (pack(journal.ARTIFACT, name="m", kind="image", file="../../etc/passwd", t=1), "file name"),
    "tags are a list": (pack(journal.TAGS, set=["a"], remove=[]), "tags"),
    "tag value is an object": (pack(journal.TAGS, set={"a": {}}, remove=[]), "where text should be"),
    "second header": (header(), "HEADER"),
    "side of a side": (pack(journal.SIDE, kind=journal.SIDE, file="f", length=2, crc=zlib.crc32(b"{}")), "cannot hold"),
}


@pytest.mark.parametrize(("record", "reason"), HOSTILE.values(), ids=HOSTILE.keys())
def test_a_record_that_makes_no_sense_is_quarantined_and_the_rest_goes_on(record: bytes, reason: str) -> None:
    data = header() + record + name(5, "fine") + number(5, 1.0)

    found = decoded(data, sides={"f": memoryview(b"{}")})

    assert found.part.end == len(data) and points(found) == [("fine", "f8", [1.0])]
    [entry] = found.part.quarantine
    assert reason in entry["reason"] and entry["offset"] == len(header())


def test_cells_without_a_name_are_counted_in_one_entry() -> None:
    data = header() + name(1, "m") + number(9, 1.0) * 1000 + number(1, 2.0) + number(2**32 - 1, 1.0)

    found = decoded(data)

    assert points(found) == [("m", "f8", [2.0])]
    assert sorted((entry["count"], entry["reason"][:20]) for entry in found.part.quarantine) == [
        (1, "name id 4294967295 w"),
        (1000, "name id 9 was never "),
    ]


def test_a_name_id_cannot_be_given_away_twice() -> None:
    found = decoded(header() + name(1, "m") + name(1, "other") + number(1, 1.0))

    assert points(found) == [("m", "f8", [1.0])]
    assert "already" in found.part.quarantine[0]["reason"]


def test_a_torn_tail_is_left_for_later() -> None:
    whole = header() + name(1, "m") + number(1, 1.0)
    for cut in (1, 31, 33, 40):
        found = decoded(whole + pack(journal.VALUES, name="m", values=["x" * 50], step=None, t=1)[:-cut])
        assert found.part.end == len(whole)


scalars = st.one_of(
    st.floats(), st.integers(-(2**63), 2**63 - 1), st.booleans(), st.floats(-10, 10), st.integers(-5, 5)
)
texts = st.one_of(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), st.none(), st.integers(2**64, 2**70))
calls = st.one_of(
    st.tuples(st.just("number"), st.integers(0, 3), scalars, st.one_of(st.none(), st.integers(-9, 9))),
    st.tuples(
        st.just("values"), st.integers(0, 3), st.lists(st.one_of(texts, scalars), min_size=1, max_size=3), st.none()
    ),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(calls, max_size=40), st.data())
def test_the_fast_reader_agrees_with_the_naive_one_however_the_bytes_are_cut(
    written: list[Any], cuts: st.DataObject
) -> None:
    names = ["a", "b", "c", "a"]  # two ids for one name
    records = [header(), *(name(at, text) for at, text in enumerate(names))]
    for time, (kind, name_id, value, step) in enumerate(written):
        if kind == "number":
            records.append(number(name_id, value, time=time, step=step))
        else:
            records.append(pack(journal.VALUES, name=names[name_id], values=value, step=None, t=time))
    expected = read_series(b"".join(records))

    found: dict[str, list[tuple[Any, int, int | None]]] = {}
    known: dict[int, str] = {}
    at = offset = 0
    while at < len(records):
        count = cuts.draw(st.integers(1, len(records) - at))
        piece = b"".join(records[at : at + count])
        result = decode(piece, writer=WRITER, segment=0, base=offset, names=known)
        assert result.part.end == offset + len(piece) and not result.part.quarantine
        known.update(result.part.names)
        at, offset = at + count, offset + len(piece)
        for item in result.part.content:
            assert isinstance(item, Points)
            found.setdefault(item.metric, []).extend(unpacked(item))

    assert {metric: [plain(point) for point in series] for metric, series in found.items()} == {
        metric: [plain(point) for point in series] for metric, series in expected.items()
    }


def unpacked(item: Points) -> list[tuple[Any, int, int | None]]:
    values = item.values if isinstance(item.values, list) else item.values.tolist()
    steps = [None] * len(values) if item.steps is None else item.steps.tolist()
    return list(zip(values, item.times.tolist(), steps))


def plain(point: tuple[Any, int, int | None]) -> tuple[str, int, int | None]:
    """Numbers as the series keeps them: 1, True and 1.0 are one once they share a column; NaN equals itself."""
    value, time, step = point
    if isinstance(value, (bool, int, float)):
        exact = isinstance(value, float) or abs(value) <= 2**53
        return (repr(float(value)) if exact else repr(int(value)), time, step)
    return repr(value), time, step


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400), st.integers(0, 40))
def test_no_bytes_crash_the_reader(noise: bytes, kind: int) -> None:
    start = header() + name(1, "m")
    for data in (start + noise, start + journal.pack_payload(max(16, kind), noise) + number(1, 1.0), noise):
        found = decoded(data)
        assert 0 <= found.part.end <= len(data)


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=8,
)
keys = st.sampled_from(
    ["name", "values", "columns", "id", "t", "step", "set", "remove", "add", "file", "kind", "run_id", "length"]
)


@settings(max_examples=300, deadline=None)
@given(st.integers(16, 30), st.dictionaries(keys, json_values, max_size=6))
def test_no_payload_crashes_the_reader(kind: int, payload: dict[str, Any]) -> None:
    data = header() + journal.pack_long(kind, payload) + name(1, "m") + number(1, 1.0)

    found = decoded(data)

    assert found.end is not None or found.part.end in (len(header()), len(data))
