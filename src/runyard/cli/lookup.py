"""Look up runs, files and names for the commands and for shell completion.

Completion asks only a server that already runs, and prints no error: a shell must neither wait nor show one.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from runyard import cli
from runyard.cli.text import plain
from runyard.core.errors import InvalidArgument, NotFound
from runyard.core.names import RUN_ID, clean_file_name
from runyard.core.records import Run, RunFile
from runyard.sdk.workspaces.experiment import Experiment
from runyard.sdk.workspaces.server import Client, find
from runyard.sdk.workspaces.workspace import Workspace

if TYPE_CHECKING:
    from runyard.core.webservices import Webservice

MAX_PAGE = 200
MOST_RUNS = 200


def newest(workspace: Workspace, limit: int, **query: object) -> list[Run]:
    """Return the first `limit` runs of a list, page by page."""
    found: list[Run] = []
    for run in workspace._client.runs.iter(workspace.name, limit=min(limit, MAX_PAGE), **query):
        found.append(run)
        if len(found) == limit:
            break
    return found


def get_run(workspace: Workspace, name: str) -> Run:
    """Return the run that a person calls `name`; `name_of` says what may be typed.

    Raises:
        NotFound: there is none; says which ids come near.
        InvalidArgument: several fit.
    """
    client = workspace._client
    try:
        return client.runs.find(workspace.name, name)
    except NotFound as error:
        if RUN_ID.fullmatch(name):
            # A server of the version before knows ids alone.
            with suppress(NotFound):
                return client.runs.get(name)
        known = [run.id for run in newest(workspace, MAX_PAGE)]
        near = [known_id for known_id in known if name in known_id] or difflib.get_close_matches(name, known, n=3)
        hint = f"Did you mean {' or '.join(f'`{found}`' for found in near[:3])}?" if near else ""
        raise NotFound(
            f"There is no run `{name}`.",
            why=f"The server at {client.address.web_url or client.address} does not know it.",
            hint=hint or "`runyard runs list` shows the runs there are.",
        ) from error


def get_service(workspace: Workspace, name: str) -> Webservice:
    """Raises NotFound: there is none of that name; says which there are."""
    from runyard.core.webservices import check_service_name  # most commands are about runs

    calls = workspace._client.webservices
    try:
        return calls.get(workspace.name, check_service_name(name))
    except (NotFound, InvalidArgument) as error:
        known = [one.name for one in calls.list(workspace.name)]
        raise NotFound(
            f"There is no web service `{name}` in workspace `{workspace.name}`.",
            why=f"There are: {', '.join(known)}." if known else "There is none yet.",
            hint="`runyard services list` shows them; `runyard deploy MODEL --entry score.py` makes one.",
        ) from error


def name_of(run: Run) -> str:
    """Return the short name of a run, which every command takes: `digits#12`."""
    return f"{run.experiment}#{run.number}"


def pick_files(client: Client, run_id: str, names: tuple[str, ...]) -> list[RunFile]:
    """Return the run's files of those names; a folder's name stands for all below it, no name for all.

    Raises:
        NotFound: a name fits no file; says which there are.
    """
    known = client.runs.files(run_id)
    if not names:
        return known
    found: dict[str, RunFile] = {}
    for name in names:
        wanted = _stored_form(name.rstrip("/"))
        fitting = [file for file in known if file.name == wanted or file.name.startswith(f"{wanted}/")]
        if not fitting:
            raise no_such_file(run_id, name, [file.name for file in known])
        found.update((file.name, file) for file in fitting)
    return list(found.values())


def _stored_form(name: str) -> str:
    try:
        return clean_file_name(name)
    except InvalidArgument:
        return name  # no file has it


def no_such_file(run_id: str, name: str, known: list[str]) -> NotFound:
    return NotFound(
        f"Run `{run_id}` has no file `{name}`.",
        hint=f"Its files: {', '.join(known[:20])}." if known else "It has no files yet.",
    )


def _completes(known: Callable[[Workspace], list[cli.CompletionItem]]) -> cli.Complete:
    def complete(_ctx: cli.Context, _param: cli.Parameter, incomplete: str) -> list[cli.CompletionItem]:
        try:
            found = known(Workspace.from_config()) if find() is not None else []
        except Exception:
            return []
        return [item for item in found if item.value.startswith(incomplete)]

    return complete


@_completes
def run_ids(workspace: Workspace) -> list[cli.CompletionItem]:
    found = newest(workspace, MOST_RUNS, include_children="true")
    return [cli.CompletionItem(run.id, help=plain(f"{run.status} {run.display_name}".strip())) for run in found]


RUN = cli.argument("run_id", metavar="RUN", shell_complete=run_ids)
RUNS = cli.argument("run_ids", metavar="RUN...", nargs=-1, required=True, shell_complete=run_ids)
RUN_NAMES = "RUN is digits#12, 12, last, a run's name, or its id or the beginning of it."


@_completes
def experiment_names(workspace: Workspace) -> list[cli.CompletionItem]:
    return [cli.CompletionItem(one.name) for one in Experiment.list(workspace, view_type="All")]


@_completes
def workspace_names(workspace: Workspace) -> list[cli.CompletionItem]:
    return [cli.CompletionItem(one.name) for one in workspace._client.workspaces.list()]


@_completes
def compute_names(workspace: Workspace) -> list[cli.CompletionItem]:
    return [cli.CompletionItem(one.name) for one in workspace._client.compute.list(workspace.name)]


@_completes
def service_names(workspace: Workspace) -> list[cli.CompletionItem]:
    found = workspace._client.webservices.list(workspace.name)
    return [cli.CompletionItem(one.name, help=plain(one.state)) for one in found]


@_completes
def model_names(workspace: Workspace) -> list[cli.CompletionItem]:
    from runyard.sdk.models.model import Model  # only completion of services needs it

    return [cli.CompletionItem(name) for name in dict.fromkeys(one.name for one in Model.list(workspace, latest=True))]
