"""R14: every exit code and every signal that ends a process, as the kernel said it."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.supervisor.supervised import Site

# A reaper without a supervisor: it launches what launch.json says and leaves when all have ended.
HARNESS = """
import sys
from runyard.supervisor.run_folder import RunFolder, claim
from runyard.supervisor.processes.keeper import ReaperClient
from runyard.supervisor.proc import set_subreaper
from runyard.supervisor.processes.reaper import Reaper
import select

def supervise(link):
    keeper = ReaperClient(link)
    keeper.wait_for_state()
    keeper.launch()
    while len(keeper.exits) < int(sys.argv[2]):
        select.select([keeper], [], [])
        keeper.update()
    keeper.kill(grace_s=0)
    while not keeper.is_empty:
        select.select([keeper], [], [])
        keeper.update()
    keeper.leave(remove=False)
    return 0

folder = RunFolder(sys.argv[1])
folder.make_subfolders()
folder.write("job.json", {})
set_subreaper(True)
Reaper(folder, cookie="", supervise=supervise, lock_fd=claim(folder)).run()
"""

ENDING = [
    number
    for number in range(1, 32)
    if number
    not in (
        signal.SIGCHLD,
        signal.SIGCONT,
        signal.SIGSTOP,
        signal.SIGTSTP,
        signal.SIGTTIN,
        signal.SIGTTOU,
        signal.SIGURG,
        signal.SIGWINCH,
    )
]


@pytest.mark.long
def test_all_256_codes_and_23_signals_are_recorded_exactly(tmp_path: Path) -> None:
    ends = [f"exit {code}" for code in range(256)] + [f"kill -{number} $$" for number in ENDING]
    processes = [
        {
            "rank": rank,
            "argv": ["/bin/sh", "-c", f"ulimit -c 0; {end}"],
            "variables": {"PATH": "/usr/bin:/bin"},
            "cwd": str(tmp_path),
            "log": f"user_logs/{rank}.txt",
        }
        for rank, end in enumerate(ends)
    ]
    (tmp_path / "launch.json").write_text(json.dumps({"processes": processes}))

    subprocess.run([sys.executable, "-c", HARNESS, str(tmp_path), str(len(ends))], check=True, timeout=60)
    exits = [json.loads((tmp_path / f"exits/{rank}.json").read_text()) for rank in range(len(ends))]

    assert len(ENDING) == 23
    assert [record["code"] for record in exits] == [*range(256), *[None] * 23]
    assert [record["signal"] for record in exits] == [*[None] * 256, *ENDING]
    assert all(record["rusage"]["max_rss_kb"] > 0 and record["boot_id"] for record in exits)


def test_a_signal_is_named_with_the_last_lines(site: Site) -> None:
    job = site.start("import os\nprint('last words', flush=True)\nos.kill(os.getpid(), 11)\n")
    run = job.wait()

    assert run.status == "Failed"
    assert run.error is not None
    assert run.error["code"] == "UserError"
    assert run.error["message"].splitlines()[0] == "User program was killed by signal 11 (SIGSEGV)."
    assert run.error["details"]["signal"] == "SIGSEGV"
    assert "last words" in run.error["details"]["last_lines"]


def test_an_exception_is_named_as_azure_does(site: Site) -> None:
    run = site.start("raise ValueError('alpha must be positive')\n").wait()

    assert run.error is not None
    assert run.error["message"].splitlines()[0] == "User program failed with ValueError: alpha must be positive"
    assert run.error["details"]["exit_code"] == 1
    assert "train.py" in run.error["details"]["exception"]["traceback"]


def test_a_missing_package_is_named_with_how_to_add_it(site: Site) -> None:
    script = "import sys\nsys.modules['sklearn'] = None\nfrom sklearn_not_here import x\n"
    run = site.start(script).wait()

    assert run.error is not None
    assert "User program failed with ModuleNotFoundError" in run.error["message"]
    assert "Add the package `sklearn-not-here`: `pip install sklearn-not-here`" in run.error["message"]


def test_the_reaper_does_not_wait_for_a_stopped_supervisor(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        from runyard.supervisor.processes.keeper import Channel

        channel = Channel(ours)
        for _ in range(200):
            channel.send({"is": "state", "ranks": ["x" * 10_000]})

        assert channel.is_full
        other = Channel(theirs)
        received = []
        while len(received) < 200:
            received += other.receive()
            channel.flush()
        assert received[-1] == {"is": "state", "ranks": ["x" * 10_000]}
