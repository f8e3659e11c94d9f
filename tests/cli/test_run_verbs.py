"""Short names of runs on the command line, and the verbs that fingers try, against a real private server."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.cli.command_line import runyard

SCRIPT = """\
import sys
from azureml.core import Run
run = Run.get_context()
for step in range(3):
    run.log("loss", float(sys.argv[1]) + step)
run.log_row("points", x=1, y=2.5)
for number in range(100):
    print("line", number)
open("outputs/model.txt", "w").write("weights")
"""

pytestmark = pytest.mark.usefixtures("runs")


@pytest.fixture(scope="module")
def runs(shared_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`names#1` with loss 2.5, and `names#2`, which is called `the good one`, with loss 2.1."""
    project = tmp_path_factory.mktemp("project")
    (project / "train.py").write_text(SCRIPT)
    for options, loss in (((), "0.5"), (("--display-name", "the good one"), "0.1")):
        result = runyard("submit", "--name", "names", *options, "train.py", loss, cwd=project)
        assert result.returncode == 0, result.stderr
    return project


def ok(*arguments: str, cwd: Path | None = None) -> str:
    result = runyard(*arguments, cwd=cwd)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.long
def test_the_list_shows_names_that_commands_take() -> None:
    titles, second, first = ok("runs", "ls", "--experiment", "names").splitlines()

    assert titles.split() == ["RUN", "NAME", "STATUS", "CREATED", "DURATION", "ID"]
    assert second.startswith("names#2  the good one  Completed ") and first.startswith("names#1 ")
    run_id = second.split()[-1]
    for name in ("names#2", "the good one", run_id, run_id[:-1]):
        assert json.loads(ok("runs", "show", name, "--json"))["run"]["id"] == run_id
    shown = [line.split(maxsplit=1) for line in ok("runs", "show", "names#2").splitlines()[:3]]
    assert shown == [["run", "names#2"], ["name", "the good one"], ["id", run_id]]


def test_last_is_the_newest_run() -> None:
    newest = json.loads(ok("runs", "list", "-n", "1", "--json"))[0]["id"]

    assert json.loads(ok("runs", "show", "last", "--json"))["run"]["id"] == newest


def test_a_list_says_that_it_is_cut() -> None:
    cut, whole = (runyard("runs", "list", "--experiment", "names", "-n", limit) for limit in ("1", "2"))

    assert cut.stdout.count("names#") == 1 and "`--limit 10`" in cut.stderr
    assert whole.stdout.count("names#") == 2 and whole.stderr == ""


@pytest.mark.parametrize("lines", [1, 3, 99, 100, 500])
def test_the_last_lines_of_a_log(lines: int) -> None:
    shown = ok("logs", "names#1", "--tail", str(lines)).splitlines()

    assert shown == [f"line {number}" for number in range(100)][-lines:]


def test_the_last_lines_of_a_log_of_many_parts(runs: Path) -> None:
    (runs / "long.py").write_text("for number in range(30000):\n    print(f'{number:09}')\n")
    ok("submit", "--name", "long", "long.py", cwd=runs)

    shown = ok("runs", "logs", "long#1", "-n", "20000").splitlines()

    assert shown == [f"{number:09}" for number in range(10000, 30000)]


def test_wait_says_how_each_run_ended(runs: Path) -> None:
    (runs / "bad.py").write_text("raise SystemExit(3)\n")
    runyard("submit", "--name", "bad", "-d", "bad.py", cwd=runs)

    both = runyard("runs", "wait", "names#1", "bad#1")
    good = runyard("runs", "wait", "names#1")

    assert both.returncode == 1 and good.returncode == 0
    assert [line.split()[:2] for line in both.stdout.splitlines()] == [["names#1", "Completed"], ["bad#1", "Failed"]]


def test_wait_gives_up_in_time_and_stop_stops(runs: Path) -> None:
    (runs / "slow.py").write_text("import time\ntime.sleep(60)\n")
    ok("submit", "--name", "slow", "-d", "slow.py", cwd=runs)

    late = runyard("runs", "wait", "slow#1", "--timeout", "1s")
    ok("runs", "stop", "slow#1", "--wait")

    assert late.returncode == 1 and "slow#1 has not ended within 1 s" in late.stderr
    assert json.loads(ok("runs", "show", "slow#1", "--json"))["run"]["status"] == "Canceled"


def test_watch_follows_and_sums_up() -> None:
    result = runyard("runs", "watch", "names#1", "--tail", "2")

    assert result.returncode == 0 and result.stdout == "line 98\nline 99\n"
    assert "Completed" in result.stderr and "metrics: loss 2.5" in result.stderr


def test_compare_shows_only_what_differs() -> None:
    facts = json.loads(ok("runs", "compare", "names#1", "names#2", "--json"))["facts"]
    table = ok("runs", "compare", "names#1", "names#2")

    assert facts["metrics.loss"] == [2.5, 2.1] and facts["name"] == ["", "the good one"]
    assert "status" not in facts and "target" not in facts
    assert table.splitlines()[0].split() == ["names#1", "names#2"] and "metrics.loss" in table
    assert "Name two or more" in runyard("runs", "compare", "names#1").stderr


def test_a_renamed_run_is_found_by_its_new_name(runs: Path) -> None:
    (runs / "empty.py").write_text("")
    ok("submit", "--name", "renamed", "empty.py", cwd=runs)
    ok("runs", "rename", "renamed#1", "Nice & short")

    assert json.loads(ok("runs", "show", "Nice & short", "--json"))["run"]["experiment"] == "renamed"


def test_export_writes_every_point_and_file(tmp_path: Path) -> None:
    place = Path(ok("runs", "export", "names#1", "--files", "--to", str(tmp_path)).strip())
    again = runyard("runs", "export", "names#1", "--to", str(tmp_path))

    assert json.loads((place / "run.json").read_text())["number"] == 1
    rows = list(csv.DictReader((place / "metrics.csv").read_text().splitlines()))
    assert [(row["metric"], row["step"], row["value"]) for row in rows] == [
        ("loss", "0", "0.5"), ("loss", "1", "1.5"), ("loss", "2", "2.5"),
    ]  # fmt: skip
    assert (place / "tables/points.csv").read_text().splitlines() == ["x,y", "1,2.5"]
    assert (place / "files/outputs/model.txt").read_text() == "weights"
    assert again.returncode == 1 and "there already" in again.stderr


def test_models_are_registered_from_runs_and_files(tmp_path: Path) -> None:
    (tmp_path / "m.bin").write_bytes(b"12345")

    of_run = ok("models", "register", "of-run", "outputs/model.txt", "--run", "names#1", "--tag", "kind=text")
    of_file = ok("models", "register", "of-file", "m.bin", "--framework", "Custom:2.0", cwd=tmp_path)

    assert (of_run, of_file) == ("of-run:1\n", "of-file:1\n")
    shown = json.loads(ok("models", "show", "of-run", "--json"))
    assert shown["tags"] == {"kind": "text"} and [file["size"] for file in shown["files"]] == [7]
    assert json.loads(ok("models", "show", "of-file:1", "--json"))["framework"] == "Custom"


def test_files_go_to_a_datastore_and_come_back(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "data/deep").mkdir(parents=True)
    (tmp_path / "data/deep/a.csv").write_text("1,2")

    ok("datastores", "add", "here", "store", cwd=tmp_path)
    ok("datastores", "upload", "here", "data", "--to", "in", cwd=tmp_path)
    ok("datastores", "download", "here", "in/data", "--to", "back", cwd=tmp_path)

    assert (tmp_path / "store/in/data/deep/a.csv").read_text() == "1,2"
    assert (tmp_path / "back/in/data/deep/a.csv").read_text() == "1,2"
    listed = {store["name"]: store for store in json.loads(ok("datastores", "ls", "--json"))}
    assert listed["workspaceblobstore"]["default"] and listed["here"]["place"].endswith("store")
    ok("datastores", "rm", "here", "--yes")
    assert "here" not in ok("datastores", "list") and (tmp_path / "store/in/data/deep/a.csv").exists()


def test_an_experiment_shows_its_counts_and_newest_runs() -> None:
    shown = ok("experiments", "show", "names")

    assert "2 Completed" in shown and "names#2" in shown and "names#1" in shown
    assert json.loads(ok("experiments", "show", "names", "--json"))["statuses"] == {"Completed": 2}


def test_help_and_version_are_commands_too() -> None:
    assert ok("help", "runs", "list") == ok("runs", "list", "--help")
    assert ok("help") == ok("--help") and ok("version") == ok("--version")
    assert "Other names: ls (list), rm (delete), stop (cancel)." in ok("runs", "--help")


def test_open_prints_a_link_to_the_page() -> None:
    assert "/signin" in ok("runs", "open", "names#1", "--no-browser")
