"""`runyard server repair`: what was lost, table by table and run by run."""

from __future__ import annotations

import click

from runyard.cli.commands.server_change import refuse_a_teams_server
from runyard.cli.output import print_json
from runyard.cli.text import plain
from runyard.core.config.settings import read_settings
from runyard.core.formats.plain import to_plain
from runyard.server.storage.repair import RepairReport, repair_home


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def repair(as_json: bool) -> None:
    """Repair a damaged database and check all stored files. The server must be stopped.

    Every row that can be read goes into a new file; the damaged one is kept beside it. What is lost is named.
    """
    refuse_a_teams_server("repair")
    report = repair_home(read_settings().home)
    if as_json:
        print_json(_plain(report))
        return
    _tell_database(report)
    _tell_content(report)


def _tell_database(report: RepairReport) -> None:
    found = report.database.salvage
    if report.database.damaged_file is None:
        click.echo("The database is sound.")
        return
    click.echo(f"The database was damaged ({plain(found.problems[0]) if found.problems else 'rows cannot be read'}).")
    for table in found.tables:
        if table.lost != 0:
            lost = "some rows" if table.lost is None else f"{table.lost} row(s)"
            click.echo(f"  {table.name}: {lost} lost, {table.saved} saved")
    if all(table.lost == 0 for table in found.tables):
        click.echo("No row is lost: its indexes were made anew.")
    click.echo(f"The damaged file is kept: {plain(str(report.database.damaged_file))}", err=True)


def _tell_content(report: RepairReport) -> None:
    if not report.runs and not report.damaged_chunks:
        click.echo("All stored files are whole.")
        return
    click.echo(
        f"{report.damaged_chunks} piece(s) of stored content are damaged; {report.missing_packs} pack(s) are gone."
    )
    for run in report.runs:
        for name in run.files:
            click.echo(f"  {plain(run.run_id)}: {plain(name)}")
        for path in run.snapshot:
            click.echo(f"  {plain(run.run_id)}: its code, {plain(path)}")
    click.echo("Bring `artifacts/packs` back from a backup: files that are whole there are used again.", err=True)


def _plain(report: RepairReport) -> dict[str, object]:
    found = report.database.salvage
    kept = report.database.damaged_file
    return {
        "sound": kept is None,
        "damaged_file": None if kept is None else str(kept),
        "problems": found.problems,
        "tables": [{"name": table.name, "saved": table.saved, "lost": table.lost} for table in found.tables],
        "missing_packs": report.missing_packs,
        "damaged_chunks": report.damaged_chunks,
        "runs": [to_plain(run) for run in report.runs],
    }
