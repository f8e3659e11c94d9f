"""`runyard studio`, `runyard tensorboard` and `runyard completion`: the page, TensorBoard and the shell.

`studio` prints an address that signs the browser in, and opens it where there is a screen.
"""

from __future__ import annotations

import os
import sys
import webbrowser
from html import escape
from pathlib import Path

from runyard import cli
from runyard.cli.lookup import get_run, run_ids
from runyard.cli.parsing.completion import SCRIPTS
from runyard.cli.text import plain
from runyard.core.config.settings import read_settings
from runyard.core.machine.files import replace_private
from runyard.sdk.runs.details import signin_url
from runyard.sdk.tensorboard import Tensorboard, export_to_tensorboard, follow_forever
from runyard.sdk.workspaces.workspace import Workspace


@cli.command(plain="it opens a browser")
@cli.argument("run_id", metavar="[RUN]", required=False, shell_complete=run_ids)
@cli.option("--no-browser", is_flag=True, help="Only print the link.")
def studio(run_id: str | None, no_browser: bool) -> None:
    """Open the studio, or the page of RUN, in a signed-in browser.

    The printed link works once and expires after 12 hours. Whoever opens it is signed in as you. The browser then stays
    signed in for a week; "Sign out" in the studio ends that.
    """
    workspace = Workspace.from_config()
    open_in_browser(workspace, f"/runs/{get_run(workspace, run_id).id}" if run_id else "/", no_browser=no_browser)


def open_in_browser(workspace: Workspace, page: str, *, no_browser: bool) -> None:
    """Print a link to a page of the studio that signs the browser in, and open it where there is a screen."""
    link = signin_url(workspace._client, page)
    cli.echo(plain(link))
    if not no_browser and _has_screen() and _opened(link, read_settings().home):
        cli.echo("A browser was opened; otherwise open the link above.", err=True)
    else:
        cli.echo("Open it in a browser. It works once, within twelve hours.", err=True)


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


@cli.command(plain="it runs until it is stopped")
@cli.argument("runs", metavar="RUN…", nargs=-1, required=True, shell_complete=run_ids)
@cli.option("--port", default=6006, show_default=True, help="TensorBoard's port on this machine.")
@cli.option(
    "--logdir",
    type=cli.Path(),
    metavar="FOLDER",
    help="The folder to copy event files to. [default: a temporary folder]",
)
@cli.option("--export", "export", is_flag=True, help="Only write the logged metrics as event files into --logdir.")
def tensorboard(runs: tuple[str, ...], port: int, logdir: str | None, export: bool) -> None:
    """Show the event files of runs in TensorBoard until Ctrl-C."""
    workspace = Workspace.from_config()
    chosen = [workspace.get_run(get_run(workspace, name).id) for name in runs]
    if export:
        if logdir is None:
            raise cli.UsageError("--export needs --logdir, the folder to write to.")
        export_to_tensorboard(chosen, logdir)
        cli.echo(f"Written below {logdir}. `tensorboard --logdir {logdir}` shows them.", err=True)
        return
    board = Tensorboard(chosen, local_root=logdir, port=port)
    cli.echo("Copying event files; TensorBoard starts …", err=True)
    board.start()
    cli.echo("Ctrl-C stops it.", err=True)
    follow_forever(board)


@cli.command(plain="it prints a script for a shell")
@cli.argument("shell", type=cli.Choice(sorted(SCRIPTS)))
def completion(shell: str) -> None:
    """Print the completion script of a shell: commands, options, ids of runs, names of experiments and workspaces.

    \b
      bash: add to ~/.bashrc   eval "$(runyard completion bash)"
      zsh:  add to ~/.zshrc    eval "$(runyard completion zsh)"
      fish: runyard completion fish > ~/.config/fish/completions/runyard.fish
    """
    cli.echo(SCRIPTS[shell])
