"""`runyard export`: writes runs as another tracker has them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from runyard import cli
from runyard.cli.exit_codes import FAILED
from runyard.cli.lookup import get_run
from runyard.cli.output import print_json, print_table
from runyard.cli.text import plain
from runyard.core.errors import InvalidArgument
from runyard.core.machine.progress import Progress, shown_size
from runyard.exports.history import list_family, list_runs, write_models, write_runs
from runyard.exports.targets import ExportReport, ExportTarget
from runyard.sdk.workspaces.workspace import Workspace

if TYPE_CHECKING:
    from runyard.core.records import Run

MOST_SHOWN = 20


@cli.group("export")
def exports() -> None:
    """Write runs as another tracker has them."""


@exports.command()
@cli.argument("names", nargs=-1)
@cli.option("--to", "target", metavar="FOLDER|URI", required=True, help="A folder (mlruns), or http://host:5000.")
@cli.option("--workspace", metavar="NAME", help="Where from. [default: that of config.json]")
@cli.option("--json", "as_json", is_flag=True, help="Print JSON.")
def mlflow(names: tuple[str, ...], target: str, workspace: str | None, as_json: bool) -> None:
    """Write runs, or all runs of experiments, to an MLflow store. Without NAMES, all of the workspace.

    \b
      runyard export mlflow --to ./mlruns
      runyard export mlflow mnist digits#12 --to http://mlflow.example.org:5000
    """
    source = Workspace.from_config() if workspace is None else Workspace.get(workspace)
    client, report = source._client, ExportReport()
    place = _open(target)
    try:
        with Progress("exporting", show=lambda count: f"{count:,} runs") as progress:
            runs = _chosen(source, names)
            progress.total = len(runs)
            write_runs(client, source.name, runs, place, report, began=lambda run_id: progress.add(1, run_id))
            progress.begin("exporting models")
            write_models(client, source.name, [run.id for run in runs] if names else None, place, report)
    finally:
        place.close()
    _print(report, as_json=as_json)
    if report.failed:
        raise cli.ExitWith(FAILED)


def _open(target: str) -> ExportTarget:
    if target.startswith(("http://", "https://")):
        from runyard.exports.mlflow_server import MlflowRest  # only a server needs it

        return MlflowRest(target)
    path = target[len("file:") :] if target.startswith("file:") else target
    path = f"/{path.lstrip('/')}" if target.startswith("file:///") else path
    if "://" in path or path.startswith(("sqlite:", "postgresql:", "mysql:")):
        raise InvalidArgument(
            f"`{target}` cannot be written to.",
            why="An export writes a folder, or talks to a server.",
            hint=f"Start `mlflow server --backend-store-uri {target}` and export --to its address.",
        )
    from runyard.exports.mlflow_folder import MlflowFolder  # only a folder needs it

    return MlflowFolder(str(Path(path).expanduser()))


def _chosen(workspace: Workspace, names: tuple[str, ...]) -> list[Run]:
    """Return the runs that are meant, parents first; a run comes with those below it."""
    client = workspace._client
    if not names:
        return list_runs(client, workspace.name)
    experiments = client.experiments.list(workspace.name, view="All")
    found: dict[str, Run] = {}
    for name in names:
        known = next((one for one in experiments if name in (one.name, one.shown_name)), None)
        if known is not None:
            runs = list_runs(client, workspace.name, experiment=known.name)
        else:
            runs = list_family(client, workspace.name, get_run(workspace, name))
        found.update({run.id: run for run in runs})
    return [*found.values()]


def _print(report: ExportReport, *, as_json: bool) -> None:
    if as_json:
        return print_json({**asdict(report), "failed": [entry._asdict() for entry in report.failed]})
    rows: list[tuple[object, ...]] = [("runs", *(f"{count:,}" for count in report.runs.values()), "")]
    if any(report.models.values()):
        rows.append(("model versions", *(f"{count:,}" for count in report.models.values()), ""))
    rows.append(("points", f"{report.points:,}", "", "", ""))
    rows.append(("files", f"{report.files:,}", "", "", shown_size(report.bytes)))
    print_table(("", "new", "changed", "unchanged", "bytes"), rows)
    for why, runs in [*report.notes.items()][:MOST_SHOWN]:
        cli.echo(f"{plain(why)}: {plain(runs[0])}" + (f" and {len(runs) - 1:,} more" if len(runs) > 1 else ""))
    if len(report.notes) > MOST_SHOWN:
        cli.echo(f"… and {len(report.notes) - MOST_SHOWN:,} more notes, which --json lists")
    for entry in report.failed[:MOST_SHOWN]:
        cli.echo(f"not there: {plain(entry.name)}: {plain(entry.why)}")
    if len(report.failed) > MOST_SHOWN:
        cli.echo(f"… and {len(report.failed) - MOST_SHOWN:,} more, which --json lists")
    return None
