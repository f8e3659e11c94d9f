"""A home, a stand-in server and runs under a real supervisor, for the tests of this folder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, TypeVar

from runyard.core.config.paths import run_folder
from runyard.core.formats.plain import to_plain
from runyard.core.machine.facts import supervisor_command
from runyard.core.specs import EnvironmentSpec, JobSpec, RunSpec
from runyard.supervisor.proc import descendants, has_cookie, list_processes, read_process
from runyard.testing.fake_server import FakeRun, FakeServer
from tests.waiting import wait_for

T = TypeVar("T")


def share_cache(home: Path) -> None:
    """Let all homes of a test session have one cache: looking at an interpreter takes longer than most runs here."""
    shared = home.parent / "shared-cache"
    shared.mkdir(mode=0o700, exist_ok=True)
    (home / "cache").symlink_to(shared)


class Job:
    """One submitted run."""

    def __init__(self, site: Site, run_id: str, folder: Path, cookie: str) -> None:
        self.site = site
        self.id = run_id
        self.folder = folder
        self.cookie = cookie
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def run(self) -> FakeRun:
        return self.site.server.runs[self.id]

    def start(self, mode: str = "--run") -> Job:
        command = [*supervisor_command(), mode, str(self.folder)]
        self.process = subprocess.Popen(command, env=self.site.variables, stdin=subprocess.DEVNULL)
        return self

    def wait(self, *, timeout_s: float = 60.0) -> FakeRun:
        """Wait until the server knows the end and the reaper has left."""
        wait_for(lambda: self.run.is_over, timeout_s=timeout_s)
        if self.process is not None:
            self.process.wait(timeout_s)
        return self.run

    def wait_for_file(self, name: str) -> Path:
        wait_for((self.folder / name).exists)
        return self.folder / name

    def wait_for_text(self, name: str) -> str:
        """Return the content of a file in the work folder once it has some."""
        path = self.folder / "work" / name
        wait_for(lambda: path.exists() and path.read_text())
        return path.read_text()

    def reaper_pid(self) -> int:
        return int(json.loads(self.wait_for_file("claim").read_text())["pid"])

    def supervisor_pid(self) -> int:
        """Return the reaper's child that is the supervisor."""
        return int(wait_for(self.find_supervisor))

    def rank_pid(self) -> int:
        return int(json.loads(self.wait_for_file("ranks.json").read_text())[0]["pid"])

    def living(self) -> list[int]:
        """Return processes that carry the run's cookie."""
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        return [pid for pid in pids if has_cookie(pid, self.cookie) and lives(pid)]

    def log(self, name: str = "user_logs/std_log.txt") -> bytes:
        return bytes(self.run.logs[name])

    def has_left(self) -> bool:
        return self.process is not None and self.process.poll() is not None

    def find_supervisor(self) -> int:
        """Return the supervisor's pid, 0 when there is none now."""
        ranks = {entry["pid"] for entry in self._ranks()}
        reaper = self.reaper_pid()
        for name in os.listdir("/proc"):
            entry = read_process(int(name)) if name.isdigit() else None
            if entry and entry.ppid == reaper and entry.pid not in ranks and entry.state not in "ZX":
                return entry.pid if b"--run" in command_line(entry.pid) else 0
        return 0

    def _ranks(self) -> list[dict[str, Any]]:
        path = self.folder / "ranks.json"
        return list(json.loads(path.read_text())) if path.exists() else []


class Site:
    """`keep`: run folders stay, so that a test can look into them."""

    def __init__(self, home: Path, *, keep: bool = True) -> None:
        self.home = home
        share_cache(home)
        self.server = FakeServer(str(home / "s.sock")).start()
        self.variables = {"PATH": os.environ["PATH"], "RUNYARD_HOME": str(home)}
        if keep:
            self.variables["RUNYARD_KEEP_RUN_FOLDERS"] = "1"
        self._jobs: list[Job] = []

    def close(self) -> None:
        """Leave nothing behind, even after a failed test."""
        for job in self._jobs:
            if job.process is not None and job.process.poll() is None:
                kill_all(job)
                job.process.wait()
        self.server.stop()

    def prepare(self, script: str = "", **options: Any) -> Job:
        """Write a job; `options` are fields of RunSpec or JobSpec; `files` lie beside the script."""
        run_id = f"exp_{len(self._jobs) + 1}"
        job_fields = {name: options.pop(name) for name in list(options) if name in JobSpec.__dataclass_fields__}
        self.server.add_run(run_id)
        root = self.server.add_snapshot({"train.py": script.encode(), **options.pop("files", {})})
        environment = options.pop("environment", EnvironmentSpec(interpreter=sys.executable))
        spec = RunSpec(script=None if "command" in options else "train.py", environment=environment, **options)
        cookie = job_fields.setdefault("cookie", os.urandom(16).hex())
        fields: dict[str, Any] = {
            "run_id": run_id,
            "attempt": 1,
            "experiment": "exp",
            "workspace": "default",
            "spec": spec,
            "snapshot_root": root,
            "server": {"kind": "unix", "path": self.server.path},
            "token": "a-run-token",
            "home": str(self.home),
            "submitter": {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")},
        }
        job = JobSpec(**{**fields, **job_fields})
        folder = run_folder(self.home, run_id, 1)
        folder.mkdir(parents=True, mode=0o700)
        (folder / "job.json").write_text(json.dumps(to_plain(job)))
        self._jobs.append(Job(self, run_id, folder, cookie))
        return self._jobs[-1]

    def start(self, script: str = "", **options: Any) -> Job:
        return self.prepare(script, **options).start()

    def add_node(self, first: Job, rank: int, **changes: Any) -> Job:
        """Write the job of another node of the same run, for a supervisor of its own."""
        plain = json.loads((first.folder / "job.json").read_text())
        cookie = os.urandom(16).hex()
        folder = first.folder.with_name(f"{first.folder.name}-{rank}")
        folder.mkdir(mode=0o700)
        (folder / "job.json").write_text(json.dumps({**plain, "node_rank": rank, "cookie": cookie, **changes}))
        self._jobs.append(Job(self, first.id, folder, cookie))
        return self._jobs[-1]


def kill_all(job: Job) -> None:
    """Kill reaper, supervisor and program at once."""
    assert job.process is not None
    below = [entry.pid for entry in descendants(list_processes(), job.process.pid)]
    for pid in [job.process.pid, *below, *job.living()]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def lives(pid: int) -> bool:
    entry = read_process(pid)
    return entry is not None and entry.state not in "ZX"


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
