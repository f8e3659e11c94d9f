"""Deleting runs and experiments: rows first, then the logs; a crash in between is made good at the next start."""

from __future__ import annotations

from runyard.core.records import Run
from runyard.core.statuses import RunStatus
from runyard.engine.ship import Shipping
from runyard.engine.streams import key_part, stream_folder
from runyard.engine.yard import Yard
from runyard.store.base import RunQuery
from runyard.store.changes import check_ended

INTENTS = "deleting/"
_LIVE = [status for status in RunStatus if not status.is_terminal]


def delete_run(yard: Yard, shipping: Shipping, run_id: str) -> list[str]:
    """Delete a finished run and its descendants; return their ids.

    Raises:
        Conflict: one of them has not ended; none was deleted.
    """
    check_ended(yard.store.get_run(run_id))
    intent = INTENTS + key_part(run_id)
    family = _family(yard, run_id)
    yard.on_delete()
    yard.artifacts.put(intent, "\n".join(run.id for run in family).encode())
    try:
        deleted = yard.store.delete_run(run_id)
    except BaseException:
        yard.artifacts.delete(intent)
        raise
    for gone in deleted:
        _delete_streams(yard, shipping, gone)
        yard.on_change(gone)
    yard.artifacts.delete(intent)
    return deleted


def delete_experiment(yard: Yard, shipping: Shipping, workspace: str, name: str) -> list[str]:
    """Delete an experiment and its runs, one after another; return the runs' ids.

    Raises:
        Conflict: one of its runs has not ended, which is looked for first; or one was submitted meanwhile.
    """
    yard.store.get_experiment(workspace, name)
    _check_all_ended(yard, workspace, name)
    deleted: list[str] = []
    while page := _page(yard, workspace, name):
        for run in page:
            if yard.store.find_run(run.id) is not None:  # a parent may have taken it along
                deleted += delete_run(yard, shipping, run.id)
    yard.store.delete_experiment(workspace, name)
    return deleted


def delete_workspace(yard: Yard, shipping: Shipping, name: str) -> list[str]:
    """Delete a workspace with its assets, experiments and runs; return the runs' ids.

    Raises:
        Conflict: one of its runs has not ended, which is looked for first; or one was submitted meanwhile.
    """
    yard.store.get_workspace(name)
    experiments = [found.name for found in yard.store.list_experiments(name, view="All")]
    for experiment in experiments:
        _check_all_ended(yard, name, experiment)
    deleted = [run_id for one in experiments for run_id in delete_experiment(yard, shipping, name, one)]
    yard.store.delete_workspace(name)
    for target in yard.targets.remove_workspace(name):
        yard.secrets.forget(target.options)
    return deleted


def finish_deletes(yard: Yard, shipping: Shipping) -> None:
    """Delete the logs of runs that a killed server had deleted but for them."""
    for intent in list(yard.artifacts.iter_keys(INTENTS)):
        for run_id in yard.artifacts.get(intent).decode().split():
            if yard.store.find_run(run_id) is None:
                _delete_streams(yard, shipping, run_id)
        yard.artifacts.delete(intent)


def _delete_streams(yard: Yard, shipping: Shipping, run_id: str) -> None:
    # Whoever ships for the run now holds this lock; who comes later finds no run.
    with yard.shipping(run_id):
        shipping.forget(run_id)
        for key in list(yard.artifacts.iter_keys(stream_folder(run_id))):
            yard.artifacts.delete(key)


def _family(yard: Yard, run_id: str) -> list[Run]:
    """Return the run and its descendants."""
    family = [yard.store.get_run(run_id)]
    for run in family:  # grows while it is walked
        cursor: str | None = None
        while True:
            page = yard.store.list_runs(RunQuery(run.workspace, parent_id=run.id, limit=500, cursor=cursor))
            family += page.runs
            cursor = page.next
            if cursor is None:
                break
    return family


def _check_all_ended(yard: Yard, workspace: str, experiment: str) -> None:
    """Look at the runs of the experiment, and at those of others that would go along with a run of it."""
    for run in _page(yard, workspace, experiment, statuses=_LIVE):
        check_ended(run)
    for run in yard.store.list_unfinished():
        above = run
        while above.parent_id is not None:
            above = yard.store.get_run(above.parent_id)
            if (above.workspace, above.experiment) == (workspace, experiment):
                check_ended(run)


def _page(yard: Yard, workspace: str, experiment: str, statuses: list[RunStatus] | None = None) -> list[Run]:
    query = RunQuery(workspace, experiment, statuses or (), include_children=True, descending=False)
    return yard.store.list_runs(query).runs
