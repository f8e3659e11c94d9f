"""Rows, Prometheus and the access log: they add up to what clients did."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from random import Random
from statistics import quantiles

import pytest

from runyard.serving.gateway.figures import Figures, Times, prometheus_text
from tests.serving.deployments import RunningGateway, send
from tests.waiting import wait_for

SCRIPT = "def init(): pass\ndef run(d): return 1 / len(d)"


def test_rows_and_totals_add_up_to_the_requests(gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(tmp_path, SCRIPT)
    name = service.config.name
    for _ in range(7):
        service.post("xx")
    service.post("")
    service.post(b"\xff")

    with gateway.control() as control:
        control._ask("end_row", service=name, now=time.time())
        for _ in range(3):
            service.post("x")
        control._ask("end_row", service=name, now=time.time())
        rows = control.rows(name)

    assert [row["requests"] for row in rows] == [9, 3]
    assert [(row["errors_4xx"], row["errors_5xx"]) for row in rows] == [(1, 1), (0, 0)]
    assert [row["row"] for row in rows] == [1, 2]
    assert [row["bytes_in"] for row in rows] == [15, 3]
    assert all(0 < row["p50_ms"] <= row["p95_ms"] <= row["p99_ms"] <= row["max_ms"] for row in rows)
    assert rows[0]["workers"] == 1
    with gateway.control() as control:
        assert [row["row"] for row in control.rows(name, after=1)] == [2]
    kept = (gateway.folder / "metrics" / f"{name}.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in kept] == rows


def test_prometheus_text_parses_and_adds_up(gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(tmp_path, SCRIPT)
    name = service.config.name
    for body in ("x", "x", ""):
        service.post(body)

    text = send(gateway.port, "GET", "/metrics").body.decode()

    values: dict[str, float] = {}
    for line in text.splitlines():
        if line.startswith("#"):
            assert re.fullmatch(r"# (HELP|TYPE) [a-z_]+ .+", line), line
            continue
        match = re.fullmatch(r'([a-z_]+\{[a-z]+="[^"]*"(?:,[a-z]+="[^"]*")*\}) (\S+)', line)
        assert match, line
        values[match[1]] = float(match[2])
    assert values[f'runyard_serving_requests_total{{service="{name}",status="200"}}'] == 2
    assert values[f'runyard_serving_requests_total{{service="{name}",status="502"}}'] == 1
    buckets = [
        value
        for key, value in values.items()
        if key.startswith("runyard_serving_request_seconds_bucket") and f'"{name}"' in key
    ]
    assert buckets == sorted(buckets) and buckets[-1] == 3
    assert values[f'runyard_serving_request_seconds_count{{service="{name}"}}'] == 3
    assert values[f'runyard_serving_workers{{service="{name}"}}'] == 1


def test_there_is_a_line_for_each_request(gateway: RunningGateway, tmp_path: Path) -> None:
    service = gateway.deploy(tmp_path, SCRIPT)
    service.post("x", x_request_id="mine-1")
    service.post("", x_request_id="mine-2")
    log = gateway.folder / "logs" / f"{service.config.name}.log"

    wait_for(lambda: log.exists() and log.read_text().count("\n") == 2)

    first, second = log.read_text().splitlines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ POST /score 200 [\d.]+ms 3 mine-1", first)
    assert " 502 " in second and second.endswith(" mine-2")


def test_the_p95_of_rows_and_of_prometheus_is_that_of_the_clients() -> None:
    """Durations as three clients see them, of which two are slow at times; no clock is asked."""
    random = Random(39)
    durations = [random.lognormvariate(-4.0, 0.7) for _ in range(3000)] + [random.uniform(0.2, 0.6) for _ in range(150)]
    random.shuffle(durations)
    figures = Figures()
    for one in durations:
        figures.add(200, one, 3, 1)
    exact_ms = {share: quantiles(durations, n=100)[share - 1] * 1e3 for share in (50, 95, 99)}

    row = figures.row(figures.started + 10)

    found = {share: row[f"p{share}_ms"] for share in (50, 95, 99)}
    assert found == pytest.approx(exact_ms, rel=0.1)
    assert row["max_ms"] == pytest.approx(max(durations) * 1e3, abs=0.001) and row["requests"] == len(durations)
    text = prometheus_text({"svc": (figures, {})})
    counts = dict(re.findall(r'request_seconds_bucket\{service="svc",le="([^"]+)"\} (\d+)', text))
    for limit, count in counts.items():
        below = sum(one <= float(limit) for one in durations)
        assert int(count) == pytest.approx(below, rel=0.1, abs=5), limit
    total = re.search(r'request_seconds_sum\{service="svc"\} (\S+)', text)
    assert total is not None and float(total[1]) == pytest.approx(sum(durations))


def test_a_row_has_the_time_that_the_client_waited(gateway: RunningGateway, tmp_path: Path) -> None:
    """More than what the script took, and less than what the client measured, however busy the machine is."""
    service = gateway.deploy(tmp_path, "import time\ndef init(): pass\ndef run(d): time.sleep(0.02)")
    name = service.config.name
    began = time.perf_counter()
    answer = service.post("")
    whole_ms = (time.perf_counter() - began) * 1e3

    with gateway.control() as control:
        control._ask("end_row", service=name, now=time.time())
        (row,) = control.rows(name)

    assert float(answer.header("x-ms-run-fn-exec-ms") or 0) < row["max_ms"] < whole_ms
    assert row["p95_ms"] == pytest.approx(row["max_ms"], rel=0.05)


@pytest.mark.parametrize("share", [0.5, 0.95, 0.99])
def test_a_quantile_is_within_five_per_cent(share: float) -> None:
    times = Times()
    durations = [0.0002 * 1.002**number for number in range(4000)]
    for one in durations:
        times.add(one)

    exact = sorted(durations)[int(share * len(durations)) - 1] * 1e3

    assert times.quantile_ms(share) == pytest.approx(exact, rel=0.05)
