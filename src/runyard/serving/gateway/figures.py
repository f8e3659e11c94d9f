"""Counts and times of a service: rows of ten seconds, and totals for Prometheus."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable, Mapping

_GROWTH = math.log(1.05)  # a bucket is 5 % wider than the one before
_LE_MS = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000)


class Times:
    """Durations in buckets of 5 %: a thousand requests or a million take the same room."""

    __slots__ = ("_buckets", "count", "largest", "total_s")

    def __init__(self) -> None:
        self.count = 0
        self.total_s = 0.0
        self.largest = 0.0
        self._buckets: Counter[int] = Counter()

    def add(self, seconds: float) -> None:
        self.count += 1
        self.total_s += seconds
        if seconds > self.largest:
            self.largest = seconds
        self._buckets[int(math.log(seconds * 1e6 + 1.0) / _GROWTH)] += 1

    def quantile_ms(self, share: float) -> float:
        """Return a value that `share` of the durations do not exceed, within 5 %; 0 when there are none."""
        left = share * self.count
        for bucket in sorted(self._buckets):
            left -= self._buckets[bucket]
            if left <= 1e-9:
                return float(min(_middle_ms(bucket), self.largest * 1e3))
        return self.largest * 1e3

    def count_below(self, limit_ms: float) -> int:
        return sum(count for bucket, count in self._buckets.items() if _middle_ms(bucket) <= limit_ms)


class Figures:
    """What happened since `started`; one for the present row and one for the service's whole life in this process."""

    def __init__(self) -> None:
        self.started = time.time()
        self.statuses: Counter[int] = Counter()
        self.latency = Times()
        self.queue = Times()
        self.batches: Counter[int] = Counter()
        self.bytes_in = 0
        self.bytes_out = 0
        self.busy_s = 0.0  # of all workers together

    def add(self, status: int, seconds: float, size_in: int, size_out: int) -> None:
        self.statuses[status] += 1
        self.latency.add(seconds)
        self.bytes_in += size_in
        self.bytes_out += size_out

    def row(self, now: float) -> dict[str, float]:
        """Return one row of metrics."""
        length = max(1e-9, now - self.started)
        batches = sum(self.batches.values())
        rows = sum(size * count for size, count in self.batches.items())
        return {
            "time": round(now, 3),
            "seconds": round(length, 3),
            "requests": self.latency.count,
            "errors_4xx": sum(count for status, count in self.statuses.items() if 400 <= status < 500),
            "errors_5xx": sum(count for status, count in self.statuses.items() if status >= 500),
            "p50_ms": round(self.latency.quantile_ms(0.5), 3),
            "p95_ms": round(self.latency.quantile_ms(0.95), 3),
            "p99_ms": round(self.latency.quantile_ms(0.99), 3),
            "max_ms": round(self.latency.largest * 1e3, 3),
            "queue_p50_ms": round(self.queue.quantile_ms(0.5), 3),
            "queue_p95_ms": round(self.queue.quantile_ms(0.95), 3),
            "batch_mean": round(rows / batches, 3) if batches else 0.0,
            "batch_max": max(self.batches, default=0),
            "busy_workers": round(self.busy_s / length, 3),
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
        }


def prometheus_text(services: Mapping[str, tuple[Figures, Mapping[str, float]]]) -> str:
    """Return the text format 0.0.4: totals of each service, and gauges by their short name."""
    lines = [
        "# HELP runyard_serving_requests_total Answers by status.",
        "# TYPE runyard_serving_requests_total counter",
    ]
    for name, (figures, _) in services.items():
        for status, count in sorted(figures.statuses.items()):
            lines.append(f'runyard_serving_requests_total{{service="{name}",status="{status}"}} {count}')
    for short, text in (("request", "From a request's head to its answer."), ("queue", "In the queue.")):
        full = f"runyard_serving_{short}_seconds"
        lines += [f"# HELP {full} {text}", f"# TYPE {full} histogram"]
        for name, (figures, _) in services.items():
            lines += _histogram(full, name, figures.latency if short == "request" else figures.queue)
    lines += _counters(services)
    gauges: dict[str, list[str]] = {}
    for name, (_, values) in services.items():
        for short, value in values.items():
            gauges.setdefault(short, []).append(f'runyard_serving_{short}{{service="{name}"}} {value:g}')
    for short, rows in gauges.items():
        lines += [f"# TYPE runyard_serving_{short} gauge", *rows]
    return "\n".join(lines) + "\n"


def _counters(services: Mapping[str, tuple[Figures, Mapping[str, float]]]) -> Iterable[str]:
    def of(figures: Figures) -> dict[str, float]:
        return {
            "batches_total": sum(figures.batches.values()),
            "batched_requests_total": sum(size * count for size, count in figures.batches.items()),
            "received_bytes_total": figures.bytes_in,
            "sent_bytes_total": figures.bytes_out,
            "busy_seconds_total": round(figures.busy_s, 6),
        }

    for short in of(Figures()):
        yield f"# TYPE runyard_serving_{short} counter"
        for name, (figures, _) in services.items():
            yield f'runyard_serving_{short}{{service="{name}"}} {of(figures)[short]:.15g}'


def _histogram(full: str, name: str, times: Times) -> Iterable[str]:
    for limit in _LE_MS:
        yield f'{full}_bucket{{service="{name}",le="{limit / 1000:g}"}} {times.count_below(limit)}'
    yield f'{full}_bucket{{service="{name}",le="+Inf"}} {times.count}'
    yield f'{full}_sum{{service="{name}"}} {times.total_s:.9g}'
    yield f'{full}_count{{service="{name}"}} {times.count}'


def _middle_ms(bucket: int) -> float:
    return (math.exp((bucket + 0.5) * _GROWTH) - 1.0) / 1e3
