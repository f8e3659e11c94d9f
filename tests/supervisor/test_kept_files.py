"""What a run leaves outside of `./outputs` and `./logs`: kept where the run asks for it, else named at its end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import runyard
from runyard.core.specs import DatasetOutputSpec, JobSpec, RunSpec
from runyard.supervisor.run_folder import RunFolder
from runyard.supervisor.shipping.work_tree import KeepRules, WorkTree
from tests.supervisor.supervised import Site
from tests.waiting import wait_for

SCRIPT = """
import os, sys
os.makedirs("runs/a"); os.mkdir("__pycache__")
for name, size in (("runs/a/x.bin", 3000), ("runs/y.bin", 5), ("__pycache__/z.pyc", 9), ("model.pt", 10),
                   ("outputs/o.txt", 1), ("odd name", 2), ("events.out.tfevents.1", 4)):
    open(name, "wb").write(b"x" * size)
open("config.yml", "a").write("changed")
"""


def lost(warnings: list[dict[str, str]]) -> list[str]:
    return [warning["message"] for warning in warnings if "kept" in warning["message"]]


def test_new_files_that_are_not_kept_are_named_with_what_to_type(site: Site) -> None:
    files = {"config.yml": b"before", "big.bin": b"0" * 5000}
    run = site.prepare(SCRIPT, files=files).start().wait()

    assert run.status == "Completed", run.error
    assert lost(run.warnings) == [
        "5 files (3.0 kB) outside ./outputs and ./logs were not kept: runs/, config.yml, model.pt, odd name. Keep them "
        "with `runyard submit --keep runs --keep config.yml --keep model.pt --keep 'odd name'` or "
        "ScriptRunConfig(keep=['runs', 'config.yml', 'model.pt', 'odd name'])."
    ]
    assert sorted(run.files) == ["events.out.tfevents.1", "outputs/o.txt"]


def test_files_that_the_script_uploaded_itself_are_not_called_lost(site: Site) -> None:
    script = """
import os, sys
sys.path.insert(0, os.environ["TEST_SOURCE"])
from azureml.core import Run
for name in ("model.pkl", "later.pkl"):
    open(name, "w").write("model")
    Run.get_context().upload_file("models/" + name, name)
open("later.pkl", "a").write("changed")
"""
    source = str(runyard.__path__[0]).rpartition("/")[0]
    run = site.prepare(script, variables={"TEST_SOURCE": source}).start().wait()

    assert run.status == "Completed", run.error
    assert [text.partition(". Keep")[0] for text in lost(run.warnings)] == [
        "1 file (12 bytes) outside ./outputs and ./logs was not kept: later.pkl"
    ]


@pytest.mark.parametrize("ending", ["ok", "failed", "canceled"])
def test_kept_files_are_stored_under_their_names_however_the_run_ends(site: Site, ending: str) -> None:
    after = {"ok": "", "failed": "sys.exit(3)", "canceled": "import time\ntime.sleep(600)"}[ending]
    job = site.prepare(SCRIPT + after, files={"config.yml": b"before"}, keep=["runs", "*.pt"]).start()
    if ending == "canceled":
        wait_for(lambda: "model.pt" in job.run.files)  # while the run goes on
        job.run.desired = "cancel"
        (job.folder / "control.json").write_text("{}")
    run = job.wait()

    kept = ["events.out.tfevents.1", "model.pt", "outputs/o.txt", "runs/a/x.bin", "runs/y.bin"]
    assert sorted(name for name in run.files if name != "diagnosis.json") == kept
    assert site.server.file(job.id, "runs/a/x.bin") == b"x" * 3000
    assert lost(run.warnings) == [
        "2 files (15 bytes) outside ./outputs and ./logs were not kept: config.yml, odd name. Keep them with "
        "`runyard submit --keep config.yml --keep 'odd name'` or ScriptRunConfig(keep=['config.yml', 'odd name'])."
    ]


RULES = {
    "runs": (["runs", "runs/a/b", "x/runs/y"], ["runs2", "running/a"]),
    "*.pt": (["a.pt", "x/y/a.pt", "a.pt/b"], ["a.ptx"]),
    "a/b": (["a/b", "a/b/c"], ["x/a/b", "a/bc", "b"]),
    "a/*.csv": (["a/x.csv"], ["x.csv", "b/x.csv"]),
    "**/*.csv": (["x.csv", "a/b/x.csv"], ["x.csw"]),
    "*": (["x", "a/b"], []),
}


@pytest.mark.parametrize("pattern", RULES)
def test_paths_and_globs_fit_files_and_all_below_folders(pattern: str) -> None:
    fitting, others = RULES[pattern]
    rules = KeepRules([pattern])

    assert [name for name in [*fitting, *others] if rules.fit(name)] == fitting


def test_data_caches_and_virtual_environments_are_not_called_lost(tmp_path: Path) -> None:
    spec = RunSpec(outputs={"out": DatasetOutputSpec("store", source="results")})
    job = JobSpec("r", 1, "e", "w", spec, None, {}, "", "", "")
    work = tmp_path / "work"
    (work / "outputs").mkdir(parents=True)
    tree = WorkTree(RunFolder(str(tmp_path)), job)
    assert tree.describe_lost({}) == ""  # nothing was restored yet
    tree.remember()
    for name in ("results/a", "outputs/b", ".cache/c", "env/pyvenv.cfg", "env/lib/d", "sub/.git/e"):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text("new")
    os.symlink("/etc/passwd", work / "link")

    assert tree.describe_lost({}) == ""
    (work / "sub" / "f").write_text("new")
    assert WorkTree(RunFolder(str(tmp_path)), job).describe_lost({}).startswith("1 file (3 bytes)")


def test_one_walk_at_the_end_finds_kept_and_lost_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runyard.supervisor.shipping.work_tree.GOOD_FOR_S", 1e9)
    job = JobSpec("r", 1, "e", "w", RunSpec(keep=["*.pt"]), None, {}, "", "", "")
    work = tmp_path / "work"
    work.mkdir()
    tree = WorkTree(RunFolder(str(tmp_path)), job)
    tree.remember()
    for name in ("a/b/model.pt", "a/c.txt", "d.txt"):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text("new")
    assert [file.name for file in tree.list_kept(0, fresh=True)] == ["a/b/model.pt"]  # while the program runs
    scandir, seen = os.scandir, []
    monkeypatch.setattr(os, "scandir", lambda path: (seen.append(str(path)), scandir(path))[1])
    tree.end()
    kept = [tree.list_kept(0, fresh=True) for _ in range(3)]

    assert [[file.name for file in found] for found in kept] == [["a/b/model.pt"]] * 3
    assert tree.describe_lost({str(work / "d.txt"): 3}).startswith("1 file (3 bytes)")
    assert sorted(seen) == [str(work), str(work / "a"), str(work / "a/b")]


def test_files_that_other_nodes_write_while_node_0_uploads_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runyard.supervisor.shipping.work_tree.GOOD_FOR_S", -1.0)
    job = JobSpec("r", 1, "e", "w", RunSpec(keep=["*.pt"]), None, {}, "", "", "")
    (tmp_path / "work").mkdir()
    tree = WorkTree(RunFolder(str(tmp_path)), job)
    tree.remember()
    tree.end()
    before = list(tree.list_kept(0, fresh=True))
    (tmp_path / "work/late.pt").write_text("new")

    assert before == []
    assert [file.name for file in tree.list_kept(0, fresh=True)] == ["late.pt"]
