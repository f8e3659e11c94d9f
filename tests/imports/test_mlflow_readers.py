"""MLflow's file store and database become plain runs; what is hostile or damaged is left out by name."""

from __future__ import annotations

import math
import os
import sqlite3
from pathlib import Path

import pytest

from runyard.core.errors import InvalidArgument
from runyard.imports.mlflow_files import MlflowFiles, is_file_store
from runyard.imports.mlflow_sql import is_database, open_sql
from runyard.imports.records import (
    FAILED,
    FINISHED,
    UNFINISHED,
    ImportedRun,
    ImportSource,
    PointPart,
    RunHead,
    SourceFile,
    in_order,
)
from tests.imports.stores import CHILD, RUN, START_MS, add_run, make_database, make_mlruns


def read_all(source: ImportSource) -> dict[str, ImportedRun]:
    return {head.id: source.read_run(head) for head in in_order(source.list_heads())}


def content_of(file: SourceFile) -> bytes:
    with file.open() as content:
        return content.read()


def points_of(run: ImportedRun) -> dict[str, list[tuple[int, int, float]]]:
    found: dict[str, list[tuple[int, int, float]]] = {}
    for part in run.read_points():
        assert isinstance(part, PointPart)
        found.setdefault(part.metric, []).extend(zip(part.steps, part.times_ns, part.values))
    return found


def test_a_file_store_is_read_whole(tmp_path: Path) -> None:
    source = MlflowFiles(str(make_mlruns(tmp_path / "mlruns")))
    runs = read_all(source)

    assert list(runs) == [RUN, CHILD, "c" * 32], "the parent comes before the child that began earlier"
    run = runs[RUN]
    assert (run.name, run.description, run.status, run.user) == ("first", "about it", FINISHED, "ada")
    assert (run.parameters, run.tags) == ({"lr": "0.1", "text": "two\nlines"}, {"team": "x"})
    assert (run.started_ns, run.ended_ns) == (START_MS * 10**6, (START_MS + 60_000) * 10**6)
    points = points_of(run)
    assert points["train/loss"] == [(s, (START_MS + s) * 10**6, 1 / (s + 1)) for s in range(300)]
    assert [step for step, _, _ in points["odd"]] == [0, 1, 0], "a line of an old version has no step"
    assert math.isnan(points["odd"][0][2]) and points["odd"][1][2] == math.inf
    assert {file.name: content_of(file) for file in run.files} == {
        "model/MLmodel": b"flavors: {}\n",
        "plot.png": b"\x89PNG",
    }
    assert (runs[CHILD].status, runs[CHILD].parent_id) == (FAILED, RUN)
    deleted = runs["c" * 32]
    assert (deleted.experiment, deleted.archived, deleted.status) == ("Größe & Co: ein/zwei", True, UNFINISHED)
    assert not source.skipped and not run.notes


def test_registered_models_keep_their_numbers(tmp_path: Path) -> None:
    models = list(MlflowFiles(str(make_mlruns(tmp_path / "mlruns"))).iter_models())

    assert [(one.name, one.version, one.aliases, one.run_id) for one in models] == [
        ("net", 1, [], RUN),
        ("net", 3, ["best"], RUN),
    ]
    assert [file.name for file in models[0].files] == ["model/MLmodel"]


def test_a_database_of_an_old_version_is_read_by_the_columns_it_has(tmp_path: Path) -> None:
    artifacts = tmp_path / "mlruns" / "0" / f"{1:032x}" / "artifacts"
    artifacts.mkdir(parents=True)
    (artifacts / "a.txt").write_bytes(b"a")
    source = open_sql(f"sqlite:///{make_database(tmp_path / 'mlflow.db')}")
    runs = read_all(source)
    source.close()

    assert [run.name for run in runs.values()] == ["run 0", "run 1", "run 2"]
    run = runs[f"{1:032x}"]
    assert (run.experiment, run.status, run.parameters, run.user) == ("Default", FINISHED, {"lr": "0.5"}, "ada")
    assert [file.name for file in run.files] == ["a.txt"]
    source = open_sql(str(tmp_path / "mlflow.db"))
    first = source.read_run(source.list_heads()[0])
    start = START_MS
    assert points_of(first)["loss"] == [(s, (start + s) * 10**6, 1 / (s + 1)) for s in range(100)]
    assert source.version == "97727af70f4d"


def test_rows_of_wrong_types_are_noted_and_passed_over(tmp_path: Path) -> None:
    path = make_database(tmp_path / "mlflow.db", runs=1, points=2)
    with sqlite3.connect(str(path)) as db:
        db.execute("INSERT INTO metrics VALUES ('loss', 'text', ?, ?, 'x', 0)", (START_MS, f"{0:032x}"))
        db.execute("INSERT INTO metrics VALUES ('loss', 9.0, ?, ?, 9, 1)", (START_MS, f"{0:032x}"))
        db.execute("INSERT INTO runs (run_uuid, experiment_id) VALUES ('../../etc', 0)")
    source = open_sql(str(path))
    run = source.read_run(source.list_heads()[0])
    values = [value for _, _, value in points_of(run)["loss"]]

    assert values[:2] == [1.0, 0.5] and math.isnan(values[2]) and len(values) == 3
    assert run.notes == ["metric loss: 1 rows are no points"]
    assert [skipped.name for skipped in source.skipped] == ["run '../../etc'"]


def test_a_hostile_file_store_cannot_reach_out_of_its_folder(tmp_path: Path) -> None:
    root = tmp_path / "mlruns"
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("1700000000000 1 1")
    folder = add_run(root, RUN, metrics={"good": [f"{START_MS} 1.0 0"], "torn": [f"{START_MS} 1.0 0", "17000"]})
    os.symlink(secret / "key", folder / "artifacts" / "link")
    os.symlink(secret, folder / "artifacts" / "folder")
    os.symlink(secret / "key", folder / "metrics" / "stolen")
    os.symlink(secret, root / "7")
    big = add_run(root, "d" * 32)
    (big / "meta.yaml").write_text("a: b\n" + "#" * (2 << 20))
    source = MlflowFiles(str(root))
    runs = read_all(source)
    run = runs[RUN]

    assert list(runs) == [RUN] and not run.files
    assert set(points_of(run)) == {"good", "torn"}
    assert sorted(run.notes) == [
        "folder: a link out of the folder",
        "link: a link out of the folder",
        "metric torn: 1 lines are no points",
        "stolen: a link out of the folder",
    ]
    assert {one.name for one in source.skipped} == {"7", f"run {'d' * 32}"}


def test_artifacts_outside_of_the_store_are_not_read(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "key").write_text("secret")
    store = tmp_path / "a" / "store"
    store.mkdir(parents=True)
    path = make_database(store / "mlflow.db", runs=1)
    with sqlite3.connect(str(path)) as db:
        db.execute("UPDATE runs SET artifact_uri = ?", (f"file://{outside}",))
    closed, opened = (open_sql(str(path), artifacts=roots) for roots in ([], [str(outside)]))

    refused = closed.read_run(closed.list_heads()[0])
    assert not refused.files and "outside of what is imported" in refused.notes[0]
    assert [file.name for file in opened.read_run(opened.list_heads()[0]).files] == ["key"]


def test_what_is_no_store_is_refused_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_bytes(b"not a database, but longer than a header")
    sqlite3.connect(str(tmp_path / "y.db")).execute("CREATE TABLE t (a)")

    with pytest.raises(InvalidArgument, match="cannot be read as a SQLite"):
        open_sql(str(tmp_path / "x.db"))
    with pytest.raises(InvalidArgument, match="no database of MLflow"):
        open_sql(str(tmp_path / "y.db"))
    assert not is_database(str(tmp_path / "x.db")) and not is_file_store(str(tmp_path))
    assert is_file_store(str(make_mlruns(tmp_path / "mlruns")))
    assert is_database(str(make_database(tmp_path / "z.db")))


def test_a_loop_of_parents_does_not_hang() -> None:
    heads = [RunHead("a", "e", 2, "b"), RunHead("b", "e", 1, "a"), RunHead("c", "e", 0, "gone")]

    assert [head.id for head in in_order(heads)] == ["c", "a", "b"]
