"""`runyard sweeps`: the trials of a sweep, what they reached, and why some were stopped.

The first half writes a sweep as one HTML file that opens without a network: parallel coordinates, the best value so
far, and the table of trials.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runyard import cli
from runyard.cli.lookup import RUN, get_run, newest
from runyard.cli.output import moment, number, print_json, print_table
from runyard.cli.text import plain
from runyard.core.errors import InvalidArgument
from runyard.core.formats.documents import SweepChild, SweepReport
from runyard.core.specs import SWEEP_TYPE
from runyard.core.statuses import RunStatus
from runyard.sdk.sweeps.run import best_first
from runyard.sdk.workspaces.workspace import Workspace

if TYPE_CHECKING:
    from typing import TypeGuard

WIDTH, HEIGHT, MARGIN = 900, 320, 60
STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 960px; padding: 0 1rem; color: #1c2430; }
h1 { font-size: 1.3rem; overflow-wrap: anywhere; } h2 { font-size: 1rem; margin-top: 2rem; }
svg { width: 100%; height: auto; } text { font-size: 11px; fill: #52606d; }
table { border-collapse: collapse; width: 100%; } td, th { text-align: left; padding: .25rem .6rem; }
tr { border-bottom: 1px solid #e4e7eb; } .stopped { color: #9a6700; } .best { font-weight: 600; }
.line { fill: none; stroke: #9fb3c8; stroke-width: 1.2; opacity: .7; } .line.best { stroke: #0b69a3; stroke-width: 3; opacity: 1; }
.line.stopped { stroke: #d9a441; stroke-dasharray: 4 3; } .axis { stroke: #cbd2d9; } .dot { fill: #9fb3c8; } .dot.best { fill: #0b69a3; }
"""  # noqa: E501  # style rules, one a line
BAR = 30


def report_page(sweep: SweepReport, *, status: str) -> str:
    """Return the page. Everything that a user named is escaped."""
    spec, children = sweep["spec"], sweep["children"]
    title = f"Sweep {sweep['run_id']}"
    reason = (sweep["finished"] or {}).get("reason") or sweep["closed"] or "It continues."
    parts = [
        f"<h1>{_e(title)}</h1>",
        f"<p>{_e(status)}: {_e(reason)}<br>{_e(spec['goal'].lower())} <b>{_e(spec['primary_metric'])}</b>, "
        f"{len(children)} of at most {spec['max_total_runs']} children.</p>",
        "<h2>Best so far</h2>",
        best_curve(sweep),
        "<h2>Parameters and result</h2>",
        parallel_coordinates(sweep),
        "<h2>Children</h2>",
        _table(sweep),
    ]
    head = f'<meta charset="utf-8"><title>{_e(title)}</title><style>{STYLE}</style>'
    return f"<!doctype html><html lang=en><head>{head}</head><body>{''.join(parts)}</body></html>\n"


def best_curve(sweep: SweepReport) -> str:
    """Return each child's best as a dot in the order they were made, and the best so far as a line."""
    known = [(child["index"], float(child["best"])) for child in sweep["children"] if _is_number(child["best"])]
    if not known:
        return "<p>No child has logged the metric yet.</p>"
    x = _scale(min(index for index, _ in known), max(index for index, _ in known), MARGIN, WIDTH - 20)
    y = _scale(min(value for _, value in known), max(value for _, value in known), HEIGHT - 30, 15)
    better = max if sweep["spec"]["goal"] == "MAXIMIZE" else min
    best: float | None = None
    points: list[str] = []
    dots: list[str] = []
    for index, value in sorted(known):
        before, best = best, value if best is None else better(best, value)
        points += [f"{x(index):.1f},{y(height):.1f}" for height in (before, best) if height is not None]  # a step
        dots.append(f'<circle class="dot" cx="{x(index):.1f}" cy="{y(value):.1f}" r="3"/>')
    labels = _labels([value for _, value in known], y, x=MARGIN - 8)
    line = f'<polyline class="line best" points="{" ".join(points)}"/>'
    return _svg([*labels, *dots, line, f'<text x="{WIDTH / 2}" y="{HEIGHT - 6}">child</text>'])


def parallel_coordinates(sweep: SweepReport) -> str:
    """Return one axis a parameter and one for the result; each child is a line across them."""
    children = [child for child in sweep["children"] if _is_number(child["best"])]
    if not children:
        return "<p>No child has logged the metric yet.</p>"
    names = list(sweep["spec"]["space"])
    columns = [[child["parameters"].get(name) for child in children] for name in names]
    columns.append([float(child["best"]) for child in children if _is_number(child["best"])])
    titles = [*(name.lstrip("-") for name in names), sweep["spec"]["primary_metric"]]
    step = (WIDTH - 2 * MARGIN) / max(len(columns) - 1, 1)
    axes = [_Axis(column, MARGIN + number * step) for number, column in enumerate(columns)]
    best = sweep["best"]["run_id"] if sweep["best"] else None
    lines = []
    for place, child in enumerate(children):
        points = " ".join(f"{axis.x:.1f},{axis.y(column[place]):.1f}" for axis, column in zip(axes, columns))
        kind = "best" if child["run_id"] == best else "stopped" if child["stopped"] else ""
        title = f"{child['run_id']}: {json.dumps(child['parameters'])} → {child['best']:.6g}"
        lines.append(f'<polyline class="line {kind}" points="{points}"><title>{_e(title)}</title></polyline>')
    drawn = [axis.draw(title) for axis, title in zip(axes, titles)]
    return _svg([*sorted(lines, key=lambda line: "line best" in line), *drawn])


class _Axis:
    """A vertical axis: numbers by size, everything else by kind."""

    def __init__(self, values: Sequence[Any], x: float) -> None:
        self.x = x
        self._numbers = [float(value) for value in values if _is_number(value)]
        self._texts = sorted({json.dumps(value) for value in values}) if len(self._numbers) < len(values) else []
        if self._texts:
            self._scale = _scale(0, len(self._texts) - 1, HEIGHT - 40, 30)
        else:
            self._scale = _scale(min(self._numbers), max(self._numbers), HEIGHT - 40, 30)

    def y(self, value: Any) -> float:
        return self._scale(self._texts.index(json.dumps(value)) if self._texts else float(value))

    def draw(self, title: str) -> str:
        axis = f'<line class="axis" x1="{self.x:.1f}" x2="{self.x:.1f}" y1="30" y2="{HEIGHT - 40}"/>'
        name = f'<text x="{self.x:.1f}" y="{HEIGHT - 15}" text-anchor="middle">{_e(title)}</text>'
        if self._texts:
            ticks = [(json.loads(text), self._scale(number)) for number, text in enumerate(self._texts)]
        else:
            ticks = [(f"{value:.4g}", self._scale(value)) for value in {min(self._numbers), max(self._numbers)}]
        marks = "".join(f'<text x="{self.x + 6:.1f}" y="{at + 4:.1f}">{_e(text)}</text>' for text, at in ticks)
        return axis + name + marks


def _table(sweep: SweepReport) -> str:
    names = list(sweep["spec"]["space"])
    head = "".join(f"<th>{_e(title)}</th>" for title in ("child", "status", "best", *names, "stopped because"))
    best = sweep["best"]["run_id"] if sweep["best"] else None
    rows = []
    for child in sweep["children"]:
        values = [child["parameters"].get(name) for name in names]
        shown = [f"_{child['index']}", child["status"], child["best"], *values]
        cells = [*map(_cell, shown), child["stopped"]["reason"] if child["stopped"] else ""]
        kind = "best" if child["run_id"] == best else "stopped" if child["stopped"] else ""
        drawn = "".join(f"<td>{_e(cell)}</td>" for cell in cells)
        rows.append(f'<tr class="{kind}">{drawn}</tr>')
    return f"<table><tr>{head}</tr>{''.join(rows)}</table>"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _labels(values: Sequence[float], y: Callable[[float], float], *, x: float) -> list[str]:
    return [
        f'<text x="{x}" y="{y(value) + 4:.1f}" text-anchor="end">{value:.4g}</text>'
        for value in {min(values), max(values)}
    ]


def _scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    """Return what maps [low, high] to [start, end]; a single value lies in the middle."""
    if high == low:
        return lambda value: (start + end) / 2
    return lambda value: start + (value - low) / (high - low) * (end - start)


def _svg(parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{"".join(parts)}</svg>'


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _e(value: Any) -> str:
    return html.escape(str(value))


@cli.group()
def sweeps() -> None:
    """List sweeps and look into them."""


@sweeps.command("list")
@cli.option("--limit", default=20, show_default=True, help="How many, newest first.")
@cli.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_sweeps(limit: int, as_json: bool) -> None:
    """List sweeps, newest first."""
    found = newest(Workspace.from_config(), limit, type=SWEEP_TYPE)
    if as_json:
        print_json(found)
    elif found:
        rows = [(run.id, run.experiment, run.status.value, moment(run.created_at)) for run in found]
        print_table(("SWEEP", "EXPERIMENT", "STATUS", "CREATED"), rows)
    else:
        cli.echo("There are no sweeps. `experiment.submit(HyperDriveConfig(...))` starts one.", err=True)


@sweeps.command()
@RUN
@cli.option("--json", "as_json", is_flag=True, help="Print JSON.")
@cli.option("--html", type=cli.Path(dir_okay=False, path_type=Path), help="Write a report that can be opened offline.")
def show(run_id: str, as_json: bool, html: Path | None) -> None:
    """Show a sweep: its trials, best first, and why each was stopped. `last` is the newest sweep."""
    workspace = Workspace.from_config()
    newest_sweep = newest(workspace, 1, type=SWEEP_TYPE) if run_id == "last" else []
    run = get_run(workspace, newest_sweep[0].id if newest_sweep else run_id)
    if run.spec.sweep is None:
        raise InvalidArgument(f"Run `{run.id}` is not a sweep.", hint="`runyard sweeps list` shows the sweeps.")
    sweep = workspace._client.runs.sweep(run.id)
    if html is not None:
        html.write_text(report_page(sweep, status=run.status.value), encoding="utf-8")
        cli.echo(f"The report is in {html}.", err=True)
    if as_json:
        print_json(sweep)
    elif html is None:
        print_sweep(sweep, run.status)


def print_sweep(sweep: SweepReport, status: RunStatus) -> None:
    spec, children = sweep["spec"], best_first(sweep["children"], sweep["spec"]["goal"])
    ended = sum(1 for child in children if RunStatus(child["status"]).is_terminal)
    total = max(len(children), spec["max_total_runs"]) if sweep["closed"] is None else len(children)
    filled = BAR * ended // max(total, 1)
    cli.echo(f"{plain(sweep['run_id'])}  {status.value}")
    cli.echo(f"[{'#' * filled}{'.' * (BAR - filled)}] {ended} of {total} ended")
    cli.echo(f"{spec['goal'].lower()} {plain(spec['primary_metric'])}, {_policy(spec)}")
    names = list(spec["space"])
    rows = [
        (
            child["run_id"],
            child["status"],
            "" if child["best"] is None else number(child["best"]),
            *(_text(child["parameters"].get(name)) for name in names),
        )
        for child in children
    ]
    if rows:
        cli.echo("")
        print_table(("CHILD", "STATUS", "BEST", *(plain(name.lstrip("-")).upper() for name in names)), rows)
    _print_stops(children)
    if sweep["finished"]:
        cli.echo(f"\n{plain(sweep['finished']['reason'])}")
    elif sweep["closed"]:
        cli.echo(f"\nNo more children: {plain(sweep['closed'])}")


def _print_stops(children: list[SweepChild]) -> None:
    stopped = [(child["index"], child["run_id"], child["stopped"]["reason"]) for child in children if child["stopped"]]
    if stopped:
        cli.echo("\nStopped early:")
    for _, run_id, reason in sorted(stopped):
        cli.echo(f"  {plain(run_id)}: {plain(reason)}")


def _policy(spec: Mapping[str, Any]) -> str:
    if spec["policy"] == "Default":
        return "nothing is stopped early"
    properties = ", ".join(f"{name} {value:g}" for name, value in spec["policy_properties"].items())
    return f"{spec['policy']} ({properties})"


def _text(value: Any) -> str:
    return number(value) if isinstance(value, (int, float, str)) else json.dumps(value)
