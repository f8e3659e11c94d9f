"""A hundred trivial runs submitted in a loop on `local`, until all have ended, against `xargs -P2` of the same script.

    python benchmarks/many_starts.py [RUNS]

It also says what a run costs: CPU time of the server, and of the run's own processes, the script's included.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from figures import report
from private_home import private_home

from azureml.core import Experiment, ScriptRunConfig, Workspace

ROUNDS = 3
TICKS = os.sysconf("SC_CLK_TCK")


def main(count: int) -> None:
    with private_home() as home, tempfile.TemporaryDirectory() as folder:
        source = Path(folder)
        (source / "train.py").write_text("print(1)\n")
        experiment = Experiment(Workspace.from_config(), "starts")
        config = ScriptRunConfig(str(source), script="train.py", compute_target="local")
        experiment.submit(config).wait_for_completion()  # starts the server and fills the caches
        server, forks = process_of(home, "runyard.server"), process_of(home, "--fork-server")
        bare, submitted = [], []
        before = cpu_s(server), cpu_s(forks)
        for _ in range(ROUNDS):
            began = time.perf_counter()
            subprocess.run(
                ["xargs", "-P2", "-n1", sys.executable, str(source / "train.py")],
                input="\n".join(map(str, range(count))),
                text=True,
                stdout=subprocess.DEVNULL,
                check=True,
            )
            bare.append(time.perf_counter() - began)
            began = time.perf_counter()
            runs = [experiment.submit(config) for _ in range(count)]
            for run in runs:
                run.wait_for_completion()
            submitted.append(time.perf_counter() - began)
            assert {run.get_status() for run in runs} == {"Completed"}
        costs = [1000 * (cpu_s(pid) - was) / count / ROUNDS for pid, was in zip((server, forks), before, strict=True)]
    reference = f"xargs -P2 of {count} scripts {min(bare):.2f} s"
    report("starts.server_cpu", costs[0], "ms")
    report("starts.run_cpu", costs[1], "ms", reference="reaper, supervisor and script of one run")
    report("starts.all_ended", min(submitted) / min(bare), "x", target="<= 3", reference=reference)


def process_of(home: Path, word: str) -> int:
    """Return the oldest process of the home whose command line has that word."""
    for path in sorted(Path("/proc").glob("[0-9]*"), key=lambda path: int(path.name)):
        try:
            command = (path / "cmdline").read_text()
            is_ours = str(home) in (path / "environ").read_text(errors="replace") + command
        except OSError:
            continue
        if is_ours and word in command:
            return int(path.name)
    raise LookupError(f"no process of {home} runs {word}")


def cpu_s(pid: int) -> float:
    """Return the CPU time of a process and of its children that have ended and were collected."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
