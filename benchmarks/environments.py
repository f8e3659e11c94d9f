"""Environments: a hit, a cold build against bare uv, fifty runs that ask for one new environment at once.

Both kinds of build take scikit-learn from uv's own cache, filled before, and ask no index. Where no index answers,
a folder of made-up wheels stands in for it.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from functools import partial
from pathlib import Path
from typing import Callable, List, Mapping

from figures import report
from private_home import private_home

from runyard.core.config.paths import environments_folder
from runyard.core.config.settings import Settings
from runyard.core.specs import EnvironmentSpec
from runyard.environments import get_builder
from runyard.environments.pip import read_pip_settings
from runyard.environments.uv_program import find_uv, uv_variables

HITS = 200
PAIRS = 5
RUNS = 50


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="ry-envs-", ignore_cleanup_errors=True) as folder:
        spec = warm_up(Path(folder))
        measure_hits(Path(folder) / "hits", spec)
        measure_cold_builds(Path(folder), spec)
        measure_many_runs(Path(folder))


def warm_up(folder: Path) -> EnvironmentSpec:
    """Return what to build, all of it in uv's cache."""
    spec = EnvironmentSpec(name="sklearn", kind="uv", pip_packages=["scikit-learn"])
    try:
        bare_build(folder / "warm", spec, os.environ)
        os.environ["UV_OFFLINE"] = "1"
        print("scikit-learn from uv's cache, offline")
    except subprocess.CalledProcessError:
        print("no index answers: a folder of wheels instead of scikit-learn")
        names = [make_wheel(folder / "wheels", f"made{number}", files=300) for number in range(8)]
        options = ["--no-index", f"-f {folder / 'wheels'}"]
        spec = EnvironmentSpec(name="made", kind="uv", pip_packages=names, pip_options=options)
        bare_build(folder / "warm", spec, os.environ)
    return spec


def measure_hits(home: Path, spec: EnvironmentSpec) -> None:
    run_folder = home / "runs/exp_1/1"
    run_folder.mkdir(parents=True)
    builder = get_builder("uv", cache=home / "cache", settings=Settings(home=home))
    builder.build(spec, say=ignore)
    took_ms: List[float] = []
    for _ in range(HITS):
        began = time.perf_counter()
        get_builder("uv", cache=home / "cache", settings=Settings(home=home)).build(
            spec, say=ignore, user=str(run_folder)
        )
        took_ms.append((time.perf_counter() - began) * 1000)
    report("environments.hit", statistics.median(took_ms), "ms", target="<= 10", reference=f"max {max(took_ms):.1f} ms")


def measure_cold_builds(folder: Path, spec: EnvironmentSpec) -> None:
    ours, bares = [], []
    for number in range(PAIRS):  # in turns, so that other work on the machine slows both alike
        home = folder / f"home{number}"
        home.mkdir()
        builder = get_builder("uv", cache=home / "cache", settings=Settings(home=home))
        pair = [
            (bares, partial(bare_build, folder / f"bare{number}", spec, os.environ)),
            (ours, partial(builder.build, spec, say=ignore)),
        ]
        for times, build in pair if number % 2 else reversed(pair):
            times.append(timed(build))
    ratio = statistics.median(our / bare for our, bare in zip(ours, bares))
    reference = f"bare uv {statistics.median(bares):.0f} ms, ours {statistics.median(ours):.0f} ms"
    report("environments.cold_build", ratio, "x", target="<= 1.15", reference=reference)


def bare_build(prefix: Path, spec: EnvironmentSpec, variables: Mapping[str, str]) -> None:
    settings = read_pip_settings(variables, options=spec.pip_options)
    environ = uv_variables(variables, settings.as_variables())
    uv = find_uv(environ)
    python = str(prefix / "bin/python")
    arguments = [*settings.as_arguments(), *spec.pip_packages]
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, str(prefix)], env=environ, cwd="/", check=True)
    subprocess.run(
        [uv, "pip", "install", "-q", "--python", python, *arguments],
        env=environ,
        cwd="/",
        check=True,
        capture_output=True,
    )


def measure_many_runs(folder: Path) -> None:
    from azureml.core import Environment, Experiment, ScriptRunConfig, Workspace
    from azureml.core.conda_dependencies import CondaDependencies

    make_wheel(folder / "small", "small", files=3)
    os.environ.update({"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder / "small")})
    source = folder / "source"
    source.mkdir()
    (source / "train.py").write_text("import small\n")
    with private_home() as home:
        environment = Environment("small")
        environment.python.conda_dependencies = CondaDependencies.create(pip_packages=["small"])
        config = ScriptRunConfig(str(source), script="train.py", environment=environment, compute_target="local")
        experiment = Experiment(Workspace.from_config(), "many")
        began = time.perf_counter()
        runs = [experiment.submit(config) for _ in range(RUNS)]
        for run in runs:
            run.wait_for_completion()
        took_s = time.perf_counter() - began
        logs = [run.get_details_with_logs()["logFiles"]["azureml-logs/20_image_build_log.txt"] for run in runs]
        built = sum("Building environment" in log for log in logs)
        assert len(list(environments_folder(home).iterdir())) == 1
    report(
        f"environments.builds_of_{RUNS}_runs", built, "builds", target="== 1", reference=f"all done in {took_s:.1f} s"
    )


def make_wheel(folder: Path, name: str, *, files: int) -> str:
    folder.mkdir(exist_ok=True)
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}/__init__.py", "")
        for number in range(files):
            wheel.writestr(f"{name}/part{number}.py", f"value = {number}\n" * 200)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return name


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def ignore(_line: str) -> None:
    pass


if __name__ == "__main__":
    main()
