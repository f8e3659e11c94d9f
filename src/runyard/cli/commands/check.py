"""`runyard check`: what becomes of code that was written for Azure ML, line by line."""

from __future__ import annotations

import os
from collections import Counter

from runyard import cli
from runyard.cli.output import print_json
from runyard.cli.text import plain
from runyard.core.errors import NotFound
from runyard.sdk.migration.folder import UNREAD, CheckedUse, check_folder
from runyard.sdk.migration.verdicts import DIFFERS, MISSING, WORKS


@cli.command()
@cli.option("--all", "show_all", is_flag=True, help="Show what works, too.")
@cli.option("--json", "as_json", is_flag=True, help="Print every use as JSON.")
@cli.argument("folder", type=cli.Path(), required=False)
@cli.pass_context
def check(ctx: cli.Context, folder: str | None, show_all: bool, as_json: bool) -> None:
    """Say which uses of Azure ML's SDK in FOLDER work here, differ, or are missing.

    Reads Python files, notebooks, `.runconfig` files, conda files and requirements, and runs nothing of them. FOLDER is
    the current one by default, and may be a file. Exits with 1 when something is missing.

    \b
      runyard check ~/projects/churn
      runyard check train.py --all
    """
    place = folder or "."
    if not os.path.exists(place):
        raise NotFound(f"There is no folder `{place}`.", why=f"Looked in {os.getcwd()}.")
    findings = check_folder(place)
    counts = Counter(finding.verdict for finding in findings)
    if as_json:
        print_json([finding._asdict() for finding in findings])
    else:
        for finding in findings:
            if show_all or finding.verdict != WORKS:
                cli.echo(_line(finding, place))
        cli.echo(_summary(findings, counts))
    if counts[MISSING] or counts[UNREAD]:
        ctx.exit(1)


def _line(finding: CheckedUse, folder: str) -> str:
    path = os.path.relpath(finding.path, folder) if os.path.isdir(folder) else finding.path
    cell = f" cell {finding.cell}" if finding.cell else ""
    where = plain(f"{path}{cell}:{finding.line}" if finding.line else f"{path}{cell}")
    text = f"  {plain(finding.text)}" if finding.text else ""
    return f"{where}: {finding.verdict:7}  {plain(finding.name)}{text}"


def _summary(findings: list[CheckedUse], counts: Counter[str]) -> str:
    if not findings:
        return "Nothing here uses Azure ML's SDK."
    files = len({finding.path for finding in findings})
    words = [f"{counts[word]} {word}" for word in (WORKS, DIFFERS, MISSING)]
    unread = f", {counts[UNREAD]} not read" if counts[UNREAD] else ""
    return f"{len(findings)} uses in {files} {'file' if files == 1 else 'files'}: {', '.join(words)}{unread}."
