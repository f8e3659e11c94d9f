"""From submit to a script's first line on a real Slurm, against `sbatch` of the same script; and what polling costs.

Needs root: Slurm's controller and three nodes run in network namespaces, as in the tests, which install it.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from figures import report
from first_line import FirstLine, spread
from private_home import private_home

from runyard.compute.base import JobHandle, JobState
from runyard.compute.slurm.backend import SlurmBackend
from runyard.core.config.settings import Settings
from tests.cluster.ground import Ground, open_ground
from tests.cluster.slurm_cluster import CONTROLLER, SlurmCluster, open_slurm
from tests.cluster.team import Team

ROUNDS, WARM_UP = 34, 2
# Slurm's controller looks at new batch jobs once a second. Starts are spread evenly over that second, for both alike;
# and since that wait is ten times what is to be measured, it is read from the controller's log and taken off both.
GOLDEN = 0.6180339887
JOB = re.compile(r"\[(\S+)\] .*?(submit_batch_job:|Started|Allocate) JobId=(\d+)")
LIVE, POLLS = 300, 20
CPUS = 112  # on each of three nodes: all live jobs run at once


def main() -> None:
    with private_home() as home, tempfile.TemporaryDirectory() as folder, open_ground(
        Path(folder) / "ground"
    ) as ground:
        with open_slurm(ground, Path(folder) / "slurm", cpus=CPUS) as slurm:
            measure_submit(ground, slurm, Path(folder), home)
            measure_polling(slurm, Path(folder))


def measure_submit(ground: Ground, slurm: SlurmCluster, folder: Path, home: Path) -> None:
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
    waits = read_waits(slurm)
    assert len(waits) == len(bares) + len(submits), "each job was accepted and placed once"
    own_bares = [took - wait for took, wait in zip(bares, waits[::2])][WARM_UP:]
    own_submits = [took - wait for took, wait in zip(submits, waits[1::2])][WARM_UP:]
    print(f"with the controller's wait: bare {spread(bares[WARM_UP:])}   submit {spread(submits[WARM_UP:])}")
    print(f"without it: bare {spread(own_bares)}   submit {spread(own_submits)}", flush=True)
    more_ms = statistics.mean(own_submits) - statistics.mean(own_bares)
    whole_ms = statistics.mean(submits[WARM_UP:]) - statistics.mean(bares[WARM_UP:])
    reference = f"bare sbatch {statistics.mean(own_bares):.0f} ms; means with the controller's wait: {whole_ms:+.0f} ms"
    report("slurm.first_line_more_ms", more_ms, "ms", target="<= 150", reference=reference)


def read_waits(slurm: SlurmCluster) -> list[float]:
    """Return the milliseconds between accepting a job and placing it, of all jobs in their order."""
    accepted: dict[str, datetime] = {}
    waits: list[float] = []
    for found in map(JOB.match, (slurm.folder / "slurmctld.log").read_text(errors="replace").splitlines()):
        if found is not None:
            at, job = datetime.fromisoformat(found[1]), found[3]
            if job in accepted:
                waits.append((at - accepted[job]).total_seconds() * 1000)
            accepted.setdefault(job, at)
    return waits


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
