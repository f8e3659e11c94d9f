"""What a program writes for TensorBoard is read while it runs and to the end, once, under names without dates."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import runyard
from runyard.client.calls.runs import SeriesPoints
from runyard.core.errors import NotFound
from runyard.core.formats import journal
from runyard.core.formats.tfevents import Scalar, first_record, scalar_record
from runyard.core.specs import JobSpec, RunSpec
from runyard.supervisor.run_folder import RunFolder
from runyard.supervisor.shipping.tensorboard import EventFiles, EventNames
from runyard.supervisor.shipping.work_tree import WorkTree
from tests.supervisor.supervised import Site

SCRIPT = """
import os, sys
sys.path.insert(0, os.environ["TEST_SOURCE"])
from runyard.core.formats.tfevents import Scalar, first_record, parameters_record, scalar_record
os.makedirs("logs/train")
with open("logs/train/events.out.tfevents.1.host", "wb") as file:
    file.write(first_record(1.0))
    for step in range(100):
        file.write(scalar_record(Scalar("loss", step, 1700000000.0 + step, 100.0 - step)))
    file.write(scalar_record(Scalar("loss", 100, 1.0, 0.0))[:-3])
os.makedirs("runs/Nov16_09-28-30_vm/1700000000.25")
open("runs/Nov16_09-28-30_vm/events.out.tfevents.2.host", "wb").write(scalar_record(Scalar("accuracy", 7, 1.0, 0.5)))
with open("runs/Nov16_09-28-30_vm/1700000000.25/events.out.tfevents.3.host", "wb") as file:
    file.write(parameters_record({"lr": 0.5, "width": 32}, 1.0) + scalar_record(Scalar("hparam/loss", 0, 1.0, 3.0)))
open("outputs/events.out.tfevents.broken", "wb").write(b"this is no event file at all")
open("outputs/notes.txt", "w").write("no events")
"""
SOURCE = {"TEST_SOURCE": str(runyard.__path__[0]).rpartition("/")[0]}


def points_of(site: Site, run_id: str) -> dict[str, list[tuple[int, float]]]:
    found: dict[str, list[tuple[int, float]]] = {}
    for data in site.server.journal_of(run_id):
        names: dict[int, str] = {}
        for part in journal.iter_parts(data):
            if isinstance(part, journal.Span):
                for _, _, _, name, step, _, value in journal.NUMBER.iter_unpack(data[part.offset : part.end]):
                    found.setdefault(names[name], []).append((step, value))
            elif part.kind == journal.NAME:
                names[part.payload["id"]] = part.payload["name"]
    return {name: points for name, points in found.items() if not name.startswith("_system/")}


def test_event_files_wherever_they_lie_become_metrics_and_parameters_and_are_kept(site: Site) -> None:
    old = {"events.out.tfevents.0.host": scalar_record(Scalar("old", 1, 1.0, 1.0))}  # came with the snapshot
    job = site.prepare(SCRIPT, files=old, variables=SOURCE).start()
    run = job.wait()

    assert run.status == "Completed", run.error
    assert points_of(site, job.id) == {
        "train/loss": [(step, 100.0 - step) for step in range(100)],
        "run_2/accuracy": [(7, 0.5)],
        "run_2/hparam/loss": [(0, 3.0)],
    }
    assert parameters_of(site, job.id) == {"lr": "0.5", "width": "32"}
    assert "runs/Nov16_09-28-30_vm/events.out.tfevents.2.host" in run.files
    assert "events.out.tfevents.0.host" not in run.files and run.warnings == []


def parameters_of(site: Site, run_id: str) -> dict[str, str]:
    parts = (part for data in site.server.journal_of(run_id) for part in journal.iter_parts(data))
    longs = [part.payload for part in parts if isinstance(part, journal.LongRecord) and part.kind == journal.PROPERTIES]
    return {name: value for payload in longs for name, value in payload.get("parameters", {}).items()}


def test_one_folder_has_its_tags_alone_unless_the_program_logs_under_that_name(site: Site) -> None:
    script = """
import os, sys
sys.path.insert(0, os.environ["TEST_SOURCE"])
from azureml.core import Run
from runyard.core.formats.tfevents import Scalar, scalar_record
Run.get_context().log("both", 1.0)
os.makedirs("runs/Nov16_09-28-30_vm")
with open("runs/Nov16_09-28-30_vm/events.out.tfevents.2.host", "wb") as file:
    file.write(scalar_record(Scalar("train/loss", 7, 1.0, 0.5)) + scalar_record(Scalar("both", 7, 1.0, 1.0)))
"""
    job = site.prepare(script, variables=SOURCE).start()

    assert job.wait().status == "Completed", job.run.error
    assert points_of(site, job.id) == {
        "both": [(0, 1.0)],
        "train/loss": [(7, 0.5)],
        "tensorboard/both": [(7, 1.0)],
    }


ORDERS = {
    "one": ([["runs/Nov16_09-28-30_vm"]], [""]),
    "one in the work folder": ([[""]], [""]),
    "keras": ([["logs/keras/train", "logs/keras/validation"]], ["train", "validation"]),
    "the same ends": ([["a/tb", "b/tb"]], ["a", "b"]),
    "one holds the others": ([["runs/x", "runs/x/loss_a", "runs/x/loss_b"]], ["", "loss_a", "loss_b"]),
    "no common root": ([["logs/a/x", "outputs/a/x", "runs/y"]], ["logs/a/x", "outputs/a/x", "y"]),
    "dates": ([["runs/Nov16_09-28-30_vm", "runs/Nov17_09-28-30_vm"]], ["run_1", "run_2"]),
    "later ones": ([["runs/x"], ["runs/x/loss_a"], ["logs/validation"]], ["", "loss_a", "validation"]),
    "a later date": ([["runs/20261118-091011"], ["runs/20261118-101112"]], ["", "run_2"]),
    "a later twin": ([["a/x", "b"], ["c/x", "d/x"]], ["x", "b", "c/x", "d/x"]),
}


@pytest.mark.parametrize("name", ORDERS)
def test_folders_are_told_apart_by_the_shortest_part_and_keep_their_labels(name: str) -> None:
    looks, labels = ORDERS[name]
    names = EventNames()
    for places in looks:
        before = dict(names.labels)
        names.decide([*before, *places])
        assert before.items() <= names.labels.items()

    assert [names.labels[place] for places in looks for place in places] == labels


def test_a_further_attempt_reads_on_where_the_server_has_less(tmp_path: Path) -> None:
    """B3: what the files of an earlier attempt hold is stored already, all but what came last."""
    scalars = [Scalar("loss", step, 1.0, step / 4) for step in range(6)]
    stored = {"loss": scalars[:4]}
    work = tmp_path / "work"
    write_events(work / "lightning_logs/version_0/events.out.tfevents.1", scalars)
    (tmp_path / "journal").mkdir()
    (tmp_path / "restored.json").write_text("{}")
    size = (work / "lightning_logs/version_0/events.out.tfevents.1").stat().st_size
    (tmp_path / "brought.json").write_text(json.dumps({"lightning_logs/version_0/events.out.tfevents.1": size}))
    write_events(work / "lightning_logs/version_1/events.out.tfevents.2", [Scalar("loss", 3, 2.0, 0.75)])

    def series(_run_id: str, name: str) -> SeriesPoints:
        if name not in stored:
            raise NotFound("none")
        return SeriesPoints([s.step for s in stored[name]], [0] * len(stored[name]), [s.value for s in stored[name]])

    client = SimpleNamespace(runs=SimpleNamespace(metric_series=series))
    connection: Any = SimpleNamespace(client=client, insist=lambda work: work())
    folder = RunFolder(str(tmp_path))
    job = JobSpec("r", 2, "e", "w", RunSpec(max_attempts=2), None, {}, "", "", "")
    EventFiles(folder, job, WorkTree(folder, job), connection).stop()

    [own] = (tmp_path / "journal").iterdir()
    points = [(step, value) for _, _, _, _, step, _, value in numbers_in(own.read_bytes())]
    assert points == [(4, 1.0), (5, 1.25), (3, 0.75)], "one series over both attempts"


def write_events(path: Path, scalars: list[Scalar]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(map(scalar_record, scalars)))


def numbers_in(data: bytes) -> list[Any]:
    spans = [part for part in journal.iter_parts(data) if isinstance(part, journal.Span)]
    return [cell for span in spans for cell in journal.NUMBER.iter_unpack(data[span.offset : span.end])]


def test_a_restarted_supervisor_goes_on_where_the_last_one_was(site: Site) -> None:
    script = """
import os, time
while not os.path.exists("go"):
    time.sleep(0.01)
with open("logs/events.out.tfevents.1", "ab") as file:
    file.write(bytes.fromhex(os.environ["MORE"]))
"""
    more = scalar_record(Scalar("loss", 1, 2.0, 0.25))
    job = site.prepare(script, variables={"MORE": more.hex()}).start()
    job.wait_for_file("ranks.json")
    (job.folder / "work/logs/events.out.tfevents.1").write_bytes(
        first_record(1.0) + scalar_record(Scalar("loss", 0, 1.0, 0.5))
    )
    job.wait_for_file("events.json")
    os.kill(job.supervisor_pid(), signal.SIGKILL)
    (job.folder / "work/go").touch()

    assert job.wait().status == "Completed"
    assert points_of(site, job.id) == {"loss": [(0, 0.5), (1, 0.25)]}
