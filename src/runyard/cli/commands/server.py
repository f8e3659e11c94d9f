"""`runyard server`: the private server that the first call starts by itself."""

from __future__ import annotations

import click

from runyard.cli.commands.server_change import refuse_a_teams_server, wait_until_gone
from runyard.cli.exit_codes import NOT_RUNNING
from runyard.cli.lazy import LazyGroup
from runyard.cli.output import print_fields, print_json, seconds, size
from runyard.core.config.paths import server_folder
from runyard.core.formats.plain import to_plain
from runyard.sdk.runs.portal import page_url
from runyard.sdk.workspaces.server import ServerInfo, choice, connect, find

COMMANDS = {
    "start": ("runyard.cli.commands.server_start:start", "Start the server; with --host it is a team's."),
    "settings": ("runyard.cli.commands.server_settings:show", "Show the settings of this home's server."),
    "set": ("runyard.cli.commands.server_settings:set_setting", "Change a setting of this home's server."),
    "repair": ("runyard.cli.commands.server_repair:repair", "Repair a damaged database and check all stored files."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
def server() -> None:
    """Start, stop and look at your server. Alone you need none of it: the first call starts a private server."""


@server.command()
def stop() -> None:
    """Stop the server. Live runs go on, and the next call starts it again."""
    refuse_a_teams_server("stop")
    running = find()
    if running is None:
        click.echo("No server is running.", err=True)
        return
    info = running.server.info()
    running.server.stop()
    wait_until_gone(info.pid)
    live = f" {info.runs_live} live run(s) go on." if info.runs_live else ""
    click.echo(f"The server has stopped (pid {info.pid}).{live}", err=True)


@server.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def status(ctx: click.Context, as_json: bool) -> None:
    """Say whether the server is running. Starts nothing; exit code 3 when it is not."""
    running = find()
    chosen = choice()
    settings = chosen.settings
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
    me = running.users.me()
    print_fields(
        [
            ("status", "running" if _health(info) in ("ok", "") else "running, and stores nothing"),
            ("you are", f"{me.name} ({me.role})" if me.name else ""),
            ("address", info.url),
            *(("listens on", address.partition("#")[0]) for address in info.listens_on),
            ("fingerprint", _fingerprint(info)),
            ("page", page_url(running, "/")),
            ("used because", chosen.why),
            ("database", info.database),
            ("health", _health(info)),
            ("pid", info.pid),
            ("version", info.version),
            ("started", info.started_at),
            ("live runs", str(info.runs_live)),
            ("home", info.home),
            ("log", server_folder(settings.home) / "server.log" if settings.url is None else ""),
        ]
    )


@server.command()
@click.option("--now", "everything", is_flag=True, help="Free what lies aside and unfinished uploads, too.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def collect(everything: bool, as_json: bool) -> None:
    """Free the disk space of deleted runs now.

    By itself the server sets it aside within an hour and frees it a week later.
    """
    freed = connect().server.collect(everything=everything)
    if as_json:
        print_json(freed._asdict())
        return
    click.echo(f"Freed {size(freed.freed_bytes)} ({freed.removed} pieces of content).")
    if freed.aside_bytes:
        click.echo(
            f"{size(freed.aside_bytes)} lie aside for a week; `runyard server collect --now` frees them.", err=True
        )
    click.echo(
        f"What uploads of the last minutes may count on stays; the rest of what was deleted is freed within "
        f"{seconds(freed.rest_within_s)}.",
        err=True,
    )


def _health(info: ServerInfo) -> str:
    """Return "ok", or the parts that keep the server from storing anything."""
    broken = [f"{part}: {state}" for part, state in info.health.items() if state != "ok"]
    return ", ".join(broken) or ("ok" if info.health else "")


def _fingerprint(info: ServerInfo) -> str:
    """Return the SHA-256 of a certificate that no authority vouches for."""
    return "".join(address.partition("#sha256=")[2] for address in info.listens_on)
