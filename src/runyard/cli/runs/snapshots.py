"""`runyard snapshots`: the source that a run was made from, and what two runs differ in."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from runyard import cli
from runyard.cli.lookup import RUN, get_run, run_ids
from runyard.cli.output import print_json, print_table
from runyard.cli.text import plain
from runyard.core.machine.progress import Progress, shown_size
from runyard.sdk.runs.snapshot_archive import (
    ArchivedFile,
    SnapshotChange,
    compare_snapshots,
    list_snapshot,
    read_snapshot_file,
)
from runyard.sdk.workspaces.server import Client
from runyard.sdk.workspaces.workspace import Workspace

MAX_DIFFED = 1 << 20  # larger files are named only
LETTERS = {"added": "A", "removed": "D", "changed": "M"}


@cli.group()
def snapshots() -> None:
    """Look at the stored source folders of runs."""


@snapshots.command()
@RUN
@cli.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(run_id: str, as_json: bool) -> None:
    """List the files of a run's stored source folder."""
    workspace = Workspace.from_config()
    run = get_run(workspace, run_id)
    files = list_snapshot(workspace._client, run)
    if as_json:
        print_json(
            {"id": run.snapshot_id, "root": run.snapshot_root, "files": [_described(one) for one in files.values()]}
        )
        return
    rows = [(one.path + (f" -> {one.link}" if one.link else ""), shown_size(one.size)) for one in files.values()]
    print_table(("FILE", "SIZE"), rows)
    cli.echo(
        f"snapshot {run.snapshot_id}: {len(files)} files, {shown_size(sum(one.size for one in files.values()))}",
        err=True,
    )


@snapshots.command()
@cli.argument("old_id", metavar="RUN", shell_complete=run_ids)
@cli.argument("new_id", metavar="OTHER_RUN", shell_complete=run_ids)
@cli.option("--names", "names_only", is_flag=True, help="Only print the names: A added, D removed, M changed.")
@cli.option("--json", "as_json", is_flag=True, help="Print the names as JSON.")
def diff(old_id: str, new_id: str, names_only: bool, as_json: bool) -> None:
    """Show how the source of OTHER_RUN differs from that of RUN."""
    workspace = Workspace.from_config()
    client = workspace._client
    old, new = (list_snapshot(client, get_run(workspace, run_id)) for run_id in (old_id, new_id))
    changes = compare_snapshots(old, new)
    if as_json:
        print_json([change._asdict() for change in changes])
        return
    with Progress("comparing files", len(changes), show=str) as progress:
        for done, change in enumerate(changes):
            progress.step(done, change.path)
            progress.clear()
            cli.echo(f"{LETTERS[change.kind]} {plain(change.path)}")
            if not names_only:
                for line in _text_diff(client, change, old.get(change.path), new.get(change.path)):
                    progress.clear()
                    cli.echo(plain(line))
    if not changes:
        cli.echo("The two sources are the same.", err=True)


def _text_diff(
    client: Client, change: SnapshotChange, old: ArchivedFile | None, new: ArchivedFile | None
) -> Iterator[str]:
    there = [one for one in (old, new) if one is not None]
    if len(there) == 2 and there[0].mode != there[1].mode:
        yield f"mode {there[0].mode:o} -> {there[1].mode:o}"
    if any(one.size > MAX_DIFFED for one in there):
        yield f"(larger than {shown_size(MAX_DIFFED)}: not compared line by line)"
        return
    texts = [_text(client, one) for one in (old, new)]
    if texts[0] is None or texts[1] is None:
        yield "(not text)"
        return
    names = [f"a/{change.path}" if old else "/dev/null", f"b/{change.path}" if new else "/dev/null"]
    yield from difflib.unified_diff(texts[0], texts[1], names[0], names[1], lineterm="")


def _text(client: Client, file: ArchivedFile | None) -> list[str] | None:
    """Return the file's lines; None: it is not text."""
    if file is None:
        return []
    if file.link:
        return [f"-> {file.link}"]
    data = read_snapshot_file(client, file)
    try:
        return None if b"\0" in data else data.decode("utf-8").split("\n")
    except UnicodeDecodeError:
        return None


def _described(file: ArchivedFile) -> dict[str, object]:
    kind = {"link": file.link} if file.link else {"mode": f"{file.mode:o}"}
    return {"path": file.path, "size": file.size, **kind}
