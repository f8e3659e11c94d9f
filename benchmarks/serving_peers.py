"""The servers that benchmarks/serving.py compares: the same function, each server in an environment of its own."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # for the environments and processes that the tests have

from runyard.core.specs import EnvironmentSpec  # noqa: E402
from runyard.core.webservices import RevisionSpec  # noqa: E402
from tests.e2e.frameworks import interpreter_with  # noqa: E402
from tests.serving.deployed.live import LiveService, gateway_pid  # noqa: E402

SKLEARN = ("scikit-learn==1.9.1", "numpy==2.4.6")
FASTAPI = ("fastapi==0.128.8", "uvicorn==0.54.0", "httptools==0.9.0", "uvloop==0.23.0", *SKLEARN)
LITSERVE = ("litserve==0.2.19", *SKLEARN)
BENTOML = ("bentoml==1.4.39", *SKLEARN)
MLFLOW = ("mlflow==3.17.2", *SKLEARN)

# What is served: `init()` and `run(text)`, the same file for all of them.
NOOP = """
ANSWER = {"status": "ok", "values": [0.25, 0.5, 0.25], "model": "constant-model-of-the-benchmark", "version": 1}
def init(): pass
def run(text): return ANSWER
"""
RIDGE = """
import json
from pathlib import Path
import joblib
def init():
    global model
    model = joblib.load(Path(__file__).parent / "model.pkl")
def run(text): return model.predict(json.loads(text)["data"]).tolist()
"""
TRAIN = """
import sys, joblib, numpy
from sklearn.linear_model import Ridge
random = numpy.random.default_rng(7)
rows = random.normal(size=(1000, 10))
model = Ridge().fit(rows, rows @ random.normal(size=10))
joblib.dump(model, sys.argv[1])
if sys.argv[2:]:
    import mlflow.sklearn
    mlflow.sklearn.save_model(model, sys.argv[2], serialization_format="cloudpickle")
"""
FASTAPI_APP = """
from fastapi import FastAPI, Request
import score
app = FastAPI()
score.init()
@app.post("/score")
async def answer(request: Request):
    return score.run((await request.body()).decode())
"""
LITSERVE_APP = """
import sys, json, time
import litserve
import score
class Api(litserve.LitAPI):
    def setup(self, device): score.init()
    def decode_request(self, request): return json.dumps(request)
    def predict(self, text): return score.run(text)
    def encode_response(self, output): return {"output": output}
class Batched(litserve.LitAPI):
    def setup(self, device): pass
    def decode_request(self, request): return request["row"]
    def predict(self, rows):
        time.sleep(0.02)
        return [row * 2 for row in rows]
    def encode_response(self, output): return {"output": output}
if __name__ == "__main__":
    api = Batched(max_batch_size=32) if sys.argv[2:] else Api()
    server = litserve.LitServer(api, accelerator="cpu")
    server.run(host="127.0.0.1", port=int(sys.argv[1]), generate_client_file=False, log_level="error")
"""
BENTOML_APP = """
import json, time
import bentoml
import numpy
@bentoml.service
class Scoring:
    def __init__(self):
        import score
        score.init()
        self.score = score
    @bentoml.api
    def predict(self, data: list[list[float]]) -> list[float]:
        return self.score.run(json.dumps({"data": data}))
@bentoml.service(traffic={"timeout": 60})
class Batched:
    @bentoml.api(batchable=True, max_batch_size=32)
    def predict(self, row: numpy.ndarray) -> numpy.ndarray:
        time.sleep(0.02)
        return row * 2
"""
BATCHED = """
import json, time
from runyard import serving
def init(): pass
@serving.batched(max_batch=32)
def run(items):
    time.sleep(0.02)
    return [json.loads(item)["row"] * 2 for item in items]
"""


@dataclass(frozen=True)
class Peer:
    """A running server. `body` asks it what the others are asked."""

    name: str
    url: str
    body: str
    pids: tuple[int, ...] = ()  # all of its processes; of ours those that a request passes through
    headers: dict[str, str] = field(default_factory=dict)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def make_model(folder: Path, *, for_mlflow: bool = False) -> None:
    """Train the Ridge model of the benchmark into `folder`."""
    python = interpreter_with(MLFLOW if for_mlflow else FASTAPI)
    words = [str(folder / "model.pkl"), *([str(folder / "mlflow-model")] if for_mlflow else [])]
    subprocess.run([python, "-c", TRAIN, *words], check=True, capture_output=True)


@contextmanager
def fastapi(folder: Path, script: str, body: str, *, loop: str = "asyncio", name: str = "fastapi") -> Iterator[Peer]:
    """One process of uvicorn with httptools, as our gateway has it."""
    words = ["-m", "uvicorn", "app:app", "--http", "httptools", "--loop", loop, "--no-access-log", "--port"]
    files = {"score.py": script, "app.py": FASTAPI_APP}
    port = free_port()
    with _process(folder, files, [interpreter_with(FASTAPI), *words, str(port)]) as process:
        yield _ready(Peer(name, f"http://127.0.0.1:{port}/score", body), process)


@contextmanager
def litserve(folder: Path, script: str, body: str, *, batched: bool = False) -> Iterator[Peer]:
    files = {"score.py": script, "app.py": LITSERVE_APP}
    port = free_port()
    words = [interpreter_with(LITSERVE), "app.py", str(port), *(["batched"] if batched else [])]
    with _process(folder, files, words) as process:
        yield _ready(Peer("litserve", f"http://127.0.0.1:{port}/predict", body), process)


@contextmanager
def bentoml(folder: Path, script: str, body: str, *, batched: bool = False) -> Iterator[Peer]:
    files = {"score.py": script, "app.py": BENTOML_APP}
    port = free_port()
    program = str(Path(interpreter_with(BENTOML)).with_name("bentoml"))
    words = [program, "serve", f"app:{'Batched' if batched else 'Scoring'}", "--port", str(port), "--host", "127.0.0.1"]
    variables = {"BENTOML_DO_NOT_TRACK": "True", "BENTOML_HOME": str(folder / "bentoml-home")}
    with _process(folder, files, words, variables) as process:
        yield _ready(Peer("bentoml", f"http://127.0.0.1:{port}/predict", body), process)


@contextmanager
def mlflow(folder: Path, body: str) -> Iterator[Peer]:
    port = free_port()
    program = str(Path(interpreter_with(MLFLOW)).with_name("mlflow"))
    words = [program, "models", "serve", "-m", str(folder / "mlflow-model"), "--env-manager", "local"]
    variables = {"PATH": f"{Path(program).parent}:{os.environ['PATH']}"}
    with _process(folder, {}, [*words, "--port", str(port)], variables) as process:
        yield _ready(Peer("mlflow", f"http://127.0.0.1:{port}/invocations", body), process)


@contextmanager
def ours(
    folder: Path, name: str, script: str, body: str, *, workers: int = 1, files: Sequence[str] = ()
) -> Iterator[Peer]:
    """A service of the home's server, deployed as the SDK does it."""
    source = folder / name
    source.mkdir()
    for file in files:
        shutil.copy(folder / file, source / file)
    service = LiveService(name, source)
    service.deploy(ours_spec(service, script, workers=workers))
    while len(service.workers()) < workers:
        time.sleep(0.05)
    pids = (gateway_pid(), *(one["pid"] for one in service.workers()))
    try:
        yield _ready(Peer(name, f"http://127.0.0.1:{service.port}{service.path}/score", body, pids), None)
    finally:
        service.delete()


def ours_spec(service: LiveService, script: str, *, workers: int = 1) -> RevisionSpec:
    return service.spec(script, workers=workers, environment=EnvironmentSpec(interpreter=interpreter_with(FASTAPI)))


def cpu_s(peer: Peer) -> float:
    """Return the processor time of the peer's processes so far."""
    total = 0.0
    for pid in peer.pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def pss_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise AssertionError(f"process {pid} has no Pss")


@contextmanager
def _process(
    folder: Path, files: dict[str, str], command: list[str], variables: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    for name, text in files.items():
        (folder / name).write_text(text)
    environ = {**os.environ, **(variables or {})}
    with (folder / "server.log").open("ab") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=environ, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
        )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            pass
        with_left = [pid for pid in _tree(process.pid) if pid != process.pid]
        for pid in [*with_left]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _ready(peer: Peer, process: subprocess.Popen[bytes] | None) -> Peer:
    """Return the peer once it answers, with its processes."""
    place = urlsplit(peer.url)
    assert place.hostname and place.port
    deadline = time.monotonic() + 120
    while True:
        if process is not None and process.poll() is not None:
            raise SystemExit(f"{peer.name} ended with {process.returncode}; its log is server.log in its folder")
        status = _status(place.hostname, place.port, place.path, peer.body)
        if status == 200:
            break
        if time.monotonic() > deadline:
            raise SystemExit(f"{peer.name} does not answer: {status}")
        time.sleep(0.1)
    return peer if process is None else Peer(peer.name, peer.url, peer.body, tuple(_tree(process.pid)))


def _status(host: str, port: int, path: str, body: str) -> int | str:
    import http.client

    connection = http.client.HTTPConnection(host, port, timeout=20)
    try:
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        return answer.status if answer.status == 200 else f"{answer.status} {text[:300]!r}"
    except OSError as error:
        return str(error)
    finally:
        connection.close()


def _tree(root: int) -> list[int]:
    """Return a process and its descendants."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            fields = (path / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(fields[1]), []).append(int(path.name))
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting += parents.get(pid, [])
    return found
