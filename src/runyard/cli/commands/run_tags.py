"""`runyard runs tag`."""

from __future__ import annotations

import click

from runyard.cli.known_names import RUN
from runyard.cli.lookup import get_run
from runyard.cli.output import print_json
from runyard.cli.text import plain
from runyard.sdk.workspaces.workspace import Workspace


@click.command()
@RUN
@click.argument("tags", nargs=-1, metavar="[KEY[=VALUE]...]")
@click.option("--remove", "-r", metavar="KEY", multiple=True, help="Take this tag off. May be repeated.")
@click.option("--json", "as_json", is_flag=True, help="Print all tags of the run as JSON.")
@click.pass_context
def tag(ctx: click.Context, run_id: str, tags: tuple[str, ...], remove: tuple[str, ...], as_json: bool) -> None:
    """Tag a run, also one that has ended. An existing key gets the new value. Prints the run's tags."""
    if not (tags or remove):
        raise click.UsageError("There is no tag to set. Write KEY=VALUE, or --remove KEY.", ctx)
    wanted = dict(_pair(ctx, text) for text in tags)
    workspace = Workspace.from_config()
    run = get_run(workspace, run_id)
    changed = workspace._client.runs.update(run.id, tags_set=wanted, tags_remove=remove)
    if as_json:
        print_json(changed.tags)
    else:
        for key, value in changed.tags.items():
            click.echo(plain(key if value is None else f"{key}={value}"))


def _pair(ctx: click.Context, text: str) -> tuple[str, str | None]:
    key, equals, value = text.partition("=")
    if not key:
        raise click.UsageError(f"{text!r} has no key. Write KEY=VALUE.", ctx)
    return key, value if equals else None
