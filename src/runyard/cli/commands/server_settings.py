"""`runyard server settings` and `set`: what this home's server is."""

from __future__ import annotations

import click

from runyard.cli.commands.server_change import change
from runyard.cli.output import print_fields, print_json
from runyard.cli.text import plain
from runyard.core.config.server_settings import KEYS, ServerSettings, field_of, read_server_settings, with_setting
from runyard.core.config.settings import read_settings
from runyard.core.config.urls import hide_database_password


@click.command("settings")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(as_json: bool) -> None:
    """Show the settings of this home's server. Passwords are hidden."""
    found = read_server_settings(read_settings().home)
    shown = {key: _shown(key, found) for key in KEYS}
    if as_json:
        print_json(shown)
        return
    print_fields([(key, _text(value) or "(not set)") for key, value in shown.items()])


@click.command("set")
@click.argument("key")
@click.argument("value")
@click.option("--force", is_flag=True, help="Take another or a new database although runs get out of sight.")
def set_setting(key: str, value: str, force: bool) -> None:
    """Change a setting of this home's server; '' takes it back. A running server starts again with it.

    \b
      runyard server set server.names team.example,10.0.0.5
      runyard server set compute.amlcompute.engine slurm
    """
    new = with_setting(read_server_settings(read_settings().home), key, value)
    change(new, force=force, start=False)
    click.echo(f"{plain(key)} is {plain(_text(_shown(key, new)) or '(not set)')}.", err=True)


def _shown(key: str, settings: ServerSettings) -> object:
    value = getattr(settings, field_of(key))
    return hide_database_password(value) if isinstance(value, str) else value


def _text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(value)
    return "" if value in (0, False, "") else str(value).lower() if isinstance(value, bool) else str(value)
