"""`runyard import tensorboard`: each folder of event files is a run, equal to what TensorBoard's own reader says."""

from __future__ import annotations

import json
import math
import os
import subprocess
from pathlib import Path

import pytest

from runyard.client.client import Client
from runyard.core.errors import InvalidArgument
from runyard.core.formats.tfevents import Scalar, first_record, parameters_record, scalar_record
from runyard.imports.records import PointPart
from runyard.imports.tensorboard import open_tensorboard
from tests.cli.command_line import runyard
from tests.e2e.frameworks import interpreter_with
from tests.imports.test_import_mlflow import all_runs, an_id, bring, dump

START = 1_700_000_000.0
PACKAGES = ("tensorboardX==2.6.5", "tensorboard==2.21.0", "numpy", "setuptools<81")


def write_events(folder: Path, scalars: int = 50, *, at: float = START, parameters: bool = False) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"events.out.tfevents.{int(at)}.host"
    records = [first_record(at)]
    if parameters:
        records.append(parameters_record({"lr": 0.5, "name": "x"}, at))
    records += [scalar_record(Scalar("loss", step, at + step, 1 / (step + 1))) for step in range(scalars)]
    path.write_bytes(b"".join(records))
    return path


def test_each_folder_is_a_run_with_points_parameters_and_its_event_files(
    client: Client, workspace: str, tmp_path: Path
) -> None:
    logs = tmp_path / f"logs-{an_id()[:8]}"
    write_events(logs / "train", parameters=True)
    write_events(logs / "deep" / "valid", 30, at=START + 5)
    (logs / "model.bin").write_bytes(b"x")
    done = runyard("import", "tensorboard", str(logs), "--workspace", workspace, "--verify", "--json")
    told = json.loads(done.stdout)
    runs = {run.display_name: run for run in all_runs(client, workspace).values()}

    assert done.returncode == 0 and told["runs"]["new"] == told["verified"] == 2, done.stdout
    assert told["skipped"] == [{"name": "1 other files", "why": "they are no event files"}]
    assert set(runs) == {"train", "deep/valid"} and runs["train"].experiment == logs.name
    assert runs["train"].parameters == {"lr": "0.5", "name": "x"}
    assert runs["train"].created_at.timestamp() == START
    assert runs["train"].ended_at is not None and runs["train"].ended_at.timestamp() == START + 49
    series = client.runs.metric_series(runs["deep/valid"].id, "loss")
    assert list(series.steps) == list(range(30)) and series.times[1] == int((START + 6) * 1e9)
    assert [file.name for file in client.runs.files(runs["train"].id)] == [
        f"logs/events.out.tfevents.{int(START)}.host"
    ]


def test_again_brings_nothing_and_a_file_that_grew_its_new_points(
    client: Client, workspace: str, tmp_path: Path
) -> None:
    logs = tmp_path / f"logs-{an_id()[:8]}"
    path = write_events(logs)
    first = bring(client, open_tensorboard(str(logs)), workspace)
    before = dump(client, workspace)
    again = bring(client, open_tensorboard(str(logs)), workspace)
    assert (first.points, again.points, again.runs["unchanged"]) == (50, 0, 1) and dump(client, workspace) == before
    with path.open("ab") as file:
        file.write(scalar_record(Scalar("loss", 50, START + 50, 9.5)))
        file.write(scalar_record(Scalar("loss", 51, START + 51, 9.5))[:-3])
    grown = bring(client, open_tensorboard(str(logs)), workspace)

    assert (grown.points, grown.runs["grown"], grown.noted) == (1, 1, 1)


def test_damage_keeps_what_comes_before_and_says_where(tmp_path: Path) -> None:
    path = write_events(tmp_path / "logs", 20)
    data = bytearray(path.read_bytes())
    data[len(data) // 2 :] = b"\xff" * 40
    path.write_bytes(bytes(data))
    (tmp_path / "logs" / "empty").mkdir()
    (tmp_path / "logs" / "empty" / "events.out.tfevents.1.h").write_bytes(b"")
    os.symlink("/etc/passwd", tmp_path / "logs" / "events.out.tfevents.2.h")
    source = open_tensorboard(str(tmp_path / "logs"))
    (head,) = source.list_heads()
    run = source.read_run(head)
    (part,) = run.read_points()

    assert 0 < len(part) < 20 and "is damaged from byte" in run.notes[0]
    assert {skipped.name for skipped in source.skipped} == {"a file", "empty"}


def test_what_is_no_log_folder_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="no log folder of TensorBoard"):
        open_tensorboard(str(tmp_path))
    done = runyard("import", "tensorboard", str(tmp_path / "none"))

    assert done.returncode == 1 and "There is no such folder." in done.stderr and "--logdir" in done.stderr


WRITE = """
import sys, time, numpy as np
from tensorboardX import SummaryWriter
root = sys.argv[1]
for name in ("a", "b/c"):
    with SummaryWriter(f"{root}/{name}", filename_suffix=".1") as writer:
        for step in range(200):
            writer.add_scalar("loss", 1 / (step + 1), step)
            writer.add_scalar("acc/train", step / 200, step)
        writer.add_scalar("odd", float("nan"), 0)
        writer.add_scalar("odd", float("inf"), 1)
        writer.add_text("note", "hello", 3)
        writer.add_text("note", "again", 4)
        writer.add_histogram("h", np.random.randn(100), 1)
        writer.add_image("img", np.zeros((3, 8, 8), dtype=np.uint8), 1)
with SummaryWriter(f"{root}/b/c", purge_step=150, filename_suffix=".2") as writer:
    for step in range(150, 220):
        writer.add_scalar("loss", 9.0, step)
with SummaryWriter(f"{root}/hp") as writer:
    writer.add_hparams({"lr": 0.1, "layers": 3, "name": "x", "flag": True}, {"hparam/acc": 0.5}, name="1700000000.5")
"""

READ = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
found = {}
for name in sys.argv[2:]:
    events = EventAccumulator(f"{sys.argv[1]}/{name}", {"scalars": 0, "tensors": 0})
    events.Reload()
    tags = events.Tags()["scalars"]
    found[name] = {tag: [[e.step, e.wall_time, e.value] for e in events.Scalars(tag)] for tag in tags}
print(json.dumps(found))
"""


@pytest.mark.external
@pytest.mark.timeout(600)  # installs TensorBoard on a new machine
def test_points_equal_those_of_tensorboards_own_reader(tmp_path: Path) -> None:
    python, logs = interpreter_with(PACKAGES), tmp_path / "logs"
    subprocess.run([python, "-c", WRITE, str(logs)], check=True, capture_output=True, timeout=300)
    told = subprocess.run(
        [python, "-c", READ, str(logs), "a", "b/c"], check=True, capture_output=True, text=True, timeout=300
    )
    wanted = json.loads(told.stdout)
    source = open_tensorboard(str(logs))
    runs = {run.name: run for run in map(source.read_run, source.list_heads())}

    for name, series in wanted.items():
        found = {part.metric: part for part in runs[name].read_points() if isinstance(part, PointPart)}
        assert set(found) == {*series, "note/text_summary"}
        for tag, points in series.items():
            part = found[tag]
            mine = [[step, at, repr(value)] for step, at, value in zip(part.steps, part.times_ns, part.values)]
            assert mine == [[step, int(time * 1e9), repr(value)] for step, time, value in points]
        assert list(found["note/text_summary"].values) == ["hello", "again"]
    assert runs["hp"].parameters == {"lr": "0.1", "layers": "3", "name": "x", "flag": "True"}
    notes = " ".join(runs["b/c"].notes)
    assert "histograms of 1 tags" in notes and "images of 1 tags" in notes and "restart" in notes
    odd = [*(part for part in runs["a"].read_points() if isinstance(part, PointPart) and part.metric == "odd")]
    assert math.isnan(odd[0].values[0]) and math.isinf(odd[0].values[1])
