"""MLflow's REST API: our server against `mlflow server` on SQLite with one worker, in the same run.

    python benchmarks/mlflow_rest.py [SECONDS]

Each figure is a ratio of answers per second, the median of three rounds; the servers take turns in each round. The
plain client keeps its connections open and does nothing but send and read, so the server is what is measured. Each
connection logs to a run of its own. The last figures are of the stock Python client, and of who else asks meanwhile.

The stock server has a connection to its database for each of its threads: by its own setting it runs out of them with
16 clients. An answer other than 200 counts for nothing, the client goes on, and the figure says how many there were.
"""

from __future__ import annotations

import json
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from figures import report

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # for the servers that the tests have

from tests.mlflow.servers import (  # noqa: E402
    TrackingServer,
    client_variables,
    make_environment,
    runyard_server,
    stock_server,
)

PACKAGE = "mlflow>=3.17,<4"
CLIENTS = 16
ROUNDS = 3
RUNS = 8  # of each connection: parameters never change, so each has a key of its own, and a run has few hundred
API = "/api/2.0/mlflow"
STOCK_POOL = {"MLFLOW_SQLALCHEMYSTORE_POOL_SIZE": "64", "MLFLOW_SQLALCHEMYSTORE_MAX_OVERFLOW": "64"}
PYTHON_CLIENT = """
import sys, time
from mlflow import MlflowClient
from mlflow.entities import Metric
client = MlflowClient()
run_id = client.create_run("0").info.run_id
client.log_metric(run_id, "warm", 1.0)
def rate(call):
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < float(sys.argv[1]):
        call(count)
        count += 1
    return count / (time.perf_counter() - began)
print(rate(lambda at: client.log_metric(run_id, "loss", 0.5 * at, step=at)))
def batch(at):
    now = int(time.time() * 1000)
    client.log_batch(run_id, [Metric(f"m{n % 10}", 0.5 * n, now, at * 100 + n // 10) for n in range(1000)])
print(rate(batch))
"""


class Refused(Exception):
    """An answer other than 200."""


class Connection:
    """One connection with a run of its own. `ask` sends a request and waits; the rest is for `drive`."""

    def __init__(self, server: TrackingServer, workspace: str = "bench") -> None:
        place = urlsplit(server.base(workspace))
        assert place.hostname and place.port
        self.base = place.path + API
        self._address = (place.hostname, place.port)
        self.connect()
        token = f"Authorization: Bearer {server.token}\r\n" if server.token else ""
        self._head = f"Host: {place.netloc}\r\nContent-Type: application/json\r\n{token}".encode()
        self._waiting = b""
        self.runs: list[str] = []
        self.count = 0  # of requests, over all rounds

    def connect(self) -> None:
        """Open the connection, again too: servers close those that are idle for some seconds."""
        self.socket = socket.create_connection(self._address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def make_runs(self, count: int) -> None:
        self.connect()
        body = {"experiment_id": "0", "start_time": now_ms()}
        self.runs += [self.ask("POST", "runs/create", body)["run"]["info"]["run_id"] for _ in range(count)]

    def ask(self, method: str, path: str, fields: object = None) -> Any:
        self.send(method, path, fields)
        while (body := self.receive()) is None:
            pass
        return json.loads(body)

    def send(self, method: str, path: str, fields: object = None) -> None:
        body = b"" if fields is None else json.dumps(fields).encode()
        head = b"%s %s/%s HTTP/1.1\r\n" % (method.encode(), self.base.encode(), path.encode())
        self.socket.sendall(head + self._head + b"Content-Length: %d\r\n\r\n" % len(body) + body)

    def receive(self) -> bytes | None:
        """Return the answer's body once it is whole. Raises Refused."""
        piece = self.socket.recv(1 << 20)
        assert piece, "the server closed the connection"
        self._waiting += piece
        head, found, body = self._waiting.partition(b"\r\n\r\n")
        if not found:
            return None
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        if len(body) < length:
            return None
        self._waiting = b""
        if not head.startswith(b"HTTP/1.1 200"):
            raise Refused((head + body)[:500].decode("utf-8", "replace"))
        return body


Request = Callable[[Connection], tuple[str, str, object]]  # method, path, fields


@dataclass(frozen=True)
class Case:
    """A kind of request. `target`: how many times as fast as the stock server."""

    name: str
    request: Request
    clients: int = CLIENTS
    target: str = ""
    rates: dict[str, list[float]] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def metric(connection: Connection) -> tuple[str, str, object]:
    at = connection.count
    point = {"key": "loss", "value": 0.5 * at, "timestamp": now_ms(), "step": at}
    return "POST", "runs/log-metric", {"run_id": connection.runs[0], **point}


def batch(connection: Connection) -> tuple[str, str, object]:
    """A hundred steps of ten metrics."""
    now, at = now_ms(), connection.count * 100
    points = [{"key": f"m{n % 10}", "value": 0.5 * n, "timestamp": now, "step": at + n // 10} for n in range(1000)]
    return "POST", "runs/log-batch", {"run_id": connection.runs[0], "metrics": points}


def wide_batch(connection: Connection) -> tuple[str, str, object]:
    """One step of a thousand metrics."""
    now, at = now_ms(), connection.count
    points = [{"key": f"w{n}", "value": 0.5 * n, "timestamp": now, "step": at} for n in range(1000)]
    return "POST", "runs/log-batch", {"run_id": connection.runs[1], "metrics": points}


def parameter(connection: Connection) -> tuple[str, str, object]:
    run_id = connection.runs[connection.count % RUNS]
    return "POST", "runs/log-parameter", {"run_id": run_id, "key": f"p{connection.count}", "value": "0.5"}


def tag(connection: Connection) -> tuple[str, str, object]:
    fields = {"key": f"t{connection.count % 20}", "value": str(connection.count)}
    return "POST", "runs/set-tag", {"run_id": connection.runs[0], **fields}


def create(connection: Connection) -> tuple[str, str, object]:
    return "POST", "runs/create", {"experiment_id": "0", "start_time": now_ms(), "run_name": "bench"}


def get(connection: Connection) -> tuple[str, str, object]:
    return "GET", f"runs/get?run_id={connection.runs[0]}", None


CASES = [
    Case("log_metric", metric, target=">= 10"),
    Case("log_metric.one_client", metric, clients=1, target=">= 10"),
    Case("log_batch", batch, target=">= 20"),
    Case("log_batch.one_client", batch, clients=1, target=">= 20"),
    Case("log_batch.thousand_names", wide_batch, clients=4),
    Case("log_parameter", parameter, target=">= 10"),
    Case("set_tag", tag, target=">= 10"),
    Case("create_run", create),
    Case("get_run", get),
]


def main(seconds: float, chosen: list[str]) -> None:
    python = make_environment(ROOT / ".venv/mlflow-benchmark", PACKAGE)
    cases = [case for case in CASES if not chosen or case.name in chosen]
    with tempfile.TemporaryDirectory(prefix="ry-mlflow-") as folder:
        (Path(folder) / "home").mkdir(mode=0o700)
        with stock_server(python, Path(folder), **STOCK_POOL) as stock, runyard_server(Path(folder) / "home") as ours:
            servers = {"stock": stock, "ours": ours}
            connections = {name: [Connection(server) for _ in range(CLIENTS)] for name, server in servers.items()}
            for connection in (found for each in connections.values() for found in each):
                connection.make_runs(RUNS)
            for case in cases:
                measure(case, connections, seconds)
            if not chosen or "python_client" in chosen:
                measure_python(python, servers, seconds)
            if not chosen or "others" in chosen:
                for name, server in servers.items():
                    measure_others(name, Connection(server), connections[name], seconds)


def measure(case: Case, connections: dict[str, list[Connection]], seconds: float) -> None:
    for _ in range(ROUNDS):
        for name, found in connections.items():
            rate, refused = drive(found[: case.clients], case.request, seconds)
            case.rates.setdefault(name, []).append(rate)
            case.refused[name] += refused
    stock, ours = (statistics.median(case.rates[name]) for name in ("stock", "ours"))
    reference = f"{ours:,.0f}/s, mlflow server {stock:,.0f}/s, {case.clients} clients"
    reference += "".join(f", {name} refused {count:,}" for name, count in case.refused.items() if count)
    report(f"mlflow_rest.{case.name}", ours / stock, "x", target=case.target, reference=reference)


def drive(connections: list[Connection], request: Request, seconds: float) -> tuple[float, int]:
    """Have every connection send a request as soon as it has the answer before.

    Return answers per second, and how many requests were refused.
    """
    selector = selectors.DefaultSelector()
    for connection in connections:
        connection.connect()
        selector.register(connection.socket, selectors.EVENT_READ, connection)
        connection.send(*request(connection))
    began = time.perf_counter()
    count, refused, waiting = 0, 0, len(connections)
    while waiting:
        for key, _ in selector.select():
            connection = key.data
            try:
                if connection.receive() is None:
                    continue
                connection.count += 1
                count += 1
            except Refused as error:
                if not refused:
                    print(f"refused: {error}", file=sys.stderr)
                refused += 1
            if time.perf_counter() - began < seconds:
                connection.send(*request(connection))
            else:
                waiting -= 1
    return count / (time.perf_counter() - began), refused


def measure_python(python: Path, servers: dict[str, TrackingServer], seconds: float) -> None:
    rates: dict[str, list[list[float]]] = {}
    for _ in range(ROUNDS):
        for name, server in servers.items():
            variables = client_variables(MLFLOW_TRACKING_URI=server.base("bench"), MLFLOW_TRACKING_TOKEN=server.token)
            command = [str(python), "-c", PYTHON_CLIENT, str(seconds)]
            said = subprocess.run(command, env=variables, check=True, capture_output=True, text=True).stdout
            rates.setdefault(name, []).append([float(line) for line in said.split()])
    for index, what in enumerate(("log_metric", "log_batch")):
        stock, ours = (statistics.median(found[index] for found in rates[name]) for name in ("stock", "ours"))
        reference = f"{ours:,.0f}/s, mlflow server {stock:,.0f}/s"
        report(f"mlflow_rest.python_client.{what}", ours / stock, "x", reference=reference)


def measure_others(name: str, asking: Connection, connections: list[Connection], seconds: float) -> None:
    """Report how long a page of runs takes while all clients log metrics."""
    fields = {"experiment_ids": ["0"], "max_results": 20}
    asking.connect()
    alone = [took for took, _ in zip(timed(asking, fields), range(50))]
    times: list[float] = []
    done = threading.Event()

    def look() -> None:
        for took in timed(asking, fields):
            times.append(took)
            if done.is_set():
                return

    looking = threading.Thread(target=look)
    looking.start()
    drive(connections, metric, max(seconds, 3.0))
    done.set()
    looking.join()
    reference = f"median {ms(times, 0.5):.1f} ms; alone {ms(alone, 0.5):.1f} ms; {len(times)} searches of 20 runs"
    report(f"mlflow_rest.search_p99.{name}", ms(times, 0.99), "ms", reference=reference)


def timed(asking: Connection, fields: object) -> Iterator[float]:
    while True:
        began = time.perf_counter()
        asking.ask("POST", "runs/search", fields)
        yield time.perf_counter() - began


def ms(times: list[float], quantile: float) -> float:
    return sorted(times)[int(len(times) * quantile)] * 1000


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 1.5, sys.argv[2:])
