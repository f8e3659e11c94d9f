"""Runs that fall silent: who holds the others up, and what a user gets to see of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard.core.specs import JobSpec, RunSpec
from runyard.runtime import sitecustomize_hook as hook
from runyard.runtime.injection import injection_folder
from runyard.supervisor.diagnosis import stacks
from runyard.supervisor.diagnosis.hangs import Code, HangWatch, RankView, judge
from runyard.supervisor.diagnosis.stacks import Frame, main_stack, take_stacks
from runyard.supervisor.proc import read_process
from runyard.supervisor.run_folder import RunFolder
from tests.supervisor.supervised import Site
from tests.waiting import wait_for

REDUCE = [Frame("/lib/torch/distributed.py", 9, "all_reduce"), Frame("train.py", 40, "step")]
SLEEP = [Frame("train.py", 33, "load")]
GATHER = [Frame("/lib/torch/distributed.py", 12, "all_gather"), Frame("train.py", 50, "evaluate")]
LINES = {
    33: "time.sleep(1000)",
    40: "dist.all_reduce(x)",
    50: "dist.all_gather(y)",
    60: "total += x",
    70: "comm.Bcast(x)",
}


class Sources(Code):
    def is_own(self, frame: Frame) -> bool:
        return not frame.file.startswith("/lib")

    def line_of(self, frame: Frame) -> str:
        return LINES.get(frame.line, "")


def view(rank: int, *stacks: list[Frame], silent_s: float = 10.0, cpu: float = 0.0, state: str = "S") -> RankView:
    return RankView(rank, silent_s, list(stacks) * (3 if len(stacks) == 1 else 1), cpu, state)


def test_the_rank_that_is_not_in_the_collective_holds_the_others_up() -> None:
    found = judge([view(0, REDUCE), view(1, SLEEP), view(2, REDUCE, cpu=99.0)], ended=[], code=Sources())

    assert found is not None
    assert (found.first, found.waiting) == (1, [0, 2])
    assert found.why == "it is idle in train.py line 33, `time.sleep(1000)`"


def test_of_two_ranks_the_one_that_does_not_wait_for_the_other_is_it() -> None:
    busy = [Frame("train.py", 60, "spin")]
    mpi = [Frame("train.py", 70, "exchange")]  # mpi4py has no Python frames of its own
    found = judge([view(0, mpi, cpu=100.0), view(1, busy, cpu=100.0)], ended=[], code=Sources())

    assert found is not None
    assert (found.first, found.waiting) == (1, [0])
    assert found.why == "it is busy in train.py line 60, `total += x`"


def test_a_stopped_rank_is_it() -> None:
    found = judge([view(0, REDUCE), view(1, SLEEP), RankView(2, 5.0, [], 0.0, "T")], ended=[], code=Sources())

    assert found is not None
    assert (found.first, found.why) == (2, "it is stopped (SIGSTOP)")


def test_where_all_wait_the_odd_one_is_it() -> None:
    found = judge([view(0, REDUCE), view(1, REDUCE), view(2, GATHER), view(3, REDUCE)], ended=[], code=Sources())

    assert found is not None
    assert (found.first, found.waiting) == (2, [0, 1, 3])


def test_where_all_wait_at_one_place_a_rank_that_left_is_it() -> None:
    found = judge([view(0, REDUCE), view(2, REDUCE)], ended=[1], code=Sources())

    assert found is not None
    assert (found.first, found.why) == (1, "it has ended, without an error")


def test_ranks_that_all_wait_may_wait_for_another_machine_s() -> None:
    waiting = [view(0, REDUCE), view(1, GATHER)]

    assert judge(waiting, ended=[2], code=Sources(), has_peers=True) is None
    found = judge([*waiting, view(2, SLEEP)], ended=[], code=Sources(), has_peers=True)
    assert found is not None and found.first == 2


def test_nothing_is_said_while_a_rank_works_on() -> None:
    works = view(0, SLEEP, REDUCE, [Frame("train.py", 60, "compute")], cpu=100.0)

    assert judge([works, view(1, REDUCE)], ended=[], code=Sources()) is None


def test_nothing_is_said_of_a_long_computation() -> None:
    busy = [Frame("/lib/sklearn/svm.py", 1, "fit"), Frame("train.py", 60, "main")]

    assert judge([view(0, busy, cpu=100.0)], ended=[], code=Sources()) is None


def test_nothing_is_said_of_one_busy_rank_whatever_its_functions_are_called() -> None:
    reduce = [Frame("/lib/functools.py", 1, "reduce"), Frame("train.py", 60, "main")]

    assert judge([view(0, reduce, cpu=100.0)], ended=[], code=Sources()) is None
    assert judge([view(0, reduce, cpu=0.0)], ended=[], code=Sources()) is not None


def test_nothing_is_said_of_ranks_that_cannot_be_asked() -> None:
    assert judge([RankView(0, 9.0, [], 0.0, "S")], ended=[], code=Sources()) is None


@pytest.fixture(scope="module")
def injection(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(injection_folder(tmp_path_factory.mktemp("home")))


@pytest.fixture
def program(tmp_path: Path, injection: str, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    """A Python program with our hooks that blocks in C code in two threads."""
    script = getattr(request, "param", "") + (
        "import threading, time\n"
        "def side():\n    time.sleep(60)\n"
        "def main():\n    time.sleep(60)\n"
        "threading.Thread(target=side, daemon=True).start()\n"
        "print('ready', flush=True)\nmain()\nprint('done', flush=True)\n"
    )
    (tmp_path / "p.py").write_text(script)
    variables = {"PYTHONPATH": injection, "RUNYARD_RUN_FOLDER": str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, str(tmp_path / "p.py")], env={**os.environ, **variables}, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    yield process
    process.kill()
    process.communicate()


def test_stacks_of_all_threads_are_read_and_the_program_goes_on(program: subprocess.Popen[str]) -> None:
    entry = read_process(program.pid)
    assert entry is not None

    def sees_both() -> bool:
        text = take_stacks([entry])[program.pid]
        return "in side" in text and [frame.function for frame in main_stack(text)] == ["main", "<module>"]

    wait_for(sees_both)  # it may just be on its way there
    assert sees_both()
    assert program.poll() is None


@pytest.mark.parametrize("program", ["import signal\nsignal.signal(50, signal.SIG_DFL)\n"], indirect=True)
def test_a_program_that_would_die_of_the_signal_does_not_get_it(program: subprocess.Popen[str]) -> None:
    entry = read_process(program.pid)
    assert entry is not None

    assert take_stacks([entry]) == {}
    assert program.poll() is None


@pytest.mark.parametrize("program", ["import os\nos.close(950)\n"], indirect=True)
def test_a_program_that_closed_our_file_is_not_asked(program: subprocess.Popen[str]) -> None:
    entry = read_process(program.pid)
    assert entry is not None

    assert take_stacks([entry]) == {}
    assert program.poll() is None


def test_both_sides_mean_the_same_signal_and_file() -> None:
    ours, theirs = (stacks.STACKS_SIGNAL, stacks.STACKS_NAME), (hook.STACKS_SIGNAL, hook.STACKS_NAME)

    assert ours == theirs


def test_a_program_without_our_hooks_is_not_signalled() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        entry = read_process(process.pid)
        assert entry is not None

        assert take_stacks([entry]) == {}
        assert process.poll() is None
        process.kill()


SLEEPS = "import time\nprint('begin', flush=True)\ndef wait_for_ever():\n    time.sleep(600)\nwait_for_ever()\n"


@pytest.mark.long
def test_a_silent_run_gets_a_warning_and_its_stacks_and_goes_on(site: Site) -> None:
    job = site.start(SLEEPS, variables={"RUNYARD_HANG_AFTER": "1"})
    wait_for(lambda: job.run.warnings and {"diagnosis.json", "diagnosis-stacks.txt"} <= set(job.run.files))

    [warning] = [one for one in job.run.warnings if one["source"] == "hang"]
    assert "User program seems to hang." in warning["message"]
    assert "it is idle in train.py line 4, `time.sleep(600)`" in warning["message"]
    assert b"in wait_for_ever" in site.server.file(job.id, "diagnosis-stacks.txt")
    assert json.loads(site.server.file(job.id, "diagnosis.json"))["kind"] == "hang"
    assert job.run.status == "Running"
    assert job.living() != []


def test_a_launcher_that_starts_no_rank_is_told_of(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path))
    folder.make_subfolders()
    job = JobSpec("exp_1", 1, "exp", "default", RunSpec(), None, {}, "", os.urandom(8).hex(), "/home")
    launch = {"processes": [{"rank": -1, "role": "mpirun", "log": "system_logs/mpirun.log"}, {"rank": 0, "log": "a"}]}
    watch = HangWatch(folder, job, limit_s=0.01)

    found = wait_for(lambda: watch.step(launch, []))

    assert found.error["message"].startswith("mpirun has not started a rank in 0.01 s.")
    assert found.error["details"]["log"] == "system_logs/mpirun.log"


@pytest.mark.long
def test_a_run_that_logs_or_prints_is_left_alone(site: Site) -> None:
    script = "import time\nfor n in range(12):\n    print(n, flush=True)\n    time.sleep(0.25)\n"
    run = site.start(script, variables={"RUNYARD_HANG_AFTER": "1", "RUNYARD_HANG_FAILS": "1"}).wait()

    assert (run.status, run.warnings) == ("Completed", [])
