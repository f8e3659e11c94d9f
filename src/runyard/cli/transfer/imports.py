"""`runyard import`: brings the history of another tracker in."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

from runyard import cli
from runyard.cli.exit_codes import FAILED
from runyard.cli.transfer.report import print_report
from runyard.core.errors import InvalidArgument
from runyard.core.machine.progress import Progress
from runyard.core.names import check_experiment_name, check_workspace_name
from runyard.imports.assets import MakeAsset, list_models, write_assets
from runyard.imports.azureml import export
from runyard.imports.records import ImportedAsset, ImportSource
from runyard.imports.report import NEW, SAME, ImportReport
from runyard.imports.uploads import wanted_files
from runyard.imports.verify import verify_run
from runyard.imports.writer import ImportOptions, wanted_heads, write_history
from runyard.sdk.workspaces.server import Client
from runyard.sdk.workspaces.workspace import Workspace

KINDS = ("environment", "dataset", "datastore")


@cli.group("import")
def imports() -> None:
    """Bring the history of another tracker in: runs with their ids, times, metrics and files."""


def import_options(function: Callable[..., None]) -> Callable[..., None]:
    """The options that all sources share."""
    for option in reversed(
        (
            cli.option(
                "--workspace", metavar="NAME", help="The workspace to import into. [default: that of config.json]"
            ),
            cli.option("--experiment-prefix", metavar="TEXT", default="", help="Put before the experiments' names."),
            cli.option("--dry-run", is_flag=True, help="Read the source, say what would come in, and store nothing."),
            cli.option("--since", metavar="DATE", help="Only runs that began on this day or later: 2024-01-31."),
            cli.option(
                "--files",
                metavar="all|none|GLOB",
                default="all",
                show_default=True,
                help="Files of the runs; later the same command with `all` brings the rest.",
            ),
            cli.option(
                "--jobs",
                metavar="N",
                type=cli.IntRange(1, 64),
                default=4,
                show_default=True,
                help="Files that are sent at a time.",
            ),
            cli.option("--verify", is_flag=True, help="Read all of it back, and compare with the source."),
            cli.option("--json", "as_json", is_flag=True, help="Print JSON."),
        )
    ):
        function = option(function)
    return function


@imports.command()
@cli.argument("source")
@cli.option(
    "--artifacts",
    metavar="FOLDER",
    multiple=True,
    help="Where artifacts lie that are neither in the folder nor beside the database.",
)
@import_options
def mlflow(source: str, artifacts: tuple[str, ...], **options: Any) -> None:
    """Bring in an MLflow store. SOURCE is its folder, its database or its server's address.

    \b
      runyard import mlflow ./mlruns
      runyard import mlflow sqlite:///mlflow.db
      runyard import mlflow http://localhost:5000
    """
    from runyard.imports.mlflow import open_mlflow  # readers load when they are asked for

    bring_in(open_mlflow(source, artifacts=artifacts), **options)


@imports.command()
@cli.argument("folder", required=False)
@cli.option("--script", "as_script", is_flag=True, help="Print the script that exports a workspace, and nothing else.")
@cli.option(
    "--blobs",
    metavar="FOLDER",
    help="A copy of the container `azureml` of the storage account, for files that the export does not have.",
)
@import_options
def azureml(folder: str | None, as_script: bool, blobs: str | None, **options: Any) -> None:
    """Bring in what the export script took out of an Azure ML workspace. FOLDER is what it wrote.

    \b
      runyard import azureml --script > export.py
      python export.py FOLDER --config config.json    (where azureml-core is installed)
      runyard import azureml FOLDER --verify
    """
    if as_script:
        with open(os.path.splitext(export.__file__)[0] + ".py", encoding="utf-8") as file:
            cli.echo(file.read().rstrip("\n"))
        return
    if folder is None:
        raise cli.UsageError("Name the folder that the export script wrote; --script prints the script.")
    from runyard.cli.transfer.azure_assets import AzureAssets  # as is the SDK's part about environments and data
    from runyard.imports.azureml.folder import open_azureml  # readers load when they are asked for

    bring_in(open_azureml(folder, blobs=blobs), assets=lambda workspace: AzureAssets(workspace).make, **options)


@imports.command()
@cli.argument("logdir")
@import_options
def tensorboard(logdir: str, **options: Any) -> None:
    """Bring in what programs wrote for TensorBoard. LOGDIR is its log folder; each folder with event files is a run.

    \b
      runyard import tensorboard ./runs --verify
    """
    from runyard.imports.tensorboard import open_tensorboard  # readers load when they are asked for

    bring_in(open_tensorboard(logdir), **options)


@imports.command()
@cli.argument("folder")
@cli.option("--links", is_flag=True, help="Files that wandb.save linked to from the runs' folders, wherever they lie.")
@import_options
def wandb(folder: str, links: bool, **options: Any) -> None:
    """Bring in runs that Weights & Biases keeps on this machine. FOLDER is its `wandb`, or one run's folder in it.

    \b
      runyard import wandb ./wandb --verify
    """
    from runyard.imports.wandb.folder import open_wandb  # readers load when they are asked for

    bring_in(open_wandb(folder, follows_links=links), **options)


def bring_in(
    source: ImportSource,
    *,
    workspace: str | None,
    experiment_prefix: str,
    dry_run: bool,
    since: str | None,
    files: str,
    jobs: int,
    verify: bool,
    as_json: bool,
    assets: Callable[[Workspace], MakeAsset] = lambda workspace: _no_assets,
) -> None:
    """Import a source, say what became of it, and leave with 1 when something of it is not here.

    Args:
        assets: gives what makes environments and datasets of the source ours.
    """
    if experiment_prefix:
        check_experiment_name(experiment_prefix + "x")
    current = Workspace.from_config()
    client, name = current._client, current.name if workspace is None else check_workspace_name(workspace)
    options = ImportOptions(name, experiment_prefix=experiment_prefix, since_ns=_since(since), files=files, jobs=jobs)
    report = ImportReport()
    try:
        with Progress("importing", show=lambda count: f"{count:,} runs") as progress:
            if dry_run:
                is_there = any(one.name == name for one in client.workspaces.list())
                _look_at(source, client if is_there else None, options, report)
            else:
                target = current if workspace is None else Workspace.create(name, exist_ok=True, show_output=False)
                write_history(
                    client,
                    source,
                    options,
                    report,
                    counted=lambda count: setattr(progress, "total", count),
                    began=lambda run_id: progress.add(1, run_id),
                )
                progress.begin("importing models and assets")
                write_assets(client, source, options, report, make=assets(target))
            if verify and not dry_run:
                progress.begin("comparing")
                for head in wanted_heads(source, options):
                    progress.add(1, head.id)
                    verify_run(client, source, head, files, report)
        report.skipped += dict.fromkeys(source.skipped)
    finally:
        source.close()
    print_report(report, as_json=as_json, is_dry_run=dry_run)
    if report.failed:
        raise cli.ExitWith(FAILED)


def _look_at(source: ImportSource, client: Client | None, options: ImportOptions, report: ImportReport) -> None:
    """Count what an import would bring; whether a known run has grown shows only when its points are read.

    Args:
        client: None when there is no such workspace yet, so that nothing is known.
    """
    heads = wanted_heads(source, options)
    for at in range(0, len(heads), 1000):
        some = heads[at : at + 1000]
        known = client.imports.known(options.workspace, [head.id for head in some]) if client is not None else {}
        for head in some:
            try:
                run = source.read_run(head)
            except (OSError, ValueError) as error:
                report.fail(f"run {head.id}", str(error))
                continue
            is_taken = head.id in known and known[head.id].get("source") != source.kind
            if is_taken:
                report.fail(f"run {head.id}", "its id is taken by a run that did not come from there")
            report.count(report.runs, SAME if head.id in known else NEW)
            wanted = [] if head.id in known else wanted_files(run.files, options.files)
            report.add(
                points=0 if head.id in known else sum(len(part) for part in run.read_points()),
                files=len(wanted),
                size=sum(file.size for file in wanted),
                noted=1 if run.notes else 0,
            )

    _look_at_assets(source, client, options.workspace, report)


def _look_at_assets(source: ImportSource, client: Client | None, workspace: str, report: ImportReport) -> None:
    models = list_models(client, workspace) if client is not None else set()
    for model in source.iter_models():
        report.count(report.models, SAME if (model.name, model.version) in models else NEW)
    kinds = {
        kind: {one.name for one in client.assets.list(workspace, kind)} if client is not None else set()
        for kind in KINDS
    }
    for asset in source.iter_assets():
        report.count(report.assets, SAME if asset.name in kinds[asset.kind] else NEW)


def _no_assets(asset: ImportedAsset) -> None:
    raise ValueError(f"a source of this kind has no {asset.kind}")


def _since(text: str | None) -> int:
    if text is None:
        return 0
    try:
        day = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidArgument(f"{text[:40]!r} is no date.", hint="Write 2024-01-31, or 2024-01-31T12:00.") from None
    aware = day if day.tzinfo else day.astimezone()
    return int(aware.astimezone(timezone.utc).timestamp()) * 10**9
