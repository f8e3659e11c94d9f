"""`runyard import mlflow`: what a store holds is here afterwards, once, however often it is brought in or killed."""

from __future__ import annotations

import json
import math
import os
import random
import sqlite3
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from runyard.client.calls.workspace import ModelCalls
from runyard.client.client import Client
from runyard.core.errors import InvalidArgument, MissingExtra, ServerUnreachable
from runyard.core.formats.plain import to_plain
from runyard.core.records import Run
from runyard.imports import uploads, writer
from runyard.imports.folder import open_inside
from runyard.imports.mlflow import open_mlflow
from runyard.imports.mlflow_files import MlflowFiles
from runyard.imports.records import ImportedRun, RunHead, SourceFile
from runyard.imports.report import ImportReport
from runyard.imports.writer import ImportOptions, write_history
from runyard.sdk.workspaces.workspace import Workspace
from tests.cli.command_line import runyard
from tests.imports.stores import START_MS, add_run, make_database


def an_id() -> str:
    return uuid.uuid4().hex


def bring(client: Client, source: Any, workspace: str, **options: Any) -> ImportReport:
    report = ImportReport()
    write_history(client, source, ImportOptions(workspace, **options), report)
    return report


def all_runs(client: Client, workspace: str) -> dict[str, Run]:
    found: dict[str, Run] = {}
    for view in ("active", "archived"):
        found.update({run.id: run for run in client.runs.iter(workspace, include_children="true", view=view)})
    return found


def dump(client: Client, workspace: str) -> dict[str, Any]:
    """Return all that is stored of a workspace's runs, but what differs from server to server."""
    found = {}
    for run_id, run in sorted(all_runs(client, workspace).items()):
        plain = to_plain(run)
        for key in ("experiment_id", "workspace", "owner", "archived_at", "number"):
            plain.pop(key)
        series: dict[Any, Any] = {}
        for info in client.runs.metrics(run_id):
            if info.kind == "artifact":
                series[info.name] = [info.artifact, info.count]
                continue
            for column in info.columns:
                points = client.runs.metric_series(run_id, info.name, column=column)
                values = [repr(value) for value in points.values]
                series[info.name, column] = [list(points.steps), list(points.times), values]
        files = {file.name: (file.size, file.sha256) for file in client.runs.files(run_id)}
        found[run_id] = [plain, series, files]
    return found


def small_store(root: Path, runs: int = 3, points: int = 50) -> list[str]:
    ids = [an_id() for _ in range(runs)]
    for at, run_id in enumerate(ids):
        lines = [f"{START_MS + step} {step / 7} {step}" for step in range(points)]
        files = {"model/a.bin": bytes([at]) * 10, "plot.png": b"\x89PNG", "log.txt": b"hello" * at}
        tags = {"mlflow.parentRunId": ids[0]} if at else {}
        add_run(root, run_id, start_ms=START_MS + at, metrics={"loss": lines, "a/b": lines[:3]}, files=files, tags=tags)
    return ids


def test_a_store_is_here_with_ids_times_points_and_files(client: Client, workspace: str, tmp_path: Path) -> None:
    root, parent, child, gone = tmp_path / "mlruns", an_id(), an_id(), an_id()
    lines = [f"{START_MS + step} {1 / (step + 1)} {step}" for step in range(300)]
    odd = [f"{START_MS} nan 0", f"{START_MS} inf 1", f"{START_MS + 1} 7"]
    tags = {"mlflow.runName": "first", "mlflow.note.content": "about it", "mlflow.user": "ada", "team": "x"}
    add_run(
        root, parent, metrics={"train/loss": lines, "odd": odd}, params={"lr": "0.1"}, tags=tags,
        files={"model/MLmodel": b"flavors: {}\n", "empty": b""},
    )  # fmt: skip
    add_run(root, child, start_ms=START_MS - 5, status=4, tags={"mlflow.parentRunId": parent})
    add_run(root, gone, experiment="1", title="Größe & Co: ein/zwei", stage="deleted", status=1)
    done = runyard("import", "mlflow", str(root), "--workspace", workspace, "--verify", "--json")
    runs = all_runs(client, workspace)
    run = runs[parent]

    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["runs"] == {"new": 3, "grown": 0, "unchanged": 0} and told["verified"] == 3
    assert (told["points"], told["files"], told["bytes"]) == (303, 2, 12)
    assert (run.display_name, run.description, run.submitted_by, run.tags) == (
        "first",
        "about it",
        "ada",
        {"team": "x"},
    )
    assert (run.type, run.status.value, run.logged_parameters) == ("mlflow", "Completed", {"lr": "0.1"})
    assert run.started_at is not None and run.started_at.timestamp() * 1000 == START_MS
    assert (run.ended_at.timestamp() - run.started_at.timestamp()) == 60  # type: ignore[union-attr]
    assert json.loads(run.properties["runyard.imported_from"])["source"] == "mlflow"
    points = client.runs.metric_series(parent, "train/loss")
    assert list(points.steps) == list(range(300)) and list(points.times)[1] == (START_MS + 1) * 10**6
    values = list(client.runs.metric_series(parent, "odd").values)
    assert math.isnan(values[0]) and values[1:] == [math.inf, 7.0]
    assert [file.name for file in client.runs.files(parent)] == ["empty", "model/MLmodel"]
    assert (runs[child].parent_id, runs[child].status.value) == (parent, "Failed")
    assert runs[gone].experiment == "Größe & Co: ein/zwei" and runs[gone].archived_at is not None
    assert runs[gone].error is not None and runs[gone].error["code"] == "ImportedUnfinished"


def test_again_brings_only_what_is_new(client: Client, workspace: str, tmp_path: Path) -> None:
    root = tmp_path / "mlruns"
    ids = small_store(root)
    first = bring(client, MlflowFiles(str(root)), workspace, files="none")
    before = dump(client, workspace)
    again = bring(client, MlflowFiles(str(root)), workspace, files="none")
    assert first.runs["new"] == 3 and first.files == 0
    assert again.runs == {"new": 0, "grown": 0, "unchanged": 3} and dump(client, workspace) == before

    some = bring(client, MlflowFiles(str(root)), workspace, files="*.png")
    assert (some.runs["grown"], some.files, some.points) == (3, 3, 0)
    whole = bring(client, MlflowFiles(str(root)), workspace)
    assert (whole.runs["grown"], whole.files) == (3, 9)
    with open(root / "0" / ids[1] / "metrics" / "loss", "a") as file:
        file.write(f"{START_MS + 99} 9.5 99\n")
    grown = bring(client, MlflowFiles(str(root)), workspace)
    assert grown.runs == {"new": 0, "grown": 1, "unchanged": 2} and grown.points == 1
    assert list(client.runs.metric_series(ids[1], "loss").values)[-1] == 9.5
    none = bring(client, MlflowFiles(str(root)), workspace, files="none")
    assert none.runs["unchanged"] == 3, "what is here stays, whatever is asked for"


@pytest.mark.long
def test_an_import_killed_at_random_moments_ends_as_one_that_was_not(
    client: Client, workspace: str, tmp_path: Path
) -> None:
    root = tmp_path / "mlruns"
    small_store(root, runs=60, points=400)
    dice = random.Random(7)
    command = [sys.executable, "-m", "runyard.cli", "import", "mlflow", str(root), "--workspace", workspace]
    for _ in range(12):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(dice.uniform(0.05, 0.6))
        process.kill()
        process.wait()
    last = bring(client, MlflowFiles(str(root)), workspace)
    torn = dump(client, workspace)
    assert not last.failed
    for run_id in torn:
        client.runs.delete(run_id, now=True) if torn[run_id][0]["parent_id"] is None else None
    assert not all_runs(client, workspace)
    bring(client, MlflowFiles(str(root)), workspace)

    assert dump(client, workspace) == torn


def test_registered_models_come_with_versions_aliases_and_files(client: Client, workspace: str, tmp_path: Path) -> None:
    root = tmp_path / "mlruns"
    (run_id,) = small_store(root, runs=1)
    model = root / "models" / "net"
    for version in (1, 3):
        (model / f"version-{version}" / "tags").mkdir(parents=True)
        (model / f"version-{version}" / "tags" / "t").write_text(f"{version}")
        (model / f"version-{version}" / "meta.yaml").write_text(
            f"creation_timestamp: {START_MS}\ncurrent_stage: {'Production' if version == 3 else 'None'}\n"
            f"description: v{version}\nlast_updated_timestamp: {START_MS}\nname: net\nrun_id: {run_id}\n"
            f"source: file://{root}/0/{run_id}/artifacts/model\nuser_id: null\nversion: {version}\n"
        )
    (model / "meta.yaml").write_text(f"creation_timestamp: {START_MS}\ndescription: about\nname: net\n")
    (model / "aliases").mkdir()
    (model / "aliases" / "best").write_text("3")
    first, again = (
        json.loads(runyard("import", "mlflow", str(root), "--workspace", workspace, "--json").stdout) for _ in range(2)
    )
    found = ModelCalls(client.transport).list(workspace)

    assert first["models"] == {"new": 2, "unchanged": 0} and again["models"] == {"new": 0, "unchanged": 2}
    assert [(one.version, one.spec.tags, one.spec.stage, one.aliases) for one in found] == [
        (1, {"t": "1"}, "", []),
        (3, {"t": "3"}, "Production", ["best"]),
    ]
    assert [file.name for file in found[0].spec.files] == ["model/a.bin"] and found[0].spec.run_id == run_id
    assert found[0].about.description == "about"


def test_a_dry_run_stores_nothing(client: Client, workspace: str, tmp_path: Path) -> None:
    root = tmp_path / "mlruns"
    small_store(root)
    done = runyard("import", "mlflow", str(root), "--workspace", workspace, "--dry-run")

    assert done.returncode == 0 and "would be new" in done.stdout and "159" in done.stdout
    assert not all_runs(client, workspace)


def test_a_dry_run_makes_no_workspace(client: Client, tmp_path: Path) -> None:
    small_store(tmp_path / "mlruns")
    before = [one.name for one in client.workspaces.list()]
    done = runyard("import", "mlflow", str(tmp_path / "mlruns"), "--workspace", "not-there", "--dry-run")

    assert done.returncode == 0 and "would be new" in done.stdout and "159" in done.stdout
    assert [one.name for one in client.workspaces.list()] == before


def test_prefix_and_since(client: Client, workspace: str, tmp_path: Path) -> None:
    root, old, new = tmp_path / "mlruns", an_id(), an_id()
    add_run(root, old, start_ms=START_MS)
    add_run(root, new, start_ms=START_MS + 10 * 86_400_000)
    runyard(
        "import", "mlflow", str(root), "--workspace", workspace, "--since", "2023-11-20", "--experiment-prefix", "x/"
    )
    wrong = runyard("import", "mlflow", str(root), "--since", "yesterday")

    assert {run_id: run.experiment for run_id, run in all_runs(client, workspace).items()} == {new: "x/Default"}
    assert wrong.returncode == 1 and "'yesterday' is no date" in wrong.stderr


def test_odd_names_are_made_fit_and_noted(client: Client, workspace: str, tmp_path: Path) -> None:
    path = make_database(tmp_path / "mlflow.db", runs=0)
    run_id, long = an_id(), "m" * 250 + "é" * 10
    with sqlite3.connect(str(path)) as db:
        db.execute("UPDATE experiments SET name = ?", ("e" * 399 + "\n",))
        db.execute(
            "INSERT INTO runs VALUES (?, 'n', 'ada', 'FINISHED', ?, ?, 'active', '', 0)", (run_id, START_MS, START_MS)
        )
        for key in (long, "tab\tbed", "tab_bed"):
            db.execute("INSERT INTO metrics VALUES (?, 1.5, ?, ?, 0, 0)", (key, START_MS, run_id))
    report = bring(client, open_mlflow(str(path)), workspace)
    run = all_runs(client, workspace)[run_id]

    assert not report.failed and report.noted == 1
    experiment = client.experiments.get(workspace, run.experiment)
    assert experiment.title == "e" * 399 + "\n"
    names = sorted(info.name for info in client.runs.metrics(run_id))
    assert len(names) == 3 and "tab_bed" in names and all(len(name) <= 255 for name in names)
    assert len([warning for warning in run.warnings if "is called" in warning["message"]]) == 2


def test_an_id_that_is_taken_is_named_and_the_others_come(client: Client, workspace: str, tmp_path: Path) -> None:
    other = workspace + "x"
    Workspace.create(other, show_output=False)
    root = tmp_path / "mlruns"
    ids = small_store(root, runs=1)
    bring(client, MlflowFiles(str(root)), other)
    free = an_id()
    add_run(root, free)
    done = runyard("import", "mlflow", str(root), "--workspace", workspace)

    assert done.returncode == 1 and f"run {ids[0]}: The run id `{ids[0]}` is taken." in done.stdout
    assert list(all_runs(client, workspace)) == [free]


class Broken(MlflowFiles):
    """A store whose second run cannot be read, and one of whose files is gone."""

    def read_run(self, head: RunHead) -> ImportedRun:
        if head.id == sorted(one.id for one in self.list_heads())[1]:
            raise OSError(5, "Input/output error")
        run = super().read_run(head)
        run.files.append(SourceFile("gone.bin", 9, lambda: open_inside("/nonexistent", "/nonexistent/gone.bin")))
        return run


def test_what_cannot_be_read_is_named_and_tried_again(client: Client, workspace: str, tmp_path: Path) -> None:
    root = tmp_path / "mlruns"
    small_store(root, runs=2)
    report = bring(client, Broken(str(root)), workspace)

    assert sorted(failed.why for failed in report.failed)[0].startswith("[Errno 5]")
    assert "file gone.bin: No such file or directory" in [failed.why for failed in report.failed]
    healed = bring(client, MlflowFiles(str(root)), workspace)
    assert not healed.failed and len(all_runs(client, workspace)) == 2


def test_a_run_larger_than_a_request_comes_in_parts(
    client: Client, workspace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "MOST_PARTS_BYTES", 3000)
    monkeypatch.setattr(uploads, "SMALL_BYTES", 4)
    root = tmp_path / "mlruns"
    ids = small_store(root, runs=2, points=900)
    first = bring(client, MlflowFiles(str(root)), workspace)
    before = dump(client, workspace)
    again = bring(client, MlflowFiles(str(root)), workspace)

    assert first.points == 2 * 903 and first.runs["new"] == 2 and again.runs["unchanged"] == 2
    assert before == dump(client, workspace)
    with open(root / "0" / ids[0] / "metrics" / "loss", "a") as file:
        file.write(f"{START_MS + 99} 9.5 900\n")
    assert bring(client, MlflowFiles(str(root)), workspace).points == 1


def test_what_a_source_is_called(tmp_path: Path) -> None:
    add_run(tmp_path / "both" / "mlruns", an_id())
    make_database(tmp_path / "both" / "mlflow.db")
    make_database(tmp_path / "mlflow.db")
    add_run(tmp_path / "one" / "mlruns", an_id())
    for name in ("one", "one/mlruns", "mlflow.db", ".", f"sqlite:///{tmp_path}/mlflow.db"):
        open_mlflow(name if "://" in name else os.path.join(tmp_path, name)).close()
    open_mlflow(f"file://{tmp_path}/one/mlruns").close()
    (tmp_path / "none").mkdir()

    with pytest.raises(InvalidArgument, match="more than one store"):
        open_mlflow(str(tmp_path / "both"))
    with pytest.raises(InvalidArgument, match="no store of MLflow"):
        open_mlflow(str(tmp_path / "none"))
    with pytest.raises(InvalidArgument, match="There is no"):
        open_mlflow(str(tmp_path / "absent"))
    with pytest.raises(MissingExtra, match="driver"):
        open_mlflow("oracle+oracledb://u:p@h/db")
    with pytest.raises(ServerUnreachable):
        open_mlflow("http://127.0.0.1:1")
