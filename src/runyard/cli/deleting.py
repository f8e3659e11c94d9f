"""`runyard runs delete`, `experiments delete` and `workspaces delete`: for good, so they ask first."""

from __future__ import annotations

import sys

import click

from runyard.cli.finding import get_run
from runyard.cli.known_names import experiment_names, run_ids, workspace_names
from runyard.cli.text import plain
from runyard.core.names import check_experiment_name, check_workspace_name
from runyard.sdk.server import connect
from runyard.sdk.workspace import Workspace

YES = click.option("--yes", "-y", is_flag=True, help="Do not ask.")


@click.command("delete")
@click.argument("run_ids", metavar="RUN...", nargs=-1, required=True, shell_complete=run_ids)
@YES
def delete_runs(run_ids: tuple[str, ...], yes: bool) -> None:
    """Delete runs that have ended, with their child runs, metrics and files. Prints the ids."""
    workspace = Workspace.from_config()
    known = [get_run(workspace, run_id).id for run_id in run_ids]
    ask(f"Delete {', '.join(known)} for good?", yes)
    for run_id in known:
        for deleted in workspace._client.runs.delete(run_id):
            click.echo(plain(deleted))


@click.command("delete")
@click.argument("name", shell_complete=experiment_names)
@YES
def delete_experiment(name: str, yes: bool) -> None:
    """Delete an experiment with all its runs, which must have ended. Prints their ids."""
    check_experiment_name(name)
    workspace = Workspace.from_config()
    workspace._client.experiments.get(workspace.name, name)
    ask(f"Delete experiment {name} and all its runs for good?", yes)
    for deleted in workspace._client.experiments.delete(workspace.name, name):
        click.echo(plain(deleted))


@click.command("delete")
@click.argument("name", shell_complete=workspace_names)
@YES
def delete_workspace(name: str, yes: bool) -> None:
    """Delete a workspace with its experiments and runs, which must have ended. Prints the runs' ids."""
    calls = connect().workspaces
    calls.get(check_workspace_name(name))
    ask(f"Delete workspace {name}, its experiments and all their runs for good?", yes)
    for deleted in calls.delete(name):
        click.echo(plain(deleted))


def ask(question: str, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError("Nobody can be asked here. Add --yes to delete for good.", click.get_current_context())
    click.confirm(plain(question), abort=True, err=True)
