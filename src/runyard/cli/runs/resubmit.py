"""`runyard runs resubmit`."""

from __future__ import annotations

from runyard import cli
from runyard.cli.lookup import RUN, get_run
from runyard.cli.output import print_json
from runyard.cli.text import plain
from runyard.core.names import make_uuid
from runyard.core.records import make_id_like
from runyard.sdk.submit.submission import submitter_variables
from runyard.sdk.workspaces.workspace import Workspace


@cli.command()
@RUN
@cli.option("--json", "as_json", is_flag=True, help="Print the new run as JSON.")
def resubmit(run_id: str, as_json: bool) -> None:
    """Submit a run again: the same code, arguments, environment, target, tags and name. Prints the new run's id."""
    workspace = Workspace.from_config()
    client = workspace._client
    known = get_run(workspace, run_id)
    new = client.runs.resubmit(
        known.id, new_id=make_id_like(known), key=make_uuid(), submitter=submitter_variables(client, known.spec)
    )
    if as_json:
        return print_json(new)
    cli.echo(plain(new.id))
    cli.echo(f"`runyard runs logs -f {plain(new.id)}` follows it.", err=True)
