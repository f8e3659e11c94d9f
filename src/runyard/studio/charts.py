"""A small line as inline SVG: the band between least and greatest value of each bucket."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 240.0, 48.0


@dataclass(frozen=True)
class ChartLine:
    """Buckets of a numeric series; the three have one length."""

    steps: Sequence[float]
    least: Sequence[float]
    greatest: Sequence[float]


def render_chart(line: ChartLine) -> str:
    """Return an SVG of the line; empty when fewer than two buckets hold finite numbers."""
    buckets = [
        (step, low, high)
        for step, low, high in zip(line.steps, line.least, line.greatest)
        if math.isfinite(low) and math.isfinite(high)
    ]
    if len(buckets) < 2:
        return ""
    across = _scale([step for step, _, _ in buckets], WIDTH)
    down = _scale([value for _, low, high in buckets for value in (low, high)], HEIGHT - 2)
    upper = [(across(step), HEIGHT - 1 - down(high)) for step, _, high in buckets]
    lower = [(across(step), HEIGHT - 1 - down(low)) for step, low, _ in reversed(buckets)]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in [*upper, *lower])
    return f'<svg viewBox="0 0 {WIDTH:.0f} {HEIGHT:.0f}" role="img"><polygon points="{points}"/></svg>'


class _scale:
    def __init__(self, values: Sequence[float], length: float) -> None:
        self._low = min(values)
        # Halves, because the distance between two finite floats can be infinite.
        self._half = max(values) / 2 - self._low / 2
        self._length = length

    def __call__(self, value: float) -> float:
        return (value / 2 - self._low / 2) / self._half * self._length if self._half else self._length / 2
