"""Exports runs of a workspace: parents before children, each once, however often it is started."""

from __future__ import annotations

from typing import Callable, Dict, Iterable, List, Optional, Sequence

from runyard.client.calls.workspace import ModelCalls
from runyard.client.client import Client
from runyard.core.errors import RunyardError, UserError, is_later
from runyard.core.records import Experiment, Run
from runyard.exports.runs import read_run
from runyard.exports.targets import CHANGED, NEW, SAME, ExportReport, ExportTarget


def list_runs(client: Client, workspace: str, *, experiment: Optional[str] = None) -> List[Run]:
    """Return runs with their children, archived ones too, in the order of their creation."""
    found: Dict[str, Run] = {}
    query = {} if experiment is None else {"experiment": experiment}
    for run in client.runs.iter(workspace, include_children="true", view="all", **query):
        found[run.id] = run
    return sorted(found.values(), key=lambda run: (run.created_at, run.id))


def list_family(client: Client, workspace: str, run: Run) -> List[Run]:
    """Return a run and all below it."""
    found, waiting = [run], [run.id]
    while waiting:
        children = [*client.runs.iter(workspace, parent=waiting.pop(), view="all")]
        found += children
        waiting += [child.id for child in children]
    return found


def write_runs(
    client: Client,
    workspace: str,
    runs: Sequence[Run],
    target: ExportTarget,
    report: ExportReport,
    *,
    began: Callable[[str], None] = lambda run_id: None,
) -> None:
    """Write the runs and the experiments that they are in.

    Raises:
        RunyardError: a server is away.
    """
    known = {one.name: one for one in client.experiments.list(workspace, view="All")}
    places: Dict[str, str] = {}
    for run in runs:
        began(run.id)
        try:
            if run.experiment not in places:
                places[run.experiment] = target.put_experiment(known.get(run.experiment) or _plain(client, run))
            _write_run(client, run, places[run.experiment], target, report)
        except (OSError, ValueError, UserError) as error:
            if isinstance(error, RunyardError) and is_later(error):
                raise
            report.fail(f"run {run.id}", _told(error))


def write_models(
    client: Client, workspace: str, runs: Optional[Iterable[str]], target: ExportTarget, report: ExportReport
) -> None:
    """Write registered models: all, or those of some runs."""
    wanted = None if runs is None else {*runs}
    for model in ModelCalls(client.transport).list(workspace):
        if wanted is not None and model.spec.run_id not in wanted:
            continue
        try:
            outcome = target.put_model(client, model, report)
            report.models[outcome] += 1
        except (OSError, ValueError, UserError) as error:
            if isinstance(error, RunyardError) and is_later(error):
                raise
            report.fail(f"model {model.name}:{model.version}", _told(error))


def _write_run(client: Client, run: Run, place: str, target: ExportTarget, report: ExportReport) -> None:
    exported = read_run(client, run)
    mark = target.find_mark(place, run.id)
    if mark == exported.digest:
        report.runs[SAME] += 1
        return
    target.put_run(client, place, exported, report)
    report.runs[NEW if not mark else CHANGED] += 1
    for note in exported.notes:
        report.note(run.id, note)


def _plain(client: Client, run: Run) -> Experiment:
    return client.experiments.get(run.workspace, run.experiment)


def _told(error: Exception) -> str:
    return " ".join(filter(None, (error.what, error.why))) if isinstance(error, RunyardError) else str(error)
