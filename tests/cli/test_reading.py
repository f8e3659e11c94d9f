"""Reading commands and the dry run against a real private server: one for all tests of this file."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import runyard

SCRIPT = """\
import os, sys
from azureml.core import Run
run = Run.get_context()
for loss in (3.0, 2.0, float(sys.argv[1])):
    run.log("loss", loss)
run.log_row("table", x=1, y=2.5)
run.log_row("table", x=2, y=3.5)
os.makedirs("outputs/deep", exist_ok=True)
open("outputs/model.txt", "w").write("weights " + sys.argv[1])
open("outputs/deep/log.txt", "w").write("deep")
"""


pytestmark = pytest.mark.usefixtures("shared_home")


@pytest.fixture(scope="module")
def runs(shared_home: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Two finished runs with different losses, tags and sources."""
    project = tmp_path_factory.mktemp("project")
    (project / "train.py").write_text(SCRIPT)
    (project / "old.txt").write_text("one\ntwo\n")
    good = submit(project, "0.05", "--tag", "team=x", "--tag", "size=9")
    (project / "old.txt").unlink()
    (project / "new.bin").write_bytes(b"\0\1")
    (project / "train.py").write_text(SCRIPT.replace('deep")', 'deeper")'))
    bad = submit(project, "0.5", "--tag", "team=y", "--tag", "size=10")
    return {"good": good, "bad": bad}


def submit(project: Path, loss: str, *options: str) -> str:
    result = runyard("submit", "--name", "reading", *options, "train.py", loss, cwd=project)
    assert result.returncode == 0, result.stderr
    match = re.search(r"^Run (\S+)$", result.stderr, re.MULTILINE)
    assert match
    return match[1]


def ok(*arguments: str, cwd: Path | None = None) -> str:
    result = runyard(*arguments, cwd=cwd)
    assert result.returncode == 0, result.stderr
    return result.stdout


def as_json(*arguments: str) -> Any:
    return json.loads(ok(*arguments, "--json"))


@pytest.mark.long
def test_a_filter_picks_runs_and_a_metric_orders_them(runs: dict[str, str]) -> None:
    def listed(*options: str) -> list[str]:
        return [run["id"] for run in as_json("runs", "list", "--experiment", "reading", *options)]

    assert listed("--filter", 'metrics.loss < 0.1 and tags.team = "x"') == [runs["good"]]
    assert listed("--filter", 'metrics.loss < 0.1 and tags.team = "y"') == []
    assert listed("--order", "metrics.loss") == [runs["good"], runs["bad"]]
    assert listed("--sort", "tags.size") == [runs["good"], runs["bad"]]
    assert listed("--order", "metrics.loss", "--desc") == [runs["bad"], runs["good"]]
    assert listed("--filter", "status = completed or created < 2020-01-01") == [runs["bad"], runs["good"]]
    assert listed("--filter", "tags.size < 10 and name != x and target = local") == [runs["good"]]
    assert listed("--filter", "tags.size >= 10") == [runs["bad"]]
    assert "There are no runs that fit" in runyard("runs", "list", "-F", "tags.team = z").stderr


def test_columns_show_metrics_parameters_and_tags(runs: dict[str, str]) -> None:
    command = ["runs", "list", "--experiment", "reading", "--columns", "metrics.loss,tags.team", "-c", "params.none"]
    titles, *lines = ok(*command).splitlines()
    plain = {run["id"]: run["columns"] for run in as_json(*command)}

    assert titles.split()[-4:] == ["metrics.loss", "tags.team", "params.none", "ID"]
    assert {line.split()[-1]: line.split()[-3:-1] for line in lines} == {
        runs["good"]: ["0.05", "x"],
        runs["bad"]: ["0.5", "y"],
    }
    assert plain[runs["bad"]] == {"metrics.loss": 0.5, "tags.team": "y", "params.none": None}


def test_a_shell_completes_ids_and_names(runs: dict[str, str]) -> None:
    def completed(words: str) -> list[str]:
        environ = {
            "_RUNYARD_COMPLETE": "zsh_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split()) - (not words.endswith(" "))),
        }
        return runyard(environ=environ).stdout.split("\n")[1::3]

    assert set(runs.values()) <= set(completed("runyard runs show "))
    assert completed(f"runyard runs logs {runs['good'][:-1]}") == [runs["good"]]
    assert completed(f"runyard snapshots diff {runs['good']} {runs['bad'][:-1]}") == [runs["bad"]]
    assert completed("runyard experiments archive rea") == ["reading"]
    assert completed("runyard runs list --experiment rea") == ["reading"]
    assert completed("runyard workspaces delete def") == ["default"]


def test_metrics_are_listed_and_read_point_by_point(runs: dict[str, str]) -> None:
    listed = ok("runs", "metrics", runs["good"])
    points = as_json("runs", "metrics", runs["good"], "loss")
    table = as_json("runs", "metrics", runs["good"], "table")
    unknown = runyard("runs", "metrics", runs["good"], "los")

    assert re.search(r"^loss +scalar +3 +0\.05 +0\.05 +3$", listed, re.MULTILINE)
    assert points["columns"]["value"] == [3.0, 2.0, 0.05] and points["columns"]["step"] == [0, 1, 2]
    assert table["columns"] == {"x": [1, 2], "y": [2.5, 3.5]}
    assert ok("runs", "metrics", runs["good"], "table").splitlines() == ["X  Y", "1  2.5", "2  3.5"]
    assert unknown.returncode == 1 and "Its metrics: loss, table." in unknown.stderr


def test_files_are_listed_and_downloaded(runs: dict[str, str], tmp_path: Path) -> None:
    names = [file["name"] for file in as_json("runs", "files", runs["good"])]
    written = ok("runs", "download", runs["good"], "outputs", "--to", str(tmp_path / "to")).splitlines()
    again = runyard("runs", "download", runs["good"], "outputs/model.txt", "--to", str(tmp_path / "to"))
    forced = runyard("runs", "download", runs["bad"], "outputs/model.txt", "--to", str(tmp_path / "to"), "--force")
    unknown = runyard("runs", "download", runs["good"], "model.txt")

    assert {"outputs/deep/log.txt", "outputs/model.txt"} <= set(names)
    assert written == [str(tmp_path / "to/outputs/deep/log.txt"), str(tmp_path / "to/outputs/model.txt")]
    assert again.returncode == 1 and "--force" in again.stderr
    assert forced.returncode == 0 and (tmp_path / "to/outputs/model.txt").read_text() == "weights 0.5"
    assert unknown.returncode == 1 and "outputs/model.txt" in unknown.stderr


def test_a_finished_run_is_tagged(runs: dict[str, str]) -> None:
    assert as_json("runs", "tag", runs["bad"], "stage=final", "draft") == {
        "team": "y",
        "size": "10",
        "stage": "final",
        "draft": None,
    }
    assert ok("runs", "tag", runs["bad"], "--remove", "draft", "stage=best=1").splitlines() == [
        "team=y",
        "size=10",
        "stage=best=1",
    ]
    assert runyard("runs", "tag", runs["bad"]).returncode == 2
    assert runyard("runs", "tag", runs["bad"], "=x").returncode == 2


def test_experiments_are_archived_and_come_back(runs: dict[str, str]) -> None:
    def active() -> list[str]:
        return [one["name"] for one in as_json("experiments", "list")]

    assert "reading" in active()
    ok("experiments", "archive", "reading")
    assert "reading" not in active()
    assert [one["name"] for one in as_json("experiments", "list", "--archived")] == ["reading"]
    ok("experiments", "reactivate", "reading")
    assert "reading" in active()
    assert runyard("experiments", "archive", "nobody").returncode == 1


def test_an_experiment_is_renamed_and_found_by_its_title(runs: dict[str, str]) -> None:
    ok("experiments", "rename", "reading", "Reading: all of it")
    try:
        shown = ok("experiments", "list")
        assert re.search(r"^EXPERIMENT .* TITLE$", shown, re.MULTILINE)
        assert re.search(r"^reading .* Reading: all of it$", shown, re.MULTILINE)
        by_title = as_json("runs", "list", "--experiment", "Reading: all of it")
        assert {run["id"] for run in by_title} == {
            run["id"] for run in as_json("runs", "list", "--experiment", "reading")
        }
        assert by_title
        assert runyard("experiments", "rename", "reading", " ").returncode == 1
    finally:
        ok("experiments", "rename", "reading", "reading")
    assert "TITLE" not in ok("experiments", "list")


def test_workspaces_are_listed_and_ours_is_marked(runs: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"workspace_name": "other"}')

    shown = ok("workspaces", "list", cwd=tmp_path)

    assert re.search(r"^\* +other ", shown, re.MULTILINE) and re.search(r"^ +default ", shown, re.MULTILINE)
    assert {"default", "other"} <= {one["name"] for one in as_json("workspaces", "list")}


def test_snapshots_are_shown_and_compared(runs: dict[str, str]) -> None:
    shown = as_json("snapshots", "show", runs["good"])
    names = as_json("snapshots", "diff", runs["good"], runs["bad"])
    text = ok("snapshots", "diff", runs["good"], runs["bad"])
    same = runyard("snapshots", "diff", runs["good"], runs["good"])

    assert [file["path"] for file in shown["files"]] == ["old.txt", "train.py"]
    assert {(one["path"], one["kind"]) for one in names} == {
        ("new.bin", "added"),
        ("old.txt", "removed"),
        ("train.py", "changed"),
    }
    assert "A new.bin\n(not text)" in text
    assert "D old.txt\n--- a/old.txt\n+++ /dev/null" in text and "\n-two\n" in text
    assert re.search(r'^\+.*write\("deeper"\)$', text, re.MULTILINE)
    assert (same.returncode, same.stdout, same.stderr) == (0, "", "The two sources are the same.\n")


def test_a_dry_run_shows_the_plan_and_leaves_nothing(runs: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("1/0")
    before = as_json("runs", "list")
    command = ["submit", "--dry-run", "--name", "planned", "-e", "COLOUR=blue", "-e", "API_KEY=s3cret", "-t", "a=b"]
    arguments = ["train.py", "--", "--password", "hush", "--alpha", "$COLOUR"]

    shown = runyard(*command, *arguments, cwd=tmp_path)
    plan = json.loads(runyard(*command, "--json", *arguments, cwd=tmp_path).stdout)

    assert shown.returncode == 0, shown.stderr
    assert "Nothing was stored or started." in shown.stderr
    assert "train.py --password" in shown.stdout and "--alpha blue" in shown.stdout
    assert "  COLOUR=blue\n" in shown.stdout and "of your own variables" in shown.stdout
    assert "hush" not in shown.stdout + json.dumps(plan) and "s3cret" not in shown.stdout + json.dumps(plan)
    assert plan["experiment"] == "planned" and plan["tags"] == {"a": "b"}
    assert plan["argv"][-2] == "--run" and plan["argv"][-1] == plan["run_folder"]
    process = plan["processes"][0]
    assert process["argv"][0] == sys.executable and process["cwd"] == f"{plan['run_folder']}/work"
    assert process["variables"]["AZUREML_RUN_ID"] == plan["run_id"] and process["variables"]["RUNYARD_RANK"] == "0"
    assert as_json("runs", "list") == before
    assert "planned" not in [one["name"] for one in as_json("experiments", "list", "--all")]


def test_a_dry_run_finds_what_a_submit_would_refuse(runs: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")

    result = runyard("submit", "--dry-run", "--target", "moon", "train.py", cwd=tmp_path)

    assert result.returncode == 1 and "moon" in result.stderr


@pytest.mark.long
def test_a_run_is_deleted_only_after_a_yes(runs: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    run_id = runyard("submit", "--name", "gone", "train.py", cwd=tmp_path).stderr.split()[1]

    unasked = runyard("runs", "delete", run_id)
    deleted = runyard("runs", "delete", "--yes", run_id)

    assert unasked.returncode == 2 and "--yes" in unasked.stderr
    assert (deleted.returncode, deleted.stdout) == (0, f"{run_id}\n")
    assert f"`runyard runs restore {run_id}`" in deleted.stderr
    assert runyard("runs", "show", run_id).returncode == 1
    assert run_id in ok("runs", "list", "--view", "deleted", "--columns", "metrics.loss")
    assert ok("runs", "restore", run_id) == f"{run_id}\n"
    assert ok("experiments", "delete", "-y", "gone") == f"{run_id}\n"
    assert [one["name"] for one in as_json("experiments", "list", "--deleted")] == ["gone"]
    assert "gone" not in [one["name"] for one in as_json("experiments", "list", "--all")]
    assert ok("experiments", "restore", "gone") == f"{run_id}\n"
    assert ok("runs", "delete", "--yes", "--now", run_id) == f"{run_id}\n"
    assert as_json("runs", "list", "--view", "deleted") == []


@pytest.mark.long
def test_a_run_is_archived_and_submitted_again(runs: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('once more')")
    run_id = runyard("submit", "--name", "again", "train.py", cwd=tmp_path).stderr.split()[1]
    ok("runs", "archive", run_id)

    assert [run["id"] for run in as_json("runs", "list", "--view", "archived")] == [run_id]
    assert as_json("runs", "list", "--experiment", "again") == []
    new_id = ok("runs", "resubmit", run_id).strip()
    assert new_id.startswith("again_") and new_id != run_id
    assert ok("runs", "logs", "-f", new_id) == "once more\n"
    ok("runs", "unarchive", run_id)
    assert [run["id"] for run in as_json("runs", "list", "--experiment", "again")] == [new_id, run_id]
    assert as_json("runs", "show", new_id)["run"]["properties"]["runyard.resubmitted_from"] == run_id


def test_a_workspace_is_deleted_only_after_a_yes(runs: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"workspace_name": "short_ws"}')
    (tmp_path / "train.py").write_text("")
    run_id = runyard("submit", "train.py", cwd=tmp_path).stderr.split()[1]

    unasked = runyard("workspaces", "delete", "short_ws")
    missing = runyard("workspaces", "delete", "-y", "no_such_ws")
    assert unasked.returncode == 2 and "--yes" in unasked.stderr
    assert missing.returncode == 1 and "no_such_ws" in missing.stderr
    assert ok("workspaces", "delete", "--yes", "short_ws") == f"{run_id}\n"
    assert "short_ws" not in [one["name"] for one in as_json("workspaces", "list")]


def test_disk_space_is_freed_on_demand(runs: dict[str, str]) -> None:
    freed = as_json("server", "collect")
    assert freed == {"removed": 0, "freed_bytes": 0, "rest_within_s": 2400.0, "aside_bytes": 0}
    shown = runyard("server", "collect")

    assert shown.stdout == "Freed 0 bytes (0 pieces of content).\n" and "within 40 min 00 s" in shown.stderr


def test_the_doctor_finds_a_running_server_well(runs: dict[str, str], shared_home: Path) -> None:
    found = {one["subject"]: one for one in as_json("doctor")}

    assert found["home"]["text"] == str(shared_home)
    assert re.search(r"Runyard \S+ at http://127\.0\.0\.1:\d+", found["server"]["text"])
    assert {one["state"] for one in found.values()} <= {"ok", "note"}


@pytest.mark.parametrize(
    "command",
    [
        ["runs", "list"],
        ["experiments", "list"],
        ["workspaces", "list"],
        ["server", "status"],
        ["doctor"],
    ],
    ids=" ".join,
)
def test_what_reads_prints_json(runs: dict[str, str], command: list[str]) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "runyard.cli", *command, "--json"], capture_output=True, timeout=60, check=True
    )

    assert isinstance(json.loads(result.stdout), (list, dict))
