"""The step time of a small training loop on a GPU, inside a run and started bare; which devices the run sees.

    python benchmarks/gpu_step.py [PYTHON_WITH_TORCH]

Needs an NVIDIA GPU and a Python with PyTorch, which the run uses as its interpreter. The loop inside the run
logs every step, the bare one logs nothing; pairs take turns, and each process reports the median of its own steps.
Without a GPU there is nothing to measure and the figure says so.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from figures import report
from private_home import private_home

PAIRS = 7
STEPS = 600
SCRIPT = """\
import json, os, statistics, sys, time
import torch

out, steps = sys.argv[1], int(sys.argv[2])
log = None
if len(sys.argv) > 3:
    from azureml.core import Run
    log = Run.get_context().log
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(2048, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x, y = torch.randn(4096, 2048, device="cuda"), torch.randint(0, 10, (4096,), device="cuda")
times = []
for step in range(steps):
    start = time.perf_counter()
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    value = loss.item()
    if log is not None:
        log("loss", value)
    times.append(time.perf_counter() - start)
with open(out, "w") as file:
    json.dump({"step_ms": statistics.median(times[steps // 4:]) * 1000, "loss": value,
               "devices": torch.cuda.device_count(), "visible": os.environ.get("CUDA_VISIBLE_DEVICES")}, file)
"""


def main() -> None:
    python = sys.argv[1] if len(sys.argv) > 1 else sys.executable
    if shutil.which("nvidia-smi") is None:
        report("gpu.devices", 0, "devices", reference="no nvidia-smi on this machine")
        return
    from azureml.core import Environment, Experiment, ScriptRunConfig, Workspace

    with private_home(), tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "source", Path(folder) / "out.json"
        source.mkdir()
        (source / "train.py").write_text(SCRIPT)
        experiment = Experiment(Workspace.from_config(), "gpu-step")
        environment = Environment("torch")
        environment.python.user_managed_dependencies = True
        environment.python.interpreter_path = python

        def bare() -> dict[str, object]:
            subprocess.run([python, "train.py", str(out), str(STEPS)], cwd=source, check=True)
            return dict(json.loads(out.read_text()))

        def inside() -> dict[str, object]:
            config = ScriptRunConfig(
                str(source),
                script="train.py",
                arguments=[str(out), STEPS, "--log"],
                compute_target="local",
                environment=environment,
            )
            run = experiment.submit(config)
            run.wait_for_completion()
            assert len(run.get_metrics()["loss"]) == STEPS
            runs.append(run)
            return dict(json.loads(out.read_text()))

        runs: list[object] = []
        bare()
        pairs = [(bare(), inside()) for _ in range(PAIRS)]
        print("warnings:", runs[-1].get_details().get("warnings"))  # type: ignore[attr-defined]  # a Run
        command = [sys.executable, "-m", "runyard.cli", "runs", "metrics", runs[-1].id, "--system"]  # type: ignore[attr-defined]  # a Run
        print(subprocess.run(command, capture_output=True, text=True, check=False).stdout)

    ratios = [float(str(ours["step_ms"])) / float(str(theirs["step_ms"])) for theirs, ours in pairs]
    bare_ms = statistics.median(float(str(theirs["step_ms"])) for theirs, _ in pairs)
    last = pairs[-1][1]
    print("ratios:", " ".join(f"{ratio:.4f}" for ratio in ratios), "| visible:", last["visible"])
    losses = [float(str(one["loss"])) for pair in pairs for one in pair]
    assert max(losses) - min(losses) < 1e-3 * max(losses), f"the losses differ: {losses}"
    report("gpu.devices", int(str(last["devices"])), "devices", target="== 1")
    report("gpu.step", statistics.median(ratios), "x", target="<= 1.01", reference=f"bare step {bare_ms:.3f} ms")


if __name__ == "__main__":
    main()
