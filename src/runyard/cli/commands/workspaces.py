"""`runyard workspaces`."""

from __future__ import annotations

import click

from runyard.cli.lazy import LazyGroup
from runyard.cli.output import moment, print_json, print_table
from runyard.sdk.workspaces.workspace import Workspace

COMMANDS = {
    "delete": (
        "runyard.cli.commands.deleting:delete_workspace",
        "Delete a workspace with all that is in it, for good.",
    ),
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
def workspaces() -> None:
    """Look at the workspaces of the server."""


@workspaces.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_workspaces(as_json: bool) -> None:
    """List workspaces; a star marks the one that commands in this folder use."""
    current = Workspace.from_config()
    found = current._client.workspaces.list()
    if as_json:
        print_json(found)
        return
    rows = [("*" if one.name == current.name else "", one.name, moment(one.created_at)) for one in found]
    print_table(("", "WORKSPACE", "CREATED"), rows)
