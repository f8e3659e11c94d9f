"""`runyard secrets`: what runs read by name and no log ever shows."""

from __future__ import annotations

import sys

import click

from runyard.cli.output import print_json, print_table
from runyard.core.errors import InvalidArgument
from runyard.sdk.workspaces.workspace import Workspace


@click.group()
def secrets() -> None:
    """Set, list and delete secrets of the workspace; scripts read them with run.get_secret(name)."""


@secrets.command("set")
@click.argument("name")
def set_secret(name: str) -> None:
    """Keep a secret. Its value is asked for, or read from stdin: `runyard secrets set NAME < file`."""
    if sys.stdin.isatty():
        value = click.prompt("Value", hide_input=True, confirmation_prompt=True)
    else:
        value = sys.stdin.read().rstrip("\n")
    if not value:
        raise InvalidArgument("The value is empty.", hint=f"printf %s VALUE | runyard secrets set {name}")
    Workspace.from_config().get_default_keyvault().set_secret(name, value)
    click.echo(f"Secret `{name}` is set. In a script: run.get_secret('{name}')", err=True)


@secrets.command()
@click.argument("name")
@click.argument("users", nargs=-1)
@click.option("--everyone", is_flag=True, help="All users of the team, and their runs.")
def share(name: str, users: tuple[str, ...], everyone: bool) -> None:
    """Say who reads a secret besides its owner and admins: these users, and no others.

    Without users and --everyone it is read by its owner and by admins alone.
    """
    readers = ["*"] if everyone else [*users]
    Workspace.from_config().get_default_keyvault().share_secret(name, readers)
    who = "all users" if everyone else ", ".join(f"`{user}`" for user in users) or "nobody else"
    click.echo(f"Secret `{name}` is read by its owner, by admins and by {who}.", err=True)


@secrets.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_secrets(as_json: bool) -> None:
    """List the names of the secrets."""
    names = [one["name"] for one in Workspace.from_config().get_default_keyvault().list_secrets()]
    if as_json:
        return print_json(names)
    if not names:
        click.echo("There is none yet. `runyard secrets set NAME` keeps one.", err=True)
        return None
    return print_table(("SECRET",), [(name,) for name in names])


@secrets.command()
@click.argument("name")
def show(name: str) -> None:
    """Print a secret's value."""
    click.echo(Workspace.from_config().get_default_keyvault().get_secret(name))


@secrets.command()
@click.argument("names", nargs=-1, required=True)
def delete(names: tuple[str, ...]) -> None:
    """Delete secrets; one that is not there counts as deleted."""
    Workspace.from_config().get_default_keyvault().delete_secrets(names)
