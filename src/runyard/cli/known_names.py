"""Names that a shell completes. Only a server that runs is asked: a shell that waits or shows errors helps nobody."""

from __future__ import annotations

from collections.abc import Callable

import click
from click.shell_completion import CompletionItem

from runyard.cli.lookup import newest
from runyard.cli.text import plain
from runyard.sdk.workspaces.experiment import Experiment
from runyard.sdk.workspaces.server import find
from runyard.sdk.workspaces.workspace import Workspace

MOST_RUNS = 200
Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _completes(known: Callable[[Workspace], list[CompletionItem]]) -> Complete:
    def complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        try:
            found = known(Workspace.from_config()) if find() is not None else []
        except Exception:
            return []
        return [item for item in found if item.value.startswith(incomplete)]

    return complete


@_completes
def run_ids(workspace: Workspace) -> list[CompletionItem]:
    found = newest(workspace, MOST_RUNS, include_children="true")
    return [CompletionItem(run.id, help=plain(f"{run.status} {run.display_name}".strip())) for run in found]


RUN = click.argument("run_id", metavar="RUN", shell_complete=run_ids)


@_completes
def experiment_names(workspace: Workspace) -> list[CompletionItem]:
    return [CompletionItem(one.name) for one in Experiment.list(workspace, view_type="All")]


@_completes
def workspace_names(workspace: Workspace) -> list[CompletionItem]:
    return [CompletionItem(one.name) for one in workspace._client.workspaces.list()]


@_completes
def compute_names(workspace: Workspace) -> list[CompletionItem]:
    return [CompletionItem(one.name) for one in workspace._client.compute.list(workspace.name)]
