"""`runyard runs watch`, `wait`, `open`, `compare`, `rename` and `export`."""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path

from runyard import cli
from runyard.cli.commands.studio import open_in_browser
from runyard.cli.exit_codes import FAILED, exit_code_of
from runyard.cli.lookup import RUN, RUNS, get_run, name_of
from runyard.cli.output import Seconds, duration, number, painted, print_json, print_table
from runyard.cli.runs.run_data import metric_columns
from runyard.cli.runs.run_report import command_of, follow, print_end
from runyard.cli.runs.run_report import wait as wait_for_end
from runyard.cli.text import plain
from runyard.core.errors import Conflict
from runyard.core.formats.plain import to_plain
from runyard.core.machine.progress import Progress
from runyard.core.names import true_file_name
from runyard.core.records import MetricInfo, Run
from runyard.sdk.runs.details import PollInterval
from runyard.sdk.workspaces.server import Client
from runyard.sdk.workspaces.workspace import Workspace


@cli.command(plain="a log is printed as it was written")
@RUN
@cli.option("--tail", "-n", "tail", type=cli.IntRange(1), metavar="N", help="Start with the last N lines.")
@cli.pass_context
def watch(ctx: cli.Context, run_id: str, tail: int | None) -> None:
    """Follow a run's output until it ends, then print a summary.

    The exit code is the run's. Ctrl-C stops watching; the run continues.
    """
    workspace = Workspace.from_config()
    client = workspace._client
    run = follow(client, get_run(workspace, run_id).id, last_lines=tail)
    print_end(run, client.runs.metrics(run.id), client.runs.files(run.id))
    ctx.exit(exit_code_of(run.status))


@cli.command()
@RUNS
@cli.option("--timeout", type=Seconds(), metavar="TIME", help="Give up after 90s, 10m or 2h; the runs continue.")
@cli.pass_context
def wait(ctx: cli.Context, run_ids: tuple[str, ...], timeout: int | None) -> None:
    """Wait until runs have ended, and print how each did. The exit code is 0 when all of them completed."""
    workspace = Workspace.from_config()
    until = None if timeout is None else time.monotonic() + timeout
    codes = []
    for run in [get_run(workspace, name) for name in run_ids]:
        ended = _wait_until(workspace._client, run, until)
        if ended is None:
            cli.echo(f"error: {plain(name_of(run))} has not ended within {timeout} s.", err=True)
            ctx.exit(FAILED)
        cli.echo(f"{plain(name_of(ended))}  {painted(ended.status.value)}  {duration(ended)}")
        codes.append(exit_code_of(ended.status))
    ctx.exit(max(codes))


def _wait_until(client: Client, run: Run, until: float | None) -> Run | None:
    """Return the run as it ended; None: the time is up."""
    if until is None:
        return wait_for_end(client, run.id)
    pace = PollInterval()
    while True:
        run = client.runs.get(run.id)
        left = until - time.monotonic()
        if run.status.is_terminal:
            return run
        if left <= 0:
            return None
        time.sleep(min(pace.next(), left))


@cli.command("open", plain="it opens a browser")
@RUN
@cli.option("--no-browser", is_flag=True, help="Only print the link.")
def open_page(run_id: str, no_browser: bool) -> None:
    """Open a run's page in the browser, signed in."""
    workspace = Workspace.from_config()
    open_in_browser(workspace, f"/runs/{get_run(workspace, run_id).id}", no_browser=no_browser)


@cli.command()
@RUN
@cli.argument("name")
def rename(run_id: str, name: str) -> None:
    """Give a run the name NAME. Its number and id stay, and find it as before."""
    workspace = Workspace.from_config()
    run = get_run(workspace, run_id)
    changed = workspace._client.runs.update(run.id, display_name=name)
    cli.echo(f"Run {plain(name_of(run))} is called {plain(changed.display_name)!r}.", err=True)


@cli.command()
@RUNS
@cli.option("--all", "show_all", is_flag=True, help="Also show what they have in common.")
@cli.option("--json", "as_json", is_flag=True, help="Print JSON.")
@cli.pass_context
def compare(ctx: cli.Context, run_ids: tuple[str, ...], show_all: bool, as_json: bool) -> None:
    """Show how runs differ: parameters, last metrics, tags, code and environment.

    `runyard snapshots diff RUN OTHER_RUN` shows the lines of code that differ.
    """
    if len(run_ids) < 2:
        raise cli.UsageError("There is one run to compare. Name two or more.", ctx)
    workspace = Workspace.from_config()
    runs = [get_run(workspace, name) for name in run_ids]
    columns = [_facts(run, workspace._client.runs.metrics(run.id)) for run in runs]
    names = list(dict.fromkeys(name for column in columns for name in column))
    rows = [(name, [column.get(name) for column in columns]) for name in names]
    shown = [(name, values) for name, values in rows if show_all or any(value != values[0] for value in values)]
    if as_json:
        print_json({"runs": [run.id for run in runs], "facts": dict(shown)})
    elif shown:
        cells = [(name, *("" if value is None else number(value) for value in values)) for name, values in shown]
        print_table(("", *(plain(name_of(run)) for run in runs)), cells)
    else:
        cli.echo("The runs do not differ in anything that is compared.", err=True)


def _facts(run: Run, metrics: Sequence[MetricInfo]) -> Mapping[str, object]:
    return {
        "name": run.display_name if run.display_name != run.id else "",
        "status": run.status.value,
        "duration": duration(run) or None,
        "target": run.spec.target,
        "command": command_of(run),
        "snapshot": (run.snapshot_id or "")[:8] or None,
        "environment": run.spec.environment.name,
        **{f"params.{key}": value for key, value in sorted(run.parameters.items())},
        **{f"tags.{key}": value or "" for key, value in sorted(run.tags.items())},
        **{f"metrics.{metric.name}": metric.last for metric in metrics if metric.kind == "scalar"},
    }


@cli.command()
@RUNS
@cli.option("--to", "folder", type=cli.Path(file_okay=False, path_type=Path), default="runs", show_default=True)
@cli.option("--files", "with_files", is_flag=True, help="Also write the runs' files.")
def export(run_ids: tuple[str, ...], folder: Path, with_files: bool) -> None:
    """Write runs into FOLDER, each into a folder of its own: run.json, and metrics.csv with every point.

    metrics.csv has the columns metric, step, time and value. Tables are in files of their own, such as table.csv.
    `runyard export mlflow` writes what MLflow reads.
    """
    workspace = Workspace.from_config()
    client = workspace._client
    for run in [get_run(workspace, name) for name in run_ids]:
        place = folder / run.id
        if place.exists():
            raise Conflict(
                f"`{place}` is there already.",
                why="An export does not write over what is there.",
                hint="Choose another folder with --to, or remove it.",
            )
        place.mkdir(parents=True)
        metrics = client.runs.metrics(run.id)
        (place / "run.json").write_text(json.dumps(to_plain(run), indent=2), encoding="utf-8")
        _write_scalars(client, run, metrics, place / "metrics.csv")
        for metric in metrics:
            if metric.kind == "table":
                _write_table(client, run, metric, place / "tables")
        if with_files:
            _download_files(client, run, place / "files")
        cli.echo(plain(place))


def _write_scalars(client: Client, run: Run, metrics: Sequence[MetricInfo], path: Path) -> None:
    scalars = [metric for metric in metrics if metric.kind == "scalar"]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("metric", "step", "time", "value"))
        for metric in scalars:
            series = client.runs.metric_series(run.id, metric.name)
            for step, at, value in zip(series.steps, series.times, series.values):
                time_text = datetime.fromtimestamp(at / 1e9, tz=timezone.utc).isoformat()
                writer.writerow((metric.name, step, time_text, value))


def _write_table(client: Client, run: Run, metric: MetricInfo, folder: Path) -> None:
    columns = metric_columns(client, run.id, metric, None)
    folder.mkdir(exist_ok=True)
    with (folder / f"{_file_name(metric.name)}.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values()))


def _file_name(metric: str) -> str:
    return "".join(sign if sign.isalnum() or sign in "-_." else "_" for sign in metric).lstrip(".") or "_"


def _download_files(client: Client, run: Run, folder: Path) -> None:
    found = client.runs.files(run.id)
    done = 0
    with Progress("downloading", sum(file.size for file in found)) as progress:
        for at, file in enumerate(found, start=1):
            came = progress.part(done, f"{file.name} (file {at} of {len(found)})")
            client.runs.download(run.id, file.name, folder / true_file_name(file.name), expected=file, progress=came)
            done += file.size
