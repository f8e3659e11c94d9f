"""`runyard environments`: list registered, curated and built environments; build and prune them.

An environment can also be given as a file: requirements, conda file, Dockerfile or saved folder. Built environments are
those on the server's machine.
"""

from __future__ import annotations

import sys
from datetime import datetime, timezone
from typing import Any, TypedDict

from runyard import cli
from runyard.cli.exit_codes import INTERRUPTED, exit_code_of
from runyard.cli.output import Bytes, Seconds, chosen_options, moment, print_fields, print_json, print_table
from runyard.cli.runs.run_report import follow, print_end
from runyard.cli.text import plain
from runyard.core.config.logins import hide_passwords
from runyard.core.errors import NotFound
from runyard.core.formats.documents import CachedEnvironment
from runyard.core.machine.progress import shown_size
from runyard.core.statuses import RunStatus
from runyard.sdk.environments.conda_dependencies import CondaDependencies
from runyard.sdk.environments.environment import Environment
from runyard.sdk.environments.lock_graph import Chosen
from runyard.sdk.environments.projects import environment_of_file
from runyard.sdk.environments.registry import labels_of, list_versions, registered
from runyard.sdk.submit.environment_build import start_build
from runyard.sdk.workspaces.workspace import Workspace

KEY_LENGTH = 12
MOST_SHOWN = 6
MONTH_S = 30 * 86400


@cli.group()
def environments() -> None:
    """List, show, build and prune environments: what runs are made of."""


@environments.command("list")
@cli.option("--built", "only_built", is_flag=True, help="Only environments built on the server's machine.")
@cli.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_environments(only_built: bool, as_json: bool) -> None:
    """List registered and curated environments, then the built ones with their size and last use."""
    workspace = Workspace.from_config()
    known = {} if only_built else Environment.list(workspace)
    own = set() if only_built else registered(workspace)
    built = workspace._client.environments.list()
    if as_json:
        named = [{**_plain(one), "curated": name not in own} for name, one in known.items()]
        return print_json({"environments": named, "built": built})
    if not only_built:
        rows = [(name, one.version, _origin(name, own), _packages(one)) for name, one in known.items()]
        print_table(("ENVIRONMENT", "VERSION", "FROM", "PACKAGES"), rows)
        cli.echo()
    if built:
        print_table(("BUILT", "ENVIRONMENT", "PYTHON", "SIZE", "LAST USED", "RUNS"), [built_row(one) for one in built])
        cli.echo(
            f"{len(built)} built, {shown_size(sum(one['size_bytes'] for one in built))}. "
            "`runyard environments prune` frees what is not used.",
            err=True,
        )
    else:
        cli.echo("None is built on the server's machine yet. The first run that names packages builds one.", err=True)
    return None


@environments.command()
@cli.argument("name")
@cli.option("--version", metavar="N", help="The version. [default: the latest]")
@cli.option("--label", help="The version that has this label.")
@cli.option("--json", "as_json", is_flag=True, help="Print JSON: the environment in Azure's format, and its versions.")
def show(name: str, version: str | None, label: str | None, as_json: bool) -> None:
    """Show an environment's contents and versions."""
    workspace = Workspace.from_config()
    found = Environment.get(workspace, name, version=version, label=label)
    versions = _versions(workspace, found.name)
    if as_json:
        return print_json({**_plain(found), "versions": versions})
    dependencies = found.python.conda_dependencies or CondaDependencies()
    print_fields(
        [
            ("environment", found.name),
            ("version", found.version),
            ("versions", ", ".join(_version_text(one) for one in versions) or "curated: any"),
            ("python", "your own" if found.python.user_managed_dependencies else dependencies.get_python_version()),
            ("interpreter", found.python.interpreter_path if found.python.user_managed_dependencies else ""),
            ("pip", _lines(dependencies.pip_packages)),
            ("pip options", _lines(dependencies.pip_options)),
            ("conda", _lines(dependencies.conda_packages[1:])),
            ("channels", _lines(dependencies.conda_channels) if dependencies.conda_packages[1:] else ""),
            ("image", found.docker.base_image if found.docker.enabled else ""),
            ("variables", ", ".join(sorted(found.environment_variables or {}))),
        ]
    )
    return None


def built_row(one: CachedEnvironment) -> tuple[str, ...]:
    return (
        one["key"][:KEY_LENGTH],
        one["name"] if one["is_finished"] else "(not finished)",
        one["python"],
        shown_size(one["size_bytes"]),
        moment(datetime.fromtimestamp(one["used_at"], timezone.utc)),
        ", ".join(one["runs"]),
    )


def _origin(name: str, own: set[str]) -> str:
    return "registered" if name in own else "curated"


def _packages(environment: Environment) -> str:
    if environment.python.user_managed_dependencies:
        return f"those of {environment.python.interpreter_path}"
    dependencies = environment.python.conda_dependencies or CondaDependencies()
    names = [*dependencies.conda_packages[1:], *dependencies.pip_packages]
    shown = [line for line in names if line != "azureml-defaults"]
    return _lines(shown[:MOST_SHOWN]) + (f" and {len(shown) - MOST_SHOWN} more" if len(shown) > MOST_SHOWN else "")


def _lines(lines: list[str]) -> str:
    return ", ".join(hide_passwords(line) for line in lines)


def _plain(environment: Environment) -> dict[str, Any]:
    found = environment.to_plain()
    packages = found["python"].get("condaDependencies") or {}
    for item in packages.get("dependencies", []):
        if isinstance(item, dict):
            item["pip"] = [hide_passwords(line) for line in item["pip"]]
    return found


class _Version(TypedDict):
    version: str
    created_at: datetime
    labels: list[str]


def _versions(workspace: Workspace, name: str) -> list[_Version]:
    try:
        found = list_versions(workspace, name)
    except NotFound:
        return []
    return [{"version": str(one.version), "created_at": one.created_at, "labels": labels_of(one)} for one in found]


def _version_text(one: _Version) -> str:
    labels = f" ({', '.join(map(plain, one['labels']))})" if one["labels"] else ""
    return f"{one['version']}{labels}"


@environments.command(short_help="Build an environment now, so that no run waits for it.")
@cli.argument("name", metavar="NAME_OR_FILE")
@cli.option("--version", metavar="N", help="The version. [default: the latest]")
@cli.option("--target", help="The compute target. [default: this machine]")
@chosen_options
@cli.pass_context
def build(
    ctx: cli.Context,
    name: str,
    version: str | None,
    target: str | None,
    extras: tuple[str, ...],
    groups: tuple[str, ...],
    without_groups: tuple[str, ...],
    pixi_environment: str | None,
) -> None:
    """Build an environment and show the log. Ctrl-C stops watching; the build continues.

    A file may be a requirements.txt, a conda file (.yml), pyproject.toml, uv.lock, poetry.lock, pixi.toml, pixi.lock, a
    Dockerfile, or a folder that save_to_directory wrote.

    \b
      runyard environments build AzureML-Minimal
      runyard environments build requirements.txt
    """
    workspace = Workspace.from_config()
    chosen = Chosen(extras, groups, without_groups, pixi_environment or "")
    found = environment_of_file(name, chosen) or Environment.get(workspace, name, version=version)
    started = start_build(found, workspace, target=target)
    cli.echo(f"Run {plain(started.run.id)}\n", err=True)
    try:
        ended = follow(workspace._client, started.run.id)
    except KeyboardInterrupt:
        cli.echo(f"\nThe build continues. Stop it: `runyard runs cancel {started.run.id}`.", err=True)
        ctx.exit(INTERRUPTED)
    if ended.status is RunStatus.COMPLETED:
        cli.echo(f"\nEnvironment `{plain(found.name)}` is ready.", err=True)
        cli.echo(plain(ended.environment.get("interpreter") or ""))
    else:
        print_end(ended, [], [])
    ctx.exit(exit_code_of(ended.status))


@environments.command(short_help="Remove built environments that nobody has used for long.")
@cli.argument("keys", metavar="[KEY]...", nargs=-1)
@cli.option(
    "--unused",
    type=Seconds(),
    metavar="TIME",
    help="Remove those not used for this long: 12h, 30d. [default: 30d, without --keep]",
)
@cli.option(
    "--keep", type=Bytes(), metavar="SIZE", help="Remove the longest unused ones until at most this much is left: 20GB."
)
@cli.option("--dry-run", is_flag=True, help="Only show what would be removed.")
@cli.option("--yes", "-y", is_flag=True, help="Do not ask.")
@cli.option("--json", "as_json", is_flag=True, help="With --dry-run: print JSON.")
def prune(keys: tuple[str, ...], unused: int | None, keep: int | None, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Remove built environments that no run uses, after showing what would be removed.

    A run that needs one builds it again.

    Prints the keys of the removed ones. KEY, as `runyard environments list` shows it, names one.

    \b
      runyard environments prune --unused 7d --dry-run
      runyard environments prune --keep 20GB --yes
    """
    calls = Workspace.from_config()._client.environments
    if keys:
        if unused is not None or keep is not None or dry_run:
            raise cli.UsageError("A KEY names what goes; leave --unused, --keep and --dry-run out.")
        for key in keys:
            cli.echo(calls.remove(key)["key"])
        return None
    limits = {"keep_bytes": keep, "unused_s": float(unused or MONTH_S) if unused or keep is None else None}
    going = calls.prune(**limits, dry_run=True)  # type: ignore[arg-type]  # a dict of two kinds
    freed = shown_size(sum(one["size_bytes"] for one in going))
    if as_json and dry_run:
        return print_json(going)
    if not going:
        return cli.echo("Nothing to remove.", err=True)
    print_table(("BUILT", "ENVIRONMENT", "PYTHON", "SIZE", "LAST USED", "RUNS"), [built_row(one) for one in going])
    cli.echo(f"{len(going)} to remove; up to {freed} free: files that others share stay.", err=True)
    if dry_run:
        return None
    _ask(yes)
    for one in calls.prune(**limits):  # type: ignore[arg-type]  # as above
        cli.echo(one["key"][:KEY_LENGTH])
    return None


def _ask(yes: bool) -> None:
    if not yes and not sys.stdin.isatty():
        raise cli.UsageError("Nobody can be asked here. Add --yes to remove them.")
    if not yes:
        cli.confirm("Remove them?", abort=True, err=True)
