"""Web services against bare FastAPI, `mlflow models serve`, BentoML and LitServe, in the same run.

    python benchmarks/serving.py [SECONDS] [noop|ridge|batched|body|deploy|update]…

Every server has one core, the same for all, and the client (wrk) another. The servers of a case take turns in three
rounds; figures are medians. Peers run as their documentation starts them, with one worker.
"""

from __future__ import annotations

import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from figures import report
from private_home import private_home
from serving_peers import (
    BATCHED,
    NOOP,
    RIDGE,
    LiveService,
    Peer,
    bentoml,
    cpu_s,
    fastapi,
    gateway_pid,
    litserve,
    make_model,
    mlflow,
    ours,
    ours_spec,
    pss_mb,
)

from tests import debian
from tests.serving.deployments import send
from tests.serving.load import steady_load

ROUNDS = 3
WARM_S = 0.5
UPDATES = 20
BODY_120 = json.dumps({"data": [[0.1 * number for number in range(10)]], "pad": "x" * 48})
ROW = {"data": [[0.5, -1.5, 2.0, 0.25, 1.0, -0.75, 0.1, 0.9, -0.3, 1.7]]}
LUA = """
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = io.open(os.getenv("WRK_BODY")):read("a")
done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format("RESULT %d %d %d %.3f %.3f\\n", summary.requests, summary.duration,
    e.connect + e.read + e.write + e.status + e.timeout, latency:percentile(50), latency:percentile(99)))
end
"""


@dataclass(frozen=True)
class Round:
    per_second: float
    cpu_us: float  # of all processes of the server, a request
    p50_ms: float
    p99_ms: float


class Client:
    """wrk on the last core."""

    def __init__(self, folder: Path, seconds: float) -> None:
        debian.install("wrk")
        self._folder = folder
        self._seconds = max(1, round(seconds))
        (folder / "post.lua").write_text(LUA)

    def measure(self, peers: list[Peer], connections: int) -> dict[str, list[Round]]:
        """Ask the peers in turn, three times; all are warm."""
        found: dict[str, list[Round]] = {peer.name: [] for peer in peers}
        for peer in peers:
            self._ask(peer, connections, 1)
        for _ in range(ROUNDS):
            for peer in peers:
                found[peer.name].append(self._ask(peer, connections, self._seconds))
        return found

    def _ask(self, peer: Peer, connections: int, seconds: int) -> Round:
        (self._folder / "request.json").write_text(peer.body)
        words = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "30s", "-s", "post.lua", peer.url]
        before = cpu_s(peer)
        said = subprocess.run(
            [*pinned_client(), *words],
            cwd=self._folder,
            env={**os.environ, "WRK_BODY": str(self._folder / "request.json")},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        spent = cpu_s(peer) - before
        match = re.search(r"RESULT (\d+) (\d+) (\d+) ([\d.]+) ([\d.]+)", said)
        assert match, said
        count, took_us, errors = int(match[1]), int(match[2]), int(match[3])
        assert count, f"{peer.name} answered nothing within {seconds} s: the machine is busy, or give more SECONDS"
        assert errors == 0, f"{peer.name}: {errors} of {count} requests failed\n{said}"
        return Round(count / took_us * 1e6, spent / count * 1e6, float(match[4]) / 1e3, float(match[5]) / 1e3)


def main(seconds: float, chosen: list[str]) -> None:
    pin_servers()
    cases = {
        "noop": measure_noop,
        "ridge": measure_ridge,
        "batched": measure_batched,
        "body": measure_body,
        "deploy": measure_deploy,
        "update": measure_updates,
    }
    with private_home(), tempfile.TemporaryDirectory(prefix="ry-serving-") as folder:
        client = Client(Path(folder), seconds)
        for name, measure in cases.items():
            if not chosen or name in chosen:
                place = Path(folder) / name
                place.mkdir()
                measure(client, place)


def measure_noop(client: Client, folder: Path) -> None:
    """A function that returns a constant: what is between the client and the function."""
    with ExitStack() as stack:
        add = stack.enter_context
        reference = add(fastapi(part(folder, "fastapi"), NOOP, BODY_120))
        faster = add(fastapi(part(folder, "uvloop"), NOOP, BODY_120, loop="uvloop", name="fastapi-uvloop"))
        one = add(ours(folder, "one-worker", NOOP, BODY_120))
        two = add(ours(folder, "two-workers", NOOP, BODY_120, workers=2))
        found = client.measure([reference, one, two, faster], 32)
        alone = client.measure([reference, one], 1)
        idle = pss_mb(gateway_pid())
    base = found["fastapi"]
    for name, peer, target in (("noop_rps", "one-worker", ">= 0.9"), ("noop_rps.two_workers", "two-workers", "")):
        what = f"{rate(found[peer]):,.0f}/s, fastapi {rate(base):,.0f}/s, 32 clients"
        report(f"serving.{name}", ratio(found[peer], base), "x", target=target, reference=what)
    what = f"{rate(found['fastapi-uvloop']):,.0f}/s, fastapi with uvloop"
    report("serving.noop_rps.uvloop", ratio(found["one-worker"], found["fastapi-uvloop"]), "x", reference=what)
    spent, theirs = (middle(one.cpu_us for one in found[name]) for name in ("one-worker", "fastapi"))
    report(
        "serving.noop_cpu", spent / theirs, "x", target="<= 1.2", reference=f"{spent:.0f} us, fastapi {theirs:.0f} us"
    )
    p50, p50_base = (middle(one.p50_ms for one in alone[name]) for name in ("one-worker", "fastapi"))
    p99, p99_base = (middle(one.p99_ms for one in alone[name]) for name in ("one-worker", "fastapi"))
    what = f"p50 {p50:.2f} ms, fastapi {p50_base:.2f} ms, 1 client"
    report("serving.noop_added_ms", p50 - p50_base, "ms", target="<= 0.5", reference=what)
    what = f"p99 {p99:.2f} ms, fastapi {p99_base:.2f} ms, 1 client"
    report("serving.noop_p99_over", p99 - 2 * p99_base, "ms", target="<= 1", reference=what)
    report("serving.gateway_mb", idle, "MB", target="<= 40", reference="PSS after the load")


def measure_ridge(client: Client, folder: Path) -> None:
    """One row of ten features for a linear model; every server as its documentation starts it."""
    make_model(folder, for_mlflow=True)
    text = json.dumps(ROW)
    with ExitStack() as stack:
        add = stack.enter_context
        peers = [
            add(ours(folder, "runyard", RIDGE, text, files=["model.pkl"])),
            add(mlflow(folder, json.dumps({"inputs": ROW["data"]}))),
            add(bentoml(with_model(folder, "bentoml"), RIDGE, text)),
            add(litserve(with_model(folder, "litserve"), RIDGE, text)),
            add(fastapi(with_model(folder, "fastapi"), RIDGE, text)),
        ]
        found = client.measure(peers, 32)
    mine = found["runyard"]
    for name, target in (("mlflow", ">= 4"), ("bentoml", ">= 6"), ("litserve", ">= 3"), ("fastapi", "")):
        what = f"{rate(mine):,.0f}/s, {name} {rate(found[name]):,.0f}/s, 32 clients"
        report(f"serving.vs_{name}", ratio(mine, found[name]), "x", target=target, reference=what)


def measure_batched(client: Client, folder: Path) -> None:
    """20 ms for up to 32 rows: 1,600 a second is all that can be, and less where a sleep takes longer."""
    row = json.dumps({"row": 21})
    with ExitStack() as stack:
        add = stack.enter_context
        mine = add(ours(folder, "batched", BATCHED, row))
        lit = add(litserve(part(folder, "litserve"), NOOP, row, batched=True))
        bento = add(bentoml(part(folder, "bentoml"), NOOP, json.dumps({"row": [21]}), batched=True))
        slept = [sleep_s()]
        found = client.measure([mine, lit, bento], 64)
        slept.append(sleep_s())
        alone = client.measure([mine], 1)["batched"]
        slept.append(sleep_s())
    ideal = 32 / statistics.median(slept)
    share = rate(found["batched"]) / ideal
    what = f"{rate(found['batched']):,.0f}/s of {ideal:,.0f}/s, 64 clients"
    report("serving.batched", share, "x", target=">= 0.85", reference=what)
    for name in ("litserve", "bentoml"):
        what = f"{name} {rate(found[name]):,.0f}/s"
        report(f"serving.batched.vs_{name}", ratio(found["batched"], found[name]), "x", target=">= 1", reference=what)
    p50 = middle(one.p50_ms for one in alone)
    what = f"p50 {p50:.2f} ms of 1 client, a sleep of 20 ms takes {slept[-1] * 1e3:.2f} ms"
    report("serving.batched.added_ms", p50 - slept[-1] * 1e3, "ms", target="<= 1", reference=what)


def sleep_s() -> float:
    """Return how long a bare process really sleeps for 20 ms, on the core of the servers."""
    code = (
        "import time\ntimes = []\n"
        "for _ in range(100):\n"
        " began = time.perf_counter(); time.sleep(0.02); times.append(time.perf_counter() - began)\n"
        "print(sum(times) / len(times))"
    )
    return float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)


def measure_body(client: Client, folder: Path) -> None:
    """60 MB of JSON through to the script, against the same bytes over a unix socket into json.loads."""
    script = "import json\ndef init(): pass\ndef run(text): return len(json.loads(text)['data'])\n"
    body = json.dumps({"data": [[number % 256 for number in range(784)]] * 21_000}).encode()
    with ours(folder, "big-body", script, '{"data": []}') as peer:
        port, path = int(peer.url.split(":")[2].split("/")[0]), "/" + peer.url.split("/", 3)[3]
        times: dict[str, list[float]] = {"ours": [], "socket": []}
        for _ in range(ROUNDS):
            began = time.perf_counter()
            assert send(port, "POST", path, body).body == b"21000"
            times["ours"].append(time.perf_counter() - began)
            times["socket"].append(over_socket(body))
    mine, bare = (statistics.median(times[name]) for name in ("ours", "socket"))
    what = f"{mine:.2f} s, socket and json.loads {bare:.2f} s, {len(body) / 1e6:.0f} MB"
    report("serving.big_body", mine / bare, "x", target="<= 1.5", reference=what)


def over_socket(body: bytes) -> float:
    """Return how long another process takes to read these bytes and parse them."""
    code = (
        "import sys, json, socket\n"
        "s = socket.socket(fileno=int(sys.argv[1])); size = int(sys.argv[2]); parts = []\n"
        "s.sendall(b'.')\n"
        "while size:\n    part = s.recv(1 << 20); parts.append(part); size -= len(part)\n"
        "s.sendall(str(len(json.loads(b''.join(parts).decode())['data'])).encode())\n"
    )
    here, there = socket.socketpair()
    with here, there:
        words = [sys.executable, "-c", code, str(there.fileno()), str(len(body))]
        with subprocess.Popen(words, pass_fds=[there.fileno()]) as process:
            assert here.recv(1) == b"."
            began = time.perf_counter()
            here.sendall(body)
            assert here.recv(100) == b"21000"
            took = time.perf_counter() - began
            assert process.wait() == 0
    return took


def measure_deploy(client: Client, folder: Path) -> None:
    """From the call to the first answer, with an environment that is there; and a script that is only started."""
    make_model(folder)
    times: list[float] = []
    bare: list[float] = []
    text = json.dumps(ROW)
    with ours(folder, "first", NOOP, "x"):  # the gateway is up, as on the second service of a server
        for number in range(2 * ROUNDS - 1):
            source = part(folder, f"deploy-{number}")
            (source / "model.pkl").write_bytes((folder / "model.pkl").read_bytes())
            service = LiveService(f"deploy-{number}", source)
            spec = ours_spec(service, RIDGE)
            began = time.perf_counter()
            service.submit(spec)
            assert service.post(text).status == 200
            times.append(time.perf_counter() - began)
            if number == 0:
                worker = pss_mb(service.workers()[0]["pid"])
            service.delete()
            began = time.perf_counter()
            code = "import sys; sys.path.insert(0, '.'); import score; score.init(); print(score.run(sys.argv[1]))"
            python = spec.environment.interpreter
            subprocess.run([str(python), "-c", code, text], cwd=source, check=True, capture_output=True)
            bare.append(time.perf_counter() - began)
    mine, alone = statistics.median(times), statistics.median(bare)
    what = f"median of {len(times)}; the bare script {alone:.2f} s"
    report("serving.deploy_s", mine, "s", target="<= 2", reference=what)
    report("serving.deploy_over_bare", mine / alone, "x", target="<= 3", reference=f"{mine:.2f} s, {alone:.2f} s")
    report("serving.worker_mb", worker, "MB", reference="PSS with scikit-learn")


def measure_updates(client: Client, folder: Path) -> None:
    """Requests that fail while a service is updated twenty times under 200 requests a second."""
    answers = "def init(): pass\ndef run(text): return {}\n"
    service = LiveService("updated", part(folder, "updated"))
    service.deploy(ours_spec(service, answers.format(0)))
    began = time.perf_counter()
    with steady_load(service, per_second=200) as load:
        for number in range(1, UPDATES + 1):
            record = service.change(answers.format(number), environment=ours_spec(service, answers).environment)
            assert record.state == "Healthy" and record.error is None, service.tell(record)
    took = time.perf_counter() - began
    last = max(load.sent, key=lambda one: one.started)
    assert last.body == str(UPDATES).encode(), last
    service.delete()
    what = f"{len(load.sent)} requests at {len(load.sent) / took:.0f}/s over {UPDATES} updates in {took:.0f} s"
    report("serving.update_lost", len(load.failed()), "requests", target="== 0", reference=what)


def pin_servers() -> None:
    """Give this process, and all that it starts, the first core."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 1:
        os.environ["RUNYARD_BENCH_CLIENT_CORE"] = str(cores[-1])
        os.sched_setaffinity(0, {cores[0]})


def pinned_client() -> list[str]:
    core = os.environ.get("RUNYARD_BENCH_CLIENT_CORE")
    return ["taskset", "-c", core] if core else []


def part(folder: Path, name: str) -> Path:
    (folder / name).mkdir()
    return folder / name


def with_model(folder: Path, name: str) -> Path:
    (folder / name).mkdir()
    (folder / name / "model.pkl").write_bytes((folder / "model.pkl").read_bytes())
    return folder / name


def rate(rounds: list[Round]) -> float:
    return statistics.median(one.per_second for one in rounds)


def ratio(ours: list[Round], theirs: list[Round]) -> float:
    """Return the median of the rounds' ratios: those of one round met the same neighbours."""
    return statistics.median(one.per_second / other.per_second for one, other in zip(ours, theirs))


def middle(values: object) -> float:
    return float(statistics.median(values))  # type: ignore[call-overload]  # any numbers


if __name__ == "__main__":
    words = sys.argv[1:]
    given = float(words.pop(0)) if words and words[0].replace(".", "").isdigit() else 4.0
    main(given, words)
