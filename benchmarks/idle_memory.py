"""What the idle private server and its fork server hold in memory: fresh, and after a run."""

from __future__ import annotations

import re
import tempfile
import time
from pathlib import Path

from figures import report
from private_home import pids_of, private_home

TARGET = "<= 110"


def main() -> None:
    from azureml.core import Experiment, ScriptRunConfig, Workspace

    with private_home() as home, tempfile.TemporaryDirectory() as folder:
        workspace = Workspace.from_config()
        list(Experiment.list(workspace))
        measure("fresh", str(home))

        (Path(folder) / "train.py").write_text("print('hello')\n")
        config = ScriptRunConfig(folder, script="train.py", compute_target="local")
        Experiment(workspace, "memory").submit(config).wait_for_completion()
        measure("after_a_run", str(home))


def measure(when: str, home: str) -> None:
    pids = settled(home)
    rss = [memory_mb(pid, "Rss") for pid in pids]
    pss = [memory_mb(pid, "Pss") for pid in pids]
    for pid, one in zip(pids, rss):
        print(f"{when}: pid {pid} {one:6.1f} MB  {command(pid)}")
    counted = f"{len(pids)} processes"
    report(f"idle.{when}.rss", sum(rss), "MB", target=TARGET, reference=counted)
    report(f"idle.{when}.pss", sum(pss), "MB", reference=counted)


def settled(home: str) -> list[int]:
    """Return the home's processes once the same two or more have been there for two seconds."""
    deadline = time.monotonic() + 30
    seen, since = pids_of(home), time.monotonic()
    while time.monotonic() < deadline and not (len(seen) > 1 and time.monotonic() - since > 2):
        time.sleep(0.1)
        now = pids_of(home)
        if now != seen:
            seen, since = now, time.monotonic()
    return seen


def memory_mb(pid: int, field: str) -> float:
    match = re.search(rf"^{field}: +(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    assert match is not None
    return int(match[1]) * 1024 / 1e6


def command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:90]


if __name__ == "__main__":
    main()
