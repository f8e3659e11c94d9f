"""Input and output of the commands: tables, times and sizes as text, options as people type them.

`Seconds` reads `90`, `10m` or `2h`, and `Bytes` reads `500MB` or `20GB`.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from typing import Any

from runyard import cli
from runyard.cli.text import plain
from runyard.core.formats.plain import to_plain
from runyard.core.records import Run
from runyard.core.statuses import RunStatus

RED, GREEN, YELLOW, BLUE = 31, 32, 33, 34
COLOURS = {
    RunStatus.COMPLETED.value: GREEN,
    RunStatus.RUNNING.value: BLUE,
    RunStatus.FINALIZING.value: BLUE,
    RunStatus.FAILED.value: RED,
    RunStatus.NOT_RESPONDING.value: RED,
    RunStatus.CANCELED.value: YELLOW,
    RunStatus.CANCEL_REQUESTED.value: YELLOW,
}
UNITS_S = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
UNITS_BYTES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}


def print_json(value: object) -> None:
    """Print records as JSON. NaN and infinity become strings, since JSON has no such numbers."""
    cli.echo(json.dumps(_numbers_that_json_knows(to_plain(value)), indent=2, ensure_ascii=True, allow_nan=False))


def print_table(titles: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    cells = [list(titles), *([plain(cell) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(titles))]
    for line in cells:
        padded = [cell.ljust(width) for cell, width in zip(line, widths)]
        padded[-1] = padded[-1].rstrip()
        cli.echo(
            "  ".join(painted(cell) if title == "STATUS" else cell for title, cell in zip(titles, padded)).rstrip()
        )


def print_fields(fields: Sequence[tuple[str, object]]) -> None:
    """Print `name  value` lines, those without a value left out."""
    shown = [(name, value) for name, value in fields if value not in (None, "", [], {})]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        text = plain(value)
        cli.echo(f"{name.ljust(width)}  {painted(text) if name == 'status' else text}")


def painted(status: str) -> str:
    """Return a status in its colour where stdout is a terminal that wants colours (https://no-color.org)."""
    colour = COLOURS.get(status.strip())
    wants_colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return f"\x1b[{colour}m{status}\x1b[0m" if colour and wants_colour else status


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


def _numbers_that_json_knows(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _numbers_that_json_knows(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_numbers_that_json_knows(item) for item in value]
    return value


def pairs(ctx: cli.Context, param: cli.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Return the value of an option that is given as NAME=VALUE, many times."""
    for value in values:
        if "=" not in value[1:]:
            raise cli.BadParameter(f"{value!r} has no name and value. Write NAME=VALUE.", ctx, param)
    return dict(value.split("=", 1) for value in values)


def chosen_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that choose of a project's file: its extras and groups, and an environment of pixi's."""
    pixi = cli.option(
        "--pixi-environment", metavar="NAME", help="The environment to take from pixi's file. [default: default]"
    )
    lists = (
        ("--no-group", "without_groups", "Skip a dependency group that uv or Poetry installs by default."),
        ("--group", "groups", "Also install this dependency group of uv.lock, poetry.lock or pyproject.toml."),
        ("--extra", "extras", "Also install this extra of uv.lock, poetry.lock or pyproject.toml."),
    )
    command = pixi(command)
    for name, target, text in lists:
        command = cli.option(name, target, metavar="NAME", multiple=True, help=text)(command)
    return command


class Seconds(cli.ParamType):
    """Whole seconds, one or more."""

    name = "time"

    def convert(self, value: str) -> int:
        match = re.fullmatch(r"0*([1-9]\d*)([smhd]?)", str(value))
        if match is None:
            self.fail(f"{value!r} is no time. Write seconds, or 10m, 2h, 1d.")
        return int(match[1]) * UNITS_S[match[2]]


class Bytes(cli.ParamType):
    name = "size"

    def convert(self, value: str) -> int:
        match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([kmgt]?b)?", str(value).lower())
        if match is None:
            self.fail(f"{value!r} is no size. Write 500MB, 20GB, or bytes.")
        return int(float(match[1]) * UNITS_BYTES[match[2] or ""])
