"""How a reaper finds the processes of its run: by the kernel's lists of children, or among all of the machine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from runyard.supervisor.processes.killing import find_below
from tests.waiting import wait_for

# Children of the main thread and of another one, a child in a session of its own, and a grandchild of each kind.
TREE = """
import os, subprocess, sys, threading
sleep = ["sleep", "600"]
def start():
    subprocess.Popen(["sh", "-c", "sleep 600 & wait"])
    subprocess.Popen(sleep, start_new_session=True)
thread = threading.Thread(target=lambda: (start(), threading.Event().wait()), daemon=True)
thread.start()
start()
print("ready", flush=True)
sys.stdin.read()
"""
STRAY = "import os; os.fork() and os._exit(0); os.setsid(); print(os.getpid(), flush=True); os.read(0, 1)"


@contextmanager
def tree() -> Iterator[subprocess.Popen[str]]:
    top = subprocess.Popen([sys.executable, "-c", TREE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert top.stdout is not None and top.stdout.readline() == "ready\n"
        yield top
    finally:
        for entry in find_below(top.pid, keeper=0, cookie="", group=None, everywhere=True):
            subprocess.run(["kill", "-9", str(entry.pid)], check=False)
        top.kill()
        top.communicate()


def test_the_kernels_lists_lead_to_the_same_processes_as_a_look_at_all() -> None:
    with tree() as top:

        def found(*, everywhere: bool, keeper: int = 0) -> set[int]:
            entries = find_below(top.pid, keeper=keeper, cookie="", group=None, everywhere=everywhere)
            return {entry.pid for entry in entries}

        wait_for(lambda: len(found(everywhere=True)) == 6, what=lambda: found(everywhere=True))
        assert found(everywhere=False) == found(everywhere=True)
        keeper = min(found(everywhere=True))
        assert found(everywhere=False, keeper=keeper) == found(everywhere=True, keeper=keeper)
        assert keeper not in found(everywhere=False, keeper=keeper)


def test_a_marked_process_outside_of_the_tree_is_found_by_a_look_at_all() -> None:
    stray = subprocess.Popen(
        [sys.executable, "-c", STRAY],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"RUNYARD_COOKIE": "of-this-test"},
    )
    assert stray.stdout is not None
    pid = int(stray.stdout.readline())
    with tree() as top:
        entries = find_below(top.pid, keeper=0, cookie="of-this-test", group=None, everywhere=True)
        assert pid in {entry.pid for entry in entries}
        below = find_below(top.pid, keeper=0, cookie="of-this-test", group=None, everywhere=False)
        assert pid not in {entry.pid for entry in below} and below
    stray.communicate("\n")
