"""Records as text for people: aligned columns, times and durations that are read at a glance."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

import click

from runyard.cli.text import plain
from runyard.core.formats.plain import to_plain
from runyard.core.records import Run


def print_json(value: object) -> None:
    """Print records as JSON. NaN and infinity become strings, since JSON has no such numbers."""
    click.echo(json.dumps(_numbers_that_json_knows(to_plain(value)), indent=2, ensure_ascii=True, allow_nan=False))


def print_table(titles: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    cells = [list(titles), *([plain(cell) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(titles))]
    for line in cells:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def print_fields(fields: Sequence[tuple[str, object]]) -> None:
    """Print `name  value` lines, those without a value left out."""
    shown = [(name, value) for name, value in fields if value not in (None, "", [], {})]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        click.echo(f"{name.ljust(width)}  {plain(value)}")


def moment(value: datetime | None) -> str:
    """Return local time to the second."""
    return value.astimezone().strftime("%Y-%m-%d %H:%M:%S") if value else ""


def duration(run: Run, *, now: datetime | None = None) -> str:
    """Return how long the run has been going, or went."""
    if run.started_at is None:
        return ""
    end = run.ended_at or now or datetime.now(timezone.utc)
    return seconds((end - run.started_at).total_seconds())


def seconds(value: float) -> str:
    if value < 60:
        return f"{max(value, 0):.1f} s"
    minutes, rest = divmod(int(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def number(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def size(value: float) -> str:
    if value < 1000:
        return f"{value:.0f} B"
    for unit in ("kB", "MB", "GB"):
        value /= 1000
        if value < 1000:
            return f"{value:.1f} {unit}"
    return f"{value / 1000:.1f} TB"


def _numbers_that_json_knows(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _numbers_that_json_knows(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_numbers_that_json_knows(item) for item in value]
    return value
