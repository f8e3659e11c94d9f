"""Three hundred submits at once, from thirty threads of one client to a pool with a single node.

    python benchmarks/many_submits.py [SUBMITS]

The reference is one submit after another, in the same server before it. Every submit has to be a run of its own.
"""

from __future__ import annotations

import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from figures import report
from private_home import private_home

from azureml.core import Experiment, ScriptRunConfig, Workspace
from azureml.core.compute import AmlCompute, ComputeTarget

THREADS = 30
ALONE = 30


def main(submits: int) -> None:
    with private_home(), tempfile.TemporaryDirectory() as source:
        (Path(source) / "train.py").write_text("import time; time.sleep(600)\n")
        workspace = Workspace.from_config()
        ComputeTarget.create(workspace, "few", AmlCompute.provisioning_configuration(max_nodes=1))
        experiment = Experiment(workspace, "many")
        config = ScriptRunConfig(source, script="train.py", compute_target="few")
        ids: set[str] = set()

        def submit(_: int) -> float:
            began = time.perf_counter()
            run = experiment.submit(config)
            ids.add(run.id)
            return time.perf_counter() - began

        submit(0)  # starts the server and fills the caches
        alone = sum(map(submit, range(ALONE))) / ALONE
        began = time.perf_counter()
        with ThreadPoolExecutor(THREADS) as threads:
            times = sorted(threads.map(submit, range(submits)))
        wall_s = time.perf_counter() - began
        assert len(ids) == submits + ALONE + 1, "a submit was lost or doubled"
        reference = f"one after another {alone * 1000:.1f} ms each"
        report("submits.at_once", wall_s / submits / alone, "x", reference=reference)
        report("submits.p99", times[int(len(times) * 0.99)] * 1000, "ms", reference=f"{submits} in {wall_s:.1f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
