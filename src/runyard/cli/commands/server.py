"""`runyard server`: start, stop, look at, configure and repair the server of this home.

The first call of a user starts the private server without these commands. `change` writes checked settings and restarts
the server with them. `repair` prints what was lost, table by table and run by run. `start` with `--host` makes a team's
server.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from typing import Any

from runyard import cli
from runyard.cli.exit_codes import NOT_RUNNING
from runyard.cli.output import print_fields, print_json, seconds
from runyard.cli.text import plain
from runyard.core.config.database_change import allow_new_database, forbid_new_database, refuse_database_change
from runyard.core.config.logins import hide_database_password
from runyard.core.config.paths import server_folder
from runyard.core.config.server_settings import (
    KEYS,
    TEAM_PORT,
    ServerSettings,
    checked,
    field_of,
    read_server_settings,
    with_setting,
    write_server_settings,
)
from runyard.core.config.settings import read_settings
from runyard.core.errors import RunyardError, SystemFailure, UserError
from runyard.core.formats.documents import RepairAnswer
from runyard.core.formats.plain import to_plain
from runyard.core.machine.progress import shown_size
from runyard.sdk.runs.details import page_url
from runyard.sdk.workspaces.repair import repair_own
from runyard.sdk.workspaces.server import (
    Client,
    ServerInfo,
    become_server,
    choice,
    connect,
    find,
    find_own,
    prepare_server,
)

STOP_PATIENCE_S = 20.0


def change(new: ServerSettings, *, force: bool, start: bool) -> None:
    """Write the settings and have the server run with them; when it cannot, all is as before.

    Args:
        start: start the server when it is not running, too.
    """
    refuse_a_teams_server("change")
    home = read_settings().home
    old = read_server_settings(home)
    if not force:
        refuse_database_change(home, old, new)
    if start or find_own() is not None:
        prepare_server()
    if force and old.database != new.database:
        allow_new_database(home)
    write_server_settings(home, new)
    was_running = stop_own()
    if not (was_running or start):
        return
    try:
        connect().server.info()
    except RunyardError:
        forbid_new_database(home)
        write_server_settings(home, old)
        if was_running:
            cli.echo("The server continues with its old settings.", err=True)
            connect().server.info()
        raise


def stop_own() -> bool:
    """Stop this home's server and wait until it is gone; whether there was one. Live runs go on."""
    running = find_own()
    if running is None:
        return False
    pid = running.server.info().pid
    running.server.stop()
    wait_until_gone(pid)
    return True


def refuse_a_teams_server(verb: str) -> None:
    chosen = choice()
    url = chosen.settings.url
    if url:
        raise UserError(
            f"`runyard server` does not {verb} a team's server ({url.partition('#')[0]}).",
            why=f"Your calls go to that server and not to one of this machine: {chosen.why}.",
            hint="Unset RUNYARD_URL, or `runyard logout`, for the server of this machine.",
        )


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + STOP_PATIENCE_S
    while _is_alive(pid):
        if time.monotonic() > deadline:
            raise SystemFailure(
                f"The server (pid {pid}) was asked to stop and is still there after {STOP_PATIENCE_S:.0f} s.",
                hint=f"Wait, or end it with `kill {pid}`: runs continue and nothing is lost.",
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


@cli.group()
def server() -> None:
    """Start, stop and look at your server. Alone you need none of it: the first call starts a private server."""


@server.command()
def stop() -> None:
    """Stop the server. Live runs continue, and the next call starts it again."""
    refuse_a_teams_server("stop")
    running = find()
    if running is None:
        cli.echo("No server is running.", err=True)
        return
    info = running.server.info()
    running.server.stop()
    wait_until_gone(info.pid)
    live = f" {info.runs_live} live run(s) continue." if info.runs_live else ""
    cli.echo(f"The server has stopped (pid {info.pid}).{live}", err=True)


@server.command()
@cli.option("--json", "as_json", is_flag=True, help="Print JSON.")
@cli.pass_context
def status(ctx: cli.Context, as_json: bool) -> None:
    """Show whether the server is running. Starts nothing; the exit code is 3 when it is not."""
    running = find()
    chosen = choice()
    settings = chosen.settings
    if running is None:
        if as_json:
            print_json({"running": False, "home": str(settings.home)})
        else:
            print_fields([("status", "not running"), ("home", settings.home)])
            cli.echo("The next `runyard submit` starts it; so does `runyard server start`.", err=True)
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
@cli.option("--now", "everything", is_flag=True, help="Also free data that is set aside and unfinished uploads.")
@cli.option("--json", "as_json", is_flag=True, help="Print JSON.")
def collect(everything: bool, as_json: bool) -> None:
    """Free the disk space of deleted runs now.

    The server does this by itself: it sets the data aside within an hour and frees it a week later.
    """
    freed = connect().server.collect(everything=everything)
    if as_json:
        print_json(freed._asdict())
        return
    cli.echo(f"Freed {shown_size(freed.freed_bytes)} ({freed.removed} pieces of content).")
    if freed.aside_bytes:
        cli.echo(
            f"{shown_size(freed.aside_bytes)} lie aside for a week; `runyard server collect --now` frees them.",
            err=True,
        )
    cli.echo(
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


@server.command(short_help="Repair a damaged database and check all stored files.")
@cli.option("--json", "as_json", is_flag=True, help="Print JSON.")
def repair(as_json: bool) -> None:
    """Repair a damaged database and check all stored files. The server must be stopped.

    Every row that can be read goes into a new file; the damaged one is kept beside it. What is lost is named.
    """
    refuse_a_teams_server("repair")
    report = repair_own()
    if as_json:
        print_json(report)
        return
    _tell_database(report)
    _tell_content(report)


def _tell_database(report: RepairAnswer) -> None:
    if report["sound"]:
        cli.echo("The database is sound.")
        return
    problem = plain(report["problems"][0]) if report["problems"] else "rows cannot be read"
    cli.echo(f"The database was damaged ({problem}).")
    for table in report["tables"]:
        if table["lost"] != 0:
            lost = "some rows" if table["lost"] is None else f"{table['lost']} row(s)"
            cli.echo(f"  {table['name']}: {lost} lost, {table['saved']} saved")
    if all(table["lost"] == 0 for table in report["tables"]):
        cli.echo("No row is lost: its indexes were made anew.")
    cli.echo(f"The damaged file is kept: {plain(report['damaged_file'])}", err=True)


def _tell_content(report: RepairAnswer) -> None:
    if not report["runs"] and not report["damaged_chunks"]:
        cli.echo("All stored files are whole.")
        return
    damaged, missing = report["damaged_chunks"], report["missing_packs"]
    cli.echo(f"{damaged} piece(s) of stored content are damaged; {missing} pack(s) are gone.")
    for run in report["runs"]:
        for name in run["files"]:
            cli.echo(f"  {plain(run['run_id'])}: {plain(name)}")
        for path in run["snapshot"]:
            cli.echo(f"  {plain(run['run_id'])}: its code, {plain(path)}")
    cli.echo("Bring `artifacts/packs` back from a backup: files that are whole there are used again.", err=True)


@server.command("settings", short_help="Show the settings of this home's server.")
@cli.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(as_json: bool) -> None:
    """Show the settings of this home's server. Passwords are hidden."""
    found = read_server_settings(read_settings().home)
    shown = {key: _shown(key, found) for key in KEYS}
    if as_json:
        print_json(shown)
        return
    print_fields([(key, _text(value) or "(not set)") for key, value in shown.items()])


@server.command("set", short_help="Change a setting of this home's server.")
@cli.argument("key")
@cli.argument("value")
@cli.option(
    "--force",
    is_flag=True,
    help="Switch to another or an empty database even though existing runs will no longer be shown.",
)
def set_setting(key: str, value: str, force: bool) -> None:
    """Change a setting of this home's server; '' resets it. A running server restarts with the new value.

    \b
      runyard server set server.names team.example,10.0.0.5
      runyard server set compute.amlcompute.engine slurm
    """
    new = with_setting(read_server_settings(read_settings().home), key, value)
    change(new, force=force, start=False)
    cli.echo(f"{plain(key)} is {plain(_text(_shown(key, new)) or '(not set)')}.", err=True)


def _shown(key: str, settings: ServerSettings) -> object:
    value = getattr(settings, field_of(key))
    return hide_database_password(value) if isinstance(value, str) else value


def _text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(value)
    return "" if value in (0, False, "") else str(value).lower() if isinstance(value, bool) else str(value)


@server.command(short_help="Start the server; with --host it is a team's.")
@cli.option("--host", help="Also listen for other machines, on this name or address.")
@cli.option("--port", type=cli.IntRange(1, 65535), help=f"The port for other machines.  [default: {TEAM_PORT}]")
@cli.option(
    "--name",
    "names",
    multiple=True,
    help="NAME or NAME:PORT by which other machines reach it; links use the first one.",
)
@cli.option("--database", help="postgresql://user:password@host:5432/name instead of SQLite in the home.")
@cli.option("--tls-cert", type=cli.Path(exists=True, dir_okay=False, resolve_path=True), help="Certificate, PEM.")
@cli.option("--tls-key", type=cli.Path(exists=True, dir_okay=False, resolve_path=True), help="Its key, PEM.")
@cli.option("--behind-proxy/--no-proxy", default=None, help="Serve plain HTTP because a proxy in front handles TLS.")
@cli.option(
    "--force",
    is_flag=True,
    help="Switch to another or an empty database even though existing runs will no longer be shown.",
)
@cli.option("--foreground", is_flag=True, help="Run in the foreground, for systemd and the like.")
def start(force: bool, foreground: bool, **options: Any) -> None:
    """Start the server unless it is running. With options it becomes, and stays, a team server.

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
        raise cli.UsageError("Without --host the server listens for nobody else: give --host too.")
    if wanted.get("behind_proxy"):
        new = replace(new, tls_cert=wanted.get("tls_cert", ""), tls_key=wanted.get("tls_key", ""))
    if new.host and not new.port:
        new = replace(new, port=TEAM_PORT)
    return checked(new)


def _become_the_server() -> None:
    refuse_a_teams_server("start")
    prepare_server()
    stop_own()
    sys.stdout.flush()
    become_server()


def _tell(client: Client, *, was_running: bool) -> None:
    info = client.server.info()
    cli.echo(f"The server {'was running already' if was_running else 'is running'} (pid {info.pid}).", err=True)
    if info.team:
        cli.echo(f"Others log in with: runyard login {plain(info.url)}", err=True)
        pin = info.listens_on[-1].partition("#sha256=")[2]
        if pin:
            cli.echo(f"They should see this fingerprint: {plain(pin)}", err=True)
        cli.echo("`runyard users add NAME` makes a token for each of them.", err=True)
    cli.echo(plain(info.url))
