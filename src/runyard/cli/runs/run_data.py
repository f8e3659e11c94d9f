"""`runyard runs files`, `runyard runs download` and `runyard runs metrics`: the data of a run."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from runyard import cli
from runyard.cli.lookup import RUN, get_run, pick_files
from runyard.cli.output import moment, number, print_json, print_table
from runyard.cli.text import plain
from runyard.core.errors import Conflict, NotFound
from runyard.core.machine.progress import Progress, shown_size
from runyard.core.names import SYSTEM_METRICS, is_system_metric, true_file_name
from runyard.core.records import MetricInfo
from runyard.sdk.workspaces.server import Client
from runyard.sdk.workspaces.workspace import Workspace


@cli.command()
@RUN
@cli.option("--json", "as_json", is_flag=True, help="Print JSON.")
def files(run_id: str, as_json: bool) -> None:
    """List a run's files."""
    workspace = Workspace.from_config()
    found = workspace._client.runs.files(get_run(workspace, run_id).id)
    if as_json:
        print_json(found)
    elif found:
        print_table(
            ("FILE", "SIZE", "CHANGED"), [(file.name, shown_size(file.size), moment(file.updated_at)) for file in found]
        )
    else:
        cli.echo(f"Run `{plain(run_id)}` has no files yet.", err=True)


@cli.command()
@RUN
@cli.argument("names", nargs=-1, metavar="[NAME...]")
@cli.option("--to", "folder", type=cli.Path(file_okay=False, path_type=Path), default=".", help="[default: here]")
@cli.option("--force", is_flag=True, help="Overwrite existing files.")
def download(run_id: str, names: tuple[str, ...], folder: Path, force: bool) -> None:
    """Download files of a run, by their names, as `runyard runs files` shows them; all of them without a name.

    A folder's name stands for all below it. Prints the paths written.

    \b
      runyard runs download RUN outputs/model.pkl
      runyard runs download RUN outputs logs --to results
    """
    workspace = Workspace.from_config()
    client = workspace._client
    run = get_run(workspace, run_id)
    found = pick_files(client, run.id, names)
    places = [(file, folder / true_file_name(file.name)) for file in found]
    _refuse_to_overwrite([place for _, place in places if not force and place.exists()])
    done = 0
    with Progress("downloading", sum(file.size for file in found)) as progress:
        for at, (file, place) in enumerate(places, start=1):
            came = progress.part(done, f"{file.name} (file {at} of {len(places)})")
            client.runs.download(run.id, file.name, place, expected=file, progress=came)
            done += file.size
            progress.clear()
            cli.echo(plain(place))


def _refuse_to_overwrite(there: list[Path]) -> None:
    if there:
        raise Conflict(
            f"`{there[0]}` is there already{f', and {len(there) - 1} more' if len(there) > 1 else ''}.",
            why="Nothing was downloaded.",
            hint="Choose another folder with --to, or write over it with --force.",
        )


@cli.command()
@RUN
@cli.argument("name", required=False)
@cli.option("--system", is_flag=True, help="Show CPU, memory, disk, network and GPU use instead.")
@cli.option("--rank", metavar="NUMBER", help="Only the values logged by this rank; `lowest` means the lowest rank.")
@cli.option("--json", "as_json", is_flag=True, help="Print JSON.")
def metrics(run_id: str, name: str | None, system: bool, rank: str | None, as_json: bool) -> None:
    """List a run's metrics, or every point of the metric NAME."""
    workspace = Workspace.from_config()
    client = workspace._client
    run = get_run(workspace, run_id)
    if name is not None and system and not is_system_metric(name):
        name = SYSTEM_METRICS + name
    known = client.runs.metrics(run.id, system=system or is_system_metric(name or ""))
    if name is not None:
        found = _find(known, run.id, name)
        _print_points(found, metric_columns(client, run.id, found, rank), as_json)
    elif as_json:
        print_json(known)
    elif known:
        print_table(("METRIC", "KIND", "COUNT", "LAST", "MIN", "MAX"), [_summary(metric) for metric in known])
    else:
        nothing = "was too short to be measured, or RUNYARD_SAMPLE_EVERY is 0" if system else "has logged no metrics"
        cli.echo(f"Run `{plain(run.id)}` {nothing}.", err=True)


def _find(known: Sequence[MetricInfo], run_id: str, name: str) -> MetricInfo:
    for metric in known:
        if metric.name == name:
            return metric
    names = ", ".join(metric.name for metric in known[:20])
    raise NotFound(
        f"Run `{run_id}` has no metric `{name}`.", hint=f"Its metrics: {names}." if names else "It has none."
    )


def metric_columns(client: Client, run_id: str, metric: MetricInfo, rank: str | None) -> dict[str, list[Any]]:
    """Return the columns of a metric, each with a value per point."""
    if metric.kind == "scalar":
        series = client.runs.metric_series(run_id, metric.name, rank=rank)
        times = [datetime.fromtimestamp(at / 1e9, tz=timezone.utc) for at in series.times]
        return {"step": list(series.steps), "time": times, "value": list(series.values)}
    found = client.runs.metric_values(run_id, metric.name, rank)
    if metric.kind == "artifact":
        return {"file": [series.file for series in found]}
    return {series.column: list(series.values) for series in found}


def _print_points(metric: MetricInfo, columns: dict[str, list[Any]], as_json: bool) -> None:
    if as_json:
        print_json({"name": metric.name, "kind": metric.kind, "columns": columns})
        return
    rows = zip(*columns.values())
    print_table([plain(title).upper() for title in columns], [[_cell(value) for value in row] for row in rows])


def _cell(value: object) -> str:
    if isinstance(value, datetime):
        return moment(value)
    return "" if value is None else number(value)


def _summary(metric: MetricInfo) -> tuple[object, ...]:
    last = metric.artifact if metric.kind == "artifact" else metric.last
    return metric.name, metric.kind, metric.count, *(_cell(value) for value in (last, metric.minimum, metric.maximum))
