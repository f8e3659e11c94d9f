"""Shipments: every byte stored exactly once, whatever is repeated, cut, reordered or lost on the way."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runyard.core.errors import InvalidArgument, NotFound, ProtocolError, StoreUnavailable
from runyard.core.formats import journal
from runyard.core.records import Mark
from runyard.core.statuses import RunStatus
from runyard.engine.runs.streams import stream_key
from tests.engine.bench import WRITER, Bench, header, journal_frame, log_frame, name, number, values_of


@pytest.fixture
def shipping(bench: Bench) -> Bench:
    bench.submit()
    return bench


START = header() + name(1, "loss")


def some_numbers(count: int, first: int = 0) -> bytes:
    return b"".join(number(1, float(at), time=at) for at in range(first, first + count))


def test_a_shipment_is_stored_and_answered_with_its_mark(shipping: Bench) -> None:
    data = START + some_numbers(3)

    answer = shipping.ship(journal_frame(data), log_frame(b"hello\n"))

    assert answer.marks == [Mark(WRITER, 0, len(data))]
    assert answer.logs == {"user_logs/std_log.txt": 6} and answer.attempt == 1 and answer.desired is None
    assert values_of(shipping, "loss") == [0.0, 1.0, 2.0]
    assert shipping.changes[-1] == "exp_1"


def test_a_repeated_shipment_adds_nothing(shipping: Bench) -> None:
    data = START + some_numbers(3)
    frames = [journal_frame(data), log_frame(b"hello\n")]

    answers = [shipping.ship(*frames) for _ in range(3)]
    shipping.restart()
    answers.append(shipping.ship(*frames))

    assert all(answer == answers[0] for answer in answers)
    assert values_of(shipping, "loss") == [0.0, 1.0, 2.0]
    assert shipping.artifacts.read_stream(stream_key("exp_1", 1, "user_logs/std_log.txt")) == b"hello\n"


def test_an_overlapping_shipment_adds_only_what_is_new(shipping: Bench) -> None:
    shipping.ship(journal_frame(START + some_numbers(3)))

    for _ in range(2):
        answer = shipping.ship(journal_frame(START + some_numbers(5)))
    assert answer.marks == [Mark(WRITER, 0, len(START) + 5 * 32)]
    assert values_of(shipping, "loss") == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_a_shipment_that_leaves_a_gap_is_not_stored_and_the_mark_tells(shipping: Bench) -> None:
    shipping.ship(journal_frame(START))

    answer = shipping.ship(journal_frame(some_numbers(2, 1), len(START) + 32), log_frame(b"later", 10))

    assert answer.marks == [Mark(WRITER, 0, len(START))] and answer.logs == {"user_logs/std_log.txt": 0}
    assert shipping.store.list_metrics("exp_1") == []


def test_frames_of_one_segment_in_one_request_follow_each_other(shipping: Bench) -> None:
    data = START + some_numbers(4)
    cut = len(START) + 64

    answer = shipping.ship(journal_frame(data[:cut]), journal_frame(data[cut:], cut), journal_frame(data))

    assert answer.marks == [Mark(WRITER, 0, len(data))]
    assert values_of(shipping, "loss") == [0.0, 1.0, 2.0, 3.0]


def test_names_are_known_after_a_restart(shipping: Bench) -> None:
    shipping.ship(journal_frame(START))
    shipping.restart()
    shipping.ship(journal_frame(some_numbers(2), len(START)))

    assert values_of(shipping, "loss") == [0.0, 1.0]
    assert shipping.store.read_series("exp_1", "loss").times_ns.tolist() == [4_000, 4_001]


def test_an_empty_frame_asks_how_far_things_are(shipping: Bench) -> None:
    data = START + some_numbers(1)
    shipping.ship(journal_frame(data), log_frame(b"abc"))

    answer = shipping.ship(journal_frame(b""), log_frame(b""))

    assert answer.marks == [Mark(WRITER, 0, len(data))] and answer.logs == {"user_logs/std_log.txt": 3}


def test_a_failed_transaction_is_repeated_whole(shipping: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    data = START + some_numbers(2)
    with monkeypatch.context() as patch:
        patch.setattr(shipping.store, "ingest", fails)
        with pytest.raises(StoreUnavailable):
            shipping.ship(journal_frame(data))

    assert shipping.ship(journal_frame(data)).marks == [Mark(WRITER, 0, len(data))]
    assert values_of(shipping, "loss") == [0.0, 1.0]


def fails(*args: object, **kwargs: object) -> None:
    raise StoreUnavailable("The disk is full.")


def test_a_side_file_comes_with_the_record_that_names_it(shipping: Bench) -> None:
    body = journal.dump({"name": "words", "values": ["a", "b"], "step": None, "t": 1})
    side = journal.pack_long(
        journal.SIDE, {"kind": journal.VALUES, "file": "x.side", "length": len(body), "crc": zlib.crc32(body)}
    )
    without = shipping.ship(journal_frame(START + side))
    assert without.marks == [Mark(WRITER, 0, len(START))]

    head = {"kind": "side", "writer": WRITER, "segment": 0, "file": "x.side"}
    shipping.ship((head, body), journal_frame(side, len(START)))

    assert values_of(shipping, "words") == ["a", "b"]


def test_a_child_is_made_by_its_parents_journal_and_ended_by_its_own(shipping: Bench) -> None:
    child = journal.pack_long(
        journal.CHILD, {"run_id": "child_1", "name": "fold 1", "tags": {"fold": 1, "odd": None}, "t": 1}
    )
    own = header(run="child_1") + name(1, "acc") + number(1, 0.9)
    own += journal.pack_long(journal.END, {"status": "Completed", "error": None, "t": 2})
    own += number(1, 0.95)
    frame = journal_frame(own, run="child_1")
    frame[0]["writer"] = "r0-1-bbbb"

    for _ in range(2):
        answer = shipping.ship(frame, journal_frame(START + child))

    run = shipping.run("child_1")
    assert (run.parent_id, run.display_name, run.tags, run.type) == (
        "exp_1", "fold 1", {"fold": "1", "odd": None}, None,
    )  # fmt: skip
    assert run.status is RunStatus.COMPLETED and run.experiment == "exp"
    assert values_of(shipping, "acc", "child_1") == [0.9, 0.95]
    assert {mark.writer: mark.offset for mark in answer.marks} == {WRITER: len(START + child), "r0-1-bbbb": len(own)}
    assert shipping.run().status is RunStatus.QUEUED


def test_tags_of_mlflow_for_name_and_note_change_the_name_and_the_description(shipping: Bench) -> None:
    def tags(set_: dict[str, str], *remove: str) -> bytes:
        return journal.pack_long(journal.TAGS, {"set": set_, "remove": list(remove)})

    child = {"run_id": "child_1", "name": "inner", "tags": {"mlflow.runName": "inner", "mlflow.note.content": "of one"}}
    sent = START + tags({"mlflow.runName": "first", "a": "1"}) + tags({"mlflow.runName": "second"})
    sent += tags({"mlflow.note.content": "what it does"}) + journal.pack_long(journal.CHILD, child)
    shipping.ship(journal_frame(sent))
    run, inner = shipping.run(), shipping.run("child_1")

    assert (run.display_name, run.description, run.tags) == ("second", "what it does", {"a": "1"})
    assert (inner.display_name, inner.description, inner.tags) == ("inner", "of one", {})
    shipping.ship(journal_frame(tags({}, "mlflow.note.content", "a"), len(sent)))
    assert (shipping.run().description, shipping.run().tags) == ("", {})
    sent += tags({}, "mlflow.note.content", "a")
    shipping.ship(journal_frame(tags({"mlflow.runName": "x" * 100_000}), len(sent)))
    assert shipping.run().display_name == "x" * 65536


def test_a_script_that_ends_its_own_supervised_run_leaves_the_status_to_the_supervisor(shipping: Bench) -> None:
    shipping.report(RunStatus.RUNNING)
    shipping.ship(journal_frame(START + journal.pack_long(journal.END, {"status": "Completed", "error": None, "t": 1})))

    assert shipping.run().status is RunStatus.RUNNING


def test_fail_inside_a_run_is_noted_once_and_does_not_set_the_status(shipping: Bench) -> None:
    record = journal.pack_long(journal.FAIL, {"error_details": "loss is \ud800 NaN", "error_code": "Diverged"})
    shipping.ship(journal_frame(START + record + record))

    assert shipping.run().warnings == [{"source": "run.fail", "message": "loss is \ufffd NaN", "code": "Diverged"}]
    assert shipping.run().status is RunStatus.QUEUED


def test_a_run_adds_to_its_parent_and_neither_ends_it_nor_makes_it_children(shipping: Bench) -> None:
    shipping.submit("exp_2", parent_id="exp_1")
    shipping.store.create_run(shipping.new("open_1", type=None, status=RunStatus.RUNNING))
    shipping.submit("exp_3", parent_id="open_1")
    decides = journal.pack_long(journal.CHILD, {"run_id": "cuckoo", "name": "", "tags": {}, "t": 1})
    decides += journal.pack_long(journal.FAIL, {"error_details": "no", "error_code": ""})
    decides += journal.pack_long(journal.END, {"status": "Failed", "error": None, "t": 2})
    tag = journal.pack_long(journal.TAGS, {"set": {"best": "1"}, "remove": []})

    for child, parent in (("exp_2", "exp_1"), ("exp_3", "open_1")):
        data = header(run=parent) + name(1, "acc") + decides + tag + number(1, 0.9)
        answer = shipping.ship(journal_frame(data, run=parent), run_id=child)
        run = shipping.run(parent)

        assert [mark.offset for mark in answer.marks] == [len(data)]
        assert values_of(shipping, "acc", parent) == [0.9]
        assert run.tags == {"best": "1"} and run.warnings == [] and not run.status.is_terminal
    assert shipping.store.find_run("cuckoo") is None
    with pytest.raises(NotFound):  # a process that logs on a run from outside of it
        shipping.ship(journal_frame(START, run="exp_1"), run_id="exp_2", attempt=0, external_writer=7)


def test_another_runs_journal_is_not_found(shipping: Bench) -> None:
    shipping.submit("exp_2")

    for named in ("exp_2", "nobody"):
        with pytest.raises(NotFound):
            shipping.ship(journal_frame(START + some_numbers(1), run=named))
    assert shipping.store.list_metrics("exp_2") == []


ODD: dict[str, tuple[dict[str, Any], type[Exception]]] = {
    "unknown kind": ({"kind": "exec"}, ProtocolError),
    "writer leaves its folder": ({"kind": "journal", "writer": "../x", "segment": 0, "offset": 0}, InvalidArgument),
    "writer missing": ({"kind": "journal", "segment": 0, "offset": 0}, InvalidArgument),
    "segment negative": ({"kind": "journal", "writer": WRITER, "segment": -1, "offset": 0}, InvalidArgument),
    "offset is text": ({"kind": "journal", "writer": WRITER, "segment": 0, "offset": "0"}, InvalidArgument),
    "offset is 2^63": ({"kind": "journal", "writer": WRITER, "segment": 0, "offset": 2**63}, InvalidArgument),
    "run leaves its folder": (
        {"kind": "journal", "run": "../x", "writer": WRITER, "segment": 0, "offset": 0}, InvalidArgument,
    ),
    "log leaves its folder": ({"kind": "log", "name": "../../etc/passwd", "offset": 0}, InvalidArgument),
    "log name is a list": ({"kind": "log", "name": ["a"], "offset": 0}, InvalidArgument),
    "log offset negative": ({"kind": "log", "name": "a", "offset": -5}, InvalidArgument),
}  # fmt: skip


@pytest.mark.parametrize(("head", "error"), ODD.values(), ids=ODD.keys())
def test_frames_that_make_no_sense_store_nothing(shipping: Bench, head: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        shipping.ship(journal_frame(START + some_numbers(1)), log_frame(b"x"), (head, b"boo"))
    assert shipping.store.list_marks("exp_1", 1) == [] and shipping.store.list_files("exp_1") == []


def test_an_old_attempt_ships_its_late_points_and_does_not_touch_the_new_log(shipping: Bench) -> None:
    shipping.ship(journal_frame(START + some_numbers(1)), log_frame(b"first attempt"))
    shipping.store.start_attempt("exp_1", token_hash="x")
    shipping.ship(log_frame(b"second"), attempt=2)

    shipping.ship(journal_frame(some_numbers(1, 1), len(START) + 32), log_frame(b", late words", 13), attempt=1)

    assert values_of(shipping, "loss") == [0.0, 1.0]
    [log] = shipping.store.list_files("exp_1")
    assert shipping.artifacts.read_stream(log.chunks[0]) == b"second"


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(st.data())
def test_cut_repeated_reordered_and_restarted_shipments_store_each_point_once(
    tmp_path: Path, data: st.DataObject
) -> None:
    bench = Bench(tmp_path / str(data.draw(st.uuids())))
    bench.submit()
    count = data.draw(st.integers(1, 30))
    records = [header(), name(1, "loss"), *(number(1, float(at), time=at) for at in range(count))]
    edges = [0]
    for record in records:
        edges.append(edges[-1] + len(record))
    whole = b"".join(records)
    log = bytes(range(256))

    for _ in range(data.draw(st.integers(0, 12))):
        first, last = sorted(data.draw(st.tuples(st.sampled_from(edges), st.sampled_from(edges))))
        low, high = sorted(data.draw(st.tuples(st.integers(0, 256), st.integers(0, 256))))
        bench.ship(journal_frame(whole[first:last], first), log_frame(log[low:high], low))
        if data.draw(st.booleans()):
            bench.restart()
    answer = bench.ship(journal_frame(whole), log_frame(log))

    assert answer.marks == [Mark(WRITER, 0, len(whole))]
    assert values_of(bench, "loss") == [float(at) for at in range(count)]
    assert bench.artifacts.read_stream(stream_key("exp_1", 1, "user_logs/std_log.txt")) == log
