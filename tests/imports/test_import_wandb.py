"""`runyard import wandb`: offline runs of Weights & Biases, read without its package."""

from __future__ import annotations

import json
import math
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from runyard.client.client import Client
from runyard.core.errors import InvalidArgument
from runyard.core.records import Run
from runyard.imports.records import ArtifactPoint, ImportedRun, PointPart
from runyard.imports.wandb.folder import open_wandb
from runyard.sdk.runs.metrics import format_metrics
from tests.cli.command_line import runyard
from tests.e2e.frameworks import interpreter_with
from tests.imports.test_import_mlflow import all_runs, an_id, bring, dump
from tests.imports.wandb_files import (
    START,
    exit_record,
    history_record,
    output_record,
    run_record,
    stats_record,
    summary_record,
    write_run,
)

PNG = {"_type": "image-file", "path": "media/images/a.png", "size": 4}
FILES = {"media/images/a.png": b"\x89PNG", "saved.txt": b"saved"}


def a_history(count: int = 300) -> list[bytes]:
    return [history_record(step, {"loss": 1 / (step + 1), "net.acc": step / 2, "int": step}) for step in range(count)]


def whole(run_id: str, **more: Any) -> list[bytes]:
    return [
        run_record(run_id, config={"lr": 0.1, "net": {"depth": 3}, "_wandb": {}}),
        *a_history(),
        history_record(300, {"word": "hello", "flag": True, "nan": math.nan, "img": PNG}),
        history_record(301, {"hist": {"_type": "histogram", "values": [1], "bins": [0, 1]}}),
        summary_record({"best": 0.5}),
        stats_record(START + 1, {"cpu": 12.5}),
        output_record("hello\n"),
        exit_record(0),
    ]


def values_of(client: Client, run: Run) -> dict[str, Any]:
    return format_metrics(client.runs.metric_values(run.id, None, None), address=lambda name: f"file {name}")


def test_a_run_comes_with_config_history_summary_media_and_console(
    client: Client, workspace: str, tmp_path: Path
) -> None:
    run_id = an_id()[:8]
    write_run(tmp_path / "wandb", run_id, whole(run_id), files=FILES)
    done = runyard("import", "wandb", str(tmp_path), "--workspace", workspace, "--verify", "--json")
    told = json.loads(done.stdout)
    (run,) = all_runs(client, workspace).values()

    assert done.returncode == 0 and told["verified"] == 1 and not told["skipped"], done.stdout
    assert (run.id, run.experiment, run.display_name, run.description) == (
        f"wandb_proj_{run_id}",
        "proj",
        "a name",
        "notes",
    )
    assert (run.status.value, run.tags, run.parameters) == ("Completed", {"t": ""}, {"lr": "0.1", "net.depth": "3"})
    metrics = values_of(client, run)
    assert metrics["loss"] == [1 / (step + 1) for step in range(300)] and metrics["int"] == list(range(300))
    assert metrics["net.acc"][:3] == [0.0, 0.5, 1.0]
    assert (metrics["word"], metrics["flag"], metrics["best"]) == ("hello", True, 0.5) and math.isnan(metrics["nan"])
    assert metrics["img"] == "file media/images/a.png" and json.loads(metrics["hist"])["bins"] == [0, 1]
    series = client.runs.metric_series(run.id, "loss")
    assert (series.steps[3], series.times[3]) == (3, START * 10**9 + 1_500_000_000)
    assert client.runs.metric_series(run.id, "_system/cpu").values[0] == 12.5
    assert client.runs.read_file(run.id, "user_logs/std_log.txt").data == b"hello\n"
    assert client.runs.read_file(run.id, "saved.txt").data == b"saved"
    assert json.loads(run.properties["wandb.summary"]) == {"best": 0.5}


def test_again_brings_nothing_and_a_resumed_run_is_one_that_grew(
    client: Client, workspace: str, tmp_path: Path
) -> None:
    run_id = an_id()[:8]
    write_run(tmp_path, run_id, [run_record(run_id), *a_history(5)])
    first = bring(client, open_wandb(str(tmp_path)), workspace)
    before = dump(client, workspace)
    again = bring(client, open_wandb(str(tmp_path)), workspace)
    assert (first.points, again.points, again.runs["unchanged"]) == (15, 0, 1) and dump(client, workspace) == before
    (run,) = all_runs(client, workspace).values()
    assert run.error is not None and run.error["code"] == "ImportedUnfinished"
    resumed = [run_record(run_id), history_record(5, {"loss": 9.5}), exit_record(3)]
    write_run(tmp_path, run_id, resumed, stamp="20231115_000000")
    grown = bring(client, open_wandb(str(tmp_path)), workspace)
    (run,) = all_runs(client, workspace).values()

    assert (grown.points, grown.runs["grown"]) == (1, 1)
    assert run.error is not None and "exit code 3" in run.error["message"]


def read_one(folder: Path) -> ImportedRun:
    source = open_wandb(str(folder))
    (head,) = source.list_heads()
    return source.read_run(head)


def loss_of(run: ImportedRun) -> list[float]:
    parts = [part for part in run.read_points() if isinstance(part, PointPart) and part.metric == "loss"]
    return [value for part in parts for value in part.values]


def test_damage_costs_the_records_that_it_hit(tmp_path: Path) -> None:
    path = write_run(tmp_path, "abc", [run_record("abc"), *a_history(1000)])
    data = path.read_bytes()
    path.write_bytes(data[:-5])
    torn = read_one(tmp_path)
    path.write_bytes(data[:40_000] + bytes([data[40_000] ^ 1]) + data[40_001:])
    hit = read_one(tmp_path)

    assert len(loss_of(torn)) == 999 and torn.notes[0].endswith("its last record is not whole")
    assert len(loss_of(hit)) == 999 and "1 of its records are damaged" in hit.notes[0]


def test_long_records_lie_across_blocks(tmp_path: Path) -> None:
    long = "x" * 200_000
    records = [run_record("abc", config={"long": long}), *a_history(3), history_record(3, {"t": long})]
    write_run(tmp_path, "abc", records)
    run = read_one(tmp_path)

    assert run.parameters == {"long": long} and len(loss_of(run)) == 3 and not run.notes


def test_a_hostile_folder_is_not_followed_out_of(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    media = {"_type": "image-file", "path": "../../../secret"}
    path = write_run(tmp_path / "wandb", "abc", [run_record("abc"), history_record(0, {"img": media})])
    os.symlink(tmp_path / "secret", path.parent / "files" / "link")
    (tmp_path / "wandb" / "offline-run-20231114_221320-bad").mkdir()
    (tmp_path / "wandb" / "offline-run-20231114_221321-no").mkdir()
    (tmp_path / "wandb" / "offline-run-20231114_221321-no" / "run-no.wandb").write_bytes(b"no such file at all")
    source = open_wandb(str(tmp_path / "wandb"))
    run = read_one(tmp_path / "wandb")

    assert not [part for part in run.read_points() if isinstance(part, ArtifactPoint)] and not run.files
    assert run.notes == [
        "link: a link out of the folder (--links takes it)",
        "metric img: 1 of its files are not in the folder",
    ]
    assert len(source.list_heads()) == 1 and len(source.skipped) == 2
    followed = open_wandb(str(tmp_path / "wandb"), follows_links=True)
    assert [file.name for file in followed.read_run(followed.list_heads()[0]).files] == ["link"]


def test_what_has_no_runs_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="has no runs"):
        open_wandb(str(tmp_path))
    done = runyard("import", "wandb", str(tmp_path / "none"))

    assert done.returncode == 1 and "There is no such folder." in done.stderr and "WANDB_DIR" in done.stderr


WRITE = """
import os, sys
os.environ.update(WANDB_MODE="offline", WANDB_SILENT="true", WANDB_DIR=sys.argv[1], WANDB_CACHE_DIR=sys.argv[1])
os.makedirs(sys.argv[1], exist_ok=True)
import numpy as np
import wandb
config = {"lr": 0.1, "net": {"depth": 3}, "list": [1, 2]}
run = wandb.init(project="proj", name="first run", notes="some notes", tags=["a", "b"], group="g", config=config)
for step in range(2000):
    run.log({"loss": 1 / (step + 1), "nested": {"acc": step / 300}, "int": step})
run.log({"word": "hello", "flag": True, "nan": float("nan"), "inf": float("inf")})
table = wandb.Table(columns=["x"], data=[[1], [2]])
image = wandb.Image(np.zeros((8, 8, 3), dtype=np.uint8))
run.log({"img": image, "table": table, "hist": wandb.Histogram(np.arange(10))})
run.summary["best"] = 0.5
run.config.update({"later": 7})
print("hello stdout")
run.finish()
run = wandb.init(project="proj", name="crashes")
run.log({"loss": 3.0})
run.finish(exit_code=1)
"""


@pytest.mark.external
@pytest.mark.timeout(600)  # installs the client on a new machine
@pytest.mark.parametrize("version", ["0.31.0", "0.16.6"])
def test_runs_of_the_real_client_are_read_whole(tmp_path: Path, version: str) -> None:
    more = ("setuptools<81",) if version < "0.20" else ()
    python = interpreter_with((f"wandb=={version}", "numpy<2", "pillow", *more))
    subprocess.run([python, "-c", WRITE, str(tmp_path)], check=True, capture_output=True, timeout=300)
    source = open_wandb(str(tmp_path))
    run, failed = sorted(map(source.read_run, source.list_heads()), key=lambda one: -len(one.files))
    found = {part.metric: part for part in run.read_points()}

    assert (run.status, failed.status, failed.error) == ("Completed", "Failed", "The program ended with exit code 1.")
    assert (run.name, run.description, run.properties["wandb.group"]) == ("first run", "some notes", "g")
    assert run.parameters == {"lr": "0.1", "net.depth": "3", "list": "[1, 2]", "later": "7"}
    assert run.tags == {"a": "", "b": ""} and not run.notes
    loss, nested = found["loss"], found["nested.acc"]
    assert isinstance(loss, PointPart) and isinstance(nested, PointPart)
    assert list(loss.steps) == list(range(2000)) and list(loss.values) == [1 / (step + 1) for step in range(2000)]
    assert list(nested.values) == [step / 300 for step in range(2000)]
    assert loss.times_ns[0] > 1_700_000_000 * 10**9
    assert {"word", "flag", "nan", "inf", "hist", "best", "img", "table", "int"} <= set(found)
    image = found["img"]
    assert isinstance(image, ArtifactPoint) and image.file in {file.name for file in run.files}
    console = next(file for file in run.files if file.name == "user_logs/std_log.txt")
    with console.open() as content:
        assert b"hello stdout" in content.read()
