"""Delete, restore, purge and archive runs and experiments.

A delete hides runs at once; they can be restored for a while. Then the purging thread deletes them for good: rows
first, then logs. A crash in between is finished at the next start.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from runyard.core.errors import NotFound, RunyardError
from runyard.core.records import Run, RunChange
from runyard.core.statuses import RunStatus
from runyard.engine.context import EngineContext, EngineEvents
from runyard.engine.ingest.ship import ShipmentReceiver
from runyard.engine.runs.streams import key_part, stream_folder
from runyard.store.base import RunQuery, RunStore
from runyard.store.rules import check_ended

INTENTS = "deleting/"
_LIVE = [status for status in RunStatus if not status.is_terminal]
AGAIN_S = 60.0  # after a round that could not do all
MOST_S = 3600.0  # the wall clock may be moved meanwhile


@dataclass(frozen=True)
class Deleted:
    """The answer to a delete: what went, and until when it can be restored."""

    deleted: list[str]  # run ids
    undo_until: datetime | None  # None: they are gone for good


def delete_run(context: EngineContext, shipping: ShipmentReceiver, run_id: str, *, now: bool = False) -> Deleted:
    """Soft-delete a finished run and its descendants. With `now`, delete for good, also what is soft-deleted already.

    Called by request threads, without a lock. It may be repeated.

    Raises:
        Conflict: one of them has not ended; none was deleted.
    """
    if now or context.settings.undo_s == 0:
        return Deleted(_erase_run(context, shipping, run_id), None)
    until = _until(context)
    return _hidden(context, context.store.hide_run(run_id, until=until), until)


def delete_experiment(
    context: EngineContext, shipping: ShipmentReceiver, workspace: str, name: str, *, now: bool = False
) -> Deleted:
    """Soft-delete an experiment and its runs. With `now`, delete for good, also what is soft-deleted already.

    Raises:
        Conflict: one of its runs has not ended, so nothing was deleted; or a run was submitted meanwhile.
    """
    if now or context.settings.undo_s == 0:
        return Deleted(_erase_experiment(context, shipping, workspace, name), None)
    until = _until(context)
    return _hidden(context, context.store.hide_experiment(workspace, name, until=until), until)


def restore_run(store: RunStore, events: EngineEvents, run_id: str) -> list[str]:
    """Restore a soft-deleted run and what was deleted with it. Return their ids; none if the run is not deleted.

    Raises:
        NotFound: there is no such run, or it is deleted for good.
        Conflict: the parent run is deleted too.
    """
    if store.find_run(run_id) is not None:
        return []
    return _changed(events, store.restore_run(run_id))


def restore_experiment(store: RunStore, events: EngineEvents, workspace: str, name: str) -> list[str]:
    """Restore a soft-deleted experiment and the runs that were deleted with it. Return the runs' ids."""
    return _changed(events, store.restore_experiment(workspace, name))


def delete_workspace(context: EngineContext, shipping: ShipmentReceiver, name: str) -> list[str]:
    """Delete a workspace with its assets, experiments and runs for good. Return the runs' ids.

    Raises:
        Conflict: one of its runs has not ended, so nothing was deleted; or a run was submitted meanwhile.
    """
    context.store.get_workspace(name)
    shown = [found.name for found in context.store.list_experiments(name, view="All")]
    hidden = [found.name for found in context.store.list_experiments(name, view="DeletedOnly")]
    for experiment in shown:
        _check_all_ended(context.store, name, experiment)
    deleted = [run_id for one in [*shown, *hidden] for run_id in _erase_experiment(context, shipping, name, one)]
    context.store.delete_workspace(name)
    for target in context.compute.targets.remove_workspace(name):
        context.compute.secrets.forget(target.options)
    return deleted


def purge(context: EngineContext, shipping: ShipmentReceiver, now: datetime) -> list[str]:
    """Delete for good the soft-deleted runs whose time to restore is over at `now`. Return their ids.

    Called by the purging thread. It may be repeated: a crash leaves an intent that the next start
    finishes.
    """
    gone: list[str] = []
    for run_id in context.store.list_purges(now):
        if context.store.find_hidden(run_id) is not None:  # a parent may have taken it along, or somebody restored it
            gone += _erase(context, shipping, run_id, lambda id: context.store.purge_run(id, now))
    context.store.purge_experiments(now)
    return gone


def finish_deletes(context: EngineContext, shipping: ShipmentReceiver) -> None:
    """Delete the logs of runs whose rows a killed server had deleted already.

    Called once, at the start, before any request. It may be repeated.
    """
    for intent in list(context.artifacts.iter_keys(INTENTS)):
        for run_id in context.artifacts.get(intent).decode().split():
            if context.store.find_run(run_id) is None and context.store.find_hidden(run_id) is None:
                _delete_streams(context, shipping, run_id)
        context.artifacts.delete(intent)


def _until(context: EngineContext) -> datetime:
    return context.clock.now() + timedelta(seconds=context.settings.undo_s)


def _hidden(context: EngineContext, run_ids: list[str], until: datetime) -> Deleted:
    context.events.on_hide()
    return Deleted(_changed(context.events, run_ids), until)


def _changed(events: EngineEvents, run_ids: list[str]) -> list[str]:
    for run_id in run_ids:
        events.on_change(run_id)
    return run_ids


def _erase_run(context: EngineContext, shipping: ShipmentReceiver, run_id: str) -> list[str]:
    shown = context.store.find_run(run_id)
    if shown is not None:
        check_ended(shown)
    elif context.store.find_hidden(run_id) is None:
        context.store.get_run(run_id)  # says that there is none
    return _erase(context, shipping, run_id, context.store.delete_run)


def _erase(
    context: EngineContext, shipping: ShipmentReceiver, run_id: str, delete: Callable[[str], list[str]]
) -> list[str]:
    intent = INTENTS + key_part(run_id)
    context.events.on_delete()
    context.artifacts.put(intent, "\n".join(context.store.list_family(run_id)).encode())
    try:
        deleted = delete(run_id)
    except BaseException:
        context.artifacts.delete(intent)
        raise
    for gone in deleted:
        _delete_streams(context, shipping, gone)
        context.events.on_change(gone)
    context.artifacts.delete(intent)
    return deleted


def _erase_experiment(context: EngineContext, shipping: ShipmentReceiver, workspace: str, name: str) -> list[str]:
    hidden = [found.name for found in context.store.list_experiments(workspace, view="DeletedOnly", name=name)]
    if not hidden:
        context.store.get_experiment(workspace, name)
        _check_all_ended(context.store, workspace, name)
    deleted: list[str] = []
    for view in ("all", "deleted"):
        while page := _page(context.store, workspace, name, view=view):
            before = len(deleted)
            for run in page:
                try:
                    deleted += _erase_run(context, shipping, run.id)
                except NotFound:
                    continue  # a parent took it along
            if len(deleted) == before:
                break
    context.store.delete_experiment(workspace, name)
    return deleted


def _delete_streams(context: EngineContext, shipping: ShipmentReceiver, run_id: str) -> None:
    # Whoever ships for the run now holds this lock; who comes later finds no run.
    with context.locks.of_shipments(run_id):
        shipping.forget(run_id)
        for key in list(context.artifacts.iter_keys(stream_folder(run_id))):
            context.artifacts.delete(key)


def _check_all_ended(store: RunStore, workspace: str, experiment: str) -> None:
    """Look at the runs of the experiment, and at those of others that would go along with a run of it."""
    for run in _page(store, workspace, experiment, statuses=_LIVE):
        check_ended(run)
    for run in store.list_unfinished():
        above = run
        while above.parent_id is not None:
            above = store.get_run(above.parent_id)
            if (above.workspace, above.experiment) == (workspace, experiment):
                check_ended(run)


def _page(
    store: RunStore,
    workspace: str,
    experiment: str,
    *,
    statuses: list[RunStatus] | None = None,
    view: str = "all",
) -> list[Run]:
    query = RunQuery(workspace, experiment, statuses or (), include_children=True, descending=False, view=view)
    return store.list_runs(query).runs


logger = logging.getLogger(__name__)


class Purging:
    """The thread that deletes soft-deleted runs for good when their time to restore is over.

    It starts with the first delete. `purge` deletes some of what is due and returns it; `find_next` returns when the
    next one is due. Only this thread calls them.
    """

    def __init__(
        self, purge: Callable[[], object], find_next: Callable[[], datetime | None], now: Callable[[], datetime]
    ) -> None:
        self._purge, self._find_next, self._now = purge, find_next, now
        self._news = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_open = False
        self._stopping = False

    def start(self) -> None:
        """Allow the thread, and start it if an earlier server left soft-deleted runs."""
        self._is_open = True
        if self._find_next() is not None:
            self.note()

    def stop(self) -> None:
        """Stop the thread and wait for its end. A second call does nothing."""
        with self._lock:
            self._stopping = True
            thread = self._thread
        self._news.set()
        if thread is not None:
            thread.join()

    def note(self) -> None:
        """Tell the thread that a run was soft-deleted. Called by any thread; it returns at once."""
        self._news.set()
        with self._lock:
            if self._thread is None and self._is_open and not self._stopping:
                self._thread = threading.Thread(target=self._run, name="purging", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while not self._stopping:
            self._news.clear()
            wait_s = self._round()
            if not self._stopping:
                self._news.wait(wait_s)

    def _round(self) -> float | None:
        """Purge what is due; return how long nothing will be, None when nothing is deleted."""
        try:
            while self._purge() and not self._stopping:
                logger.debug("deleted runs were let go; there may be more")
            due = self._find_next()
        except (RunyardError, OSError):
            # The edge of a thread: the store may be full or locked now and well in a minute.
            logger.exception("deleted runs could not be let go")
            return AGAIN_S
        if due is None:
            return None
        left = (due - self._now()).total_seconds()
        return AGAIN_S if left <= 0 else min(left, MOST_S)


def archive(store: RunStore, events: EngineEvents, run_id: str, archived: bool) -> Run:
    """Archive a run and its descendants, or bring them back into the usual lists. Return the run."""
    run = store.update_run(run_id, RunChange(archived=archived))
    for below in store.list_family(run_id)[1:]:
        try:
            store.update_run(below, RunChange(archived=archived))
        except NotFound:
            continue  # it is deleted
        events.on_change(below)
    events.on_change(run_id)
    return run
