"""`runyard environments build` and `prune`: what lies built on the server's machine."""

from __future__ import annotations

import sys

import click

from runyard.cli.amounts import Bytes, Seconds
from runyard.cli.commands.environment_files import find_environment
from runyard.cli.commands.environments import KEY_LENGTH, built_row
from runyard.cli.commands.following import follow
from runyard.cli.commands.run_report import print_end
from runyard.cli.exit_codes import INTERRUPTED, exit_code_of
from runyard.cli.output import print_json, print_table, size
from runyard.cli.text import plain
from runyard.core.statuses import RunStatus
from runyard.sdk.environments.environment import Environment
from runyard.sdk.submit.environment_build import start_build
from runyard.sdk.workspaces.workspace import Workspace

MONTH_S = 30 * 86400


@click.command()
@click.argument("name", metavar="NAME_OR_FILE")
@click.option("--version", metavar="N", help="The version. [default: the latest]")
@click.option("--target", help="The compute target. [default: this machine]")
@click.pass_context
def build(ctx: click.Context, name: str, version: str | None, target: str | None) -> None:
    """Build an environment and show the log. Ctrl-C ends the watching, not the build.

    A file may be a requirements.txt, a conda file (.yml), a Dockerfile, or a folder that save_to_directory wrote.

    \b
      runyard environments build AzureML-Minimal
      runyard environments build requirements.txt
    """
    workspace = Workspace.from_config()
    found = find_environment(name) or Environment.get(workspace, name, version=version)
    started = start_build(found, workspace, target=target)
    click.echo(f"Run {plain(started.run.id)}\n", err=True)
    try:
        ended = follow(workspace._client, started.run.id)
    except KeyboardInterrupt:
        click.echo(f"\nThe build goes on. Stop it: `runyard runs cancel {started.run.id}`.", err=True)
        ctx.exit(INTERRUPTED)
    if ended.status is RunStatus.COMPLETED:
        click.echo(f"\nEnvironment `{plain(found.name)}` is ready.", err=True)
        click.echo(plain(ended.environment.get("interpreter") or ""))
    else:
        print_end(ended, [], [])
    ctx.exit(exit_code_of(ended.status))


@click.command()
@click.argument("keys", metavar="[KEY]...", nargs=-1)
@click.option(
    "--unused",
    type=Seconds(),
    metavar="TIME",
    help="Those not used for so long: 12h, 30d. [default: 30d, without --keep]",
)
@click.option("--keep", type=Bytes(), metavar="SIZE", help="The longest unused, until no more than this is left: 20GB.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="With --dry-run: print JSON.")
def prune(keys: tuple[str, ...], unused: int | None, keep: int | None, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Remove built environments that no run uses, after saying what would go. A run that needs one builds it again.

    Prints the keys of those that went. KEY, as `runyard environments list` shows it, names one.

    \b
      runyard environments prune --unused 7d --dry-run
      runyard environments prune --keep 20GB --yes
    """
    calls = Workspace.from_config()._client.environments
    if keys:
        if unused is not None or keep is not None or dry_run:
            raise click.UsageError("A KEY names what goes; leave --unused, --keep and --dry-run out.")
        for key in keys:
            click.echo(calls.remove(key)["key"])
        return None
    limits = {"keep_bytes": keep, "unused_s": float(unused or MONTH_S) if unused or keep is None else None}
    going = calls.prune(**limits, dry_run=True)  # type: ignore[arg-type]  # a dict of two kinds
    freed = size(sum(one["size_bytes"] for one in going))
    if as_json and dry_run:
        return print_json(going)
    if not going:
        return click.echo("Nothing to remove.", err=True)
    print_table(("BUILT", "ENVIRONMENT", "PYTHON", "SIZE", "LAST USED", "RUNS"), [built_row(one) for one in going])
    click.echo(f"{len(going)} to remove; up to {freed} free: files that others share stay.", err=True)
    if dry_run:
        return None
    _ask(yes)
    for one in calls.prune(**limits):  # type: ignore[arg-type]  # as above
        click.echo(one["key"][:KEY_LENGTH])
    return None


def _ask(yes: bool) -> None:
    if not yes and not sys.stdin.isatty():
        raise click.UsageError("Nobody can be asked here. Add --yes to remove them.", click.get_current_context())
    if not yes:
        click.confirm("Remove them?", abort=True, err=True)
