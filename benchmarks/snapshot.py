"""A second snapshot of 10,000 files (300 MB) with one changed, process and server warm, against `git status`.

The whole way: walk, stat cache, requests to a real private server, its disk. Git facts are measured apart. The first
snapshot, one in a cold process, and the restore are shown as well.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Callable

from figures import report
from private_home import private_home
from source_tree import write_modules

FOLDERS, FILES, FILE_BYTES = 100, 100, 30_000
ROUNDS = 15
COLD = """\
import sys, time
from pathlib import Path
from runyard.client.private_server import connect
from runyard.core.config.settings import read_settings
from runyard.snapshots.take import take_snapshot
settings = read_settings()
client = connect(settings)
start = time.perf_counter()
take_snapshot(sys.argv[1], client.content, home=settings.home)
print((time.perf_counter() - start) * 1e3)
"""


def main() -> None:
    from runyard.client.private_server import connect
    from runyard.core.config.settings import read_settings
    from runyard.snapshots.git import git_facts
    from runyard.snapshots.restore import restore
    from runyard.snapshots.take import take_snapshot

    with private_home(), tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "source"
        make_tree(source)
        settings = read_settings()
        content = connect(settings).content

        def snapshot() -> float:
            return timed(lambda: take_snapshot(source, content, home=settings.home))

        first = snapshot()
        second = snapshot()  # files that were just written are read once more
        snapshots, statuses, facts = [], [], []
        for number in range(ROUNDS):
            # In turns, each after a pause, so that caches and other work on the machine treat all alike.
            change(source, number)
            snapshots.append(after_pause(snapshot))
            statuses.append(after_pause(lambda: timed(lambda: git(source, "status"))))
            facts.append(after_pause(lambda: timed(lambda: git_facts(source))))
        change(source, ROUNDS)
        cold = float(subprocess.run([sys.executable, "-c", COLD, source], check=True, capture_output=True).stdout)
        root = take_snapshot(source, content, home=settings.home).root
        back = timed(lambda: restore(root, content, Path(folder) / "back"))

    status = statistics.median(statuses)
    reference = f"git status {status:.1f} ms"
    print(f"snapshot    {spread(snapshots)}\ngit status  {spread(statuses)}\ngit facts   {spread(facts)}")
    report("snapshot.first", first, "ms")
    report("snapshot.again", second, "ms")
    report("snapshot.cold_process", cold, "ms", reference=reference)
    report("snapshot.restore", back, "ms")
    report("snapshot.one_changed_ms", statistics.median(snapshots), "ms", reference=reference)
    report("snapshot.one_changed", statistics.median(snapshots) / status, "x", target="<= 3", reference=reference)
    report("snapshot.git_facts", statistics.median(facts) / status, "x", target="<= 2", reference=reference)


def make_tree(source: Path) -> None:
    """Write the files and commit them."""
    write_modules(source, folders=FOLDERS, files=FILES, file_bytes=FILE_BYTES)
    git(source, "init", "-q")
    git(source, "remote", "add", "origin", "https://example.com/team/project.git")
    git(source, "add", ".")
    git(source, "commit", "-q", "-m", "all of it")
    os.sync()


def change(source: Path, number: int) -> None:
    path = source / "package_50" / "module_50.py"
    path.write_text(f"changed in round {number}\n" * 1000)


def after_pause(measure: Callable[[], float]) -> float:
    time.sleep(0.2)  # a person edits, then submits
    return measure()


def git(source: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]
    command = ["git", *identity, "-c", "gc.auto=0", "-c", "maintenance.auto=false", *arguments]
    subprocess.run(command, cwd=source, check=True, stdout=subprocess.DEVNULL)


def timed(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return (time.perf_counter() - start) * 1e3


def spread(values: list[float]) -> str:
    return (
        f"min {min(values):.1f}  median {statistics.median(values):.1f}  max {max(values):.1f} ms ({len(values)} times)"
    )


if __name__ == "__main__":
    main()
