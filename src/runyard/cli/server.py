"""`runyard server`: the private server that the first call starts by itself."""

from __future__ import annotations

import os
import time

import click

from runyard.cli.exits import NOT_RUNNING
from runyard.cli.lazy import LazyGroup
from runyard.cli.tables import print_fields, print_json, seconds, size
from runyard.cli.text import plain
from runyard.core.errors import SystemFailure, UserError
from runyard.core.folders import server_folder
from runyard.core.plain import to_plain
from runyard.core.settings import read_settings
from runyard.sdk.portal import portal_url
from runyard.sdk.server import connect, find

STOP_PATIENCE_S = 20.0


@click.group(cls=LazyGroup)
def server() -> None:
    """Start, stop and look at your private server. You need none of it: the first call starts the server."""


@server.command()
def start() -> None:
    """Start the server unless it is running."""
    running = find()
    info = (running or connect()).server.info()
    click.echo(f"The server {'was running already' if running else 'is running'} (pid {info.pid}).", err=True)
    click.echo(plain(info.url))


@server.command()
def stop() -> None:
    """Stop the server. Live runs go on, and the next call starts it again."""
    _refuse_a_teams_server()
    running = find()
    if running is None:
        click.echo("No server is running.", err=True)
        return
    info = running.server.info()
    running.server.stop()
    _wait_until_gone(info.pid)
    live = f" {info.runs_live} live run(s) go on." if info.runs_live else ""
    click.echo(f"The server has stopped (pid {info.pid}).{live}", err=True)


@server.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def status(ctx: click.Context, as_json: bool) -> None:
    """Say whether the server is running. Starts nothing; exit code 3 when it is not."""
    running = find()
    settings = read_settings()
    if running is None:
        if as_json:
            print_json({"running": False, "home": str(settings.home)})
        else:
            print_fields([("status", "not running"), ("home", settings.home)])
            click.echo("The next `runyard submit` starts it; so does `runyard server start`.", err=True)
        ctx.exit(NOT_RUNNING)
    info = running.server.info()
    if as_json:
        print_json({"running": True, **to_plain(info)})
        return
    print_fields(
        [
            ("status", "running"),
            ("address", info.url),
            ("page", portal_url(running, "/")),
            ("pid", info.pid),
            ("version", info.version),
            ("started", info.started_at),
            ("live runs", str(info.runs_live)),
            ("home", info.home),
            ("log", server_folder(settings.home) / "server.log" if settings.url is None else ""),
        ]
    )


@server.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def collect(as_json: bool) -> None:
    """Free the disk space of deleted runs now. The server does it by itself within an hour of a delete."""
    freed = connect().server.collect()
    if as_json:
        print_json(freed._asdict())
        return
    click.echo(f"Freed {size(freed.freed_bytes)} ({freed.removed} pieces of content).")
    click.echo(
        f"What uploads of the last minutes may count on stays; the rest of what was deleted is freed within "
        f"{seconds(freed.rest_within_s)}.",
        err=True,
    )


def _refuse_a_teams_server() -> None:
    url = read_settings().url
    if url:
        raise UserError(
            f"`runyard server stop` does not stop a team's server ({url}).",
            why="RUNYARD_URL is set, so your calls go to that server and not to a private one.",
            hint="Unset RUNYARD_URL to stop your private server.",
        )


def _wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + STOP_PATIENCE_S
    while _is_alive(pid):
        if time.monotonic() > deadline:
            raise SystemFailure(
                f"The server (pid {pid}) was asked to stop and is still there after {STOP_PATIENCE_S:.0f} s.",
                hint=f"Wait, or end it with `kill {pid}`: runs go on and nothing is lost.",
            )
        time.sleep(0.02)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
