"""`runyard runs files` and `runyard runs download`."""

from __future__ import annotations

from pathlib import Path

import click

from runyard.cli.known_names import RUN
from runyard.cli.lookup import get_run, pick_files
from runyard.cli.output import moment, print_json, print_table, size
from runyard.cli.progress import Progress
from runyard.cli.text import plain
from runyard.core.errors import Conflict
from runyard.core.names import true_file_name
from runyard.sdk.workspaces.workspace import Workspace


@click.command()
@RUN
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def files(run_id: str, as_json: bool) -> None:
    """List a run's files."""
    workspace = Workspace.from_config()
    found = workspace._client.runs.files(get_run(workspace, run_id).id)
    if as_json:
        print_json(found)
    elif found:
        print_table(
            ("FILE", "SIZE", "CHANGED"), [(file.name, size(file.size), moment(file.updated_at)) for file in found]
        )
    else:
        click.echo(f"Run `{plain(run_id)}` has no files yet.", err=True)


@click.command()
@RUN
@click.argument("names", nargs=-1, metavar="[NAME...]")
@click.option("--to", "folder", type=click.Path(file_okay=False, path_type=Path), default=".", help="[default: here]")
@click.option("--force", is_flag=True, help="Write over files that are there.")
def download(run_id: str, names: tuple[str, ...], folder: Path, force: bool) -> None:
    """Download files of a run, by their names, as `runyard runs files` shows them; all of them without a name.

    A folder's name stands for all below it. Prints the paths written.

    \b
      runyard runs download RUN outputs/model.pkl
      runyard runs download RUN outputs logs --to results
    """
    workspace = Workspace.from_config()
    client = workspace._client
    run = get_run(workspace, run_id)
    found = pick_files(client, run.id, names)
    places = [(file, folder / true_file_name(file.name)) for file in found]
    _refuse_to_overwrite([place for _, place in places if not force and place.exists()])
    progress = Progress("downloaded", sum(file.size for file in found), show=size)
    done = 0
    for at, (file, place) in enumerate(places, start=1):
        came = progress.part(done, f"{file.name} (file {at} of {len(places)})")
        client.runs.download(run.id, file.name, place, expected=file, progress=came)
        done += file.size
        click.echo(plain(place))


def _refuse_to_overwrite(there: list[Path]) -> None:
    if there:
        raise Conflict(
            f"`{there[0]}` is there already{f', and {len(there) - 1} more' if len(there) > 1 else ''}.",
            why="Nothing was downloaded.",
            hint="Choose another folder with --to, or write over it with --force.",
        )
