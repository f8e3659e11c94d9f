"""From submit to a script's first line on a real Slurm, against `sbatch` of the same script; and what polling costs.

Needs root: Slurm's controller and three nodes run in network namespaces, as in the tests, which install it.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from figures import report
from first_line import FirstLine, spread
from private_home import private_home

from runyard.compute.base import JobHandle, JobState
from runyard.compute.slurm import SlurmBackend
from runyard.core.settings import Settings
from tests.cluster.ground import Ground, open_ground
from tests.cluster.slurm_cluster import CONTROLLER, SlurmCluster, open_slurm
from tests.cluster.team import Team

ROUNDS, WARM_UP = 34, 2
# Slurm's controller looks at new batch jobs once a second: starts are spread evenly over that second, for both alike.
# So the mean is what is compared: the wait for that look is the same in both, which medians of so few do not show.
GOLDEN = 0.6180339887
LIVE, POLLS = 300, 20
CPUS = 112  # on each of three nodes: all live jobs run at once


def main() -> None:
    with private_home() as home, tempfile.TemporaryDirectory() as folder, open_ground(
        Path(folder) / "ground"
    ) as ground:
        with open_slurm(ground, Path(folder) / "slurm", cpus=CPUS) as slurm:
            measure_submit(ground, Path(folder), home)
            measure_polling(slurm, Path(folder))


def measure_submit(ground: Ground, folder: Path, home: Path) -> None:
    team = Team(ground, home)
    team.start()
    bench = SubmitBench(ground, folder)
    bares, submits = [], []
    for turn in range(WARM_UP + ROUNDS):  # in turns, so that other work on the machine slows both alike
        wait_for_phase(turn * GOLDEN % 1)
        bares.append(bench.sbatch())
        wait_for_phase(turn * GOLDEN % 1)
        submits.append(bench.submit())
    team.stop()
    bare_ms, submit_ms = (statistics.mean(times[WARM_UP:]) for times in (bares, submits))
    print(f"bare {spread(bares[WARM_UP:])}   submit {spread(submits[WARM_UP:])}", flush=True)
    more_ms = submit_ms - bare_ms
    reference = f"bare sbatch {bare_ms:.0f} ms, submit {submit_ms:.0f} ms"
    report("slurm.first_line_more_ms", more_ms, "ms", target="<= 150", reference=reference)


class SubmitBench:
    def __init__(self, ground: Ground, folder: Path) -> None:
        from azureml.core import Workspace
        from azureml.core.compute import ComputeTarget
        from runyard import SlurmCompute

        self._ground = ground
        self._line = FirstLine(folder)
        ComputeTarget.attach(Workspace.from_config(), "slurm", SlurmCompute.attach_configuration(python=sys.executable))

    def sbatch(self) -> float:
        script = f"#!/bin/bash\nexec {' '.join(self._line.argv)}\n"
        words = self._ground.command(CONTROLLER, ["sbatch", "--parsable", "--output=/dev/null", "--chdir=/"])
        start = time.monotonic_ns()
        subprocess.run(words, input=script, text=True, check=True, capture_output=True)
        return self._line.wait(start)

    def submit(self) -> float:
        return self._line.submit("slurm")


def wait_for_phase(phase: float) -> None:
    """Wait for a moment and then until the clock's fraction of a second is `phase`."""
    at = time.monotonic() + 0.5
    time.sleep(0.5 + (phase - at) % 1)


def measure_polling(slurm: SlurmCluster, folder: Path) -> None:
    handles = [JobHandle(f"live_{number}_0000abcd", 1) for number in range(LIVE)]
    for handle in handles:
        words = [
            "sbatch",
            "--parsable",
            "--output=/dev/null",
            f"--job-name=runyard-{handle.run_id}-1",
            "--wrap=sleep 900",
        ]
        slurm.tell(*words)
    count_calls(slurm)
    os.environ["PATH"] = f"{slurm.commands}:{os.environ['PATH']}"
    backend = SlurmBackend(Settings(home=folder), {})
    wait_until_alive(backend, handles)
    calls = slurm.folder / "calls"
    before, cpu = len(calls.read_text().splitlines()), time.process_time()
    for _ in range(POLLS):
        backend._ask(handles)  # what the thread does while somebody polls
    per_poll_ms = (time.process_time() - cpu) / POLLS * 1000
    made = (len(calls.read_text().splitlines()) - before) / POLLS
    backend.close()
    slurm.end_all_jobs()
    report("slurm.calls_per_poll", made, "calls", target="<= 1", reference=f"{LIVE} live jobs")
    report("slurm.poll_cpu_ms", per_poll_ms, "ms", target="<= 50", reference=f"{LIVE} live jobs")


def count_calls(slurm: SlurmCluster) -> None:
    """Have each of Slurm's commands leave a line when it is called."""
    for command in slurm.commands.iterdir():
        first, rest = command.read_text().split("\n", 1)
        command.write_text(f"{first}\necho {command.name} >>{slurm.folder}/calls\n{rest}")


def wait_until_alive(backend: SlurmBackend, handles: list[JobHandle]) -> None:
    deadline = time.monotonic() + 180
    while any(one.state is not JobState.ALIVE for one in backend._ask(handles).values()):
        assert time.monotonic() < deadline, "not all jobs run"
        time.sleep(1)


if __name__ == "__main__":
    main()
