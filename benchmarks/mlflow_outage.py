"""The server is killed for a minute while a script trains with autologging: its step time, and its values afterwards.

    python benchmarks/mlflow_outage.py [SECONDS]

LightGBM trains in a submitted run and MLflow's autologging logs each of its steps. The server is killed after a third
of the time and stays away for a third. After every second of steps the script times a fixed piece of bare work, which
nothing of ours or of MLflow's takes part in: what a machine's other load adds to a step, it adds to that too. The
figure is the step time in units of that work without the server, over the same with it (before and after). Then every
value that the script saw must be in the run once.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # for what the tests have

from figures import report  # noqa: E402
from private_home import private_home  # noqa: E402

from azureml.core import Environment, Experiment, Run, ScriptRunConfig, Workspace  # noqa: E402
from tests.mlflow.servers import make_environment  # noqa: E402
from tests.server.away import server_away  # noqa: E402

PACKAGES = ("mlflow>=3.17,<4", "lightgbm>=4.5,<5")
METRIC = "train-binary_logloss"
SCRIPT = """
import json, os, sys, time
import lightgbm, mlflow, numpy as np

mlflow.lightgbm.autolog(log_models=False)
folder = sys.argv[1]
x = np.random.default_rng(0).normal(size=(8000, 20))
rows = lightgbm.Dataset(x, label=(x.sum(1) > 0).astype(int), free_raw_data=False)
times, values, bare = [], [], []
matrix = np.random.default_rng(1).normal(size=(8000, 20))

def work():
    # nearly what a step does: passes over the rows, and Python between them
    began = time.perf_counter()
    for _ in range(20):
        np.sort(matrix, axis=0)
        sum(range(2000))
    return time.perf_counter() - began

def step(env):
    if not bare or time.time() - bare[-1][0] > 1:
        began = time.time()
        bare.append([began, min(work() for _ in range(3))])
        times.append(None)  # no step: the work took the time
    times.append(time.time())
    values.append(env.evaluation_result_list[0][2])
    if len(values) == 50:
        open(f"{folder}/trains", "w").close()
    if os.path.exists(f"{folder}/enough"):
        raise lightgbm.callback.EarlyStopException(env.iteration, env.evaluation_result_list)

step.order = 99  # after MLflow's own
settings = {"objective": "binary", "num_threads": 1, "learning_rate": 1e-3, "verbose": -1}
lightgbm.train(settings, rows, num_boost_round=10**6, valid_sets=[rows], valid_names=["train"], callbacks=[step])
with open(f"{folder}/steps.json", "w") as file:
    json.dump([times, values, bare], file)
"""


def main(seconds: float) -> None:
    python = make_environment(ROOT / ".venv/mlflow-outage", *PACKAGES)
    with private_home(), tempfile.TemporaryDirectory(prefix="ry-outage-") as folder:
        run = submit(python, Path(folder))
        wait_for(Path(folder) / "trains", run)
        time.sleep(seconds)
        with server_away():
            began = time.time()
            time.sleep(seconds)
            ended = time.time()
        time.sleep(seconds)
        (Path(folder) / "enough").touch()
        run.wait_for_completion(raise_on_error=True)
        times, values, bare = json.loads((Path(folder) / "steps.json").read_text())
        report_steps(times, bare, began, ended)
        report_values(run, values)


def submit(python: Path, folder: Path) -> Run:
    project = folder / "project"
    project.mkdir()
    (project / "train.py").write_text(SCRIPT)
    environment = Environment("autologging")
    environment.python.user_managed_dependencies = True
    environment.python.interpreter_path = str(python)
    source = ScriptRunConfig(
        source_directory=str(project), script="train.py", arguments=[str(folder)], environment=environment
    )
    return Experiment(Workspace.from_config(), "outage").submit(source)


def wait_for(path: Path, run: Run) -> None:
    deadline = time.monotonic() + 300
    while not path.exists():
        assert time.monotonic() < deadline and run.get_status() not in ("Failed", "Canceled"), run.get_details()
        time.sleep(0.2)


def report_steps(
    times: Sequence[float | None], bare: Sequence[tuple[float, float]], began: float, ended: float
) -> None:
    """`times`: of the ends of steps, None where bare work comes between. `bare`: when, and how many seconds it took.

    Each second's median step is divided by the bare work at its two ends, so that only load that changes within a
    second is left; the median of these is what is compared.
    """
    steps: dict[int, list[float]] = {}  # the milliseconds of steps, by the number of the bare work before them
    number = -1
    for first, last in zip(times, times[1:]):
        if last is None:
            number += 1
        elif first is not None and number >= 0:
            steps.setdefault(number, []).append((last - first) * 1000)
    ratios: dict[str, list[float]] = {"before": [], "away": [], "after": []}
    medians: dict[str, list[float]] = {"before": [], "away": [], "after": []}
    for at, ((first, before_s), (last, after_s)) in enumerate(zip(bare, bare[1:])):
        inside = began < first and last < ended
        part = "before" if last < began else "away" if inside else "after" if first > ended else ""
        if part and at and at in steps:  # the first second trains while things load
            median = statistics.median(steps[at])
            medians[part].append(median)
            ratios[part].append(median / ((before_s + after_s) / 2 * 1000))
    before, away, after = (statistics.median(ratios[part]) for part in ("before", "away", "after"))
    served = statistics.median([*ratios["before"], *ratios["after"]])
    shown = ", ".join(f"{statistics.median(medians[part]):.2f} ms {part}" for part in medians)
    note = f"median step {shown}; in units of bare work {before:.3f}, {away:.3f}, {after:.3f}"
    note += f"; {sum(len(each) for each in steps.values())} steps, {ended - began:.0f} s without the server"
    report("mlflow_outage.step_time", away / served, "x", target="<= 1.05", reference=note)


def report_values(run: Run, values: Sequence[float]) -> None:
    """MLflow itself logs the value of the best step once more, with the step 0."""
    found = Counter(run.get_metrics(METRIC)[METRIC])
    wanted = Counter(values)
    missing, more = sum((wanted - found).values()), sum((found - wanted).values())
    reference = f"{len(values)} steps"
    report("mlflow_outage.missing", missing, "values", target="== 0", reference=reference)
    report("mlflow_outage.twice", max(0, more - 1), "values", target="== 0", reference=reference)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0)
