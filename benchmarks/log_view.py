"""A log of 1 GB by lines over HTTP: the first screen, the middle, a search to the end, the first error at its end.

    python benchmarks/log_view.py [BYTES]

The references are `wc -l`, `grep -c` and `grep -ci` on the same file in the same run.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import uvicorn

SOURCE = Path(__file__).resolve().parent.parent / "src"
sys.path.insert(0, str(SOURCE))

from figures import report  # noqa: E402

from runyard.core.config.paths import artifact_folder  # noqa: E402
from runyard.core.config.settings import Settings  # noqa: E402
from runyard.core.records import NewRun, RunFile  # noqa: E402
from runyard.engine.runs.streams import stream_key  # noqa: E402
from runyard.server.access.permissions import Owner  # noqa: E402
from runyard.server.app import create_app  # noqa: E402
from runyard.server.services import Services, open_services  # noqa: E402

LOG = "user_logs/std_log.txt"
KEY = stream_key("run", 1, LOG)
LINE = "2026-11-15 18:{:02d}:{:02d},{:03d} INFO trainer: epoch {} step {} loss={:.6f} lr=0.0003 it/s=12.3\n"
LAST = b"Traceback (most recent call last):\n  File 'train.py', line 3\nValueError: the very last needle\n"


def main() -> int:
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 1 << 30
    with tempfile.TemporaryDirectory(prefix="runyard-bench-") as folder:
        services = open_services(Settings(home=Path(folder)), {"kind": "unix", "path": "", "token": ""})
        try:
            write(services, size)
            path = artifact_folder(Path(folder)) / KEY
            with served(services) as ask:
                measure(ask, path)
        finally:
            services.close()
    return 0


def measure(ask: Any, path: Path) -> None:
    wc, lines = timed(lambda: said("wc", "-l", path))
    grep, _ = timed(lambda: said("grep", "-c", "needle", path))
    grep_i, _ = timed(lambda: said("grep", "-ci", "NEEDLE", path))
    first, page = timed(lambda: ask("lines", first=-200, count=200))
    assert page["lines"][-1] == "ValueError: the very last needle" and page["total"] in (None, lines)
    report("log.first_screen", first * 1e3, "ms", target="<= 300", reference=f"wc -l {wc * 1e3:.0f} ms")
    counted, total = timed(lambda: until(lambda: ask("lines", first=1, count=0)["total"]))
    assert total == lines, (total, lines)
    report("log.count", counted, "s", target="<= 5", reference=f"wc -l {wc:.2f} s, {lines} lines")
    middle, page = timed(lambda: ask("lines", first=lines // 2, count=200))
    assert page["first"] == lines // 2 and f"step {lines // 2 - 1} " in page["lines"][0]
    report("log.middle", middle * 1e3, "ms", target="<= 50", reference="200 lines")
    for name, query, reference in (
        ("log.search", {"case": True, "text": "needle"}, f"grep -c {grep:.2f} s"),
        ("log.search_any_case", {"text": "NEEDLE"}, f"grep -ci {grep_i:.2f} s"),
    ):
        took, found = timed(lambda query=query: search(ask, query))
        assert found == [lines], found
        report(name, took, "s", target="<= 10", reference=reference)
    took, error = timed(lambda: first_error(ask))
    assert (error["line"], error["kind"]) == (lines - 2, "traceback")
    report("log.first_error", took, "s", target="<= 20", reference=f"12 words; grep -c of one {grep:.2f} s")


def said(*command: str | Path) -> int:
    return int(subprocess.run(command, capture_output=True, check=True).stdout.split()[0])


def search(ask: Any, query: dict[str, Any]) -> list[int]:
    found: list[int] = []
    answer = {"searched_to": 0, "offset": 0, "done": False}
    while not answer["done"]:
        answer = ask("search", **query, after=answer["searched_to"], offset=answer["offset"])
        found += answer["lines"]
    return found


def first_error(ask: Any) -> dict[str, Any]:
    answer: dict[str, Any] = {"searched_to": 0, "offset": 0, "done": False}
    while not answer["done"]:
        answer = ask("first-error", after=answer["searched_to"], offset=answer["offset"])
    return answer


def until(ask: Any) -> Any:
    while (found := ask()) is None:
        pass
    return found


def timed(work: Any) -> tuple[float, Any]:
    began = time.perf_counter()
    found = work()
    return time.perf_counter() - began, found


def write(services: Services, size: int) -> None:
    services.store.create_run(NewRun("key", "run", "default", "e"))
    services.store.put_file("run", RunFile(name=LOG, size=0, kind="stream", chunks=[KEY], complete=False))
    at = number = 0
    while at < size - len(LAST):
        rows = (
            LINE.format(one % 60, one % 59, one % 1000, one // 5000, one, 1 / (one + 1))
            for one in range(number, number + 200_000)
        )
        number += 200_000
        at = services.artifacts.append(KEY, at, "".join(rows).encode())
    services.artifacts.append(KEY, at, LAST)


class served:
    """The app on a port of this machine, asked over one connection."""

    def __init__(self, services: Services) -> None:
        app = create_app(services)

        async def as_owner(scope: Any, receive: Any, send: Any) -> None:
            scope.setdefault("state", {})["principal"] = Owner()
            await app(scope, receive, send)

        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._server = uvicorn.Server(uvicorn.Config(as_owner, log_config=None, lifespan="off"))
        self._thread = threading.Thread(target=self._server.run, args=([self._listening],))

    def __enter__(self) -> Any:
        self._thread.start()
        connection = HTTPConnection(*self._listening.getsockname())

        def ask(what: str, **query: Any) -> Any:
            connection.request("GET", f"/api/v1/runs/run/log/{what}?{urlencode({'file': LOG, **query})}")
            answer = connection.getresponse()
            body = json.loads(answer.read())
            assert answer.status == 200, body
            return body

        return ask

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join()


if __name__ == "__main__":
    sys.exit(main())
