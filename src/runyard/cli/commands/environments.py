"""`runyard environments`: registered and curated ones, what is built on the server's machine, building and pruning."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import click

from runyard.cli.lazy import LazyGroup
from runyard.cli.output import moment, print_fields, print_json, print_table, size
from runyard.cli.text import plain
from runyard.core.config.urls import hide_passwords
from runyard.core.errors import NotFound
from runyard.sdk.environments.conda_dependencies import CondaDependencies
from runyard.sdk.environments.environment import Environment
from runyard.sdk.environments.registry import labels_of, list_versions, registered
from runyard.sdk.workspaces.workspace import Workspace

COMMANDS = {
    "build": (
        "runyard.cli.commands.environment_builds:build",
        "Build an environment now, so that no run waits for it.",
    ),
    "prune": (
        "runyard.cli.commands.environment_builds:prune",
        "Remove built environments that nobody has used for long.",
    ),
}
KEY_LENGTH = 12
MOST_SHOWN = 6


@click.group(cls=LazyGroup, lazy=COMMANDS)
def environments() -> None:
    """List, show, build and prune environments: what runs are made of."""


@environments.command("list")
@click.option("--built", "only_built", is_flag=True, help="Only what is built on the server's machine.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_environments(only_built: bool, as_json: bool) -> None:
    """List registered and curated environments, then what is built, with its size and last use."""
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
        click.echo()
    if built:
        print_table(("BUILT", "ENVIRONMENT", "PYTHON", "SIZE", "LAST USED", "RUNS"), [built_row(one) for one in built])
        click.echo(
            f"{len(built)} built, {size(sum(one['size_bytes'] for one in built))}. `runyard environments prune` frees "
            "what is not used.",
            err=True,
        )
    else:
        click.echo("None is built on the server's machine yet. The first run that names packages builds one.", err=True)
    return None


@environments.command()
@click.argument("name")
@click.option("--version", metavar="N", help="The version. [default: the latest]")
@click.option("--label", help="The version that has this label.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: Azure's form, and the versions.")
def show(name: str, version: str | None, label: str | None, as_json: bool) -> None:
    """Show what an environment is made of, and its versions."""
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


def built_row(one: dict[str, Any]) -> tuple[str, ...]:
    return (
        one["key"][:KEY_LENGTH],
        one["name"] if one["is_finished"] else "(not finished)",
        one["python"],
        size(one["size_bytes"]),
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


def _versions(workspace: Workspace, name: str) -> list[dict[str, Any]]:
    try:
        found = list_versions(workspace, name)
    except NotFound:
        return []
    return [{"version": str(one.version), "created_at": one.created_at, "labels": labels_of(one)} for one in found]


def _version_text(one: dict[str, Any]) -> str:
    labels = f" ({', '.join(map(plain, one['labels']))})" if one["labels"] else ""
    return f"{one['version']}{labels}"
