"""`runyard runs`: list, show, follow, cancel, archive and tag runs.

The first functions read `--columns` of `runyard runs list`: the last value of a metric, a parameter, a tag or a
property. Deleting, data and reports of runs are in modules of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runyard import cli
from runyard.cli.exit_codes import exit_code_of
from runyard.cli.lookup import RUN, RUNS, experiment_names, get_run, name_of, newest
from runyard.cli.output import duration, moment, number, print_json, print_table
from runyard.cli.plan_report import print_handed
from runyard.cli.runs.run_report import find_main_log, follow, print_log, print_run, wait
from runyard.cli.text import plain
from runyard.core.errors import InvalidArgument
from runyard.core.formats.filters import KEYED_FIELDS, parse_field, parse_filter
from runyard.core.formats.plain import to_plain
from runyard.core.machine.progress import Progress
from runyard.core.names import check_experiment_name
from runyard.core.records import Run
from runyard.core.statuses import RunStatus
from runyard.sdk.runs.details import page_url
from runyard.sdk.workspaces.server import Client
from runyard.sdk.workspaces.workspace import Workspace

LABELS = {"params": "parameters", "tags": "tags", "properties": "properties"}  # field → field of Run
COMMANDS = {
    "metrics": ("runyard.cli.runs.run_data:metrics", "List a run's metrics, or every point of one."),
    "files": ("runyard.cli.runs.run_data:files", "List a run's files."),
    "download": ("runyard.cli.runs.run_data:download", "Download files of a run."),
    "delete": ("runyard.cli.commands.experiments:delete_runs", "Delete runs."),
    "restore": ("runyard.cli.commands.experiments:restore_runs", "Bring back deleted runs."),
    "resubmit": ("runyard.cli.runs.resubmit:resubmit", "Submit a run again."),
    "watch": ("runyard.cli.runs.run_verbs:watch", "Follow a run's output until it ends, then print a summary."),
    "wait": ("runyard.cli.runs.run_verbs:wait", "Wait until runs have ended."),
    "open": ("runyard.cli.runs.run_verbs:open_page", "Open a run's page in the browser."),
    "compare": ("runyard.cli.runs.run_verbs:compare", "Show in what runs differ: parameters, metrics, code."),
    "rename": ("runyard.cli.runs.run_verbs:rename", "Give a run a name."),
    "export": ("runyard.cli.runs.run_verbs:export", "Write runs with their metrics and files into a folder."),
}
ALIASES = {"ls": "list", "rm": "delete", "stop": "cancel"}


@dataclass(frozen=True)
class TableColumn:
    field: str  # of core.formats.filters.KEYED_FIELDS
    key: str

    @property
    def title(self) -> str:
        return f"{self.field}.{self.key}"


def read_columns(ctx: cli.Context, param: cli.Parameter, values: tuple[str, ...]) -> list[TableColumn]:
    """Return the columns of `--columns metrics.loss,params.lr`, which may be repeated."""
    found = []
    for text in (part.strip() for value in values for part in value.split(",")):
        field, _, key = text.partition(".")
        if field not in KEYED_FIELDS or not key:
            known = ", ".join(f"{name}.<name>" for name in KEYED_FIELDS)
            raise cli.BadParameter(f"{text!r} is no column. There are: {known}.", ctx, param)
        found.append(TableColumn(field, key))
    return list(dict.fromkeys(found))


def read_cells(client: Client, runs: Sequence[Run], columns: Sequence[TableColumn]) -> list[list[object]]:
    """Return the values for each run, None where it has none."""
    names = {column.key for column in columns if column.field == "metrics"}
    rows = []
    with Progress("reading the metrics of runs", len(runs), show=str) as progress:
        for at, run in enumerate(runs):
            progress.step(at)
            readable = names and run.undo_until is None  # of a deleted run only the record is left to read
            metrics = {info.name: info.last for info in client.runs.metrics(run.id)} if readable else {}
            rows.append([_value(run, column, metrics) for column in columns])
    return rows


def shown(cell: object) -> str:
    return "" if cell is None else number(cell)


def _value(run: Run, column: TableColumn, metrics: dict[str, object]) -> object:
    if column.field == "metrics":
        return metrics.get(column.key)
    labels = getattr(run, LABELS[column.field])
    return (labels[column.key] or "") if column.key in labels else None


def _statuses(ctx: cli.Context, param: cli.Parameter, values: tuple[str, ...]) -> list[str]:
    known = {status.value.lower(): status.value for status in RunStatus}
    for value in values:
        if value.lower() not in known:
            raise cli.BadParameter(f"{value!r} is no status. There are: {', '.join(known.values())}.", ctx, param)
    return [known[value.lower()] for value in values]


def _filter(ctx: cli.Context, param: cli.Parameter, value: str | None) -> str | None:
    """Find a mistake before any server is asked."""
    try:
        if value is not None:
            parse_filter(value)
    except InvalidArgument as error:
        raise cli.UsageError(f"{error.what}\n{error.why}", ctx) from error
    return value


def _order(ctx: cli.Context, param: cli.Parameter, value: str) -> str:
    try:
        return parse_field(value).title
    except InvalidArgument as error:
        raise cli.BadParameter(f"{value!r} is no order. {error.hint}", ctx, param) from error


@cli.group(lazy=COMMANDS, aliases=ALIASES)
def runs() -> None:
    """List, show, follow, tag and cancel runs; read what they left.

    RUN is digits#12 (experiment and number), 12, last, a run's name, or its id or the beginning of it.
    """


@runs.command("list")
@cli.option("--experiment", metavar="NAME", shell_complete=experiment_names, help="Only runs of this experiment.")
@cli.option(
    "--status",
    "-s",
    callback=_statuses,
    metavar="STATUS",
    multiple=True,
    help="Only runs with this status. May be repeated.",
)
@cli.option("--tag", "-t", metavar="K[=V]", multiple=True, help="Only runs with this tag. May be repeated.")
@cli.option("--filter", "-F", "where", callback=_filter, metavar="FILTER", help="Only runs that match; see above.")
@cli.option(
    "--sort", "--order", "order", callback=_order, metavar="FIELD", default="created", help="Any field; see above."
)
@cli.option("--desc/--asc", "descending", default=None, help="[default: newest first, smallest of any other first]")
@cli.option(
    "--columns",
    "-c",
    callback=read_columns,
    metavar="FIELD,...",
    multiple=True,
    help="Show these columns too: metrics.loss,params.lr,tags.team.",
)
@cli.option("--children", is_flag=True, help="Include child runs.")
@cli.option(
    "--view",
    type=cli.Choice(["active", "archived", "all", "deleted"]),
    default="active",
    show_default=True,
    help="all: also archived runs; deleted: runs that can be restored.",
)
@cli.option("--limit", "-n", type=cli.IntRange(1), metavar="N", default=20, show_default=True, help="Show at most N.")
@cli.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_runs(
    experiment: str | None,
    status: list[str],
    tag: tuple[str, ...],
    where: str | None,
    order: str,
    descending: bool | None,
    columns: list[TableColumn],
    children: bool,
    view: str,
    limit: int,
    as_json: bool,
) -> None:
    """List runs, newest first.

    A FILTER compares fields: status, experiment, name, type, target, user, number, created, duration (90s, 15m, 2h),
    metrics.<name> (its last value), params.<name>, tags.<key>, properties.<key>. Operators are = and !=; for number,
    created, duration, and numbers in the last four, also < <= > >=. Join them with and, or, not and parentheses. A
    metric, tag, parameter or property alone: the run has it.

    \b
      runyard runs list --filter 'metrics.loss < 0.1 and tags.team = "vision"' --sort metrics.loss
      runyard runs list --filter 'created > 2026-11-01 and not status = Completed'
      runyard runs list --filter 'params.lr <= 0.01' --columns params.lr,metrics.loss
    """
    workspace = Workspace.from_config()
    if experiment is not None:
        check_experiment_name(experiment)
    found = newest(
        workspace,
        limit + 1,
        experiment=experiment,
        status=status,
        tag=list(tag),
        filter=where,
        order=order,
        descending=_flag(order == "created" if descending is None else descending),
        include_children=_flag(children),
        view=view,
    )
    found, is_cut = found[:limit], len(found) > limit
    cells = read_cells(workspace._client, found, columns)
    titles = [column.title for column in columns]
    if as_json:
        print_json([_with_columns(run, titles, row) for run, row in zip(found, cells)])
    elif found:
        names = ["NAME"] if any(run.display_name not in ("", run.id) for run in found) else []
        by = ["BY"] if len({run.submitted_by for run in found}) > 1 else []  # one person's list needs no names
        until = ["RESTORABLE UNTIL"] if view == "deleted" else []
        rows = [
            (
                name_of(run),
                *([run.display_name if run.display_name != run.id else ""] if names else []),
                run.status,
                moment(run.created_at),
                duration(run),
                *([run.submitted_by] if by else []),
                *([moment(run.undo_until)] if until else []),
                *map(shown, row),
                run.id,
            )
            for run, row in zip(found, cells)
        ]
        print_table(("RUN", *names, "STATUS", "CREATED", "DURATION", *by, *until, *titles, "ID"), rows)
    else:
        asked = " that fit" if experiment or status or tag or where or view != "active" else " yet"
        cli.echo(f"There are no runs{asked}. Submit one: `runyard submit train.py`.", err=True)
    if is_cut:
        cli.echo(f"There are more than these {limit}: `--limit {limit * 10}` shows up to {limit * 10}.", err=True)


@runs.command()
@RUN
@cli.option(
    "--plan", "with_plan", is_flag=True, help="Show what was sent to its target: the batch script, the resources."
)
@cli.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(run_id: str, with_plan: bool, as_json: bool) -> None:
    """Show a run: its status, what it is waiting for, its metrics and files, and why it failed."""
    workspace = Workspace.from_config()
    client = workspace._client
    run = get_run(workspace, run_id)
    if with_plan:
        plan = client.runs.plan_of(run.id)
        return print_json(plan) if as_json else print_handed(plan)
    metrics, files = client.runs.metrics(run.id), client.runs.files(run.id)
    if as_json:
        print_json({"run": run, "metrics": metrics, "files": files})
    else:
        print_run(run, metrics, files, page=page_url(client, workspace.get_run(run.id)._page))


@runs.command(plain="a log is printed as it was written")
@RUN
@cli.option("--follow", "-f", "follow_on", is_flag=True, help="Follow until the run ends; the exit code is the run's.")
@cli.option("--file", "name", metavar="NAME", help="Print another file of the run, such as system_logs/supervisor.log.")
@cli.option("--tail", "-n", "tail", type=cli.IntRange(1), metavar="N", help="Only the last N lines.")
@cli.option(
    "--redact", is_flag=True, help="Hide anything that looks like a password, token or key, for logs you share."
)
@cli.pass_context
def logs(ctx: cli.Context, run_id: str, follow_on: bool, name: str | None, tail: int | None, redact: bool) -> None:
    """Print a run's output (stdout and stderr)."""
    workspace = Workspace.from_config()
    client = workspace._client
    run = get_run(workspace, run_id)
    if follow_on:
        ctx.exit(exit_code_of(follow(client, run.id, name, redact=redact, last_lines=tail).status))
    name = name or find_main_log(client, run.id)
    if name is None:
        cli.echo(f"Run `{plain(run.id)}` has written nothing yet (it is {run.status}).", err=True)
        return
    print_log(client, run.id, name, redact=redact, last_lines=tail)


@runs.command()
@RUN
@cli.option("--wait", "wait_for_it", is_flag=True, help="Wait until no process of the run is left.")
def cancel(run_id: str, wait_for_it: bool) -> None:
    """Cancel a run: its processes get SIGTERM, and SIGKILL 30 s later. Safe to repeat."""
    workspace = Workspace.from_config()
    client = workspace._client
    before = get_run(workspace, run_id)
    if before.status.is_terminal:
        cli.echo(f"Run `{plain(before.id)}` has ended already: {before.status}.", err=True)
        return
    run = client.runs.cancel(before.id)
    if wait_for_it:
        run = wait(client, run.id)
    cli.echo(f"Run `{plain(run.id)}`: {run.status}.", err=True)


def _with_columns(run: Run, titles: list[str], cells: list[object]) -> dict[str, object]:
    """Return the record, with the columns that were asked for beside its fields."""
    plain_run: dict[str, object] = to_plain(run)
    return {**plain_run, "columns": dict(zip(titles, cells))} if titles else plain_run


def _flag(value: bool) -> str:
    return "true" if value else "false"


@runs.command(short_help="Take runs out of lists.")
@RUNS
def archive(run_ids: tuple[str, ...]) -> None:
    """Take runs and their child runs out of lists. They stay and can be read: `runyard runs list --view archived`."""
    _set_archived(run_ids, True)


@runs.command(short_help="Bring archived runs back.")
@RUNS
def unarchive(run_ids: tuple[str, ...]) -> None:
    """Move archived runs and their child runs back into the lists."""
    _set_archived(run_ids, False)


def _set_archived(run_ids: tuple[str, ...], archived: bool) -> None:
    workspace = Workspace.from_config()
    for run_id in [get_run(workspace, given).id for given in run_ids]:
        workspace._client.runs.update(run_id, archived=archived)
        cli.echo(f"Run `{plain(run_id)}` is {'archived' if archived else 'active'}.", err=True)


@runs.command(short_help="Tag a run.")
@RUN
@cli.argument("tags", nargs=-1, metavar="[KEY[=VALUE]...]")
@cli.option("--remove", metavar="KEY", multiple=True, help="Remove this tag. May be repeated.")
@cli.option("--json", "as_json", is_flag=True, help="Print all tags of the run as JSON.")
@cli.pass_context
def tag(ctx: cli.Context, run_id: str, tags: tuple[str, ...], remove: tuple[str, ...], as_json: bool) -> None:
    """Tag a run, even one that has ended. An existing key gets the new value. Prints the run's tags."""
    if not (tags or remove):
        raise cli.UsageError("There is no tag to set. Write KEY=VALUE, or --remove KEY.", ctx)
    wanted = dict(_pair(ctx, text) for text in tags)
    workspace = Workspace.from_config()
    run = get_run(workspace, run_id)
    changed = workspace._client.runs.update(run.id, tags_set=wanted, tags_remove=remove)
    if as_json:
        print_json(changed.tags)
    else:
        for key, value in changed.tags.items():
            cli.echo(plain(key if value is None else f"{key}={value}"))


def _pair(ctx: cli.Context, text: str) -> tuple[str, str | None]:
    key, equals, value = text.partition("=")
    if not key:
        raise cli.UsageError(f"{text!r} has no key. Write KEY=VALUE.", ctx)
    return key, value if equals else None
