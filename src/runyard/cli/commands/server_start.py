"""`runyard server start`: the private server, or with `--host` a team's."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import click

from runyard.cli.commands.server_change import change, refuse_a_teams_server, stop_own
from runyard.cli.text import plain
from runyard.core.config.server_settings import TEAM_PORT, ServerSettings, checked, read_server_settings
from runyard.core.config.settings import read_settings
from runyard.sdk.workspaces.server import Client, become_server, connect, find
from runyard.server.storage.belonging import allow_new_database


@click.command()
@click.option("--host", help="Listen for others too, on this name or address of the machine.")
@click.option("--port", type=click.IntRange(1, 65535), help=f"The port for others.  [default: {TEAM_PORT}]")
@click.option("--name", "names", multiple=True, help="NAME or NAME:PORT under which others know it; the first is used.")
@click.option("--database", help="postgresql://user:password@host:5432/name instead of SQLite in the home.")
@click.option("--tls-cert", type=click.Path(exists=True, dir_okay=False, resolve_path=True), help="Certificate, PEM.")
@click.option("--tls-key", type=click.Path(exists=True, dir_okay=False, resolve_path=True), help="Its key, PEM.")
@click.option("--behind-proxy/--no-proxy", default=None, help="Plain HTTP, since a proxy in front speaks TLS.")
@click.option("--force", is_flag=True, help="Take another or a new database although runs get out of sight.")
@click.option("--foreground", is_flag=True, help="Stay in this process, for systemd and the like.")
def start(force: bool, foreground: bool, **options: Any) -> None:
    """Start the server unless it is running. With options it becomes a team's server, and stays one.

    \b
      runyard server start --host 10.0.0.5 --port 8787
      runyard server start --host 0.0.0.0 --name team.example --database postgresql://…

    Without --tls-cert, a certificate is made once, and clients know it by its fingerprint: `runyard login`.
    """
    wanted = {key: value for key, value in options.items() if value not in (None, ())}
    if wanted:
        new = _with(read_server_settings(read_settings().home), wanted)
        change(new, force=force, start=not foreground)
    elif force:
        refuse_a_teams_server("start")
        allow_new_database(read_settings().home)
    if foreground:
        _become_the_server()
    running = None if wanted else find()
    client = running or connect()
    _tell(client, was_running=running is not None)


def _with(old: ServerSettings, wanted: dict[str, Any]) -> ServerSettings:
    """Return the settings with what was given changed; given files of a certificate end the proxy and the reverse."""
    new: ServerSettings = replace(old, **wanted)
    new = replace(new, names=list(new.names))
    if not new.host and set(wanted) - {"database"}:
        raise click.UsageError("Without --host the server listens for nobody else: give --host too.")
    if wanted.get("behind_proxy"):
        new = replace(new, tls_cert=wanted.get("tls_cert", ""), tls_key=wanted.get("tls_key", ""))
    if new.host and not new.port:
        new = replace(new, port=TEAM_PORT)
    return checked(new)


def _become_the_server() -> None:
    refuse_a_teams_server("start")
    stop_own()
    sys.stdout.flush()
    become_server()


def _tell(client: Client, *, was_running: bool) -> None:
    info = client.server.info()
    click.echo(f"The server {'was running already' if was_running else 'is running'} (pid {info.pid}).", err=True)
    if info.team:
        click.echo(f"Others log in with: runyard login {plain(info.url)}", err=True)
        pin = info.listens_on[-1].partition("#sha256=")[2]
        if pin:
            click.echo(f"They should see this fingerprint: {plain(pin)}", err=True)
        click.echo("`runyard users add NAME` makes a token for each of them.", err=True)
    click.echo(plain(info.url))
