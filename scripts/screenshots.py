"""Pictures of every page of the studio, light and dark, into .screenshots; the best also into docs/images.

Real runs on a private server in a home of their own, in the Chromium of this machine.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ALL, IMAGES = ROOT / ".screenshots", ROOT / "docs" / "images"
BEST = (
    "runs-light", "run-light", "metrics-light", "failed-dark", "log-dark", "files-light", "diff-light", "compare-light",
    "differences-dark", "sweep-light", "compute-light", "service-light",
)  # fmt: skip
WIDE, NARROW = {"width": 1360, "height": 850}, {"width": 400, "height": 800}

TRAIN = """\
import argparse, json, math, os, random, time
from azureml.core import Run

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.01)
parser.add_argument("--depth", type=int, default=4)
parser.add_argument("--steps", type=int, default=1500)
parser.add_argument("--pause", type=float, default=0.0)
options = parser.parse_args()

run = Run.get_context()
noise = random.Random(f"{options.lr} {options.depth}")
loss = 2.3
print(f"training with lr={options.lr}, depth={options.depth}")
for step in range(options.steps):
    rate = min(options.lr, 0.2 / options.depth)
    loss += (0.05 * options.depth / 8 - loss) * rate * 0.4 + noise.gauss(0, 0.012 + options.lr / 8)
    run.log("train/loss", max(loss, 0.01) + abs(noise.gauss(0, 0.01)))
    if step % 10 == 0:
        run.log("train/accuracy", max(0.0, min(1.0, 1.02 - loss / 2.4 + noise.gauss(0, 0.008))))
        run.log("lr", options.lr * (1 + math.cos(math.pi * step / options.steps)) / 2)
    if step % 100 == 0:
        print(f"step {step:5d}  loss {loss:.4f}", flush=True)
    time.sleep(options.pause)
accuracy = max(0.0, min(0.99, 1 - loss / 2.4))
run.log("accuracy", accuracy)
kinds = ["cat", "dog", "bird"]
run.log_table("per class", {"class": kinds, "precision": [0.91, 0.88, 0.79], "recall": [0.9, 0.86, 0.83]})
os.makedirs("outputs", exist_ok=True)
with open("outputs/model.json", "w") as file:
    weights = [round(noise.random(), 3) for _ in range(40)]
    json.dump({"lr": options.lr, "depth": options.depth, "weights": weights}, file)
with open("outputs/predictions.csv", "w") as file:
    file.write("id,label,score\\n")
    for number in range(300):
        file.write(f"{number},{noise.choice(kinds)},{noise.random():.3f}\\n")
print("\\033[32mdone\\033[0m", f"accuracy {accuracy:.3f}")
"""

BROKEN = """\
import os, sys, time
rank = int(os.environ.get("RANK", "0"))
print(f"rank {rank} of {os.environ.get('WORLD_SIZE', '1')} is up", flush=True)
time.sleep(1)
if rank == 1:
    shards = {"train": 4}
    print("loading shard 7", flush=True)
    raise KeyError(f"shard 7 of {len(shards)}")
time.sleep(30)
"""

SCORE = """\
import json, os, random, time

def init():
    global weights
    with open(os.environ["AZUREML_MODEL_DIR"] + "/model.json") as file:
        weights = json.load(file)["weights"]
    print(f"{len(weights)} weights are loaded")

def run(raw):
    rows = json.loads(raw)["data"]
    time.sleep(random.expovariate(80))
    return {"leaves": [sum(w * x for w, x in zip(weights, row)) > 1 for row in rows]}
"""
FIGURES_S = 75  # the gateway closes a row of figures every ten seconds


def main() -> None:
    for folder in (ALL, IMAGES):
        folder.mkdir(parents=True, exist_ok=True)
    with private_home() as home:
        ids = make_runs(home)
        with service(home):
            take_pictures(ids)
        ids["live run"].cancel()
    for name in BEST:
        shutil.copy(ALL / f"{name}.png", IMAGES)


@contextmanager
def private_home() -> Iterator[Path]:
    home = Path(tempfile.mkdtemp(prefix="runyard-pictures-"))
    os.environ["RUNYARD_HOME"] = str(home / "home")
    try:
        yield home
    finally:
        os.system(f"{sys.executable} -m runyard.cli server stop >/dev/null 2>&1")
        shutil.rmtree(home, ignore_errors=True)


def make_runs(home: Path) -> dict[str, Any]:
    """Make runs of every kind; return them by what they are."""
    from azureml.core import Dataset, Environment, Experiment, Model, ScriptRunConfig, Workspace
    from azureml.core.compute import AmlCompute, ComputeTarget
    from azureml.core.runconfig import PyTorchConfiguration
    from azureml.train.hyperdrive import (
        BanditPolicy,
        HyperDriveConfig,
        PrimaryMetricGoal,
        RandomParameterSampling,
        choice,
        uniform,
    )

    source = home / "churn"
    source.mkdir()
    (source / "train.py").write_text(TRAIN)
    (source / "broken.py").write_text(BROKEN)
    (source / "README.md").write_text("# Churn\n\nA model of who leaves.\n")
    ws = Workspace.from_config()
    experiment = Experiment(ws, "churn")
    environment = Environment("training")
    environment.python.user_managed_dependencies = True
    environment.register(ws)

    def config(script: str = "train.py", **more: Any) -> Any:
        return ScriptRunConfig(str(source), script=script, environment=environment, **more)

    found: dict[str, Any] = {}
    for number, (lr, depth) in enumerate([(0.003, 4), (0.01, 4), (0.03, 6), (0.1, 8), (0.02, 5)]):
        if number == 4:
            (source / "train.py").write_text(TRAIN.replace("rate * 0.4", "rate * 0.6"))
        arguments = ["--lr", lr, "--depth", depth]
        tags = {"team": "retention", "stage": "tuning" if number else "baseline"}
        run = experiment.submit(config(arguments=arguments), tags=tags)
        run.display_name = ["baseline", "faster", "deeper", "too fast", "new schedule"][number]
        run.wait_for_completion()
        found[f"run {number}"] = run
    ComputeTarget.create(ws, "gpu-pool", AmlCompute.provisioning_configuration(vm_size="STANDARD_NC6", max_nodes=2))
    broken = experiment.submit(config("broken.py", distributed_job_config=PyTorchConfiguration(process_count=4)))
    broken.wait_for_completion(raise_on_error=False)
    found["broken run"] = broken
    sampling = RandomParameterSampling({"--lr": uniform(0.001, 0.12), "--depth": choice(3, 4, 5, 6, 8)})
    sweep = Experiment(ws, "churn-sweep").submit(
        HyperDriveConfig(
            run_config=config(arguments=["--steps", 400, "--pause", 0.002]),
            hyperparameter_sampling=sampling,
            policy=BanditPolicy(slack_factor=0.15, evaluation_interval=20, delay_evaluation=20),
            primary_metric_name="train/accuracy",
            primary_metric_goal=PrimaryMetricGoal.MAXIMIZE,
            max_total_runs=16,
            max_concurrent_runs=2,
        )
    )
    sweep.wait_for_completion()
    found["sweep"] = sweep
    found["run 4"].register_model("churn", model_path="outputs/model.json", tags={"stage": "candidate"})
    Model.register(ws, model_path=str(source / "train.py"), model_name="baseline-code")
    (home / "customers").mkdir()
    (home / "customers" / "2026-10.csv").write_text("id,months,left\n1,12,0\n2,3,1\n")
    store = ws.get_default_datastore()
    store.upload(str(home / "customers"), target_path="customers")
    Dataset.File.from_files((store, "customers")).register(ws, "customers", description="One row a customer.")
    for _ in range(3):
        found["live run"] = experiment.submit(
            config(arguments=["--lr", 0.015, "--steps", 100_000, "--pause", 0.02], compute_target="gpu-pool")
        )
    return found


@contextmanager
def service(home: Path) -> Iterator[None]:
    """A web service of the model `churn`, in its second revision, while it is asked."""
    from azureml.core import Workspace
    from runyard.core.specs import EnvironmentSpec
    from runyard.core.webservices import NewService, RevisionSpec, ServiceChange, ServiceSettings
    from runyard.sdk.runs.source import store_source

    client = Workspace.from_config()._client
    calls, folder = client.webservices, home / "score"
    folder.mkdir()
    (folder / "score.py").write_text(SCORE)
    revision = RevisionSpec(
        models=["churn:1"],
        entry="score.py",
        snapshot_id=store_source(client, str(folder)).snapshot_id,
        environment=EnvironmentSpec(name="training", interpreter=sys.executable),
        workers=2,
        created_by="ada",
    )
    settings = ServiceSettings(compute_type="Local", auth=True, tags={"team": "retention"}, description="Who leaves?")
    calls.deploy("default", "churn-scores", NewService(settings, revision))
    wait_until_deployed(calls)
    calls.change("default", "churn-scores", ServiceChange(revision=revision))
    wait_until_deployed(calls)
    stop = threading.Event()
    asking = [threading.Thread(target=ask, args=(calls, seed, stop)) for seed in range(3)]
    for thread in asking:
        thread.start()
    stop.wait(FIGURES_S)
    try:
        yield
    finally:
        stop.set()
        for thread in asking:
            thread.join()
        calls.delete("default", "churn-scores")


def wait_until_deployed(calls: Any) -> None:
    while True:
        found = calls.get("default", "churn-scores")
        if found.operation.state != "Running":
            break
        time.sleep(0.2)
    if found.state != "Healthy":
        sys.exit(f"error: The service does not start: {found.error}")


def ask(calls: Any, seed: int, stop: threading.Event) -> None:
    """Send requests, some of them wrong, until `stop`."""
    chance = random.Random(seed)
    while not stop.wait(chance.expovariate(12)):
        rows = [[round(chance.random(), 3) for _ in range(4)] for _ in range(chance.randint(1, 3))]
        body = json.dumps({"data": rows}) if chance.random() > 0.02 else "no JSON"
        calls.ask("default", "churn-scores", body.encode())


def take_pictures(runs: dict[str, Any]) -> None:
    from playwright.sync_api import sync_playwright

    from runyard.client.private_server import connect
    from runyard.core.config.settings import read_settings

    client = connect(read_settings())
    base = (client.address.web_url or "").rstrip("/")
    first, last, broken, sweep = runs["run 0"].id, runs["run 4"].id, runs["broken run"].id, runs["sweep"].id
    compared = "&".join(f"run={runs[f'run {number}'].id}" for number in range(5))
    shown = ("status", "params.lr", "params.depth", "metrics.accuracy", "metrics.train/loss", "tags.stage", "duration")
    columns = "&".join(f"columns={name}" for name in (*shown, "created"))
    pages = {
        "runs": f"/runs?{columns}",
        "experiments": "/experiments",
        "run": f"/runs/{last}",
        "metrics": f"/runs/{last}?tab=metrics",
        "log": f"/runs/{last}?tab=log",
        "files": f"/runs/{last}?tab=files&file=outputs/predictions.csv",
        "code": f"/runs/{last}?tab=code",
        "diff": f"/runs/{last}?tab=code&against={first}",
        "environment": f"/runs/{last}?tab=environment",
        "failed": f"/runs/{broken}",
        "compare": f"/compare?{compared}",
        "differences": f"/compare?{compared}&tab=differences",
        "parallel": f"/compare?{compared}&tab=parallel",
        "sweep": f"/sweeps/{sweep}",
        "environments": "/environments",
        "compute": "/compute/gpu-pool",
        "datasets": "/datasets/customers",
        "models": "/models/churn",
        "services": "/services",
        "service": "/services/churn-scores",
        "service-try": "/services/churn-scores?tab=try",
    }
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        context = browser.new_context(viewport=WIDE)
        page = context.new_page()
        show(page, base + client.server.signin_path("/runs"))
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme)
            for name, path in pages.items():
                show(page, base + path)
                page.screenshot(path=ALL / f"{name}-{theme}.png")
        page.emulate_media(color_scheme="light")
        page.set_viewport_size(NARROW)
        for name in ("runs", "run", "log", "service"):
            show(page, base + pages[name])
            page.screenshot(path=ALL / f"{name}-narrow.png")
        browser.close()


def show(page: Any, url: str) -> None:
    """Open a page and wait until nothing is loading on it and charts are drawn."""
    page.goto(url)
    page.wait_for_selector(".bar nav")  # not there where nobody is signed in
    page.wait_for_function("() => !document.querySelector('.loading')")
    page.evaluate("() => new Promise(done => setTimeout(done, 700))")  # charts are read and drawn in batches


def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        sys.exit("error: There is no Chromium here.\nhint: `apt install chromium`.")
    return found


if __name__ == "__main__":
    main()
