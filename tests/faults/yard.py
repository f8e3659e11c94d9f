"""A private server of its own whose processes can be found and killed, for the fault tests and `make soak`."""

from __future__ import annotations

import glob
import json
import os
import random
import signal
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from azureml.core import Experiment, Run, ScriptRunConfig, Workspace
from runyard.client.private_server import connect
from runyard.core.config.paths import runs_folder, server_folder
from runyard.core.config.settings import read_settings
from tests.conftest import kill_all

LEDGER = """
import mmap, os, struct, sys
with open(sys.argv[1], "wb") as file:
    file.write(bytes(8))
ledger = mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 8)

def returned(count):
    struct.pack_into("<q", ledger, 0, count)
"""


class Yard:
    """One home, its server, and what runs in it."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.home = Path(os.environ["RUNYARD_HOME"])
        self.random = random.Random(seed)
        self.kills = {"server": 0, "supervisor": 0, "rank": 0}
        self.workspace = Workspace.from_config()

    def project(self, name: str, script: str) -> Path:
        project = self.folder / name
        project.mkdir(exist_ok=True)
        (project / "train.py").write_text(textwrap.dedent(script))
        return project

    def submit(self, project: Path, *arguments: Any, experiment: str = "faults") -> Run:
        source = ScriptRunConfig(source_directory=str(project), script="train.py", arguments=list(arguments))
        return Experiment(self.workspace, experiment).submit(source)

    def server_pid(self) -> int | None:
        try:
            return int(json.loads((server_folder(self.home) / "lock").read_text())["pid"])
        except (OSError, ValueError, KeyError):
            return None

    def reaper_pids(self) -> list[int]:
        return reapers_in(self.home)

    def supervisor_pids(self) -> list[int]:
        return supervisors_in(self.home)

    def rank_pids(self) -> list[int]:
        reapers = set(self.reaper_pids())
        return [pid for pid, parent, line in processes() if parent in reapers and not is_ours(line)]

    def kill(self, what: str) -> bool:
        """Kill -9 one process of that kind, if there is one now."""
        if what == "server":
            found = [pid for pid in [self.server_pid()] if pid and is_alive(pid)]
        else:
            found = self.supervisor_pids() if what == "supervisor" else self.rank_pids()
        if not found:
            return False
        try:
            os.kill(self.random.choice(found), signal.SIGKILL)
        except ProcessLookupError:
            return False
        self.kills[what] += 1
        return True

    def kill_at_random(self, plan: dict[str, int], *, gap_s: tuple[float, float], going: Callable[[], bool]) -> None:
        """Kill until the plan is done or `going` says there is nothing left to disturb."""
        waiting = [what for what, count in plan.items() for _ in range(count)]
        self.random.shuffle(waiting)
        while waiting and going():
            time.sleep(self.random.uniform(*gap_s))
            if self.kill(waiting[-1]):
                waiting.pop()
            else:
                self.random.shuffle(waiting)


@contextmanager
def open_yard(folder: Path, *, seed: int) -> Iterator[Yard]:
    """Set RUNYARD_HOME to a new home below `folder`; afterwards nothing of it is left, runs that still go included."""
    saved = dict(os.environ)
    os.environ.update(RUNYARD_HOME=str(folder / "home"), RUNYARD_GRACE="2")
    try:
        yield Yard(folder, seed)
        connect(read_settings()).server.stop()
    finally:
        kill_all(folder / "home")
        os.environ.clear()
        os.environ.update(saved)


def reapers_in(home: Path) -> list[int]:
    """Return the live reapers of the runs of a home: the user's, the server's or a node's."""
    pids = []
    for claim in glob.glob(f"{runs_folder(home)}/*/*/claim"):  # pathlib's stumbles over a folder that goes
        try:
            pids.append(int(json.loads(Path(claim).read_text())["pid"]))
        except (OSError, ValueError, KeyError):
            continue
    return [pid for pid in pids if is_alive(pid)]


def supervisors_in(home: Path) -> list[int]:
    reapers = set(reapers_in(home))
    return [pid for pid, parent, line in processes() if parent in reapers and is_ours(line)]


def is_ours(command_line: str) -> bool:
    return "runyard/supervisor/__main__.py" in command_line or "runyard.supervisor" in command_line


def is_alive(pid: int) -> bool:
    """A zombie is dead."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def processes() -> Iterator[tuple[int, int, str]]:
    """Yield (pid, parent, command line) of all live processes."""
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            stat = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
            line = Path(f"/proc/{entry}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if stat[0] not in "ZX":
            yield int(entry), int(stat[1]), line


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
