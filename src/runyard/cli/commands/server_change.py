"""A home's server gets other settings: checked, written, and the server started again with them."""

from __future__ import annotations

import os
import time

import click

from runyard.core.config.server_settings import ServerSettings, read_server_settings, write_server_settings
from runyard.core.config.settings import read_settings
from runyard.core.errors import RunyardError, SystemFailure, UserError
from runyard.sdk.workspaces.server import choice, connect, find_own
from runyard.server.storage.belonging import allow_new_database, forbid_new_database
from runyard.server.storage.history import refuse_hidden_runs

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
        refuse_hidden_runs(home, old, new)
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
            click.echo("The server goes on with its old settings.", err=True)
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
