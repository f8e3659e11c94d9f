"""From submit to a script's first line on a real Ray, against a bare detached actor that starts the same script and
against `ray job submit`; and what polling costs.

Needs root: a Ray cluster of four nodes runs in network namespaces, as in the tests, which install it.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from figures import report
from first_line import FirstLine, spread
from private_home import private_home

from runyard.compute.base import JobHandle, JobState
from runyard.compute.ray.backend import RayBackend
from runyard.compute.ray.link import RayLink, job_name
from runyard.core.config.settings import Settings
from tests.cluster.ground import Ground, open_ground
from tests.cluster.ray_cluster import HEAD, RayCluster, open_ray
from tests.cluster.team import Team

ROUNDS, WARM_UP, JOBS = 12, 2, 3
MOMENT_S = 1.0  # between two: what the one before left has gone
LIVE, POLLS = 300, 20
# A driver that is connected already: for each line it starts an actor that runs the script; the next line ends it.
BARE = """\
import subprocess, sys
import ray
ray.init("auto", namespace="bare", log_to_driver=False, logging_level="ERROR")
class Bare:
    def __init__(self, argv):
        self.process = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
Actor = ray.remote(Bare)
print("ready", flush=True)
for number, line in enumerate(sys.stdin):
    actor = Actor.options(name=f"bare-{number}", lifetime="detached", num_cpus=1).remote(sys.argv[1:])
    sys.stdin.readline()
    ray.kill(actor)
"""
# Answers as bridge.py does when 300 runs live.
MANY = """\
import json, sys
view = open(sys.argv[0] + ".view").read()
for line in sys.stdin:
    print('{"id": %d, "answer": %s}' % (json.loads(line)["id"], view), flush=True)
"""


def main() -> None:
    with private_home() as home, tempfile.TemporaryDirectory(prefix="ryb-") as folder:
        measure_polling(Path(folder))
        with open_ground(Path(folder) / "ground") as ground:
            with open_ray(ground, Path(folder) / "ray", has_dashboard=True) as ray:
                measure_submit(ground, ray, Path(folder), home)


def measure_submit(ground: Ground, ray: RayCluster, folder: Path, home: Path) -> None:
    team = Team(ground, home)
    team.start()
    bench = SubmitBench(ground, ray, folder)
    bares, submits, jobs = [], [], []
    for _ in range(WARM_UP + ROUNDS):  # in turns, so that other work on the machine slows all alike
        time.sleep(MOMENT_S)
        bares.append(bench.bare())
        time.sleep(MOMENT_S)
        submits.append(bench.submit())
    for _ in range(JOBS):
        time.sleep(MOMENT_S)
        jobs.append(bench.ray_job())
    bench.close()
    team.stop()
    bares, submits = bares[WARM_UP:], submits[WARM_UP:]
    print(f"bare actor {spread(bares)}   submit {spread(submits)}   ray job submit {spread(jobs)}", flush=True)
    bare_ms, submit_ms, job_ms = (statistics.median(times) for times in (bares, submits, jobs))
    report(
        "ray.first_line", submit_ms / bare_ms, "x", target="<= 1.2", reference=f"bare detached actor {bare_ms:.0f} ms"
    )
    report("ray.first_line_of_job", submit_ms / job_ms, "x", target="<= 1", reference=f"ray job submit {job_ms:.0f} ms")


class SubmitBench:
    def __init__(self, ground: Ground, ray: RayCluster, folder: Path) -> None:
        from azureml.core import Workspace
        from azureml.core.compute import ComputeTarget
        from runyard import RayCompute

        self._ground, self._ray = ground, ray
        self._line = FirstLine(folder)
        self._driver = self._start_driver()
        ComputeTarget.attach(Workspace.from_config(), "ray", RayCompute.attach_configuration(**ray.options))

    def bare(self) -> float:
        start = time.monotonic_ns()
        self._tell_driver()
        took_ms = self._line.wait(start)
        self._tell_driver()
        return took_ms

    def submit(self) -> float:
        return self._line.submit("ray")

    def ray_job(self) -> float:
        address = f"http://{self._ground.address(HEAD)}:8265"
        words = [self._ray.python, "-m", "ray.scripts.scripts", "job", "submit", "--no-wait", "--address", address]
        start = time.monotonic_ns()
        job = self._ground.start(HEAD, [*words, "--", *self._line.argv], env=self._ray.env)
        took_ms = self._line.wait(start)
        job.wait(60)
        return took_ms

    def close(self) -> None:
        self._driver.communicate(timeout=60)

    def _start_driver(self) -> subprocess.Popen[str]:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        words = [self._ray.python, "-c", BARE, *self._line.argv]
        driver = self._ground.start(HEAD, words, env=self._ray.env, **pipes)
        assert driver.stdout is not None and driver.stdout.readline() == "ready\n"
        return driver

    def _tell_driver(self) -> None:
        assert self._driver.stdin is not None
        self._driver.stdin.write("\n")
        self._driver.stdin.flush()


def measure_polling(folder: Path) -> None:
    """What the server itself spends; the bridge is a process of its own."""
    handles = [JobHandle(f"live_{number}_0000abcd", 1) for number in range(LIVE)]
    (folder / "many.py").write_text(MANY)
    (folder / "many.py.view").write_text(json.dumps(a_view(handles)))
    link = RayLink(sys.executable, "many:1", {}, script=folder / "many.py")
    backend = RayBackend(Settings(home=folder), {}, link=link)
    assert all(one.state is JobState.ALIVE for one in backend._look(handles).values())
    before = time.process_time()
    for _ in range(POLLS):
        backend.poll(handles)
        backend._look(handles)  # what the thread does, as often as it is measured
    per_poll_ms = (time.process_time() - before) / POLLS * 1000
    backend.close()
    report("ray.poll_cpu_ms", per_poll_ms, "ms", target="<= 50", reference=f"{LIVE} live runs, one question")


def a_view(handles: list[JobHandle]) -> dict[str, Any]:
    node = {"id": "5f" * 28, "name": "node2", "address": "10.77.0.2", "is_alive": True, "total": {"CPU": 400.0}}
    actors = [
        {"name": f"{job_name(one)}-0", "state": "ALIVE", "node": node["id"], "needs": {"CPU": 1.0}, "started": 1}
        for one in handles
    ]
    return {"actors": actors, "groups": [], "nodes": [{**node, "free": {"CPU": 100.0}, "death": 0, "message": ""}]}


if __name__ == "__main__":
    main()
