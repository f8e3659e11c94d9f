"""A script that gave MLflow a file address: what its store holds is in the run at the end, once."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import pytest

from runyard.core.formats import journal
from runyard.core.specs import JobSpec, RunSpec
from runyard.supervisor.lifecycle import mlflow_store
from runyard.supervisor.run_folder import RunFolder
from runyard.supervisor.shipping.work_tree import WorkTree
from tests.imports.stores import START_MS, add_run, make_database
from tests.supervisor.supervised import Site

STORES = {"stores.py": (Path(__file__).parent.parent / "imports/stores.py").read_bytes()}
RUN, CHILD, GRANDCHILD = "a" * 32, "b" * 32, "c" * 32
SCRIPT = f"""
from pathlib import Path
from stores import START_MS, add_run
root = Path("mlruns")
add_run(root, "{RUN}", status=4, metrics={{"loss": [f"{{START_MS + s}} {{1 / (s + 1)}} {{10 * s}}" for s in range(3)],
        "odd": [f"{{START_MS}} nan 0", f"{{START_MS}} -inf 1"]}}, params={{"lr": "0.1"}},
        tags={{"mlflow.runName": "mine", "mlflow.note.content": "about", "mlflow.user": "x", "team": "t"}},
        files={{"model/MLmodel": b"flavors: 1"}})
add_run(root, "{CHILD}", start_ms=START_MS + 1, tags={{"mlflow.parentRunId": "{RUN}", "mlflow.runName": "inner"}},
        metrics={{"x": [f"{{START_MS}} 3.0 0"]}}, params={{"p": "q"}})
add_run(root, "{GRANDCHILD}", start_ms=START_MS + 2, status=1, tags={{"mlflow.parentRunId": "{CHILD}"}})
"""
Record = tuple[str, dict[str, Any]]


def records_of(site: Site, run_id: str) -> list[Record]:
    """Return the long records of the store's journals, by the name of their kind."""
    names = {journal.PARAM: "param", journal.TAGS: "tags", journal.PROPERTIES: "properties", journal.END: "end"}
    names[journal.CHILD] = "child"
    found: list[Record] = []
    for data in site.server.journal_of(run_id):
        parts = [part for part in journal.iter_parts(data) if isinstance(part, journal.LongRecord)]
        found += [(names[part.kind], dict(part.payload)) for part in parts if part.kind in names]
    return [(kind, {key: value for key, value in payload.items() if key != "t"}) for kind, payload in found]


def points_of(site: Site, run_id: str) -> dict[str, list[tuple[int, int, float]]]:
    """Return (step, milliseconds, value) of the metrics."""
    found: dict[str, list[tuple[int, int, float]]] = {}
    for data in site.server.journal_of(run_id):
        names: dict[int, str] = {}
        offset = 0
        for part in journal.iter_parts(data):
            if isinstance(part, journal.Span):
                for _, _, _, name, step, time, value in journal.NUMBER.iter_unpack(data[part.offset : part.end]):
                    found.setdefault(names[name], []).append((step, (time + offset) // 10**6, value))
            elif part.kind == journal.HEADER:
                offset = int(part.payload["wall_ns"]) - int(part.payload["t"])  # type: ignore[call-overload]
            elif part.kind == journal.NAME:
                names[int(part.payload["id"])] = str(part.payload["name"])  # type: ignore[call-overload]
    return {name: points for name, points in found.items() if not name.startswith("_system/")}


def test_the_runs_of_a_file_store_are_the_run_and_its_children(site: Site) -> None:
    job = site.prepare(SCRIPT, files=STORES).start()
    run = job.wait()

    assert run.status == "Completed", run.error
    child, grandchild = f"{job.id}_{CHILD[:24]}", f"{job.id}_{GRANDCHILD[:24]}"
    points = points_of(site, job.id)
    assert points["loss"] == [(0, START_MS, 1.0), (10, START_MS + 1, 0.5), (20, START_MS + 2, 1 / 3)]
    [nan, infinite] = points["odd"]
    assert math.isnan(nan[2]) and infinite == (1, START_MS, -math.inf)
    assert records_of(site, job.id) == [
        ("param", {"key": "lr", "value": "0.1"}),
        ("properties", {"add": {"mlflow.status": "FAILED"}}),
        ("tags", {"set": {"team": "t", "mlflow.runName": "mine", "mlflow.note.content": "about"}, "remove": []}),
        ("child", {"run_id": child, "name": "inner", "tags": {"mlflow.runName": "inner"}}),
    ]
    assert points_of(site, child) == {"x": [(0, START_MS, 3.0)]}
    assert records_of(site, child) == [
        ("param", {"key": "p", "value": "q"}),
        ("child", {"run_id": grandchild, "name": "run of c", "tags": {"mlflow.runName": "run of c"}}),
        ("end", {"status": "Completed", "error": None}),
    ]
    assert site.server.file(job.id, "model/MLmodel") == b"flavors: 1"
    assert [warning["message"] for warning in run.warnings] == [
        "The script logged into an MLflow store of its own, mlruns, because its tracking address was a file. That "
        "store was brought into this run at its end: 2 parameters, 6 metric values, 1 file. 2 further runs of it "
        "are child runs. To see values while the run goes on, leave MLflow's tracking address as the run has it."
    ]


def test_runs_that_came_with_the_snapshot_are_left_out(site: Site, tmp_path: Path) -> None:
    add_run(tmp_path / "mlruns", RUN, metrics={"old": [f"{START_MS} 1.0 0"]})
    brought = {str(path.relative_to(tmp_path)): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    script = f"""
import time
from pathlib import Path
from stores import add_run
add_run(Path("mlruns"), "{CHILD}", start_ms=int(time.time() * 1000), metrics={{"new": ["1700000000000 2.0 5"]}})
"""
    job = site.prepare(script, files={**STORES, **brought}).start()

    assert job.wait().status == "Completed", job.run.error
    assert points_of(site, job.id) == {"new": [(5, START_MS, 2.0)]}


def test_a_store_is_left_alone_when_mlflow_is_switched_off(site: Site) -> None:
    job = site.prepare(SCRIPT, files=STORES, variables={"RUNYARD_MLFLOW": "off"}).start()
    run = job.wait()

    assert (points_of(site, job.id), run.status) == ({}, "Completed")
    [warning] = run.warnings
    assert "were not kept: mlruns/" in warning["message"]


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    found = RunFolder(str(tmp_path / "run"))
    Path(found.path).mkdir()
    found.make_subfolders()
    Path(found.at("work")).mkdir(exist_ok=True)
    return found


def job_in(folder: RunFolder) -> JobSpec:
    return JobSpec(
        run_id="exp_1", attempt=1, experiment="exp", workspace="default", spec=RunSpec(script="train.py"),
        snapshot_root=None, server={"kind": "unix", "path": "/nowhere"}, token="t", home=folder.path, cookie="c",
    )  # fmt: skip


def test_a_database_is_brought_in_once_although_a_supervisor_was_killed_halfway(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_database(Path(folder.at("work", "mlflow.db")), runs=3, points=4)
    (Path(folder.at("work")) / "mlruns/0" / f"{1:032x}" / "artifacts").mkdir(parents=True)
    (Path(folder.at("work")) / "mlruns/0" / f"{1:032x}" / "artifacts/a.txt").write_text("a")
    job, warnings = job_in(folder), []
    tree = WorkTree(folder, job)

    kept: dict[str, int] = {}

    def bring_in() -> None:
        warn = lambda *warning: warnings.append(warning)  # noqa: E731
        mlflow_store.bring_in(folder, job, tree, folder.at("work"), "mlflow.db", kept=kept, warn=warn)

    class Killed(Exception):
        pass

    def kill(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", kill)
        with pytest.raises(Killed):
            bring_in()
    assert journals(folder) == []
    bring_in()
    first = {path.name: path.read_bytes() for path in journals(folder)}
    bring_in()

    assert {path.name: path.read_bytes() for path in journals(folder)} == first
    assert sorted(first) == [f"s-0-mlflow-{number:032x}.0.journal" for number in range(3)]
    parts = [part for data in first.values() for part in journal.iter_parts(data)]
    spans = [part for part in parts if isinstance(part, journal.Span)]
    assert sum(span.end - span.offset for span in spans) == 3 * 4 * journal.CELL
    [file] = [part.payload for part in parts if isinstance(part, journal.LongRecord) and part.kind == journal.FILE]
    assert set(kept) == {os.path.realpath(folder.at("work", "mlflow.db"))}
    assert (file["name"], file["path"]) == ("a.txt", f"work/mlruns/0/{1:032x}/artifacts/a.txt")


def journals(folder: RunFolder) -> list[Path]:
    return sorted(Path(folder.at("journal")).glob("*.journal"))


def test_what_cannot_be_read_is_named(folder: RunFolder) -> None:
    place = add_run(Path(folder.at("work", "mlruns")), RUN, metrics={"m": [f"{START_MS} text 0", f"{START_MS} 1.0 1"]})
    (place / "artifacts/out").symlink_to("/etc/hostname")
    job, warnings = job_in(folder), []
    warn = lambda *warning: warnings.append(warning[1])  # noqa: E731
    mlflow_store.bring_in(folder, job, WorkTree(folder, job), folder.at("work"), "mlruns", kept={}, warn=warn)

    assert warnings[1] == (
        "Not all of the MLflow store mlruns could be brought in: out: a link out of the folder; metric m: 1 lines are "
        "no points."
    )


def test_other_folders_of_that_name_are_no_store(site: Site) -> None:
    script = (
        "import os\nos.mkdir('mlruns')\nopen('mlruns/notes.txt', 'w').write('x')\nopen('mlflow.db', 'w').write('y')"
    )
    run = site.prepare(script, files=STORES).start().wait()

    assert run.status == "Completed", run.error
    assert [warning["message"].partition(". Keep")[0] for warning in run.warnings] == [
        "2 files (2 bytes) outside ./outputs and ./logs were not kept: mlflow.db, mlruns/"
    ]
