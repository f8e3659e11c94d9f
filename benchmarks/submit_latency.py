"""From `experiment.submit()` to the script's first line, server and SDK warm, against a bare `python train.py`.

Between two submits is a moment, in which what the run before left to do is done; without it is shown as well.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from figures import report
from private_home import private_home

ROUNDS = 20
WARM_UP = 3
MOMENT_S = 0.7
SCRIPT = """\
import time; first_line = time.monotonic_ns()
import sys
with open(sys.argv[1], "w") as file:
    file.write(str(first_line))
"""


def main() -> None:
    from azureml.core import Experiment, ScriptRunConfig, Workspace

    with private_home(), tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "source"
        source.mkdir()
        (source / "train.py").write_text(SCRIPT)
        mark = Path(folder) / "first_line"
        experiment = Experiment(Workspace.from_config(), "latency")

        def submitted() -> float:
            config = ScriptRunConfig(str(source), script="train.py", arguments=[str(mark)], compute_target="local")
            start = time.monotonic_ns()
            run = experiment.submit(config)
            returned = time.monotonic_ns()
            run.wait_for_completion()
            returns.append((returned - start) / 1e6)
            return (int(mark.read_text()) - start) / 1e6

        def bare() -> float:
            start = time.monotonic_ns()
            subprocess.run([sys.executable, "train.py", str(mark)], cwd=source, check=True)
            return (int(mark.read_text()) - start) / 1e6

        returns: list[float] = []
        bares, submits = [], []
        for _ in range(WARM_UP + ROUNDS):
            # In turns, so that other work on the machine slows both alike.
            time.sleep(MOMENT_S)
            bares.append(bare())
            submits.append(submitted())
        back_to_back = [submitted() for _ in range(ROUNDS)]

    bares, submits, returns = bares[WARM_UP:], submits[WARM_UP:], returns[WARM_UP : WARM_UP + ROUNDS]
    bare_ms, submit_ms = statistics.median(bares), statistics.median(submits)
    reference = f"bare python {bare_ms:.1f} ms"
    print(f"bare          {spread(bares)}\nsubmit        {spread(submits)}\nback to back  {spread(back_to_back)}")
    report("submit.returns", statistics.median(returns), "ms")
    report("submit.back_to_back", statistics.median(back_to_back), "ms", reference=reference)
    report("submit.first_line_ms", submit_ms, "ms", reference=reference)
    report("submit.first_line", submit_ms / bare_ms, "x", target="<= 5", reference=reference)


def spread(values: list[float]) -> str:
    return (
        f"min {min(values):.1f}  median {statistics.median(values):.1f}  max {max(values):.1f} ms ({len(values)} times)"
    )


if __name__ == "__main__":
    main()
