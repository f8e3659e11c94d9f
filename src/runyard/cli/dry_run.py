"""What `runyard submit --dry-run` shows: the plan, with the variables that the run adds to yours."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from typing import Any

import click

from runyard.cli.tables import print_fields, seconds
from runyard.cli.text import plain


def print_plan(plan: Mapping[str, Any]) -> None:
    spec = plan["spec"]
    print_fields(
        [
            ("experiment", plan["experiment"]),
            ("source", plan["source_directory"]),
            ("target", plan["target"]),
            ("nodes", str(plan["node_count"])),
            ("time limit", seconds(spec["time_limit_s"])),
            ("environment", spec["environment"]["name"]),
            ("tags", ", ".join(key if value is None else f"{key}={value}" for key, value in plan["tags"].items())),
            ("run folder", plan["run_folder"]),
            ("supervisor", shlex.join(plan["argv"])),
        ]
    )
    for process in plan["processes"]:
        _print_process(process)
    click.echo("Nothing was stored or started.", err=True)


def _print_process(process: Mapping[str, Any]) -> None:
    click.echo(f"\nprocess {process['rank']} ({plain(process['role'])})")
    click.echo(f"  command  {plain(shlex.join(process['argv']))}")
    click.echo(f"  folder   {plain(process['cwd'])}")
    click.echo(f"  log      {plain(process['log'])}")
    added = {name: value for name, value in process["variables"].items() if os.environ.get(name) != value}
    for name in sorted(added):
        click.echo(f"  {plain(name)}={plain(added[name])}")
    inherited = len(process["variables"]) - len(added)
    if inherited:
        click.echo(f"  and {inherited} of your own variables")
