"""Threads, forks, signal handlers and the end of the process: no deadlock, nothing lost, nothing doubled."""

from __future__ import annotations

import collections
import json
import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from runyard.runtime.writer import JournalWriter
from tests.interpreters import pythons
from tests.runtime.journals import read_points, read_segments, read_values, run_script

FORKING = """
import os, sys, threading, time, warnings
warnings.simplefilter("ignore")
from runyard.runtime.writer import JournalWriter
writer = JournalWriter(sys.argv[1], "run")
rounds, going = int(sys.argv[2]), True
counts = {}
def work(number):
    logged = 0
    while going:
        writer.log("thread%d" % number, logged)
        logged += 1
        if logged % 5 == 0:
            time.sleep(0.001)  # so many points that a reader needs a minute prove no more
        if logged % 50 == 0:
            writer.log("new %d of thread%d" % (logged, number), 1)
    counts[number] = logged
threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
for thread in threads:
    thread.start()
for round in range(rounds):
    pid = os.fork()
    if pid == 0:
        writer.log("child", round)
        writer.log("thread0", -1.0)
        os._exit(0)
    done, status = os.waitpid(pid, 0)
    assert status == 0, status
going = False
for thread in threads:
    thread.join()
print([counts[number] for number in range(8)])
"""


@pytest.mark.external
@pytest.mark.timeout(300)
@pytest.mark.parametrize("version", pythons())
def test_eight_threads_log_while_the_process_forks_a_thousand_times(run_folder: Path, version: str) -> None:
    rounds = 1000 if pythons()[version] == sys.executable else 100
    done = run_script(FORKING, run_folder, rounds, python=pythons()[version])

    counts = json.loads(done.stdout)
    found: dict[str, list[object]] = collections.defaultdict(list)
    for point in read_points(run_folder):
        found[point.name].append(point.value)
    assert sorted(found["child"]) == list(range(rounds))
    for number, count in enumerate(counts):
        assert [value for value in found[f"thread{number}"] if value != -1.0] == list(range(count))
        assert sum(name.endswith(f"of thread{number}") for name in found) == count // 50
    assert found["thread0"].count(-1.0) == rounds
    assert len({segment.header["writer"] for segment in read_segments(run_folder)}) == rounds + 1


def test_a_child_has_a_writer_and_a_segment_of_its_own(writer: JournalWriter, run_folder: Path) -> None:
    log = writer.log  # kept by the user over the fork
    log("loss", 1.0)
    pid = os.fork()
    if pid == 0:
        log("loss", 2.0)
        os._exit(0)
    os.waitpid(pid, 0)
    log("loss", 3.0)

    by_pid = {segment.header["pid"]: [point.value for point in segment.points] for segment in read_segments(run_folder)}
    assert by_pid == {os.getpid(): [1.0, 3.0], pid: [2.0]}
    for segment in read_segments(run_folder):
        header = segment.header
        assert header["writer"].startswith(f"r3-{header['pid']}-")
        assert segment.path.name == f"{header['writer']}.{header['segment']}.journal"
        assert (header["run"], header["attempt"], header["rank"], header["role"]) == ("exp_1_ab", 2, 3, "worker")
        assert header["wall_ns"] > 1_600_000_000 * 10**9
        assert segment.path.stat().st_mode & 0o777 == 0o600


def test_grandchildren_and_a_child_that_never_logs_are_fine(writer: JournalWriter, run_folder: Path) -> None:
    writer.log("loss", 1.0)
    pid = os.fork()
    if pid == 0:
        grandchild = os.fork()
        if grandchild == 0:
            writer.log("loss", 2.0)
            os._exit(0)
        os._exit(os.waitpid(grandchild, 0)[1])
    assert os.waitpid(pid, 0)[1] == 0

    assert sorted(read_values(run_folder, "loss")) == [1.0, 2.0]
    assert len(read_segments(run_folder)) == 2


def test_a_handler_that_forks_inside_log_loses_nothing(writer: JournalWriter, run_folder: Path) -> None:
    children: list[int] = []

    def fork_inside(_number: int, _frame: object) -> None:
        pid = os.fork()
        if pid:
            children.append(pid)

    before = signal.signal(signal.SIGALRM, fork_inside)
    me = os.getpid()
    try:
        writer.log("mine", 0.0)
        signal.setitimer(signal.ITIMER_REAL, 0.002)
        count = 0
        while not children and os.getpid() == me and count < 10_000_000:
            count += 1
            writer.log("mine", float(count))
        if os.getpid() != me:
            writer.log("child", float(count))
            os._exit(0)
        writer.log("parent", float(count))
        assert [os.waitpid(pid, 0)[1] for pid in children] == [0]
    finally:
        signal.signal(signal.SIGALRM, before)

    mine = read_values(run_folder, "mine")
    last = float(count)
    assert sorted(set(mine)) == [float(n) for n in range(count + 1)]
    assert len(mine) - len(set(mine)) in (0, 1)  # the call that both processes returned from
    assert read_values(run_folder, "parent") == [last]
    assert len(read_values(run_folder, "child")) == 1


def test_log_in_a_handler_that_interrupts_log(writer: JournalWriter, run_folder: Path) -> None:
    ticks = 0

    def tick(_number: int, _frame: object) -> None:
        nonlocal ticks
        number, ticks = ticks, ticks + 1
        writer.log("tick", number)
        writer.log(f"new{number}", "text")
        signal.setitimer(signal.ITIMER_REAL, 0.0002 if ticks < 300 else 0)

    before = signal.signal(signal.SIGALRM, tick)
    signal.setitimer(signal.ITIMER_REAL, 0.0002)
    try:
        logged = 0
        while ticks < 300:
            writer.log("loss", logged)
            writer.log(f"name{logged}", 1.0)  # defining a name is the slow path
            logged += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

    assert read_values(run_folder, "loss") == list(range(logged))
    assert read_values(run_folder, "tick") == list(range(ticks))
    names = collections.Counter(point.name for point in read_points(run_folder))
    assert all(names[f"new{n}"] == 1 for n in range(ticks))
    assert all(names[f"name{n}"] == 1 for n in range(logged))


@pytest.mark.parametrize("error", [TimeoutError("late"), KeyError("mine"), FileNotFoundError(2, "theirs"), TypeError()])
def test_what_a_handler_raises_reaches_the_user(writer: JournalWriter, run_folder: Path, error: Exception) -> None:
    def late(_number: int, _frame: object) -> None:
        raise error

    before = signal.signal(signal.SIGALRM, late)
    count = 0
    try:
        with pytest.raises(type(error)) as caught:
            signal.setitimer(signal.ITIMER_REAL, 0.005)
            while count < 10_000_000:
                writer.log("loss", count)
                writer.log(f"other{count % 7}{count}", "text")
                count += 1
    finally:
        signal.signal(signal.SIGALRM, before)

    assert caught.value is error
    writer.log("loss", -1)
    assert read_values(run_folder, "loss")[:count] == list(range(count))
    assert read_values(run_folder, "loss")[-1] == -1


def test_threads_that_define_the_same_names_at_once_lose_nothing(writer: JournalWriter, run_folder: Path) -> None:
    start = threading.Barrier(8)

    def work() -> None:
        start.wait()
        for index in range(300):
            writer.log(f"name{index % 50}", index)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    counts = collections.Counter((point.name, point.value) for point in read_points(run_folder))
    assert counts == {(f"name{index % 50}", index): 8 for index in range(300)}


def test_calls_after_close_say_so_once_and_do_nothing(
    writer: JournalWriter, run_folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = writer.log
    log("loss", 1.0)
    writer.close()
    writer.close()
    for _ in range(3):
        log("loss", 2.0)
        writer.log_row("row", x=1)
        writer.set_tags({"a": "b"})

    assert read_values(run_folder, "loss") == [1.0]
    assert capfd.readouterr().err.count("after the run had ended") == 1


AT_EXIT = """
import atexit, sys
from runyard.runtime.writer import JournalWriter
writer = JournalWriter(sys.argv[1], "run")
class Late:
    def __del__(self):
        writer.log("del", 1.0)
        writer.log("del", "text")
late = Late()
atexit.register(lambda: writer.log("atexit", 2.0))
writer.log("main", 0.5)
"""


@pytest.mark.parametrize("version", pythons())
def test_logging_at_exit_and_while_the_interpreter_is_taken_down(run_folder: Path, version: str) -> None:
    done = run_script(AT_EXIT, run_folder, python=pythons()[version])

    assert done.stderr == ""
    assert read_values(run_folder, "atexit") == [2.0]
    assert read_values(run_folder, "del") == [1.0, "text"]


WORKERS = """
import multiprocessing, sys
from runyard.runtime.context import find_context
def work(number):
    find_context().writer().log("worker", number)
if __name__ == "__main__":
    find_context().writer().log("main", 1)
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            pool.map(work, range(10))
"""


def test_multiprocessing_workers_log_by_fork_and_by_spawn(run_folder: Path, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(WORKERS)
    run_script(
        "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')",
        script,
        RUNYARD_RUN_FOLDER=str(run_folder),
        RUNYARD_RUN_ID="run",
        RUNYARD_RANK="2",
    )

    assert sorted(read_values(run_folder, "worker")) == sorted([*range(10)] * 2)
    assert {segment.header["rank"] for segment in read_segments(run_folder)} == {2}


def test_a_program_that_closes_all_files_and_opens_its_own_keeps_them_clean(run_folder: Path, tmp_path: Path) -> None:
    script = """
import os, sys
from runyard.runtime.writer import JournalWriter
writer = JournalWriter(sys.argv[1], "run")
writer.log("loss", 1.0)
os.closerange(3, 2000)
files = [open(os.path.join(sys.argv[2], str(n)), "wb") for n in range(50)]
for n in range(10):
    writer.log("loss", 2.0 + n)
"""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    run_script(script, run_folder, theirs)

    assert read_values(run_folder, "loss") == [1.0, *(2.0 + n for n in range(10))]
    assert {path.stat().st_size for path in theirs.iterdir()} == {0}


JOBLIB = """
import sys
from joblib import Parallel, delayed
from runyard.runtime.context import find_context
writer = find_context().writer()
log = writer.log
for number in range(40):
    writer.log("name%d" % number, number)
def by_closure(number):
    log("closure", number)
    log("name5", -1)
def by_writer(number):
    writer.log("writer", number)
if __name__ == "__main__":
    Parallel(n_jobs=2)(delayed(by_closure)(number) for number in range(20))
    Parallel(n_jobs=2)(delayed(by_writer)(number) for number in range(20))
    log("main", 1)
"""


def test_functions_that_joblib_sends_to_other_processes_log_there(run_folder: Path) -> None:
    pytest.importorskip("joblib")
    run_script(JOBLIB, RUNYARD_RUN_FOLDER=str(run_folder), RUNYARD_RUN_ID="run")

    for name in ("closure", "writer"):
        assert sorted(read_values(run_folder, name)) == list(range(20))
    assert read_values(run_folder, "name5") == [5] + [-1] * 20
    assert read_values(run_folder, "main") == [1]
    for segment in read_segments(run_folder):
        assert segment.path.name.startswith(f"r0-{segment.header['pid']}-")


EVERYTHING = """
import sys
from runyard.runtime.writer import JournalWriter
writer = JournalWriter(sys.argv[1], "run", attempt=4)
for value in (0.5, 7, True, None, "text", 2**63, -2**63, float("inf")):
    for _ in range(2):
        writer.log("mixed", value)
    writer.log("stepped", value, "described", 3)
writer.log_list("list", (n * 0.5 for n in range(4)))
writer.log_list("list", ["a", None, 1, 2.5])
writer.log_row("row", "words", x=1, y="z")
writer.log_table("table", {"x": [1, 2], "y": [None, "b"]})
writer.upload("outputs/a.txt", b"content")
assert writer.flush(0.01) is False
writer.close()
"""


@pytest.mark.parametrize("version", pythons())
def test_every_kind_of_record_under_the_oldest_and_the_newest_python(run_folder: Path, version: str) -> None:
    done = run_script(EVERYTHING, run_folder, python=pythons()[version])

    values = [0.5, 7, True, None, "text", 2**63, -(2**63), float("inf")]
    assert done.stderr == "The description of a metric is not kept; its name and value are.\n"
    assert list(map(repr, read_values(run_folder, "mixed"))) == [repr(value) for value in values for _ in range(2)]
    assert list(map(repr, read_values(run_folder, "stepped"))) == list(map(repr, values))
    assert {point.step for point in read_points(run_folder) if point.name == "stepped"} == {3}
    assert read_values(run_folder, "list") == [0.0, 0.5, 1.0, 1.5, "a", None, 1, 2.5]
    [segment] = read_segments(run_folder)
    row, table, file = (payload for _kind, payload in segment.records)
    assert (row["columns"], table["columns"]) == ({"x": 1, "y": "z"}, {"x": [1, 2], "y": [None, "b"]})
    assert (run_folder / file["path"]).read_bytes() == b"content"
