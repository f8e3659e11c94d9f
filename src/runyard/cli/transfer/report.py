"""The end of an import or an export: a table of what came over, and by name what did not."""

from __future__ import annotations

from collections.abc import Sequence

from runyard import cli
from runyard.cli.output import print_json, print_table
from runyard.cli.text import plain
from runyard.core.machine.progress import shown_size
from runyard.imports.records import Skipped
from runyard.imports.report import ImportReport

MOST_SHOWN = 20


def print_report(report: ImportReport, *, as_json: bool, is_dry_run: bool = False) -> None:
    """Print what became of an import; everything that is not here is named."""
    if as_json:
        return print_json(
            {
                "dry_run": is_dry_run,
                "runs": report.runs,
                "points": report.points,
                "files": report.files,
                "bytes": report.bytes,
                "snapshots": report.snapshots,
                "models": report.models,
                "assets": report.assets,
                "verified": report.verified,
                "noted": report.noted,
                "skipped": [entry._asdict() for entry in report.skipped],
                "failed": [entry._asdict() for entry in report.failed],
            }
        )
    rows: list[tuple[object, ...]] = [("runs", *(f"{count:,}" for count in report.runs.values()), "")]
    for noun, counts in (("model versions", report.models), ("environments, datasets", report.assets)):
        if any(counts.values()):
            rows.append((noun, f"{counts['new']:,}", "", f"{counts['unchanged']:,}", ""))
    rows.append(("points", f"{report.points:,}", "", "", ""))
    rows.append(("files", f"{report.files:,}", "", "", shown_size(report.bytes)))
    if report.snapshots:
        rows.append(("snapshots", f"{report.snapshots:,}", "", "", ""))
    print_table(("", "would be new" if is_dry_run else "new", "grown", "unchanged", "bytes"), rows)
    if report.verified:
        cli.echo(f"{report.verified:,} runs were read back and equal their source.")
    if report.noted:
        cli.echo(f"{report.noted:,} runs say in their warnings what was left out of them, or has another name here.")
    _print_list("Left out", report.skipped)
    _print_list("Not here", report.failed)
    return None


def _print_list(title: str, entries: Sequence[Skipped]) -> None:
    if not entries:
        return
    cli.echo(f"{title}: {len(entries):,}")
    for entry in entries[:MOST_SHOWN]:
        cli.echo(f"  {plain(entry.name[:200])}: {plain(entry.why[:500])}")
    if len(entries) > MOST_SHOWN:
        cli.echo(f"  … and {len(entries) - MOST_SHOWN:,} more, which --json lists")
