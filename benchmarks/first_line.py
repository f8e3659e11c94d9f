"""How long it takes from submit to a script's first line on a target, by a file that the script writes."""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path
from typing import Any

WRITE = """\
import os, sys, time
with open(sys.argv[1] + ".new", "w") as file:
    file.write(str(time.monotonic_ns()))
os.rename(sys.argv[1] + ".new", sys.argv[1])
print("first line", flush=True)
"""


class FirstLine:
    """`argv` runs the script; whoever starts it calls `wait` with the moment before, on the monotonic clock."""

    def __init__(self, folder: Path) -> None:
        self._mark = folder / "mark"
        self._source = folder / "source"
        self._source.mkdir()
        (self._source / "train.py").write_text(WRITE)
        self.argv = [sys.executable, str(self._source / "train.py"), str(self._mark)]

    def wait(self, start_ns: int) -> float:
        """Return the milliseconds until the script began."""
        deadline = time.monotonic() + 60
        while not self._mark.exists():
            assert time.monotonic() < deadline, "the script did not start"
            time.sleep(0.005)
        first_line = int(self._mark.read_text())
        self._mark.unlink()
        return (first_line - start_ns) / 1e6

    def submit(self, target: str) -> float:
        """Submit the script as a run and wait for its end."""
        from azureml.core import Environment, Experiment, ScriptRunConfig, Workspace

        environment = Environment("bench")
        environment.python.user_managed_dependencies = True
        environment.python.interpreter_path = sys.executable
        config = ScriptRunConfig(
            str(self._source),
            script="train.py",
            arguments=[str(self._mark)],
            environment=environment,
            compute_target=target,
        )
        experiment = Experiment(Workspace.from_config(), "first-line")
        start = time.monotonic_ns()
        run: Any = experiment.submit(config)
        took_ms = self.wait(start)
        run.wait_for_completion()
        return took_ms


def spread(times: list[float]) -> str:
    return f"{statistics.median(times):.0f} ms ({min(times):.0f} to {max(times):.0f})"
