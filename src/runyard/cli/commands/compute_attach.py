"""`runyard compute attach` and `runyard compute test`.

`attach` makes a compute target of machines that Runyard does not manage. `test` starts a tiny run on each node of a
target and prints a table of the nodes, with faults and their remedies.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Callable, Mapping, TypeVar

import runyard
from runyard import cli
from runyard.cli.lookup import compute_names
from runyard.cli.output import Seconds, print_json, print_table
from runyard.cli.text import plain
from runyard.core.compute import KIND_OF_TYPE, ComputeSpec, check_compute, check_compute_name, check_target_name
from runyard.core.compute_options import AUTO, RAY, SLURM, SSH, SSH_PORT, read_hosts
from runyard.core.machine.progress import shown_size
from runyard.core.records import Run as Record
from runyard.core.statuses import RunStatus
from runyard.sdk.compute.self_test import NodeReport, find_faults, node_count_of, read_reports, submit_test
from runyard.sdk.runs.details import PollInterval
from runyard.sdk.runs.run import Run
from runyard.sdk.workspaces.workspace import Workspace

Command = TypeVar("Command", bound=Callable[..., Any])
TYPE_OF_KIND = {kind: name for name, kind in KIND_OF_TYPE.items()}
_FILES = {"private_key": "key", "known_hosts": "known_hosts"}  # options whose text is in a file of this machine
TITLES = ("NODE", "HOST", "PYTHON", "RUNYARD", "CPUS", "GPUS", "DISK FREE", "CLOCK", "SERVER", "OTHER NODES")


def _variables(ctx: cli.Context, param: cli.Parameter, values: tuple[str, ...]) -> dict[str, str] | None:
    for value in values:
        if "=" not in value[1:]:
            raise cli.BadParameter(f"{value!r} has no name and value. Write NAME=VALUE.", ctx, param)
    return dict(value.split("=", 1) for value in values) or None


_OPTIONS = (
    cli.option("--address", metavar="ADDRESS", help="ray: auto, host:6379, ray://host:10001. ssh: hostA,hostB:2222."),
    cli.option("--partition", metavar="NAME", help="slurm: the partition."),
    cli.option("--account", metavar="NAME", help="slurm: the account."),
    cli.option("--qos", metavar="NAME", help="slurm: the quality of service."),
    cli.option("--constraint", metavar="TEXT", help="slurm: features of the nodes."),
    cli.option("--extra", metavar="OPTION", multiple=True, help="slurm: one more option of sbatch, as --extra=--x=y."),
    cli.option("--mpi", metavar="NAME", help="slurm: mpirun (srun is not supported yet)."),
    cli.option("--user", "username", metavar="NAME", help="ssh: the user name on the hosts."),
    cli.option(
        "--key", type=cli.Path(exists=True, dir_okay=False), help="ssh: a private key, which the server stores."
    ),
    cli.option("--port", type=cli.IntRange(1, 65535), metavar="N", help="ssh: the port. [default: 22]"),
    cli.option("--slots", type=cli.IntRange(1), metavar="N", help="ssh: concurrent runs per host. [default: 1]"),
    cli.option("--known-hosts", type=cli.Path(exists=True, dir_okay=False), help="ssh: a file with the hosts' keys."),
    cli.option(
        "--env", callback=_variables, metavar="K=V", multiple=True, help="ray: a variable to set for Ray's client."
    ),
    cli.option("--cpus", type=float, metavar="N", help="ray: CPUs that each node of a run takes."),
    cli.option("--node-python", metavar="PATH", help="ray: the nodes' Python that runs Runyard's own code."),
    cli.option(
        "--python",
        metavar="PATH",
        help="The nodes' Python that runs Runyard's own code; ray: a Python on the server that has Ray.",
    ),
    cli.option("--node-home", metavar="PATH", help="The folder on the nodes for working folders and environments."),
    cli.option("--shared-folder", metavar="PATH", help="A folder that all nodes share."),
)


def cluster_options(command: Command) -> Command:
    """Add the options of all kinds of clusters; the options that a target may have are checked when it is made."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def target_options(given: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return the given options, by the names of core.compute_options, with files replaced by their text."""
    found = {name: value for name, value in given.items() if value not in (None, ()) and name not in _FILES.values()}
    for name, option in _FILES.items():
        if given.get(option):
            found[name] = Path(given[option]).read_text(encoding="utf-8")
    if "extra" in found:
        found["extra"] = list(found["extra"])
    if kind == SSH and "address" in found:
        port, slots = found.pop("port", SSH_PORT), found.pop("slots", 1)
        found["hosts"] = read_hosts(found.pop("address"), port=port, slots=slots)
    return found


@cli.command()
@cli.argument("name")
@cli.argument("kind", type=cli.Choice((RAY, SLURM, SSH)))
@cluster_options
@cli.option("--description", metavar="TEXT", default="", help="A description of what it is for.")
@cli.option("--json", "as_json", is_flag=True, help="Print JSON.")
def attach(name: str, kind: str, description: str, as_json: bool, **given: Any) -> None:
    """Give a name to machines that an existing Ray, Slurm or SSH setup provides, so that runs can use them.

    The server checks that it can reach them and that they can reach it.

    \b
      runyard compute attach ray-pool ray --address auto
      runyard compute attach gpu-cluster slurm --partition gpu --extra=--qos=high
      runyard compute attach boxes ssh --address hostA,hostB --user me --key ~/.ssh/id_ed25519
    """
    check_compute_name(name)
    options = target_options(given, kind)
    if kind == RAY:
        options.setdefault("address", AUTO)
    spec = check_compute(ComputeSpec(type=TYPE_OF_KIND[kind], options=options, description=description))
    workspace = Workspace.from_config()
    cli.echo("Looking for its machines …", err=True)
    made = workspace._client.compute.create(workspace.name, name, spec)
    if as_json:
        print_json(made)
    count = len(made.nodes)
    cli.echo(
        f"Compute target `{plain(made.name)}` is attached: {count} node{'' if count == 1 else 's'}. "
        f"`runyard compute test {plain(made.name)}` looks at each.",
        err=True,
    )


@cli.command()
@cli.argument("name", shell_complete=compute_names)
@cli.option("--nodes", type=cli.IntRange(1), metavar="N", help="Test N nodes. [default: all that are available]")
@cli.option("--timeout", type=Seconds(), metavar="TIME", default=600, help="Give up after this long. [default: 10m]")
@cli.option("--json", "as_json", is_flag=True, help="Print JSON.")
@cli.pass_context
def test(ctx: cli.Context, name: str, nodes: int | None, timeout: int, as_json: bool) -> None:
    """Run a tiny job on each node of a target and report what the nodes have and what is wrong with them.

    Each reports its Python, GPUs, free disk and clock, and whether it reaches the server and the other nodes. The run
    is an ordinary one of experiment compute-test. Exit code 1: something is wrong.
    """
    workspace = Workspace.from_config()
    target = workspace._client.compute.get(workspace.name, check_target_name(name))
    count = nodes or node_count_of(target)
    run = submit_test(workspace, name, count)
    cli.echo(f"Run {plain(run.id)} on {count} node{'' if count == 1 else 's'} of {plain(name)}.", err=True)
    ended = _wait(run, timeout)
    reports = read_reports(run)
    faults = [*_run_faults(ended), *find_faults(reports, nodes=count, version=runyard.__version__)]
    if as_json:
        print_json({"run_id": run.id, "nodes": reports, "faults": faults})
    else:
        _print(reports, faults)
    ctx.exit(1 if faults else 0)


def _wait(run: Run, timeout_s: int) -> Record:
    """Return the run when it has ended, and say meanwhile what it waits for. One that takes too long is canceled."""
    deadline, pace, said = time.monotonic() + timeout_s, PollInterval(), ""
    while True:
        record = run._client.runs.get(run.id)
        if record.status.is_terminal:
            return record
        now = record.waits_for or ("It runs." if record.status is RunStatus.RUNNING else f"{record.status}.")
        if now != said:
            cli.echo(plain(now), err=True)
            said = now
        if time.monotonic() > deadline:
            run._client.runs.cancel(run.id)
            cli.echo(f"It did not end within {timeout_s} s and is canceled.", err=True)
            return record
        time.sleep(pace.next())


def _run_faults(run: Record) -> list[str]:
    if run.status is RunStatus.COMPLETED:
        return []
    if not run.status.is_terminal:
        return [f"The run did not end in time; it was {run.status}. {run.waits_for}".strip()]
    message = str((run.error or {}).get("message", "")) or f"It was {run.status}."
    return [f"The run did not complete: {message} (`runyard runs show {run.id}`)"]


def _print(reports: list[NodeReport], faults: list[str]) -> None:
    if reports:
        print_table(TITLES, [_row(report) for report in reports])
    for fault in faults:
        cli.echo(f"\nwrong: {plain(fault)}")
    if not faults:
        cli.echo("\nAll is well.")


def _row(report: NodeReport) -> tuple[object, ...]:
    gpus = f"{len(report.gpus)} ({report.gpus[0]})" if report.gpus else "0"
    others = "not met" if report.meet_error else "ok"
    if report.unreachable:
        others = f"{len(report.unreachable)} not reached"
    return (
        report.rank,
        report.host,
        report.python,
        report.runyard,
        report.cpus,
        gpus,
        shown_size(report.disk_free_bytes),
        f"{round(-report.clock_offset_s, 2) + 0.0:+.2f} s",
        "not reached" if report.server_error else f"{report.server_s * 1000:.0f} ms",
        others,
    )
