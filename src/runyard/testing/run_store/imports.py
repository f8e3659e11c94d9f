"""What every store does with runs of other trackers."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np

from runyard.core.errors import Conflict, InvalidArgument
from runyard.core.records import IMPORTED_PROPERTY
from runyard.core.statuses import RunStatus
from runyard.store.base import (
    ArtifactMetric,
    ImportedPart,
    ImportedRecord,
    ImportResult,
    Points,
    Rows,
    RunQuery,
    RunStore,
)
from runyard.testing.runs import a_new_run, a_run, a_workspace

THEN = datetime(2021, 5, 4, 3, 2, 1, tzinfo=timezone.utc)


def a_record(run_id: str, *parts: ImportedPart, digest: str = "", **fields: Any) -> ImportedRecord:
    new = replace(
        a_new_run(run_id), type="imported", status=RunStatus.COMPLETED, started_at=THEN + timedelta(seconds=1)
    )
    origin = json.dumps({"source": "mlflow", "created_ns": 7, "digest": digest})
    record = ImportedRecord(new, origin, created_at=THEN, ended_at=THEN + timedelta(seconds=9), parts=parts)
    named = {key: fields.pop(key) for key in list(fields) if not hasattr(record, key)}
    return replace(record, new=replace(new, **named), **fields)


def a_part(count: int, *, start: int = 0, first: int | None = None, metric: str = "m") -> ImportedPart:
    """Return points `start` to `count` of a series whose values begin at `first`."""
    steps = np.arange(start, count)
    return ImportedPart(start, Points(metric, "f8", steps / 2 + (first or 0), steps * 1000 + 5, steps))


def imported(store: RunStore, record: ImportedRecord) -> ImportResult:
    found = store.import_runs([record])[0]
    assert isinstance(found, ImportResult)
    return found


class ImportsSuite:
    """Runs of other trackers: a part of the contract of `RunRecords`."""

    def test_an_imported_run_has_its_own_times_status_and_points(self, store: RunStore) -> None:
        store.put_workspace(a_workspace())
        found = imported(
            store,
            a_record("r1", a_part(300), parameters={"lr": "1"}, tags={"team": "x"}, archived=True, notes=["no file"]),
        )
        run = store.get_run("r1")

        assert (found.is_new, found.points, found.run) == (True, 300, run)
        assert (run.created_at, run.started_at, run.ended_at) == (
            THEN,
            THEN + timedelta(seconds=1),
            THEN + timedelta(seconds=9),
        )
        assert (run.status, run.number, run.type) == (RunStatus.COMPLETED, 1, "imported")
        assert (run.logged_parameters, run.parameters, run.tags) == ({"lr": "1"}, {"lr": "1"}, {"team": "x"})
        assert run.archived_at is not None and [warning["message"] for warning in run.warnings] == ["no file"]
        series = store.read_series("r1", "m")
        assert series.steps.tolist() == list(range(300)) and series.times_ns.tolist()[1] == 1005
        assert store.list_runs(RunQuery(run.workspace, view="archived")).runs == [run]

    def test_the_same_run_again_gets_only_what_is_new(self, store: RunStore) -> None:
        store.put_workspace(a_workspace())
        imported(store, a_record("r1", a_part(5000), status=RunStatus.FAILED, tags={"old": "1"}))
        again = imported(store, a_record("r1", a_part(5000), status=RunStatus.FAILED, tags={"old": "1"}))
        grown = imported(store, a_record("r1", a_part(9000), digest="d", tags={"new": "2"}))

        assert (again.is_new, again.points, grown.is_new, grown.points) == (False, 0, False, 4000)
        assert store.read_series("r1", "m").steps.tolist() == list(range(9000))
        assert store.list_metrics("r1")[0].count == 9000
        assert (grown.run.status, grown.run.tags) == (RunStatus.COMPLETED, {"old": "1", "new": "2"})
        assert json.loads(grown.run.properties[IMPORTED_PROPERTY])["digest"] == "d"

    def test_a_long_series_comes_in_parts(self, store: RunStore) -> None:
        store.put_workspace(a_workspace())
        imported(store, a_record("r1", a_part(200), a_part(300, start=200)))
        imported(store, a_record("r1", a_part(500, start=250)))
        gap = store.import_runs([a_record("r1", a_part(900, start=600))])[0]

        assert store.read_series("r1", "m").steps.tolist() == list(range(500))
        assert isinstance(gap, InvalidArgument)

    def test_points_that_changed_are_added_beside_the_old_ones(self, store: RunStore) -> None:
        store.put_workspace(a_workspace())
        imported(store, a_record("r1", a_part(10)))
        changed = a_part(12)
        assert isinstance(changed.content, Points)
        values = np.asarray(changed.content.values).copy()
        values[3] = 77.0
        found = imported(store, a_record("r1", replace(changed, content=replace(changed.content, values=values))))

        assert (found.points, len(found.notes)) == (3, 1)
        assert sorted(store.read_series("r1", "m").values)[-1] == 77.0
        assert [warning["message"] for warning in found.run.warnings] == list(found.notes)

    def test_the_same_point_twice_in_a_source_stays_two(self, store: RunStore) -> None:
        store.put_workspace(a_workspace())
        twice = ImportedPart(0, Points("m", "f8", np.array([1.0, 1.0]), np.array([5, 5]), np.array([0, 0])))
        imported(store, a_record("r1", twice))
        imported(store, a_record("r1", twice))

        assert list(store.read_series("r1", "m").values) == [1.0, 1.0]

    def test_texts_and_rows_grow_too(self, store: RunStore) -> None:
        store.put_workspace(a_workspace())
        for count in (1, 3, 3):
            texts = Points("t", "json", ["a", "b", "c"][:count], np.arange(count), np.arange(count))
            rows = Rows("table", {"x": [1, 2, 3][:count], "y": [None, "q", None][:count]}, list(range(count)))
            imported(store, a_record("r1", ImportedPart(0, texts), ImportedPart(0, rows)))

        assert store.read_series("r1", "t").values == ["a", "b", "c"]
        assert store.read_series("r1", "table", column="y").values == [None, "q", None]

    def test_files_of_a_metric_are_counted_once(self, store: RunStore) -> None:
        store.put_workspace(a_workspace())
        parts = [ImportedPart(at, ArtifactMetric("plot", "image", f"plot_{at}.png", 5)) for at in range(2)]
        first = imported(store, a_record("r1", *parts))
        again = imported(store, a_record("r1", *parts, ImportedPart(2, ArtifactMetric("plot", "image", "new.png", 6))))
        (info,) = store.list_metrics("r1")

        assert (first.points, again.points) == (2, 1)
        assert (info.kind, info.count, info.artifact) == ("artifact", 3, "new.png")

    def test_an_id_that_another_run_has_is_an_error_that_names_it(self, store: RunStore) -> None:
        a_run(store, "r1")
        imported(store, a_record("r2"))
        elsewhere = replace(a_record("r2"), origin=json.dumps({"source": "mlflow", "created_ns": 8}))
        first, second, third = store.import_runs([a_record("r1"), elsewhere, a_record("r3")])

        assert isinstance(first, Conflict) and isinstance(second, Conflict) and isinstance(third, ImportResult)
        assert "r1" in first.what and "r2" in second.what
        assert store.get_run("r1").status is RunStatus.NOT_STARTED

    def test_a_parent_is_kept_when_it_is_there(self, store: RunStore) -> None:
        store.put_workspace(a_workspace())
        store.import_runs([a_record("p"), a_record("c", parent_id="p"), a_record("o", parent_id="gone", type="mlflow")])
        child, orphan = store.get_run("c"), store.get_run("o")

        assert (child.parent_id, child.root_id) == ("p", "p")
        assert (orphan.parent_id, orphan.tags) == (None, {"mlflow.parentRunId": "gone"})
        assert "gone" in orphan.warnings[0]["message"]
