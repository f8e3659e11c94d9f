"""How large a run's record gets: people are refused with the number, and what runs report is cut with a note."""

from __future__ import annotations

from typing import Any

import pytest

from runyard.core.errors import InvalidArgument, TooLarge
from runyard.core.formats import journal
from runyard.core.statuses import RunStatus
from runyard.server.routes import runs
from runyard.store import record_limits
from runyard.store.record_limits import LEFT_OUT, MOST_LABELS, MOST_TEXT, MOST_WARNINGS
from tests.engine.bench import header, journal_frame
from tests.server.conftest import Served


def report(served: Served, **more: Any) -> None:
    state = {"attempt": 1, "status": "Running", **more}
    served.as_run("exp_1").transport.request("POST", "/runs/exp_1/state", json=state)


def record_bytes(served: Served, path: str = "/runs/exp_1") -> int:
    return len(served.client.transport.request("GET", path).read())


def test_warnings_without_end_are_counted(served: Served) -> None:
    served.submit()
    many = [{"source": "x", "message": f"warning {at} " + "w" * 500} for at in range(2000)]
    for _ in range(3):
        report(served, warnings=many)

    warnings = served.client.runs.get("exp_1").warnings

    assert warnings[0]["message"].startswith("warning 0 ")
    assert len(warnings) == MOST_WARNINGS + 1
    assert warnings[-1][LEFT_OUT] == 6000 - MOST_WARNINGS and "and 5,000 more" in warnings[-1]["message"]
    assert record_bytes(served) < 3 << 20
    assert record_bytes(served, "/workspaces/default/runs") < 3 << 20


HUGE: dict[str, dict[str, Any]] = {
    "long": {"source": "x", "message": "w" * (1 << 20)},
    "nested": {"source": "x", "message": "m", "deep": [["w" * 1000] * 1000]},
    "many keys": {f"key {at}": "w" * 50 for at in range(10_000)},
    "our own mark": {"source": "x", "message": "m", LEFT_OUT: 10**30},
}


def test_one_warning_is_not_the_record(served: Served) -> None:
    served.submit()
    for warning in HUGE.values():
        report(served, warnings=[warning, warning])

    assert record_bytes(served) < 1 << 20
    warnings = served.client.runs.get("exp_1").warnings
    assert len(warnings) == 2 * len(HUGE) and all(LEFT_OUT not in found for found in warnings)


def test_errors_facts_and_words_are_cut(served: Served) -> None:
    served.submit()
    facts = {"packages": {f"p{at}": "1" * 100 for at in range(45_000)}}
    report(served, environment={"python": "3.11"}, doing="d" * 5000)
    report(served, environment=facts, doing="e" * 5000)
    error = {"code": "UserError", "message": "m" * (1 << 18), "details": {"log": ["l" * 100] * 4000}}
    report(served, status="Failed", error=error)

    run = served.client.runs.get("exp_1")

    assert run.status is RunStatus.FAILED and run.error is not None
    assert run.error["message"].startswith("m" * MOST_TEXT) and "details, " in run.error["message"]
    assert run.environment == {"python": "3.11"}  # what was known before stays
    assert any("facts of the run's environment" in warning["message"] for warning in run.warnings)
    assert record_bytes(served) < 1 << 20


def test_a_person_is_refused_with_the_number(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_limits, "MOST_LABELS", 10)
    monkeypatch.setattr(record_limits, "MOST_LABEL_BYTES", 10_000)
    served.submit()  # it has a parameter
    run = served.as_run("exp_1").runs
    run.update("exp_1", tags_set={f"t{at}": "v" for at in range(9)})

    with pytest.raises(TooLarge, match="11 tags and properties") as caught:
        run.update("exp_1", tags_set={"one": "more"})
    assert "10 of 10,000 bytes" in caught.value.why
    with pytest.raises(TooLarge):
        run.update("exp_1", properties_add={"one": "more"})
    run.update("exp_1", tags_set={"t0": "new value"})
    run.update("exp_1", tags_remove=["t1"], tags_set={"in its place": "v"})
    with pytest.raises(TooLarge, match="bytes"):
        run.update("exp_1", tags_set={"t0": "v" * 10_001})
    with pytest.raises(TooLarge, match="display name"):
        run.update("exp_1", display_name="n" * 70_000)
    with pytest.raises(TooLarge):
        served.client.experiments.update("default", "exp", tags_set={f"t{at}": "v" for at in range(11)})
    assert len(served.client.runs.get("exp_1").tags) == 9


def test_what_a_journal_has_too_much_of_is_left_out_and_said(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_limits, "MOST_LABELS", 11)
    served.submit()
    tags = journal.pack_long(journal.TAGS, {"set": {f"t{at}": "v" for at in range(20)}})
    served.as_run("exp_1").runs.ship("exp_1", [journal_frame(header() + tags)])

    run = served.client.runs.get("exp_1")

    assert list(run.tags) == [f"t{at}" for at in range(10)]  # the run has a parameter too
    assert [warning["message"][:32] for warning in run.warnings] == ["10 tags or properties were left "]


def test_real_use_is_far_below(served: Served) -> None:
    """20,000 tags and 5,000 properties work, from a script and in one go."""
    served.submit()
    tags = journal.pack_long(journal.TAGS, {"set": {f"tag {at}": f"value {at}" for at in range(20_000)}})
    properties = journal.pack_long(journal.PROPERTIES, {"add": {f"p{at}": f"value {at}" for at in range(5000)}})
    served.as_run("exp_1").runs.ship("exp_1", [journal_frame(header() + tags + properties)])

    run = served.client.runs.get("exp_1")

    assert (len(run.tags), len(run.properties), run.warnings) == (20_000, 5000, [])
    assert MOST_LABELS >= 4 * 25_000


def test_pages_are_bounded_in_bytes_and_hold_every_run(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "MAX_PAGE_BYTES", 50_000)
    monkeypatch.setattr(runs, "MAX_READ_BYTES", 50_000)
    names = [served.submit(f"exp_{at}", tags={"big": "x" * 20_000}) for at in range(6)]

    first = served.client.runs.list("default")

    assert 1 <= len(first.runs) < 6 and first.next
    assert [run.id for run in served.client.runs.iter("default")] == names[::-1]
    assert [run.id for run in served.client.runs.iter("default", order="name", limit=4)]
    with pytest.raises(TooLarge, match="50,000") as caught:
        served.client.transport.request("GET", "/runs", query=[("id", name) for name in names])
    assert "fewer" in caught.value.hint
    assert served.client.transport.request("GET", "/runs", query=[("id", names[0])]).status == 200


def test_a_list_has_so_many_conditions(served: Served) -> None:
    for key in ("tag", "property", "parameter", "status", "metric"):
        value = {"status": "Running", "metric": "loss<1"}.get(key, "k")
        with pytest.raises(InvalidArgument, match="101 conditions; 100 are the most"):
            served.client.transport.request("GET", "/workspaces/default/runs", query=[(key, value)] * 101)


def test_json_is_nested_so_deeply(served: Served) -> None:
    """What is nested more deeply than a walk through it can go was an error that nobody foresaw."""
    served.submit()
    for depth in (120, 400, 700):
        deep: Any = "x"
        for _ in range(depth):
            deep = [deep] if depth % 100 else {"k": deep}
        with pytest.raises(InvalidArgument, match="nested too deeply"):
            report(served, warnings=[{"source": "x", "deep": deep}])
        with pytest.raises(InvalidArgument, match="nested too deeply"):
            served.client.transport.request(
                "POST", "/workspaces/default/assets/environment/e", json={"document": {"deep": deep}, "key": ""}
            )
    report(served, warnings=[{"source": "x", "deep": [[[["fine"]]]]}])
    assert served.client.runs.get("exp_1").warnings[0]["deep"] == [[[["fine"]]]]
