"""`runyard experiments`: list, archive and reactivate."""

from __future__ import annotations

import click

from runyard.cli.known_names import experiment_names
from runyard.cli.lazy import LazyGroup
from runyard.cli.output import moment, print_json, print_table
from runyard.cli.text import plain
from runyard.core.names import check_experiment_name
from runyard.sdk.workspaces.workspace import Workspace

COMMANDS = {
    "delete": ("runyard.cli.commands.deleting:delete_experiment", "Delete an experiment with all its runs."),
    "restore": ("runyard.cli.commands.deleting:restore_experiment", "Bring back a deleted experiment with its runs."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
def experiments() -> None:
    """List experiments, take them out of lists and bring them back."""


@experiments.command("list")
@click.option("--archived", "view", flag_value="ArchivedOnly", help="Only those that were archived.")
@click.option("--all", "view", flag_value="All", help="Archived ones too.")
@click.option("--deleted", "view", flag_value="DeletedOnly", help="Only those that were deleted and can be restored.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_experiments(view: str | None, as_json: bool) -> None:
    """List experiments."""
    workspace = Workspace.from_config()
    found = workspace._client.experiments.list(workspace.name, view=view or "ActiveOnly")
    if as_json:
        print_json(found)
    elif found:
        rows = [(one.name, moment(one.created_at), moment(one.archived_at)) for one in found]
        print_table(("EXPERIMENT", "CREATED", "ARCHIVED"), rows)
    else:
        click.echo("There are no such experiments. The first run of a name makes one.", err=True)


@experiments.command()
@click.argument("name", shell_complete=experiment_names)
def archive(name: str) -> None:
    """Take an experiment out of lists. Its runs stay and can be read."""
    _set_archived(name, True)


@experiments.command()
@click.argument("name", shell_complete=experiment_names)
def reactivate(name: str) -> None:
    """Bring an archived experiment back."""
    _set_archived(name, False)


def _set_archived(name: str, archived: bool) -> None:
    check_experiment_name(name)
    workspace = Workspace.from_config()
    workspace._client.experiments.update(workspace.name, name, archived=archived)
    click.echo(f"Experiment `{plain(name)}` is {'archived' if archived else 'active'}.", err=True)
