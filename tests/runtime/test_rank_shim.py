"""The shim between mpirun or srun and a rank: output into files, the end recorded, signals passed on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.runtime.journals import SOURCE


def start(run_folder: Path, *command: str, options: tuple[str, ...] = (), **variables: str) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-m", "runyard.runtime.rank_shim", "--folder", str(run_folder), *options, "--", *command]
    return subprocess.Popen(
        argv, env={**os.environ, "PYTHONPATH": str(SOURCE), **variables}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


@pytest.mark.parametrize(
    ("variables", "rank"),
    [
        ({"OMPI_COMM_WORLD_RANK": "3"}, 3),
        ({"SLURM_PROCID": "12"}, 12),
        ({"PMI_RANK": "1", "RUNYARD_RANK": "0"}, 1),
        ({}, 0),
    ],
)
def test_output_goes_into_the_ranks_own_file_and_its_end_is_recorded(
    run_folder: Path, variables: dict[str, str], rank: int
) -> None:
    code = "import os, sys; print('out', os.environ['RUNYARD_RANK']); print('err', file=sys.stderr); sys.exit(7)"
    process = start(run_folder, sys.executable, "-u", "-c", code, **variables)
    out, err = process.communicate(timeout=30)

    assert (process.returncode, out, err) == (7, b"", b"")
    assert (run_folder / f"user_logs/std_log_process_{rank}.txt").read_text() == f"out {rank}\nerr\n"
    facts = json.loads((run_folder / f"exits/{rank}.json").read_text())
    assert (facts["rank"], facts["code"], facts["signal"], facts["oom"]) == (rank, 7, None, False)
    assert facts["ended_boot_ns"] > 0
    assert facts["boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert facts["rusage"]["max_rss_kb"] > 1000
    assert [path.name for path in (run_folder / "exits").iterdir()] == [f"{rank}.json"]


def test_a_signal_is_passed_on_and_the_shim_dies_by_what_killed_the_rank(run_folder: Path) -> None:
    process = start(run_folder, "sh", "-c", "echo ready; exec sleep 60", options=("--log", "user_logs/std_log.txt"))
    log = run_folder / "user_logs/std_log.txt"
    deadline = time.monotonic() + 20
    while not (log.exists() and log.read_text() == "ready\n"):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)

    assert process.returncode == -signal.SIGTERM
    facts = json.loads((run_folder / "exits/0.json").read_text())
    assert (facts["code"], facts["signal"]) == (None, signal.SIGTERM)


def test_a_program_that_is_not_there_is_named_in_its_log(run_folder: Path) -> None:
    process = start(run_folder, "no-such-program")
    process.communicate(timeout=30)

    assert process.returncode == 127
    assert "no-such-program: No such file" in (run_folder / "user_logs/std_log_process_0.txt").read_text()


def test_a_wrong_call_says_how_it_is_called(run_folder: Path) -> None:
    argv = [sys.executable, "-m", "runyard.runtime.rank_shim", "sleep", "1"]
    done = subprocess.run(
        argv, env={**os.environ, "PYTHONPATH": str(SOURCE)}, capture_output=True, text=True, timeout=30, check=False
    )

    assert done.returncode == 1
    assert done.stderr.startswith("usage: ")
