"""Print a plan: of a dry run, with the variables that the run adds, or of the job that a run's target was given."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from runyard import cli
from runyard.cli.output import print_fields, seconds
from runyard.cli.text import plain
from runyard.core.formats.documents import SubmitPlan
from runyard.core.machine.progress import shown_size

if TYPE_CHECKING:
    from runyard.core.formats.run_files import PlannedProcess


def print_plan(plan: SubmitPlan) -> None:
    spec = plan["spec"]
    print_fields(
        [
            ("experiment", plan["experiment"]),
            ("source", plan["source_directory"]),
            ("target", plan["target"]),
            ("nodes", _nodes(plan)),
            ("time limit", seconds(spec["time_limit_s"])),
            ("environment", spec["environment"]["name"]),
            ("tags", ", ".join(key if value is None else f"{key}={value}" for key, value in plan["tags"].items())),
            ("run folder", plan.get("run_folder")),
            ("supervisor", shlex.join(plan.get("argv", []))),
        ]
    )
    _print_snapshot(plan["snapshot"])
    _print_work(plan)
    cli.echo("Nothing was stored or started.", err=True)
    if "processes" not in plan:
        cli.echo("No server is running; `runyard server start` and this again show the processes too.", err=True)


def print_handed(plan: SubmitPlan) -> None:
    """Print what a run's target was given."""
    print_fields(
        [
            ("run", plan["run_id"]),
            ("target", plan["target"]),
            ("nodes", _nodes(plan)),
            ("run folder", plan["run_folder"]),
            ("command", shlex.join(plan["argv"])),
        ]
    )
    _print_work(plan)


def _print_work(plan: SubmitPlan) -> None:
    resources = plan.get("resources") or {}
    if resources:
        cli.echo("\nasked for")
        print_fields([(f"  {plain(name)}", plain(str(value))) for name, value in resources.items()])
    if plan.get("script"):
        cli.echo(f"\nscript\n{_indented(plan['script'])}")
    for process in plan.get("processes", []):
        _print_process(process)


def _indented(text: str) -> str:
    return "\n".join(f"  {plain(line)}".rstrip() for line in text.splitlines())


def _print_snapshot(found: Mapping[str, Any]) -> None:
    count = found["files"]
    cli.echo(f"\nsnapshot  {count:,} file{'' if count == 1 else 's'}, {shown_size(found['size_bytes'])}")
    for path, size_bytes in found["biggest"]:
        cli.echo(f"  {shown_size(size_bytes):>8}  {plain(path)}")
    for note in found["notes"]:
        cli.echo(f"  {plain(note)}")


def _nodes(plan: SubmitPlan) -> str:
    """Return how many; of several, each with its address and GPUs."""
    nodes = plan.get("nodes") or []
    shown = [f"{node['name']} ({node['address']}{_gpus(node)})" for node in nodes]
    if len(nodes) == 1:
        return f"1{_gpus(nodes[0])}"
    return f"{plan['node_count']}: {', '.join(shown)}" if shown else str(plan["node_count"])


def _gpus(node: Mapping[str, Any]) -> str:
    return f", GPU {','.join(node['gpus'])}" if node.get("gpus") else ""


def _print_process(process: PlannedProcess) -> None:
    cli.echo(f"\nprocess {process['rank']} ({plain(process['role'])})")
    cli.echo(f"  command  {plain(shlex.join(process['argv']))}")
    cli.echo(f"  folder   {plain(process['cwd'])}")
    cli.echo(f"  log      {plain(process['log'])}")
    added = {name: value for name, value in process["variables"].items() if os.environ.get(name) != value}
    for name in sorted(added):
        cli.echo(f"  {plain(name)}={plain(added[name])}")
    inherited = len(process["variables"]) - len(added)
    if inherited:
        cli.echo(f"  and {inherited} of your own variables")
