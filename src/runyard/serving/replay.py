"""`python -m runyard.serving.replay`: the run of `Model.profile`. It starts the packaged service of the current folder
and replays requests at rising concurrency, until more clients bring no more answers a second.

`outputs/profile.json` has the figures of each step and of the best one.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, Iterator, List, Sequence, Tuple

from runyard.serving.protocol import Json

OUTPUT = "outputs/profile.json"
_MOST_CLIENTS = 64
_GAIN = 1.05  # what a further step must bring
_STEP_S = 10.0
_START_S = 600.0
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_SERVING = re.compile(r"Serving on http://[\w.]+:(\d+)/score")


@dataclass
class Step:
    """What one number of clients gave."""

    clients: int
    seconds: float = 0.0
    cpu_s: float = 0.0
    memory_bytes: int = 0  # the most, of all of the service's processes
    latencies_ms: List[float] = field(default_factory=list)
    failed: int = 0

    @property
    def queries(self) -> int:
        return len(self.latencies_ms) + self.failed

    @property
    def rate(self) -> float:
        return len(self.latencies_ms) / self.seconds if self.seconds else 0.0


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m runyard.serving.replay")
    parser.add_argument("--requests", required=True, help="a file with a JSON text on each line: the bodies")
    parser.add_argument("--workers", type=int, default=1)
    found = parser.parse_args(list(arguments))
    with open(found.requests, encoding="utf-8") as file:
        bodies = [json.loads(line).encode() for line in file]
    service = _Service(found.workers)
    try:
        steps = list(iter_steps(service, bodies))
    finally:
        service.stop()
    figures = summary(steps)
    os.makedirs(os.path.dirname(OUTPUT), exist_ok=True)
    with open(OUTPUT, "w", encoding="utf-8") as file:
        json.dump(figures, file, indent=2)
    print(json.dumps({name: value for name, value in figures.items() if name != "steps"}, indent=2))
    return 0


class _Service:
    """`serve.py` of the current folder as a child process; its output is this one's."""

    def __init__(self, workers: int) -> None:
        command = [sys.executable, "serve.py", "--port", "0", "--workers", str(workers)]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, errors="replace")
        assert self._process.stderr is not None
        self._ready = threading.Event()
        self.port = 0
        threading.Thread(target=self._read, args=(self._process.stderr, workers), daemon=True).start()
        if not self._ready.wait(_START_S) or not self.port:
            self.stop()
            raise SystemExit("The service does not start; its output is above.")

    def _read(self, stream: IO[str], workers: int) -> None:
        ready = 0
        for line in stream:
            print(line, end="", file=sys.stderr, flush=True)
            ports = _SERVING.findall(line)
            ready += len(ports)
            if ports and ready == workers:
                self.port = int(ports[0])
                self._ready.set()
        self._ready.set()

    def usage(self) -> Tuple[float, int]:
        """Return (seconds of CPU so far, bytes of memory now) of its processes."""
        seconds, size = 0.0, 0
        for pid in _family(self._process.pid):
            try:
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                size += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
            except (OSError, IndexError):
                continue  # it has ended
            seconds += (int(fields[11]) + int(fields[12])) / _TICKS
        return seconds, size

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()


def iter_steps(service: Any, bodies: List[bytes]) -> Iterator[Step]:
    """Yield steps of 1, 2, 4 … clients while each answers more than the one before. Each sends every body once at
    least, unless that takes very long.
    """
    _play(service, bodies[:10], Step(1))  # what is loaded by the first requests
    best, clients = 0.0, 1
    while clients <= _MOST_CLIENTS:
        step = _play(service, bodies, Step(clients))
        yield step
        if step.rate < best * _GAIN:
            return
        best, clients = max(best, step.rate), clients * 2


def summary(steps: Sequence[Step]) -> Json:
    """Return the figures under Azure's keys: latencies of the step with the most answers a second."""
    best = max(steps, key=lambda one: one.rate)
    total, failed = sum(one.queries for one in steps), sum(one.failed for one in steps)
    latencies = sorted(best.latencies_ms)
    cpu = max(one.cpu_s / one.seconds for one in steps if one.seconds)
    memory = max(one.memory_bytes for one in steps) / (1 << 30)
    shares = {"50": 0.5, "90": 0.9, "95": 0.95, "99": 0.99, "999": 0.999}
    return {
        "maxUtilizedCpu": round(cpu, 3),
        "maxUtilizedMemoryInGB": round(memory, 3),
        "totalQueries": total,
        "successQueries": total - failed,
        "successRate": round(100.0 * (total - failed) / total, 3) if total else 0.0,
        "averageLatencyInMs": round(sum(latencies) / len(latencies), 3) if latencies else 0.0,
        **{f"latencyPercentile{name}InMs": round(percentile(latencies, at), 3) for name, at in shares.items()},
        "measuredQueriesPerSecond": round(best.rate, 3),
        "recommendedCpu": max(0.1, round(cpu * 1.1 + 0.05, 1)),
        "recommendedMemoryInGB": max(0.1, round(memory * 1.25 + 0.05, 1)),
        "steps": [{**asdict(one), "latencies_ms": None, "answers_per_s": round(one.rate, 3)} for one in steps],
    }


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the value that `share` of the sorted values do not exceed; 0 when there is none."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def _play(service: Any, bodies: List[bytes], step: Step) -> Step:
    turns = iter(range(max(len(bodies), step.clients)))
    lock = threading.Lock()
    ends = time.perf_counter() + _STEP_S
    cpu_before, _ = service.usage()
    began = time.perf_counter()

    def client() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=300)
        while time.perf_counter() < ends:
            with lock:
                turn = next(turns, None)
            if turn is None:
                break
            sent = time.perf_counter()
            is_good = _ask(connection, bodies[turn % len(bodies)])
            took_ms = (time.perf_counter() - sent) * 1e3
            with lock:
                if is_good:
                    step.latencies_ms.append(took_ms)
                else:
                    step.failed += 1
        connection.close()

    threads = [threading.Thread(target=client) for _ in range(step.clients)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        step.memory_bytes = max(step.memory_bytes, service.usage()[1])
        next(thread for thread in threads if thread.is_alive() or thread is threads[-1]).join(0.1)
    step.seconds = time.perf_counter() - began
    cpu_after, size = service.usage()
    step.cpu_s, step.memory_bytes = cpu_after - cpu_before, max(step.memory_bytes, size)
    return step


def _ask(connection: http.client.HTTPConnection, body: bytes) -> bool:
    try:
        connection.request("POST", "/score", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        return answer.status < 400
    except (OSError, http.client.HTTPException):
        connection.close()  # the next request opens it again
        return False


def _family(pid: int) -> List[int]:
    """Return a process and its descendants."""
    found = [pid]
    for one in found:
        try:
            text = Path(f"/proc/{one}/task/{one}/children").read_text()
        except OSError:
            continue
        found += [int(word) for word in text.split()]
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
