"""What the reaper knows about ranks that mpirun started: their shims' records, and what a dead shim leaves to it."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from runyard.launchers.base import BY_MPIRUN, MPIRUN
from runyard.supervisor.proc import oom_kills, read_process
from runyard.supervisor.processes.ranks import Ranks
from runyard.supervisor.run_folder import RunFolder
from tests.waiting import wait_for


@pytest.fixture
def ranks(tmp_path: Path) -> Ranks:
    folder = RunFolder(str(tmp_path))
    folder.make_subfolders()
    process = {"rank": 0, "argv": [], "variables": {}, "cwd": "/", "log": "x", "started_by": BY_MPIRUN}
    folder.write("launch.json", {"processes": [process], "umask": 0o022, "cgroup": ""})
    found = Ranks(folder)
    found.launch()
    return found


def a_child(code: int) -> int:
    pid = os.posix_spawn(sys.executable, [sys.executable, "-I", "-S", "-c", f"raise SystemExit({code})"], os.environ)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    return pid


def note_start(folder: Path, pid: int, **shim: Any) -> None:
    entry = read_process(pid)
    assert entry is not None
    start = {"rank": 0, "pid": pid, "start_ticks": entry.start_ticks, "shim_pid": 1, "shim_start_ticks": 0}
    (folder / "starts/0.json").write_text(json.dumps({**start, **shim}))


def test_ranks_that_mpirun_starts_are_not_started_by_the_reaper(ranks: Ranks, tmp_path: Path) -> None:
    assert ranks.state() == {"is": "state", "launched": True, "ranks": [], "exits": []}
    assert not ranks.look()


def test_a_rank_whose_shim_is_dead_is_collected_before_anybody_looked(ranks: Ranks, tmp_path: Path) -> None:
    pid = a_child(7)
    note_start(tmp_path, pid)

    assert ranks.collect(pid, os.CLD_EXITED, 7)
    assert ranks.state()["exits"][0]["code"] == 7
    assert json.loads((tmp_path / "exits/0.json").read_text())["code"] == 7
    assert json.loads((tmp_path / "ranks.json").read_text())[0]["pid"] == pid


def test_a_shims_record_is_the_ranks_end(ranks: Ranks, tmp_path: Path) -> None:
    pid = a_child(3)
    note_start(tmp_path, pid)
    os.waitpid(pid, 0)
    (tmp_path / "exits/0.json").write_text(json.dumps({"rank": 0, "code": 3, "signal": None}))

    assert ranks.look() and not ranks.look()
    assert ranks.state()["exits"] == [{"rank": 0, "code": 3, "signal": None, "oom": False}]


def test_who_hears_of_mpiruns_end_knows_of_all_ranks(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path))
    folder.make_subfolders()
    mpirun = {"rank": MPIRUN, "argv": ["/bin/true"], "variables": {}, "cwd": "/", "log": "system_logs/mpirun.log"}
    rank = {"rank": 0, "argv": [], "variables": {}, "cwd": "/", "log": "x", "started_by": BY_MPIRUN}
    folder.write("launch.json", {"processes": [mpirun, rank], "umask": 0o022, "cgroup": ""})
    ranks = Ranks(folder)
    ranks.launch()
    pid = a_child(0)
    note_start(tmp_path, pid)
    os.waitpid(pid, 0)
    (tmp_path / "exits/0.json").write_text(json.dumps({"rank": 0, "code": 0, "signal": None}))
    started = ranks.state()["ranks"][0]["pid"]
    found = os.waitid(os.P_PID, started, os.WEXITED | os.WNOWAIT)
    assert found is not None

    assert ranks.collect(started, found.si_code, found.si_status)
    assert [record["rank"] for record in ranks.state()["exits"]] == [MPIRUN, 0]


def test_a_shim_that_lives_is_about_to_write_its_record(ranks: Ranks, tmp_path: Path) -> None:
    pid, mine = a_child(3), read_process(os.getpid())
    assert mine is not None
    note_start(tmp_path, pid, shim_pid=mine.pid, shim_start_ticks=mine.start_ticks)
    os.waitpid(pid, 0)

    assert ranks.look()
    assert ranks.state()["exits"] == []


def test_a_rank_that_went_with_its_shim_has_an_unknown_end(ranks: Ranks, tmp_path: Path) -> None:
    pid = a_child(3)
    note_start(tmp_path, pid)
    os.waitpid(pid, 0)

    assert ranks.look()
    assert ranks.state()["exits"][0]["unknown"] is True


@pytest.mark.parametrize(("by_us", "is_oom"), [(False, True), (True, False)])
def test_a_kill_of_ours_is_not_taken_for_the_kernels_while_another_job_runs_out_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_us: bool, is_oom: bool
) -> None:
    folder = RunFolder(str(tmp_path))
    folder.make_subfolders()
    argv = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"]
    process = {"rank": 0, "argv": argv, "variables": {}, "cwd": "/", "log": "x"}
    folder.write("launch.json", {"processes": [process], "umask": 0o022, "cgroup": ""})
    ranks = Ranks(folder)
    ranks.launch()
    pid = ranks.state()["ranks"][0]["pid"]
    wait_for(lambda: os.getpgid(pid) == pid)
    killed = oom_kills()
    monkeypatch.setattr(
        "runyard.supervisor.processes.ranks.oom_kills", lambda: killed + 1
    )  # the machine's count, elsewhere
    if by_us:
        ranks.signal(signal.SIGKILL, [])
    else:
        os.kill(pid, signal.SIGKILL)
    ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)

    assert ended is not None and ranks.collect(pid, ended.si_code, ended.si_status)
    assert [(one["signal"], one["oom"]) for one in ranks.state()["exits"]] == [(signal.SIGKILL, is_oom)]
