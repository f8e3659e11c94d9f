"""`runyard studio`: the address of the server's pages, which signs the browser in, opened where there is a screen."""

from __future__ import annotations

import os
import sys
import webbrowser
from html import escape
from pathlib import Path

import click

from runyard.cli.known_names import run_ids
from runyard.cli.lookup import get_run
from runyard.cli.text import plain
from runyard.core.config.settings import read_settings
from runyard.core.machine.files import replace_private
from runyard.sdk.runs.portal import signin_url
from runyard.sdk.workspaces.workspace import Workspace


@click.command()
@click.argument("run_id", metavar="[RUN]", required=False, shell_complete=run_ids)
@click.option("--no-browser", is_flag=True, help="Print the link only.")
def studio(run_id: str | None, no_browser: bool) -> None:
    """Open the studio in a browser, or the page of RUN, and sign the browser in.

    The link that is printed works once, within twelve hours: whoever opens it first is you. The browser then stays
    signed in for a week; "Sign out" in the studio ends that.
    """
    workspace = Workspace.from_config()
    page = f"/runs/{get_run(workspace, run_id).id}" if run_id else "/"
    link = signin_url(workspace._client, page)
    click.echo(plain(link))
    if not no_browser and _has_screen() and _opened(link, read_settings().home):
        click.echo("A browser was opened; otherwise open the link above.", err=True)
    else:
        click.echo("Open it in a browser. It works once, within twelve hours.", err=True)


def _has_screen() -> bool:
    if sys.platform == "darwin":
        return "SSH_CONNECTION" not in os.environ
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _opened(link: str, home: Path) -> bool:
    try:
        return webbrowser.open(write_leading_page(link, home).as_uri())
    except OSError:
        return False


def write_leading_page(link: str, home: Path) -> Path:
    """Return a file for a browser that leads to the link and that only its owner reads.

    The link itself as a program's argument could be read by every user of this machine, and used first.
    """
    path = home / "open.html"
    page = f'<!doctype html><title>Runyard</title><meta http-equiv="refresh" content="0;url={escape(link)}">'
    replace_private(path, page.encode())
    return path
