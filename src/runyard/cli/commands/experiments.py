"""`runyard experiments` and `runyard workspaces`, and the commands that delete and restore.

The deleting commands serve runs, experiments and workspaces alike. Those that delete for good ask first.
"""

from __future__ import annotations

import sys

from runyard import cli
from runyard.cli.lookup import experiment_names, get_run, run_ids, workspace_names
from runyard.cli.output import moment, print_json, print_table
from runyard.cli.text import plain
from runyard.core.names import check_experiment_name, check_run_id, check_workspace_name
from runyard.sdk.workspaces.server import Deletion, connect
from runyard.sdk.workspaces.workspace import Workspace

YES = cli.option("--yes", "-y", is_flag=True, help="Do not ask.")
NOW = cli.option("--now", is_flag=True, help="For good and at once, also what is deleted already: frees its bytes.")


@cli.group()
def experiments() -> None:
    """List experiments, take them out of lists and bring them back."""


@experiments.command("list")
@cli.option("--archived", "view", flag_value="ArchivedOnly", help="Only those that were archived.")
@cli.option("--all", "view", flag_value="All", help="Archived ones too.")
@cli.option("--deleted", "view", flag_value="DeletedOnly", help="Only those that were deleted and can be restored.")
@cli.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_experiments(view: str | None, as_json: bool) -> None:
    """List experiments."""
    workspace = Workspace.from_config()
    found = workspace._client.experiments.list(workspace.name, view=view or "ActiveOnly")
    if as_json:
        print_json(found)
    elif found:
        rows = [(one.name, moment(one.created_at), moment(one.archived_at)) for one in found]
        print_table(("EXPERIMENT", "CREATED", "ARCHIVED"), rows)
    else:
        cli.echo("There are no such experiments. The first run of a name makes one.", err=True)


@experiments.command()
@cli.argument("name", shell_complete=experiment_names)
def archive(name: str) -> None:
    """Take an experiment out of lists. Its runs stay and can be read."""
    _set_archived(name, True)


@experiments.command()
@cli.argument("name", shell_complete=experiment_names)
def reactivate(name: str) -> None:
    """Bring an archived experiment back."""
    _set_archived(name, False)


def _set_archived(name: str, archived: bool) -> None:
    check_experiment_name(name)
    workspace = Workspace.from_config()
    workspace._client.experiments.update(workspace.name, name, archived=archived)
    cli.echo(f"Experiment `{plain(name)}` is {'archived' if archived else 'active'}.", err=True)


@cli.group()
def workspaces() -> None:
    """Look at the workspaces of the server."""


@workspaces.command("list")
@cli.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_workspaces(as_json: bool) -> None:
    """List workspaces; a star marks the one that commands in this folder use."""
    current = Workspace.from_config()
    found = current._client.workspaces.list()
    if as_json:
        print_json(found)
        return
    rows = [("*" if one.name == current.name else "", one.name, moment(one.created_at)) for one in found]
    print_table(("", "WORKSPACE", "CREATED"), rows)


@cli.command("delete")
@cli.argument("run_ids", metavar="RUN...", nargs=-1, required=True, shell_complete=run_ids)
@NOW
@YES
def delete_runs(run_ids: tuple[str, ...], now: bool, yes: bool) -> None:
    """Delete runs that have ended, with their child runs, metrics and files. Prints the ids.

    They can be restored for a day (the server's setting RUNYARD_UNDO); then their bytes go for good.
    """
    workspace = Workspace.from_config()
    known = [check_run_id(run_id) if now else get_run(workspace, run_id).id for run_id in run_ids]
    ask(f"Delete {', '.join(known)}{' for good' if now else ''}?", yes)
    for run_id in known:
        done = workspace._client.runs.delete(run_id, now=now)
        for deleted in done.deleted:
            cli.echo(plain(deleted))
        _say_undo(done, f"runyard runs restore {run_id}")


@cli.command("restore")
@cli.argument("run_ids", metavar="RUN...", nargs=-1, required=True)
def restore_runs(run_ids: tuple[str, ...]) -> None:
    """Bring back deleted runs, with what was deleted with them. Prints the ids.

    `runyard runs list --view deleted` shows those that can be restored.
    """
    workspace = Workspace.from_config()
    for run_id in run_ids:
        restored = workspace._client.runs.restore(check_run_id(run_id))
        if not restored:
            cli.echo(f"Run `{plain(run_id)}` is not deleted.", err=True)
        for known in restored:
            cli.echo(plain(known))


@experiments.command("delete", short_help="Delete an experiment with all its runs.")
@cli.argument("name", shell_complete=experiment_names)
@NOW
@YES
def delete_experiment(name: str, now: bool, yes: bool) -> None:
    """Delete an experiment with all its runs, which must have ended. Prints their ids.

    They can be restored for a day (the server's setting RUNYARD_UNDO); then their bytes go for good.
    """
    check_experiment_name(name)
    workspace = Workspace.from_config()
    if not now:
        workspace._client.experiments.get(workspace.name, name)
    ask(f"Delete experiment {name} and all its runs{' for good' if now else ''}?", yes)
    done = workspace._client.experiments.delete(workspace.name, name, now=now)
    for deleted in done.deleted:
        cli.echo(plain(deleted))
    _say_undo(done, f"runyard experiments restore {name}")


@experiments.command("restore", short_help="Bring back a deleted experiment with its runs.")
@cli.argument("name")
def restore_experiment(name: str) -> None:
    """Bring back a deleted experiment, with the runs that were deleted with it. Prints their ids."""
    workspace = Workspace.from_config()
    for known in workspace._client.experiments.restore(workspace.name, check_experiment_name(name)):
        cli.echo(plain(known))
    cli.echo(f"Experiment `{plain(name)}` is back.", err=True)


@workspaces.command("delete", short_help="Delete a workspace with all that is in it, for good.")
@cli.argument("name", shell_complete=workspace_names)
@YES
def delete_workspace(name: str, yes: bool) -> None:
    """Delete a workspace with its experiments and runs, which must have ended. Prints the runs' ids."""
    calls = connect().workspaces
    calls.get(check_workspace_name(name))
    ask(f"Delete workspace {name}, its experiments and all their runs for good?", yes)
    for deleted in calls.delete(name):
        cli.echo(plain(deleted))


def _say_undo(done: Deletion, command: str) -> None:
    if done.undo_until is not None:
        cli.echo(f"Until {moment(done.undo_until)} you can bring it back: `{plain(command)}`.", err=True)


def ask(question: str, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise cli.UsageError("Nobody can be asked here. Add --yes to delete.")
    cli.confirm(plain(question), abort=True, err=True)
