"""`runyard compute test`: a tiny run on each node of a target, as a table, with what is wrong and what to do."""

from __future__ import annotations

import time

import click

import runyard
from runyard.cli.amounts import Seconds
from runyard.cli.known_names import compute_names
from runyard.cli.output import print_json, print_table, size
from runyard.cli.text import plain
from runyard.core.engine_names import check_target_name
from runyard.core.records import Run as Record
from runyard.core.statuses import RunStatus
from runyard.sdk.compute.self_test import NodeReport, find_faults, node_count_of, read_reports, submit_test
from runyard.sdk.runs.pace import Pace
from runyard.sdk.runs.run import Run
from runyard.sdk.workspaces.workspace import Workspace

TITLES = ("NODE", "HOST", "PYTHON", "RUNYARD", "CPUS", "GPUS", "DISK FREE", "CLOCK", "SERVER", "OTHER NODES")


@click.command()
@click.argument("name", shell_complete=compute_names)
@click.option("--nodes", type=click.IntRange(1), metavar="N", help="On so many nodes. [default: all that can be used]")
@click.option("--timeout", type=Seconds(), metavar="TIME", default=600, help="Give up after. [default: 10m]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def test(ctx: click.Context, name: str, nodes: int | None, timeout: int, as_json: bool) -> None:
    """Run a tiny job on each node of a target, and say what the nodes have and what is wrong with them.

    Each reports its Python, GPUs, free disk and clock, and whether it reaches the server and the other nodes. The run
    is an ordinary one of experiment compute-test. Exit code 1: something is wrong.
    """
    workspace = Workspace.from_config()
    target = workspace._client.compute.get(workspace.name, check_target_name(name))
    count = nodes or node_count_of(target)
    run = submit_test(workspace, name, count)
    click.echo(f"Run {plain(run.id)} on {count} node{'' if count == 1 else 's'} of {plain(name)}.", err=True)
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
    deadline, pace, said = time.monotonic() + timeout_s, Pace(), ""
    while True:
        record = run._client.runs.get(run.id)
        if record.status.is_terminal:
            return record
        now = record.waits_for or ("It runs." if record.status is RunStatus.RUNNING else f"{record.status}.")
        if now != said:
            click.echo(plain(now), err=True)
            said = now
        if time.monotonic() > deadline:
            run._client.runs.cancel(run.id)
            click.echo(f"It did not end within {timeout_s} s and is canceled.", err=True)
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
        click.echo(f"\nwrong: {plain(fault)}")
    if not faults:
        click.echo("\nAll is well.")


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
        size(report.disk_free_bytes),
        f"{round(-report.clock_offset_s, 2) + 0.0:+.2f} s",
        "not reached" if report.server_error else f"{report.server_s * 1000:.0f} ms",
        others,
    )
