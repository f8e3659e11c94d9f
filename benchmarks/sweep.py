"""200 trials of an iris script, two at a time: as a sweep, and as bare processes two at a time.

    python benchmarks/sweep.py [TRIALS]

Optuna with subprocesses is measured beside them where it is installed. Each trial imports scikit-learn.
"""

from __future__ import annotations

import importlib.util
import itertools
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from figures import report
from private_home import private_home

TRIALS = int(sys.argv[1]) if len(sys.argv) > 1 else 200
AT_ONCE = 2
ROUNDS = 2  # in turns, so that other work on the machine slows both alike
SCRIPT = """\
import argparse, os
from sklearn.datasets import load_iris
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC
parser = argparse.ArgumentParser()
parser.add_argument("--C", type=float)
parser.add_argument("--gamma", type=float)
given = parser.parse_args()
x, y = load_iris(return_X_y=True)
x_train, x_test, y_train, y_test = train_test_split(x, y, random_state=0)
score = float(SVC(C=given.C, gamma=given.gamma).fit(x_train, y_train).score(x_test, y_test))
if "RUNYARD_RUN_ID" in os.environ:
    from azureml.core import Run
    Run.get_context().log("accuracy", score)
print(score)
"""


def main() -> None:
    share = TRIALS // ROUNDS
    with private_home(), tempfile.TemporaryDirectory() as folder:
        source = Path(folder)
        (source / "train.py").write_text(SCRIPT)
        bare(source, 4)
        sweep(source, 4)
        bare_s = swept_s = 0.0
        for _ in range(ROUNDS):
            bare_s += bare(source, share)
            swept_s += sweep(source, share)
        reference = f"bare {bare_s:.1f} s for {share * ROUNDS} trials"
        if importlib.util.find_spec("optuna") is not None:
            report("sweep.optuna_subprocess", optuna_s(source, share) * ROUNDS / bare_s, "x", reference=reference)
    report("sweep.seconds", swept_s, "s", reference=reference)
    report("sweep.wall_time", swept_s / bare_s, "x", target="<= 1.6", reference=reference)


def values(count: int) -> list[tuple[float, float]]:
    grid = itertools.product([2.0**power for power in range(-5, 15)], [2.0**power for power in range(-10, 0)])
    return list(itertools.islice(grid, count))


def run_bare(source: Path, pair: tuple[float, float]) -> float:
    command = [sys.executable, "train.py", "--C", str(pair[0]), "--gamma", str(pair[1])]
    return float(subprocess.run(command, cwd=source, check=True, capture_output=True, text=True).stdout)


def bare(source: Path, count: int) -> float:
    start = time.monotonic()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda pair: run_bare(source, pair), values(count)))
    return time.monotonic() - start


def sweep(source: Path, count: int) -> float:
    from azureml.core import Environment, Experiment, ScriptRunConfig, Workspace
    from azureml.train.hyperdrive import GridParameterSampling, HyperDriveConfig, PrimaryMetricGoal, choice

    environment = Environment("mine")
    environment.python.user_managed_dependencies = True
    pairs = values(count)
    space = {
        "--C": choice(sorted({pair[0] for pair in pairs})),
        "--gamma": choice(sorted({pair[1] for pair in pairs})),
    }
    config = HyperDriveConfig(
        GridParameterSampling(space),
        "accuracy",
        PrimaryMetricGoal.MAXIMIZE,
        max_total_runs=count,
        max_concurrent_runs=AT_ONCE,
        run_config=ScriptRunConfig(str(source), script="train.py", environment=environment),
    )
    experiment = Experiment(Workspace.from_config(), "sweep")
    start = time.monotonic()
    run = experiment.submit(config)
    run.wait_for_completion()
    took = time.monotonic() - start
    assert run.get_status() == "Completed" and len(run.get_hyperparameters()) == count
    return took


def optuna_s(source: Path, count: int) -> float:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(direction="maximize")

    def trial(asked: optuna.Trial) -> float:
        return run_bare(source, (asked.suggest_float("C", 0.03, 1e4, log=True), asked.suggest_float("g", 1e-3, 1.0)))

    start = time.monotonic()
    study.optimize(trial, n_trials=count, n_jobs=AT_ONCE)
    return time.monotonic() - start


if __name__ == "__main__":
    main()
