"""How a benchmark prints its figures; benchmarks/README.md has the format. Standard library only."""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass
from typing import Optional

COMPARE = {"<=": operator.le, ">=": operator.ge, "==": operator.eq}
_NUMBER = r"-?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|inf|nan)"
_LINE = re.compile(
    rf"figure: (?P<name>\S+) (?P<value>{_NUMBER}) (?P<unit>\S+)"
    rf"(?: \((?:target (?P<op><=|>=|==) (?P<target>{_NUMBER}))?(?:, )?(?:reference (?P<reference>.*))?\))?"
)


@dataclass(frozen=True)
class Figure:
    """One measured number, the bound it must keep, and what it was measured against in the same run."""

    name: str
    value: float
    unit: str
    op: Optional[str] = None
    target: Optional[float] = None
    reference: str = ""

    @property
    def ok(self) -> bool:
        return self.op is None or self.target is None or bool(COMPARE[self.op](self.value, self.target))


def report(name: str, value: float, unit: str, *, target: str = "", reference: str = "") -> Figure:
    """Print one figure and return it; `target` is such as `"<= 5"`."""
    op, _, bound = target.partition(" ")
    figure = Figure(name, value, unit, op or None, float(bound) if bound else None, reference)
    print(format_figure(figure), flush=True)
    return figure


def format_figure(figure: Figure) -> str:
    notes = [f"target {figure.op} {figure.target:.10g}"] if figure.op and figure.target is not None else []
    notes += [f"reference {figure.reference}"] if figure.reference else []
    line = f"figure: {figure.name} {figure.value:.6g} {figure.unit}"
    return f"{line} ({', '.join(notes)})" if notes else line


def parse_figure(line: str) -> Optional[Figure]:
    """Return the figure that a line of output states, None for any other line."""
    match = _LINE.fullmatch(line.strip())
    if match is None:
        return None
    target = match["target"]
    return Figure(
        match["name"],
        float(match["value"]),
        match["unit"],
        match["op"],
        float(target) if target else None,
        match["reference"] or "",
    )
