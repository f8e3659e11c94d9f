"""A cluster's node that lost all processes of a run at once, its reaper too: that is no failure of the program's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runyard.core.machine.facts import boot_id
from runyard.supervisor.proc import read_process
from runyard.supervisor.processes.adopted import Adopted
from runyard.supervisor.run_folder import RunFolder


def adopted(
    folder: Path, *, pid: int, incarnation: str, said: int | None = None, start_ticks: int = 1
) -> dict[str, Any]:
    """Return how rank 0 ended for who adopts a run whose reaper is gone."""
    for name in ("exits", "ends", "starts"):
        (folder / name).mkdir()
    files = {
        "job.json": {"incarnation": incarnation},
        "claim": {"boot_id": boot_id()},
        "launch.json": {"processes": [{"rank": 0}]},
        "ranks.json": [{"rank": 0, "pid": pid, "start_ticks": start_ticks}],
    }
    for name, value in files.items():
        (folder / name).write_text(json.dumps(value))
    if said is not None:
        (folder / "ends" / f"{pid}.code").write_bytes(bytes([said]))
    keeper = Adopted(RunFolder(str(folder)), "no-cookie")
    keeper.update()
    (end,) = keeper.exits
    return end


@pytest.fixture
def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait(30)
    return process.pid


def test_a_rank_without_a_word_is_lost_on_a_cluster_and_of_unknown_end_here(tmp_path: Path, dead_pid: int) -> None:
    cluster, here = tmp_path / "cluster", tmp_path / "here"
    for folder in (cluster, here):
        folder.mkdir()

    assert adopted(cluster, pid=dead_pid, incarnation="ab" * 8)["lost"] is True
    assert adopted(here, pid=dead_pid, incarnation="")["lost"] is False


@pytest.mark.parametrize(("number", "is_lost"), [(signal.SIGKILL, True), (signal.SIGSEGV, False)])
def test_a_killed_rank_that_init_has_not_collected_yet_is_lost_too(
    tmp_path: Path, number: signal.Signals, is_lost: bool
) -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    entry = read_process(process.pid)
    assert entry is not None
    process.send_signal(number)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it stays a zombie
    end = adopted(tmp_path, pid=process.pid, incarnation="ab" * 8, start_ticks=entry.start_ticks)
    process.wait(30)

    assert end["signal"] == number and end.get("lost", False) is is_lost


def test_a_rank_that_said_how_it_ended_is_believed(tmp_path: Path, dead_pid: int) -> None:
    end = adopted(tmp_path, pid=dead_pid, incarnation="ab" * 8, said=3)

    assert end["code"] == 3 and "lost" not in end
