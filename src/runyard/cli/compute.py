"""`runyard compute`: pools of nodes that runs can be sent to, what is on them and who waits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from runyard.cli.amounts import Seconds
from runyard.cli.deleting import YES, ask
from runyard.cli.known_names import compute_names
from runyard.cli.tables import moment, print_fields, print_json, print_table, seconds
from runyard.cli.text import plain
from runyard.core.compute import DEFAULT_IDLE_SECONDS, LOCAL, ComputeSpec, ComputeTarget, check_compute_name
from runyard.core.names import check_asset_name
from runyard.sdk.workspace import Workspace

NAME = click.argument("name", shell_complete=compute_names)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def compute() -> None:
    """Make, change and look at compute targets: pools of virtual nodes on the server's machine.

    \b
      runyard compute create cpu-cluster --max-nodes 4
      runyard submit --target cpu-cluster train.py
    """


@compute.command("list")
@AS_JSON
def list_targets(as_json: bool) -> None:
    """List compute targets with their nodes, runs and queues."""
    workspace = Workspace.from_config()
    calls = workspace._client.compute
    found = [calls.get(workspace.name, LOCAL), *calls.list(workspace.name)]
    if as_json:
        print_json(found)
        return
    rows = [(one.name, one.spec.type, _nodes(one), len(one.running), len(one.waiting)) for one in found]
    print_table(("TARGET", "TYPE", "NODES", "RUNNING", "WAITING"), rows)


@compute.command()
@NAME
@AS_JSON
def show(name: str, as_json: bool) -> None:
    """Show a compute target: its nodes, the runs on it, and what each run in its queue waits for."""
    workspace = Workspace.from_config()
    target = workspace._client.compute.get(workspace.name, check_asset_name(name))
    if as_json:
        print_json(target)
    else:
        _print_target(target)


@compute.command()
@NAME
@click.option("--max-nodes", type=click.IntRange(0), metavar="N", required=True, help="Most nodes at once.")
@click.option("--min-nodes", type=click.IntRange(0), metavar="N", default=0, help="Nodes that are always there.")
@click.option("--idle", type=Seconds(), metavar="TIME", default=DEFAULT_IDLE_SECONDS, help="An idle node goes after.")
@click.option("--description", metavar="TEXT", default="", help="What it is for.")
@AS_JSON
def create(name: str, max_nodes: int, min_nodes: int, idle: int, description: str, as_json: bool) -> None:
    """Make a pool of nodes. A run takes as many as its node_count; others wait."""
    check_compute_name(name)
    workspace = Workspace.from_config()
    spec = ComputeSpec(min_nodes=min_nodes, max_nodes=max_nodes, idle_seconds=idle, description=description)
    _say(workspace._client.compute.create(workspace.name, name, spec), "is there", as_json)


@compute.command()
@NAME
@click.option("--max-nodes", type=click.IntRange(0), metavar="N", help="Most nodes at once.")
@click.option("--min-nodes", type=click.IntRange(0), metavar="N", help="Nodes that are always there.")
@click.option("--idle", type=Seconds(), metavar="TIME", help="An idle node goes after.")
@click.option("--description", metavar="TEXT", help="What it is for.")
@AS_JSON
def update(
    name: str, max_nodes: int | None, min_nodes: int | None, idle: int | None, description: str | None, as_json: bool
) -> None:
    """Change a pool; runs that wait may start by it."""
    changes = {"max_nodes": max_nodes, "min_nodes": min_nodes, "idle_seconds": idle, "description": description}
    if all(value is None for value in changes.values()):
        raise click.UsageError("Nothing is changed. Add --max-nodes, --min-nodes, --idle or --description.")
    _change(name, "is changed", as_json, **changes)


@compute.command()
@NAME
@AS_JSON
def start(name: str, as_json: bool) -> None:
    """Let runs start on a stopped target."""
    _change(name, "is started", as_json, is_stopped=False)


@compute.command()
@NAME
@AS_JSON
def stop(name: str, as_json: bool) -> None:
    """Let no more runs start on a target; those on it go on."""
    _change(name, "is stopped", as_json, is_stopped=True)


@compute.command()
@NAME
@YES
def delete(name: str, yes: bool) -> None:
    """Delete a compute target that no unfinished run names. Its runs stay."""
    check_compute_name(name)
    workspace = Workspace.from_config()
    workspace._client.compute.get(workspace.name, name)
    ask(f"Delete compute target {name}?", yes)
    workspace._client.compute.delete(workspace.name, name)
    click.echo(f"Compute target `{plain(name)}` is deleted.", err=True)


def _change(name: str, done: str, as_json: bool, **changes: Any) -> None:
    workspace = Workspace.from_config()
    _say(workspace._client.compute.update(workspace.name, check_compute_name(name), **changes), done, as_json)


def _say(target: ComputeTarget, done: str, as_json: bool) -> None:
    if as_json:
        print_json(target)
    click.echo(f"Compute target `{plain(target.name)}` {done}: {_nodes(target)} nodes.", err=True)


def _nodes(target: ComputeTarget) -> str:
    if target.name == LOCAL:
        return ""
    text = f"{len(target.nodes)} of {target.spec.max_nodes}"
    return f"{text}, stopped" if target.spec.is_stopped else text


def _print_target(target: ComputeTarget) -> None:
    spec = target.spec
    print_fields(
        [
            ("target", target.name),
            ("type", spec.type),
            ("nodes", _nodes(target)),
            ("at least", str(spec.min_nodes) if spec.min_nodes else ""),
            ("runs at once", str(spec.max_nodes or "no limit") if target.name == LOCAL else ""),
            ("idle nodes go after", seconds(spec.idle_seconds) if target.name != LOCAL else ""),
            ("vm size", f"{spec.vm_size} (without effect here)" if spec.vm_size else ""),
            ("description", spec.description),
            ("tags", ", ".join(f"{key}={value}" for key, value in spec.tags.items())),
            ("created", moment(target.created_at)),
        ]
    )
    _print_part("nodes", ("NODE", "RUN"), [(node.name, node.run_id or "idle") for node in target.nodes])
    running = [(run.run_id, run.node_count, ",".join(run.gpus)) for run in target.running]
    _print_part("running", ("RUN", "NODES", "GPUS"), running)
    waiting = [(run.run_id, run.node_count, run.waits_for) for run in target.waiting]
    _print_part("waiting", ("RUN", "NODES", "WAITS FOR"), waiting)


def _print_part(title: str, titles: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    if rows:
        click.echo(f"\n{title}")
        print_table(titles, rows)
