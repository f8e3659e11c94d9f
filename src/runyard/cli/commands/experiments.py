"""`runyard experiments` and `runyard workspaces`, and the commands that delete and restore.

The deleting commands serve runs, experiments and workspaces alike. Those that delete for good ask first.
"""

from __future__ import annotations

import sys

from runyard import cli
from runyard.cli.lookup import RUNS, experiment_names, get_run, name_of, newest, workspace_names
from runyard.cli.output import duration, moment, print_fields, print_json, print_table
from runyard.cli.text import plain
from runyard.core.errors import NotFound
from runyard.core.names import RUN_ID, check_experiment_name, check_run_id, check_workspace_name
from runyard.sdk.workspaces.server import Deletion, connect
from runyard.sdk.workspaces.workspace import Workspace

YES = cli.option("--yes", "-y", is_flag=True, help="Do not ask.")
NOW = cli.option(
    "--now", is_flag=True, help="Delete permanently and free the space at once, also for runs deleted before."
)


@cli.group(aliases={"ls": "list", "rm": "delete"})
def experiments() -> None:
    """List and show experiments, take them out of lists and bring them back."""


@experiments.command("list")
@cli.option("--archived", "view", flag_value="ArchivedOnly", help="Only archived experiments.")
@cli.option("--all", "view", flag_value="All", help="Include archived experiments.")
@cli.option("--deleted", "view", flag_value="DeletedOnly", help="Only deleted experiments that can still be restored.")
@cli.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_experiments(view: str | None, as_json: bool) -> None:
    """List experiments."""
    workspace = Workspace.from_config()
    found = workspace._client.experiments.list(workspace.name, view=view or "ActiveOnly")
    if as_json:
        print_json(found)
    elif found:
        rows = [(one.name, moment(one.created_at), moment(one.archived_at)) for one in found]
        if any(one.title for one in found):
            titled = [(*row, one.title or "") for row, one in zip(rows, found)]
            print_table(("EXPERIMENT", "CREATED", "ARCHIVED", "TITLE"), titled)
        else:
            print_table(("EXPERIMENT", "CREATED", "ARCHIVED"), rows)
    else:
        cli.echo("There are no such experiments. The first run of a name makes one.", err=True)


@experiments.command()
@cli.argument("name", shell_complete=experiment_names)
@cli.option("--limit", "-n", type=cli.IntRange(1), metavar="N", default=5, show_default=True, help="Show N runs.")
@cli.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(name: str, limit: int, as_json: bool) -> None:
    """Show an experiment: its tags, how many of its runs have which status, and the newest runs."""
    workspace = Workspace.from_config()
    client = workspace._client
    found = client.experiments.get(workspace.name, name)
    runs = newest(workspace, limit, experiment=name)
    statuses = client.experiments.count_runs(workspace.name, name)
    if as_json:
        print_json({"experiment": found, "statuses": statuses, "runs": runs})
        return
    print_fields(
        [
            ("experiment", found.name),
            ("id", found.id),
            ("created", moment(found.created_at)),
            ("archived", moment(found.archived_at)),
            ("tags", ", ".join(key if value is None else f"{key}={value}" for key, value in found.tags.items())),
            ("runs", ", ".join(f"{count} {status}" for status, count in statuses.items()) or "none"),
        ]
    )
    if runs:
        cli.echo("")
        rows = [(name_of(run), run.status, moment(run.created_at), duration(run), run.id) for run in runs]
        print_table(("RUN", "STATUS", "CREATED", "DURATION", "ID"), rows)


@experiments.command()
@cli.argument("name", shell_complete=experiment_names)
def archive(name: str) -> None:
    """Hide an experiment from lists. Its runs are kept and can still be read."""
    _set_archived(name, True)


@experiments.command()
@cli.argument("name", shell_complete=experiment_names)
def reactivate(name: str) -> None:
    """Move an archived experiment back into the lists."""
    _set_archived(name, False)


@experiments.command()
@cli.argument("name", shell_complete=experiment_names)
@cli.argument("title")
def rename(name: str, title: str) -> None:
    """Give an experiment another title, by which it is shown and found too. Its name stays, as runs have it."""
    check_experiment_name(name)
    workspace = Workspace.from_config()
    renamed = workspace._client.experiments.update(workspace.name, name, title=title)
    cli.echo(f"Experiment `{plain(renamed.name)}` is shown as `{plain(renamed.shown_name)}`.", err=True)


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
@RUNS
@NOW
@YES
def delete_runs(run_ids: tuple[str, ...], now: bool, yes: bool) -> None:
    """Delete runs that have ended, with their child runs, metrics and files. Prints the ids.

    They can be restored for a day (the server's setting RUNYARD_UNDO); then their bytes go for good.
    """
    workspace = Workspace.from_config()
    known = [_deletable(workspace, name) if now else get_run(workspace, name).id for name in run_ids]
    ask(f"Delete {', '.join(known)}{' for good' if now else ''}?", yes)
    for run_id in known:
        done = workspace._client.runs.delete(run_id, now=now)
        for deleted in done.deleted:
            cli.echo(plain(deleted))
        _say_undo(done, f"runyard runs restore {run_id}")


def _deletable(workspace: Workspace, name: str) -> str:
    """Return the id of a run, also of one that is deleted already, which only its id can name."""
    try:
        return get_run(workspace, name).id
    except NotFound:
        if not RUN_ID.fullmatch(name):
            raise
        return name


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
