"""From submit to the end of the first collective of four processes, against `mpirun` and `torchrun` started by hand.

What a submit costs for one process, against that process started by hand, is measured too and added to the bare time.
Needs mpi4py, Open MPI and torch; they are installed once per machine, where the tests keep theirs.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from figures import report
from private_home import private_home

from tests.e2e.frameworks import OPEN_MPI_5, TORCH, interpreter_with

ROUNDS = 5
WARM_UP = 1
MOMENT_S = 0.7  # what the run before left to do is done
MPI = "from mpi4py import MPI\nassert MPI.COMM_WORLD.allreduce(1) == 4\nrank = MPI.COMM_WORLD.rank\n"
GLOO = """\
import torch
from torch import distributed
distributed.init_process_group("gloo")
one = torch.ones(1)
distributed.all_reduce(one)
assert int(one) == 4
rank = distributed.get_rank()
"""
WRITE = """\
import os, sys, time
if rank == 0:
    with open(sys.argv[1] + ".new", "w") as file:
        file.write(str(time.monotonic_ns()))
    os.rename(sys.argv[1] + ".new", sys.argv[1])
"""
LEAVE = "distributed.barrier(); os._exit(0)\n"
SCRIPTS = {"single.py": "rank = 0\n" + WRITE, "mpi.py": MPI + WRITE, "gloo.py": GLOO + WRITE + LEAVE}


@dataclass(frozen=True)
class Case:
    """One script, started by hand with `command` and submitted to `nodes` nodes (0: one process)."""

    name: str
    script: str
    command: list[str]
    interpreter: str
    nodes: int
    target: str = ""


def main() -> None:
    mpi, torch = interpreter_with(OPEN_MPI_5), interpreter_with(TORCH)
    single = Case("single", "single.py", [mpi], mpi, 0)
    cases = [
        Case("mpirun", "mpi.py", mpirun(mpi), mpi, 1, "<= 1.15"),
        Case("torchrun", "gloo.py", torchrun(torch), torch, 1, "<= 1.15"),
        Case("mpirun_to_two_nodes", "mpi.py", mpirun(mpi), mpi, 2),
    ]
    with private_home(), tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        times = {case.name: bench.compare(case) for case in [single, *cases]}
    bare_ms, submit_ms = times[single.name]
    start_ms = submit_ms - bare_ms
    report("distributed.single_start_ms", start_ms, "ms", reference=f"bare python {bare_ms:.0f} ms")
    for case in cases:
        bare_ms, submit_ms = times[case.name]
        reference = f"bare {bare_ms:.0f} ms and a run's start {start_ms:.0f} ms"
        report(f"distributed.{case.name}_ms", submit_ms, "ms", reference=reference)
        ratio = submit_ms / (bare_ms + start_ms)
        report(f"distributed.{case.name}", ratio, "x", target=case.target, reference=reference)


def mpirun(interpreter: str) -> list[str]:
    program = os.path.join(os.path.dirname(interpreter), "mpirun")
    return [program, "-n", "4", "--oversubscribe", "--bind-to", "none", interpreter]


def torchrun(interpreter: str) -> list[str]:
    return [interpreter, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4"]


class Bench:
    def __init__(self, folder: Path) -> None:
        from azureml.core import Experiment, Workspace

        self._mark = folder / "mark"
        self._source = folder / "source"
        self._source.mkdir()
        for name, text in SCRIPTS.items():
            (self._source / name).write_text(text)
        self._experiment = Experiment(Workspace.from_config(), "distributed")

    def compare(self, case: Case) -> tuple[float, float]:
        """Return the medians of both in ms, measured in turns, so that other work on the machine slows both alike."""
        bares, submits = [], []
        for _ in range(WARM_UP + ROUNDS):
            time.sleep(MOMENT_S)
            bares.append(self._start(case))
            time.sleep(MOMENT_S)
            submits.append(self._submit(case))
        bares, submits = bares[WARM_UP:], submits[WARM_UP:]
        print(f"{case.name:20} bare {spread(bares)}   submit {spread(submits)}", flush=True)
        return statistics.median(bares), statistics.median(submits)

    def _start(self, case: Case) -> float:
        environ = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        start = time.monotonic_ns()
        argv = [*case.command, case.script, str(self._mark)]
        subprocess.run(argv, cwd=self._source, env=environ, check=True, stderr=subprocess.DEVNULL)
        return self._read(start)

    def _submit(self, case: Case) -> float:
        from azureml.core import Environment, ScriptRunConfig
        from azureml.core.runconfig import MpiConfiguration, PyTorchConfiguration

        environment = Environment("bench")
        environment.python.user_managed_dependencies = True
        environment.python.interpreter_path = case.interpreter
        job: object = None
        if case.nodes:
            is_mpi = case.script == "mpi.py"
            job = (
                MpiConfiguration(4 // case.nodes, case.nodes) if is_mpi else PyTorchConfiguration("Gloo", 4, case.nodes)
            )
        config = ScriptRunConfig(
            str(self._source),
            script=case.script,
            arguments=[str(self._mark)],
            environment=environment,
            compute_target="local",
            distributed_job_config=job,
        )
        start = time.monotonic_ns()
        self._experiment.submit(config).wait_for_completion()
        return self._read(start)

    def _read(self, start: int) -> float:
        at = int(self._mark.read_text())
        self._mark.unlink()
        return (at - start) / 1e6


def spread(values: list[float]) -> str:
    return f"min {min(values):.0f} median {statistics.median(values):.0f} max {max(values):.0f} ms"


if __name__ == "__main__":
    main()
