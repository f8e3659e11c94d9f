"""`runyard runs archive` and `unarchive`."""

from __future__ import annotations

import click

from runyard.cli.known_names import run_ids
from runyard.cli.lookup import get_run
from runyard.cli.text import plain
from runyard.sdk.workspaces.workspace import Workspace

RUNS = click.argument("run_ids", metavar="RUN...", nargs=-1, required=True, shell_complete=run_ids)


@click.command()
@RUNS
def archive(run_ids: tuple[str, ...]) -> None:
    """Take runs and their child runs out of lists. They stay and can be read: `runyard runs list --view archived`."""
    _set_archived(run_ids, True)


@click.command()
@RUNS
def unarchive(run_ids: tuple[str, ...]) -> None:
    """Bring archived runs and their child runs back."""
    _set_archived(run_ids, False)


def _set_archived(run_ids: tuple[str, ...], archived: bool) -> None:
    workspace = Workspace.from_config()
    for run_id in [get_run(workspace, given).id for given in run_ids]:
        workspace._client.runs.update(run_id, archived=archived)
        click.echo(f"Run `{plain(run_id)}` is {'archived' if archived else 'active'}.", err=True)
