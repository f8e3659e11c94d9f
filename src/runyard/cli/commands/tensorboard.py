"""`runyard tensorboard`: TensorBoard on runs, live ones followed."""

from __future__ import annotations

import click

from runyard.cli.known_names import run_ids
from runyard.sdk.runs.run import Run
from runyard.sdk.tensorboard import Tensorboard, follow_forever
from runyard.sdk.tensorboard_export import export_to_tensorboard
from runyard.sdk.workspaces.workspace import Workspace


@click.command()
@click.argument("runs", metavar="RUN…", nargs=-1, required=True, shell_complete=run_ids)
@click.option("--port", default=6006, show_default=True, help="TensorBoard's port on this machine.")
@click.option("--logdir", help="Where event files are copied to. [default: a temporary folder]")
@click.option("--export", "export", is_flag=True, help="Only write what the runs logged as event files into --logdir.")
def tensorboard(runs: tuple[str, ...], port: int, logdir: str | None, export: bool) -> None:
    """Show runs in TensorBoard until Ctrl-C: the event files below their ./logs and ./outputs."""
    workspace = Workspace.from_config()
    chosen = [Run.get(workspace, run_id) for run_id in runs]
    if export:
        if logdir is None:
            raise click.UsageError("--export needs --logdir, the folder to write to.")
        export_to_tensorboard(chosen, logdir)
        click.echo(f"Written below {logdir}. `tensorboard --logdir {logdir}` shows them.", err=True)
        return
    board = Tensorboard(chosen, local_root=logdir, port=port)
    click.echo("Copying event files; TensorBoard starts …", err=True)
    board.start()
    click.echo("Ctrl-C stops it.", err=True)
    follow_forever(board)
