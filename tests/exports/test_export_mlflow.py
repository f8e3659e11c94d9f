"""`runyard export mlflow`: stock MLflow reads what was written, with equal values; again writes nothing."""

from __future__ import annotations

import json
import math
import subprocess
from array import array
from pathlib import Path
from typing import Any

import pytest

from runyard.client.client import Client
from runyard.core.errors import InvalidArgument
from runyard.core.formats.run_inputs import CONTEXT, DatasetInput, dataset_property, datasets_of
from runyard.exports.history import list_runs, write_runs
from runyard.exports.mlflow_folder import MlflowFolder
from runyard.exports.runs import MARK
from runyard.exports.targets import ExportReport
from runyard.imports.mlflow_files import MlflowFiles
from runyard.imports.records import ArtifactPoint, ImportedRun, PointPart, TableRows
from runyard.imports.report import ImportReport
from runyard.imports.writer import ImportOptions, write_history
from tests.cli.command_line import runyard
from tests.e2e.frameworks import interpreter_with
from tests.imports.stores import START_MS
from tests.imports.test_import_mlflow import all_runs, an_id, bring, small_store
from tests.imports.test_import_tensorboard import write_events
from tests.mlflow.servers import make_environment, stock_server

ROOT = Path(__file__).parent.parent.parent
STOCK = (("mlflow-skinny==2.22.5",), ("mlflow-skinny==3.17.2", "sqlalchemy", "alembic"))


def told_of(*arguments: str) -> Any:
    done = runyard("export", "mlflow", *arguments, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_what_came_from_mlflow_goes_out_equal(client: Client, workspace: str, tmp_path: Path) -> None:
    root, out = tmp_path / "mlruns", tmp_path / "out"
    ids = small_store(root)
    bring(client, MlflowFiles(str(root)), workspace)
    told = told_of("--workspace", workspace, "--to", str(out))
    before, after = ({run.id: run for run in runs_of(MlflowFiles(str(folder)))} for folder in (root, out))

    assert (told["runs"]["new"], told["points"], told["files"]) == (3, 159, 9) and not told["failed"]
    assert set(after) == set(ids)
    for run_id, run in after.items():
        assert points_of(run) == points_of(before[run_id])
        assert {file.name: file.size for file in run.files} == {file.name: file.size for file in before[run_id].files}
        assert (run.parent_id, run.status, run.name) == tuple(
            getattr(before[run_id], name) for name in ("parent_id", "status", "name")
        )
        assert (run.started_ns, run.ended_ns) == (before[run_id].started_ns, before[run_id].ended_ns)


def runs_of(source: MlflowFiles) -> list[ImportedRun]:
    return [source.read_run(head) for head in source.list_heads()]


def points_of(run: ImportedRun) -> dict[str, list[tuple[int, int, str]]]:
    parts = [part for part in run.read_points() if isinstance(part, PointPart)]
    return {part.metric: [*zip(part.steps, part.times_ns, map(repr, part.values))] for part in parts}


class Odd(MlflowFiles):
    """A source with what MLflow has no place for."""

    def read_run(self, head: Any) -> ImportedRun:
        run = super().read_run(head)
        run.type = "imported"
        at = [START_MS * 10**6]
        run.read_points = lambda: iter(
            [
                PointPart("a", _longs([0]), _longs(at), _doubles([1.5])),
                PointPart("a/b", _longs([0]), _longs(at), _doubles([math.inf])),
                PointPart("odd % name", _longs([0]), _longs(at), _doubles([math.nan])),
                PointPart("word", _longs([3]), _longs(at), ["hello"], "json"),
                TableRows("rows", {"x": [1, 2], "y": ["p", None]}, at * 2),
                ArtifactPoint("plot", "image", "plot.png", at[0]),
            ]
        )
        return run


def _longs(values: list[int]) -> Any:
    return array("q", values)


def _doubles(values: list[float]) -> Any:
    return array("d", values)


def test_what_has_no_place_there_is_said_and_kept_as_files(client: Client, workspace: str, tmp_path: Path) -> None:
    root, out = tmp_path / "mlruns", tmp_path / "out"
    (run_id,) = small_store(root, runs=1)
    write_history(client, Odd(str(root)), ImportOptions(workspace), ImportReport())
    told = told_of("--workspace", workspace, "--to", str(out))
    (run,) = runs_of(MlflowFiles(str(out)))
    points = points_of(run)

    assert {name: values[0][2] for name, values in points.items()} == {"a": "1.5", "a.b-2": "inf", "odd _ name": "nan"}
    assert "metric 'odd % name' is called 'odd _ name' there" in told["notes"]
    assert "metric 'word': 1 values that are no numbers are a table" in told["notes"]
    folder = out / "0" / run_id / "artifacts"
    assert json.loads((folder / "tables" / "rows.json").read_text()) == {
        "columns": ["x", "y"],
        "data": [[1, "p"], [2, None]],
    }
    assert json.loads((folder / "texts" / "word.json").read_text())["data"] == [[3, START_MS, "hello"]]


def test_again_writes_nothing_and_a_run_that_changed_is_written_anew(
    client: Client, workspace: str, tmp_path: Path
) -> None:
    root, out = tmp_path / "mlruns", tmp_path / "out"
    ids = small_store(root)
    bring(client, MlflowFiles(str(root)), workspace)
    told_of("--workspace", workspace, "--to", str(out))
    before = tree(out)
    again = told_of("--workspace", workspace, "--to", str(out))
    assert again["runs"] == {"new": 0, "changed": 0, "unchanged": 3} and tree(out) == before
    client.runs.update(ids[1], tags_set={"added": "here"})
    changed = told_of("--workspace", workspace, "--to", str(out))

    assert changed["runs"] == {"new": 0, "changed": 1, "unchanged": 2}
    new = {name for name, content in tree(out).items() if before.get(name) != content}
    assert new == {f"0/{ids[1]}/tags/added", f"0/{ids[1]}/tags/{MARK}"}


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class Killed(Exception):
    pass


class Dies(MlflowFolder):
    """A target whose process ends in the middle of the second run."""

    def _write_files(self, *arguments: Any) -> None:
        super()._write_files(*arguments)
        raise Killed


def test_an_export_that_was_killed_is_gone_on_with(client: Client, workspace: str, tmp_path: Path) -> None:
    root, out, whole = tmp_path / "mlruns", tmp_path / "out", tmp_path / "whole"
    small_store(root)
    bring(client, MlflowFiles(str(root)), workspace)
    runs = list_runs(client, workspace)
    write_runs(client, workspace, runs[:1], MlflowFolder(str(out)), ExportReport())
    with pytest.raises(Killed):
        write_runs(client, workspace, runs, Dies(str(out)), ExportReport())
    last = ExportReport()
    write_runs(client, workspace, runs, MlflowFolder(str(out)), last)
    write_runs(client, workspace, runs, MlflowFolder(str(whole)), ExportReport())

    assert last.runs == {"new": 2, "changed": 0, "unchanged": 1}
    strip = (str(out).encode(), str(whole).encode())
    assert {name: text.replace(strip[0], b"") for name, text in tree(out).items()} == {
        name: text.replace(strip[1], b"") for name, text in tree(whole).items()
    }


def test_some_runs_with_those_below_them_or_an_experiment(client: Client, workspace: str, tmp_path: Path) -> None:
    root = tmp_path / "mlruns"
    ids = small_store(root)
    bring(client, MlflowFiles(str(root)), workspace)
    family = told_of(ids[0], "--workspace", workspace, "--to", str(tmp_path / "a"))
    one = told_of(ids[2], "--workspace", workspace, "--to", str(tmp_path / "b"))
    every = told_of("Default", "--workspace", workspace, "--to", str(tmp_path / "c"))

    assert [told["runs"]["new"] for told in (family, one, every)] == [3, 1, 3]


def test_wrong_targets_are_answered_with_what_to_type(client: Client, workspace: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    for target, word in (
        (str(tmp_path), "something else than an MLflow store"),
        ("sqlite:///x.db", "mlflow server --backend-store-uri sqlite:///x.db"),
        ("http://127.0.0.1:1", "does not answer"),
    ):
        done = runyard("export", "mlflow", "--workspace", workspace, "--to", target)
        assert done.returncode == 1 and word in done.stderr, done.stderr
    unknown = runyard("export", "mlflow", "nothing", "--workspace", workspace, "--to", str(tmp_path / "new"))

    assert unknown.returncode == 1 and "nothing" in unknown.stderr
    with pytest.raises(InvalidArgument, match="holds something else"):
        MlflowFolder(str(tmp_path))


READ = """
import json, os, sys
os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
import mlflow
uri = sys.argv[1]
mlflow.set_tracking_uri(uri)
client, found = mlflow.MlflowClient(), {}
for experiment in client.search_experiments(view_type=3):
    for run in client.search_runs([experiment.experiment_id], run_view_type=3):
        run_id = run.info.run_id
        own = run.data.tags.get("runyard.run_id", run_id)
        names = []
        waiting = [None]
        while waiting:
            for entry in client.list_artifacts(run_id, waiting.pop()):
                waiting.append(entry.path) if entry.is_dir else names.append([entry.path, entry.file_size or 0])
        found[own] = {
            "experiment": experiment.name, "status": run.info.status, "name": run.info.run_name,
            "start": run.info.start_time, "end": run.info.end_time, "params": run.data.params,
            "parent": client.get_run(run.data.tags["mlflow.parentRunId"]).data.tags["runyard.run_id"]
            if "mlflow.parentRunId" in run.data.tags else None,
            "files": sorted(names),
            "inputs": sorted([one.dataset.name, one.dataset.digest, one.dataset.schema, one.tags[0].value]
                for one in run.inputs.dataset_inputs),
            "metrics": {
                key: sorted([m.step, m.timestamp, repr(m.value)] for m in client.get_metric_history(run_id, key))
                for key in run.data.metrics
            },
        }
models = [
    [v.name, v.version, v.aliases, v.tags.get("t")]
    for m in client.search_registered_models() for v in client.search_model_versions(f"name='{m.name}'")
]
print(json.dumps([found, models]))
"""


def expected(client: Client, workspace: str) -> dict[str, Any]:
    found = {}
    for run_id, run in all_runs(client, workspace).items():
        metrics = {}
        for info in client.runs.metrics(run_id):
            series = client.runs.metric_series(run_id, info.name)
            metrics[info.name] = sorted(
                [int(step), int(at) // 10**6, repr(float(value))]
                for step, at, value in zip(series.steps, series.times, series.values)
            )
        found[run_id] = {
            "experiment": run.experiment,
            "status": {"Completed": "FINISHED", "Failed": "FAILED"}[run.status.value],
            "name": run.display_name,
            "start": round(run.started_at.timestamp() * 1000) if run.started_at else None,
            "end": round(run.ended_at.timestamp() * 1000) if run.ended_at else None,
            "params": run.parameters,
            "parent": run.parent_id,
            "files": sorted([file.name, file.size] for file in client.runs.files(run_id)),
            "inputs": sorted([one.name, one.digest, one.schema, one.context] for one in datasets_of(run.properties)),
            "metrics": metrics,
        }
    return found


def name_inputs(client: Client, run_ids: list[str]) -> None:
    """Have two runs name the same dataset as an input, one of them another one too."""
    iris = DatasetInput("iris", "d1", "local", "{}", '{"a": "long"}', None, {CONTEXT: "training"})
    other = DatasetInput("möbel", "d2", "http", "http://x/y", None, None, {CONTEXT: "eval"})
    client.runs.update(run_ids[0], properties_add=dict([dataset_property(iris), dataset_property(other)]))
    client.runs.update(run_ids[1], properties_add=dict([dataset_property(iris)]))


def test_inputs_go_out_and_come_back(client: Client, workspace: str, tmp_path: Path) -> None:
    root, out = tmp_path / "mlruns", tmp_path / "out"
    ids = small_store(root)
    bring(client, MlflowFiles(str(root)), workspace)
    name_inputs(client, ids)
    told_of("--workspace", workspace, "--to", str(out))
    before = {run_id: run.properties for run_id, run in all_runs(client, workspace).items()}
    after = {run.id: run for run in runs_of(MlflowFiles(str(out)))}

    for run_id in ids:
        found, wanted = (sorted(datasets_of(of), key=str) for of in (after[run_id].properties, before[run_id]))
        assert found == wanted
        assert not [key for key in after[run_id].tags if key.startswith("mlflow.input.")]
    assert len(datasets_of(before[ids[0]])) == 2
    assert len([*(out / "0" / "datasets").iterdir()]) == 2


@pytest.mark.external
@pytest.mark.timeout(600)  # installs MLflow on a new machine
@pytest.mark.parametrize("packages", STOCK, ids=["2.22", "3.17"])
def test_stock_mlflow_reads_equal_values(
    client: Client, workspace: str, tmp_path: Path, packages: tuple[str, ...]
) -> None:
    root, out = tmp_path / "mlruns", tmp_path / "out"
    ids = small_store(root, runs=5)
    bring(client, MlflowFiles(str(root)), workspace)
    name_inputs(client, ids)
    logs = tmp_path / f"logs-{an_id()[:8]}"
    write_events(logs / "train", parameters=True)
    assert runyard("import", "tensorboard", str(logs), "--workspace", workspace).returncode == 0
    told_of("--workspace", workspace, "--to", str(out))
    done = subprocess.run(
        [interpreter_with(packages), "-c", READ, f"file:{out}"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found, _models = json.loads(done.stdout.splitlines()[-1])

    assert found == expected(client, workspace)


@pytest.mark.external
@pytest.mark.timeout(600)  # installs MLflow on a new machine
def test_a_stock_server_has_equal_values_and_a_second_export_adds_nothing(
    client: Client, workspace: str, tmp_path: Path
) -> None:
    root, folder = tmp_path / "mlruns", tmp_path / "server"
    folder.mkdir()
    ids = small_store(root, runs=3)
    bring(client, MlflowFiles(str(root)), workspace)
    name_inputs(client, ids)
    python = make_environment(ROOT / ".venv/mlflow-3.17.2", "mlflow==3.17.2")
    with stock_server(python, folder) as server:
        first, again = (told_of("--workspace", workspace, "--to", server.url) for _ in range(2))
        changed = []
        for change in ({"tags_set": {"added": "here"}}, {"archived": True}, {"archived": False}):
            client.runs.update(ids[0], **change)
            changed.append(told_of("--workspace", workspace, "--to", server.url))
        done = subprocess.run(
            [python, "-c", READ, server.url], capture_output=True, text=True, timeout=300, check=False
        )
    assert done.returncode == 0, done.stderr
    found, _models = json.loads(done.stdout.splitlines()[-1])

    assert [told["runs"]["changed"] for told in changed] == [1, 3, 3]  # its children are archived with it
    for told in changed:
        assert (told["points"], told["files"], told["failed"]) == (0, 0, [])
    assert (first["runs"]["new"], again["runs"]) == (3, {"new": 0, "changed": 0, "unchanged": 3})
    assert found == expected(client, workspace)
