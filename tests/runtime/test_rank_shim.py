"""The shim between mpirun and a rank: output into files, start and end recorded, signals passed on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import belongs_to, command_of, end_processes
from tests.runtime.journals import SOURCE
from tests.waiting import wait_for

SHIM = SOURCE / "runyard" / "runtime" / "rank_shim.py"


@pytest.fixture(autouse=True)
def nothing_left(run_folder: Path) -> Iterator[None]:
    """End what a failed test leaves, for the next one is not to blame for it."""
    yield
    end_processes(lambda pid: belongs_to(pid, run_folder) or str(run_folder) in command_of(pid), patience_s=0.0)


def plan(run_folder: Path, *command: str, rank: int = 0, **process: Any) -> None:
    work = run_folder / "work"
    work.mkdir(exist_ok=True)
    one = {"rank": rank, "argv": list(command), "variables": {}, "cwd": str(work), "log": f"user_logs/{rank}.txt"}
    (run_folder / "launch.json").write_text(json.dumps({"processes": [{**one, **process}], "umask": 0o027}))


def start(run_folder: Path, **variables: str) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-I", "-S", str(SHIM), "--folder", str(run_folder)]
    return subprocess.Popen(argv, env={**os.environ, **variables}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def read(path: Path) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(path.read_text())
    return facts


@pytest.mark.parametrize(
    ("variables", "rank"),
    [({"OMPI_COMM_WORLD_RANK": "3"}, 3), ({"SLURM_PROCID": "12"}, 12), ({"PMI_RANK": "1", "SLURM_PROCID": "0"}, 1)],
)
def test_a_rank_runs_as_it_was_planned_with_what_mpirun_told_it(
    run_folder: Path, variables: dict[str, str], rank: int
) -> None:
    code = (
        "import os, sys; print(os.environ['MINE'], os.environ['OMPI_X'], os.getcwd(), oct(os.umask(0)));"
        "print('err', os.getsid(0) == os.getpid() == int(os.environ['RUNYARD_RANK_PID']), file=sys.stderr)"
    )
    plan(run_folder, sys.executable, "-u", "-c", code, rank=rank, variables={"MINE": "planned"})
    process = start(run_folder, MINE="inherited", OMPI_X="told", **variables)
    out, err = process.communicate(timeout=30)

    assert (process.returncode, out, err) == (0, b"", b"")
    log = (run_folder / f"user_logs/{rank}.txt").read_text()
    assert log == f"planned told {run_folder / 'work'} 0o27\nerr True\n"
    started, ended = read(run_folder / f"starts/{rank}.json"), read(run_folder / f"exits/{rank}.json")
    assert (started["rank"], started["shim_pid"]) == (rank, process.pid)
    assert started["start_ticks"] >= started["shim_start_ticks"] > 0
    assert (ended["rank"], ended["code"], ended["signal"], ended["oom"]) == (rank, 0, None, False)
    assert ended["ended_boot_ns"] > started["started_boot_ns"] > 0
    assert ended["boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert ended["rusage"]["max_rss_kb"] > 1000


def test_after_a_failure_mpirun_is_told_only_when_the_supervisor_has_seen_it(run_folder: Path) -> None:
    os.mkfifo(run_folder / "wake")
    wake = os.open(run_folder / "wake", os.O_RDWR | os.O_NONBLOCK)
    plan(run_folder, sys.executable, "-c", "import sys; sys.exit(7)")
    process = start(run_folder, OMPI_COMM_WORLD_RANK="0")
    wait_for((run_folder / "exits/0.json").exists)

    assert read(run_folder / "exits/0.json")["code"] == 7
    assert process.poll() is None
    wait_for(lambda: os.read(wake, 100) if process.poll() is None else b"")
    process.terminate()
    process.communicate(timeout=30)
    assert process.returncode == 7
    os.close(wake)


def test_term_is_passed_on_once_and_the_shim_dies_by_what_killed_the_rank(run_folder: Path) -> None:
    code = (
        "import signal, sys, time\n"
        "for number in map(int, sys.argv[1:]):\n"
        "    signal.signal(number, lambda number, _: print(number, flush=True))\n"
        "print('ready', flush=True)\n"
        "while True: time.sleep(0.01)\n"
    )
    others = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
    plan(run_folder, sys.executable, "-c", code, *(str(number.value) for number in (signal.SIGTERM, *others)))
    process = start(run_folder, OMPI_COMM_WORLD_RANK="0")
    log = run_folder / "user_logs/0.txt"
    said = ["ready"]
    wait_for(lambda: log.exists() and log.read_text().split() == said)
    # Each of the others comes while the shim is busy with another TERM, and must not get lost for that.
    for number in (signal.SIGTERM, *others):
        process.terminate()
        process.send_signal(number)
        said.append(str(number.value))
        wait_for(lambda: log.read_text().split() == said)
    os.kill(read(run_folder / "starts/0.json")["pid"], signal.SIGKILL)
    wait_for((run_folder / "exits/0.json").exists)
    process.terminate()
    process.communicate(timeout=30)

    assert process.returncode == -signal.SIGKILL
    assert log.read_text().split() == said
    ended = read(run_folder / "exits/0.json")
    assert (ended["code"], ended["signal"]) == (None, signal.SIGKILL)


def test_a_rank_that_ends_by_a_signal_passed_on_takes_the_shim_with_it(run_folder: Path) -> None:
    plan(run_folder, "sleep", "600")
    process = start(run_folder, OMPI_COMM_WORLD_RANK="0")
    wait_for((run_folder / "starts/0.json").exists)
    process.terminate()
    process.communicate(timeout=20)  # not after LINGER_S: mpirun knows already

    assert process.returncode == -signal.SIGTERM
    assert read(run_folder / "exits/0.json")["signal"] == signal.SIGTERM


def test_a_program_that_is_not_there_is_named_in_its_log_and_record(run_folder: Path) -> None:
    (run_folder / "exits").mkdir(exist_ok=True)
    plan(run_folder, "no-such-program")
    process = start(run_folder, OMPI_COMM_WORLD_RANK="0")
    wait_for((run_folder / "exits/0.json").exists)
    process.terminate()
    process.communicate(timeout=30)

    assert process.returncode == 127
    assert "cannot start 'no-such-program'" in (run_folder / "user_logs/0.txt").read_text()
    assert "cannot start 'no-such-program'" in read(run_folder / "exits/0.json")["error"]


@pytest.mark.parametrize(
    ("arguments", "text"), [(["sleep", "1"], "usage: "), (["--folder", "."], "to be started by mpirun")]
)
def test_a_wrong_call_says_how_it_is_called(arguments: list[str], text: str) -> None:
    foreign = ("OMPI_", "PMI", "SLURM_")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    argv = [sys.executable, "-I", "-S", str(SHIM), *arguments]
    done = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=30, check=False)

    assert done.returncode == 1 and text in done.stderr
