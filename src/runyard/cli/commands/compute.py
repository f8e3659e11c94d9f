"""`runyard compute`: the compute targets, the runs on them and the runs that wait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runyard import cli
from runyard.cli.commands.compute_attach import cluster_options, target_options
from runyard.cli.commands.experiments import YES, ask
from runyard.cli.lookup import compute_names
from runyard.cli.output import Seconds, moment, print_fields, print_json, print_table, seconds
from runyard.cli.text import plain
from runyard.core.compute import (
    DEFAULT_IDLE_SECONDS,
    LOCAL,
    ComputeNode,
    ComputeSpec,
    ComputeTarget,
    check_compute_name,
    check_target_name,
)
from runyard.core.machine.progress import shown_size
from runyard.sdk.workspaces.workspace import Workspace

NAME = cli.argument("name", shell_complete=compute_names)
AS_JSON = cli.option("--json", "as_json", is_flag=True, help="Print JSON.")


COMMANDS = {
    "attach": (
        "runyard.cli.commands.compute_attach:attach",
        "Let runs go to a Ray or Slurm cluster, or to hosts over SSH.",
    ),
    "test": ("runyard.cli.commands.compute_attach:test", "Run a tiny job on each node, and say what is wrong."),
}


@cli.group(lazy=COMMANDS)
def compute() -> None:
    """Make, attach, change and look at compute targets: pools of nodes, clusters, hosts.

    \b
      runyard compute create cpu-cluster --max-nodes 4
      runyard compute attach gpu-cluster slurm --partition gpu
      runyard submit --target gpu-cluster train.py
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
    rows = [(one.name, one.spec.type, _cluster(one), _nodes(one), len(one.running), len(one.waiting)) for one in found]
    print_table(("TARGET", "TYPE", "CLUSTER", "NODES", "RUNNING", "WAITING"), rows)
    for one in found:
        if one.note:
            cli.echo(f"{plain(one.name)}: {plain(one.note)}", err=True)


@compute.command()
@NAME
@AS_JSON
def show(name: str, as_json: bool) -> None:
    """Show a compute target: its nodes, its runs, and what each queued run is waiting for."""
    workspace = Workspace.from_config()
    target = workspace._client.compute.get(workspace.name, check_target_name(name))
    if as_json:
        print_json(target)
    else:
        _print_target(target)


@compute.command()
@NAME
@cli.option("--max-nodes", type=cli.IntRange(1), metavar="N", required=True, help="Maximum number of nodes.")
@cli.option("--min-nodes", type=cli.IntRange(0), metavar="N", default=0, help="Number of nodes that are always kept.")
@cli.option(
    "--idle",
    type=Seconds(),
    metavar="TIME",
    default=DEFAULT_IDLE_SECONDS,
    help="Remove a node after it has been idle this long.",
)
@cli.option(
    "--cluster",
    "--engine",
    metavar="CLUSTER",
    default="",
    help="Where the nodes come from: slurm:PARTITION, ray:HOST:PORT or a target.",
)
@cli.option("--description", metavar="TEXT", default="", help="A description of what it is for.")
@AS_JSON
def create(name: str, max_nodes: int, min_nodes: int, idle: int, cluster: str, description: str, as_json: bool) -> None:
    """Create a pool of nodes. A run takes as many nodes as its node_count; the others wait.

    Without --cluster it is where the server's setting compute.amlcompute.engine says, else on the server's machine.
    """
    check_compute_name(name)
    workspace = Workspace.from_config()
    spec = ComputeSpec(
        min_nodes=min_nodes, max_nodes=max_nodes, idle_seconds=idle, description=description, cluster=cluster
    )
    _say(workspace._client.compute.create(workspace.name, name, spec), "is there", as_json)


@compute.command()
@NAME
@cli.option("--max-nodes", type=cli.IntRange(1), metavar="N", help="Maximum number of nodes.")
@cli.option("--min-nodes", type=cli.IntRange(0), metavar="N", help="Number of nodes that are always kept.")
@cli.option("--idle", type=Seconds(), metavar="TIME", help="Remove a node after it has been idle this long.")
@cli.option("--description", metavar="TEXT", help="A description of what it is for.")
@cluster_options
@cli.option("--unset", metavar="OPTION", multiple=True, help="Remove an option of an attached target.")
@AS_JSON
def update(
    name: str,
    max_nodes: int | None,
    min_nodes: int | None,
    idle: int | None,
    description: str | None,
    unset: tuple[str, ...],
    as_json: bool,
    **given: Any,
) -> None:
    """Change a pool or the options of an attached target. Waiting runs may start because of it."""
    changes: dict[str, Any] = {"max_nodes": max_nodes, "min_nodes": min_nodes, "idle_seconds": idle}
    changes.update(description=description, options=_changed_options(name, given, unset))
    if all(value is None for value in changes.values()):
        raise cli.UsageError(
            "Nothing is changed. Add --max-nodes, --min-nodes, --idle, --description, or an option of its cluster."
        )
    _change(name, "is changed", as_json, **changes)


@compute.command()
@NAME
@AS_JSON
def start(name: str, as_json: bool) -> None:
    """Allow runs to start on a stopped target again."""
    _change(name, "is started", as_json, is_stopped=False)


@compute.command()
@NAME
@AS_JSON
def stop(name: str, as_json: bool) -> None:
    """Start no more runs on a target; running ones continue."""
    _change(name, "is stopped", as_json, is_stopped=True)


@compute.command()
@NAME
@YES
def delete(name: str, yes: bool) -> None:
    """Delete or detach a compute target that no unfinished run names. Its runs stay, and so do a cluster's machines."""
    check_compute_name(name)
    workspace = Workspace.from_config()
    workspace._client.compute.get(workspace.name, name)
    ask(f"Delete compute target {name}?", yes)
    workspace._client.compute.delete(workspace.name, name)
    cli.echo(f"Compute target `{plain(name)}` is deleted.", err=True)


def _change(name: str, done: str, as_json: bool, **changes: Any) -> None:
    workspace = Workspace.from_config()
    _say(workspace._client.compute.update(workspace.name, check_compute_name(name), **changes), done, as_json)


def _changed_options(name: str, given: dict[str, Any], unset: tuple[str, ...]) -> dict[str, Any] | None:
    if not unset and all(value in (None, ()) for value in given.values()):
        return None
    workspace = Workspace.from_config()
    kind = workspace._client.compute.get(workspace.name, check_compute_name(name)).spec.backend
    return {**target_options(given, kind), **dict.fromkeys(unset)}


def _say(target: ComputeTarget, done: str, as_json: bool) -> None:
    if as_json:
        print_json(target)
    cli.echo(f"Compute target `{plain(target.name)}` {done}: {_nodes(target)} nodes.", err=True)


def _nodes(target: ComputeTarget) -> str:
    if target.name == LOCAL:
        return ""
    spec = target.spec
    is_pool = bool(spec.max_nodes) and not spec.is_attached
    there = sum(run.node_count for run in target.running) if is_pool and spec.backend else len(target.nodes)
    text = f"{there} of {spec.max_nodes}" if is_pool else str(there)
    return f"{text}, stopped" if target.spec.is_stopped else text


def _cluster(target: ComputeTarget) -> str:
    """Return where its runs are, in few words."""
    if target.alias_of:
        return f"alias of {target.alias_of}"
    spec = target.spec
    where = spec.options.get("partition") or spec.options.get("address") or ""
    return spec.cluster or (f"{spec.backend}:{where}" if where else spec.backend)


def _print_target(target: ComputeTarget) -> None:
    spec = target.spec
    print_fields(
        [
            ("target", target.name),
            ("type", spec.type),
            ("cluster", _cluster(target)),
            ("nodes", _nodes(target)),
            ("at least", str(spec.min_nodes) if spec.min_nodes else ""),
            ("runs at once", str(spec.max_nodes or "no limit") if target.name == LOCAL else ""),
            ("idle nodes go after", seconds(spec.idle_seconds) if target.name != LOCAL and not spec.backend else ""),
            ("options", ", ".join(f"{key}={value}" for key, value in spec.options.items())),
            ("note", target.note),
            ("vm size", f"{spec.vm_size} (without effect here)" if spec.vm_size else ""),
            ("description", spec.description),
            ("tags", ", ".join(f"{key}={value}" for key, value in spec.tags.items())),
            ("created", moment(target.created_at)),
        ]
    )
    if spec.backend:
        _print_part("nodes", ("NODE", "STATE", "CPUS", "GPUS", "MEMORY", "RUN", "NOTE"), [*map(_row, target.nodes)])
    else:
        _print_part("nodes", ("NODE", "RUN"), [(node.name, node.run_id or "idle") for node in target.nodes])
    running = [(run.run_id, run.node_count, ",".join(run.gpus)) for run in target.running]
    _print_part("running", ("RUN", "NODES", "GPUS"), running)
    waiting = [(run.run_id, run.node_count, run.waits_for) for run in target.waiting]
    _print_part("waiting", ("RUN", "NODES", "WAITS FOR"), waiting)


def _row(node: ComputeNode) -> tuple[object, ...]:
    memory = shown_size(node.memory_bytes) if node.memory_bytes else ""
    return (
        node.name,
        node.state,
        f"{node.cpus:g}",
        f"{node.gpu_count:g}",
        memory,
        node.run_id or "",
        node.note or node.host_key,
    )


def _print_part(title: str, titles: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    if rows:
        cli.echo(f"\n{title}")
        print_table(titles, rows)
