"""R12: programs that try to stay. Nothing of them is left after end or cancel, with and without a cgroup."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from runyard.supervisor.proc import list_processes
from runyard.supervisor.processes import killing
from tests.supervisor.supervised import Job, Site
from tests.supervisor.test_stopping import ask
from tests.waiting import wait_for

DAEMON = """
import os, sys, time, signal
def daemon(work):
    if os.fork(): return
    os.setsid()
    if os.fork(): os._exit(0)
    work()
    os._exit(0)
def stay(mark=sys.argv[1]):
    for number in (1, 2, 3, 13, 15):
        signal.signal(number, signal.SIG_IGN)
    os.execve('/bin/sh', ['/bin/sh', '-c', ': ' + mark + '; while :; do sleep 300; done'], dict(os.environ))
"""

# Each starts processes that should outlive it, then ends or waits; all carry the mark in their command line.
SCRIPTS = {
    "child": "if not os.fork(): stay()\n",
    "daemon": "daemon(stay)\n",
    "many daemons": "for _ in range(10): daemon(stay)\n",
    "daemon without variables": "daemon(lambda: (os.environ.clear(), os.environ.update(PATH='/bin'), stay()))\n",
    "daemon of a daemon": "daemon(lambda: (daemon(stay), time.sleep(0.05), stay()))\n",
    "new session": "if not os.fork(): os.setsid(); stay()\n",
    "new group": "if not os.fork(): os.setpgid(0, 0); stay()\n",
    "nohup": "os.system('nohup sh -c \": ' + sys.argv[1] + '; while :; do sleep 300; done\" >/dev/null 2>&1 &')\n",
    "stopped": "if not os.fork(): daemon(lambda: os.kill(os.getpid(), 19)); stay()\n",
    "closes all": "daemon(lambda: (os.closerange(0, 64), stay()))\n",
    "light fork bomb": (
        "def bomb(depth):\n"
        "    for _ in range(2):\n"
        "        if not os.fork():\n"
        "            os.setsid()\n"
        "            if depth: bomb(depth - 1)\n"
        "            stay()\n"
        "bomb(3)\n"
    ),
    "renews itself": (
        "def renew():\n"
        "    end = time.monotonic() + 20\n"
        "    while time.monotonic() < end:\n"
        "        if os.fork(): os._exit(0)\n"
        "        time.sleep(0.005)\n"
        "daemon(renew)\n"
    ),
    "renews itself fast": (
        "def renew():\n"
        "    end = time.monotonic() + 20\n"
        "    while time.monotonic() < end:\n"
        "        if os.fork(): os._exit(0)\n"
        "daemon(renew)\n"
    ),
    "other folder": "daemon(lambda: (os.chdir('/'), stay()))\n",
}
BEGIN = "GROUP = os.path.join(os.environ['RUNYARD_RUN_FOLDER'], 'cgroup.json')\n"
GATHERED = "while not os.path.exists(GROUP): time.sleep(0.01)\n"
ALONE = "time.sleep(0.1)\n"
STARTED = "open('started', 'w').write('x')\n"
STAY = "time.sleep(600)\n"


def survivors(mark: str) -> list[int]:
    found = []
    for entry in list_processes():
        try:
            command = Path(f"/proc/{entry.pid}/cmdline").read_bytes()
        except OSError:
            continue
        if mark.encode() in command and entry.state not in "ZX":
            found.append(entry.pid)
    return found


def run_hostile(site: Site, names: list[str], *, canceled: bool, with_group: bool) -> None:
    jobs: list[tuple[str, Job]] = []
    for name in names:
        mark = f"mark{os.urandom(6).hex()}"
        end = (GATHERED if with_group else ALONE) + STARTED + (STAY if canceled else "")
        script = DAEMON + BEGIN + SCRIPTS[name] + end
        # The group is named after the cookie: there is no folder to make one with a slash in.
        cookie = os.urandom(16).hex() if with_group else f"no/{os.urandom(14).hex()}"
        jobs.append((mark, site.start(script, arguments=[mark], grace_s=0.3, cookie=cookie)))
    for _, job in jobs:
        job.wait_for_text("started")
        if canceled:
            ask(job)
    for mark, job in jobs:
        run = job.wait()
        assert run.status == ("Canceled" if canceled else "Completed"), (job.id, run.error)
        assert survivors(mark) == [] and job.living() == []
        assert (job.folder / "cgroup.json").exists() == with_group


@pytest.mark.parametrize("canceled", [False, True], ids=["ends", "canceled"])
def test_nothing_is_left_of_a_hostile_program(site: Site, canceled: bool) -> None:
    with_group = killing.make_group(f"runyard-test-{os.getpid()}") is not None
    if with_group:
        os.rmdir(os.path.join(str(killing.own_group_folder()), f"runyard-test-{os.getpid()}"))

    run_hostile(site, list(SCRIPTS), canceled=canceled, with_group=with_group)


@pytest.mark.parametrize("canceled", [False, True], ids=["ends", "canceled"])
def test_nothing_is_left_where_no_cgroup_can_be_made(site: Site, canceled: bool) -> None:
    run_hostile(site, list(SCRIPTS), canceled=canceled, with_group=False)


def test_the_control_bites_a_plain_parent_leaves_the_daemon_behind(tmp_path: Path) -> None:
    mark = f"mark{os.urandom(6).hex()}"
    (tmp_path / "train.py").write_text(DAEMON + "daemon(stay)\n")
    subprocess.run([sys.executable, "train.py", mark], cwd=tmp_path, check=True)

    left = wait_for(lambda: survivors(mark))
    for pid in left:
        os.killpg(os.getpgid(pid), 9)
    assert len(left) >= 1
