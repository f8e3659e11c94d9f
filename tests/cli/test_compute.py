"""`runyard compute` against a real private server."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from runyard.core.machine.nvml import open_nvml
from tests.cli.command_line import runyard
from tests.core.test_gpus import stand_in
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("shared_home")


def ok(*arguments: str, cwd: Path | None = None) -> tuple[str, str]:
    result = runyard(*arguments, cwd=cwd)
    assert result.returncode == 0, result.stderr
    return result.stdout, result.stderr


def show(name: str) -> Any:
    return json.loads(ok("compute", "show", name, "--json")[0])


@pytest.mark.long
def test_a_pool_is_made_shown_changed_and_deleted() -> None:
    assert "`cpu-cluster` is there: 0 of 2 nodes." in ok("compute", "create", "cpu-cluster", "--max-nodes", "2")[1]
    ok("compute", "update", "cpu-cluster", "--max-nodes", "3", "--min-nodes", "1", "--idle", "10m")

    listed = ok("compute", "list")[0].splitlines()
    assert listed[0].split() == ["TARGET", "TYPE", "CLUSTER", "NODES", "RUNNING", "WAITING"]
    assert listed[1].split() == ["local", "Local", "0", "0"]
    assert listed[2].split() == ["cpu-cluster", "AmlCompute", "1", "of", "3", "0", "0"]
    shown = ok("compute", "show", "cpu-cluster")[0]
    assert "idle nodes go after  10 min 00 s" in shown and "node-0  idle" in shown
    assert [one["name"] for one in json.loads(ok("compute", "list", "--json")[0])] == ["local", "cpu-cluster"]

    ok("compute", "stop", "cpu-cluster")
    assert "1 of 3, stopped" in ok("compute", "list")[0]
    ok("compute", "start", "cpu-cluster")
    assert show("cpu-cluster")["spec"]["is_stopped"] is False
    ok("compute", "delete", "cpu-cluster", "--yes")
    assert runyard("compute", "show", "cpu-cluster").returncode == 1


@pytest.mark.long
def test_a_queue_says_what_each_run_waits_for(tmp_path: Path) -> None:
    stop = tmp_path / "stop"
    (tmp_path / "train.py").write_text(f"import os, time\nwhile not os.path.exists({str(stop)!r}): time.sleep(0.01)\n")
    ok("compute", "create", "small", "--max-nodes", "1")
    first, second = (
        ok("submit", "--target", "small", "--detach", "train.py", cwd=tmp_path)[0].strip() for _ in range(2)
    )

    shown = ok("compute", "show", "small")[0]
    assert f"node-0  {first}" in shown
    assert f"{second}  1      It waits for a free node of `small`: 1 of 1 taken by `{first}`. It is the next." in shown
    assert re.search(r"(?m)^waits for +It waits for a free node of `small`", ok("runs", "show", second)[0])
    refused = runyard("compute", "delete", "small", "--yes")
    assert refused.returncode == 1 and "is in use" in refused.stderr and "runyard runs cancel" in refused.stderr

    stop.touch()
    wait_for(lambda: not (show("small")["running"] or show("small")["waiting"]))
    ok("compute", "delete", "small", "--yes")


@pytest.mark.long
def test_each_node_of_a_pool_is_tested_by_a_run_and_shown_with_what_it_has() -> None:
    ok("compute", "create", "tested", "--max-nodes", "2")
    shown, talk = ok("compute", "test", "tested")
    lines = shown.splitlines()

    assert lines[0].split()[:4] == ["NODE", "HOST", "PYTHON", "RUNYARD"]
    assert [line.split()[0] for line in lines[1:3]] == ["0", "1"] and lines[1].split()[-1] == "ok"
    assert lines[-1] == "All is well." and "on 2 nodes of tested." in talk
    assert json.loads(ok("runs", "list", "--experiment", "compute-test", "--json")[0])[0]["status"] == "Completed"
    alone = json.loads(ok("compute", "test", "local", "--json")[0])
    assert (len(alone["nodes"]), alone["faults"]) == (1, [])
    assert abs(alone["nodes"][0]["clock_offset_s"]) < 1
    handed = ok("runs", "show", alone["run_id"], "--plan")[0]
    assert "supervisor" in handed and "process 0 (worker)" in handed and "compute_test.py" in handed


def test_names_of_the_alias_file_are_listed(shared_home: Path) -> None:
    (shared_home / "aliases").write_text("old-cluster = local\n")
    try:
        assert re.search(r"(?m)^old-cluster +Local +alias of local", ok("compute", "list")[0])
        (shared_home / "aliases").write_text("old-cluster\n")
        broken = runyard("compute", "list")
        assert broken.returncode == 1 and "Line 1 of" in broken.stderr
    finally:
        (shared_home / "aliases").unlink()


def test_the_doctor_names_the_gpus(tmp_path: Path) -> None:
    stand_in(tmp_path, "echo '0, GPU-a, Stand-in, 1000, 10, 50'")
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    result = runyard("doctor", "--json", environ={"PATH": path, "RUNYARD_GPU_DEVICES": "0"})
    found = {one["subject"]: one["text"] for one in json.loads(result.stdout)}

    if open_nvml() is None:
        assert found["gpus"] == "0: Stand-in, 1.0 GB; runs may have: 0"
    assert "runs may have: 0" in found["gpus"]


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["create", "x-pool"], 2, "--max-nodes"),
        (["create", "x-pool", "--max-nodes", "0"], 2, "0 is not in the range"),
        (["attach", "x-pool", "slurm", "--partition", "gpu"], 1, "runyard server start --host"),
        (["attach", "x-pool", "ssh", "--address=-oProxyCommand=x"], 1, "such as `hostA`"),
        (["attach", "x-pool", "ray", "--env", "TOKEN"], 2, "Write NAME=VALUE"),
        (["create", "local", "--max-nodes", "1"], 1, "cannot be called `local`"),
        (["create", "x-pool", "--max-nodes", "1", "--min-nodes", "2"], 1, "at least 2 and at most 1"),
        (["update", "x-pool"], 2, "Nothing is changed"),
        (["update", "x-pool", "--max-nodes", "3"], 1, "runyard compute create x-pool"),
        (["delete", "x-pool", "--yes"], 1, "no compute target `x-pool`"),
    ],
)
def test_mistakes_say_what_to_type(arguments: list[str], code: int, text: str) -> None:
    result = runyard("compute", *arguments)

    assert (result.returncode, text in result.stderr) == (code, True), result.stderr
