"""News about changed runs, for open pages and for requests that wait for a log to grow.

News name the run and the part that changed, never the new value: pages read it again. `ChangeFeed` passes news to the
streams. `notifying` wraps the store so that every stored change is told. `RunSignal` lets requests sleep on the event
loop instead of in a thread each.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast

from runyard.core.errors import RunyardError, StoreUnavailable, TooManyRequests

if TYPE_CHECKING:
    from runyard.core.records import Mark
    from runyard.store.base import ImportedRecord, ImportResult, RunStore, SegmentPart


MOST_STREAMS = 500
MOST_EACH = 100  # of one user or run
_MOST_KNOWN = 10_000
# Methods that change a run (their first argument, or those that they return), and what a reader of it reads again.
OF_RUNS: dict[str, tuple[str, ...]] = {
    "create_run": ("status",),
    "set_status": ("status",),
    "start_attempt": ("status",),
    "fence_attempt": ("status",),
    "set_desired": ("status",),
    "append_events": ("status",),
    "update_run": ("tags",),
    "hide_run": ("status",),
    "restore_run": ("status",),
    "purge_run": ("status",),
    "delete_run": ("status",),
    "put_file": ("files",),
    "put_files": ("files",),
    "delete_files": ("files",),
    "log": ("metrics", "tags"),
    "report_status": ("status",),
}
# Methods that change a workspace's list, their first argument.
OF_LISTS = frozenset(
    {
        "create_experiment",
        "put_experiment",
        "update_experiment",
        "hide_experiment",
        "restore_experiment",
        "delete_experiment",
    }
)
T = TypeVar("T")


class Listener:
    """One stream's ear. `changed` is set when there is something to `take`."""

    def __init__(self, lock: threading.Lock, holder: Hashable) -> None:
        self.holder = holder
        self.changed = asyncio.Event()
        self.is_over = False
        self.has_runs = False  # of the workspace, some changed
        self._loop = asyncio.get_running_loop()
        self._lock = lock
        self._runs: dict[str, set[str]] = {}

    def take(self) -> dict[str, set[str]]:
        """Return what changed of which watched runs since the last call."""
        self.changed.clear()
        with self._lock:
            found, self._runs = self._runs, {}
        return found

    def hear(self, run_id: str | None, what: Iterable[str] = ()) -> None:
        """Note a change of a watched run, or (None) of the workspace's list; the lock is held."""
        if run_id is None:
            self.has_runs = True
        else:
            self._runs.setdefault(run_id, set()).update(what)
        self.wake()

    def wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self.changed.set)
        except RuntimeError:
            pass  # that loop was closed, and its streams with it


class ChangeFeed:
    """`tell` is called from any thread, `listen` on an event loop. With nobody listening, news cost nothing."""

    def __init__(self, find_workspace: Callable[[str], str | None]) -> None:
        self._find_workspace = find_workspace
        self._lock = threading.Lock()
        self._by_run: dict[str, set[Listener]] = {}
        self._by_workspace: dict[str, set[Listener]] = {}
        self._workspaces: dict[str, str] = {}  # of runs that were told of
        self._all: dict[Listener, None] = {}  # oldest first
        self._is_over = False

    def tell(self, run_id: str, *what: str) -> None:
        """Say that something of a run changed: "status", "metrics", "log", "files" or "tags"."""
        if not self._all:
            return
        # The list of runs shows no log.
        workspace = self._workspace(run_id) if self._by_workspace and what != ("log",) else ""
        with self._lock:
            for listener in self._by_run.get(run_id, ()):
                listener.hear(run_id, what)
            for listener in self._listening_to(workspace):
                listener.hear(None)

    def tell_list(self, workspace: str) -> None:
        """Say that a workspace's experiments or runs are others than before."""
        with self._lock:
            for listener in self._listening_to(workspace):
                listener.hear(None)

    def make_room(self, holder: Hashable) -> None:
        """See that one more stream of that user or run can open: when all places are taken, the one with most of them
        loses its oldest.

        Raises:
            TooManyRequests: the user or run has as many streams as one may have.
            StoreUnavailable: there are too many streams, or the server is leaving.
        """
        if self._is_over:
            raise StoreUnavailable("The server is leaving.", hint="Ask again in a moment.")
        with self._lock:
            held = Counter(listener.holder for listener in self._all if not listener.is_over)
            if held[holder] >= MOST_EACH:
                raise TooManyRequests(
                    f"{held[holder]} pages are open already; {MOST_EACH} are the most that are kept up to date for one "
                    "user or run.",
                    hint="Close pages that nobody looks at.",
                )
            if sum(held.values()) < MOST_STREAMS:
                return
            greatest, count = held.most_common(1)[0]
            if held[holder] + 1 >= count:
                raise StoreUnavailable(
                    f"{MOST_STREAMS} pages are open already, as many as this server keeps up to date.",
                    hint="Close pages that nobody looks at.",
                )
            oldest = next(listener for listener in self._all if listener.holder == greatest and not listener.is_over)
            oldest.is_over = True
            oldest.wake()

    @contextmanager
    def listen(self, run_ids: Iterable[str], workspace: str | None, *, holder: Hashable = None) -> Iterator[Listener]:
        """Hear of these runs, and of all of a workspace. See `make_room`."""
        listener = Listener(self._lock, holder)
        places = [(self._by_run, run_id) for run_id in set(run_ids)]
        if workspace is not None:
            places.append((self._by_workspace, workspace))
        with self._lock:
            listener.is_over = self._is_over
            self._all[listener] = None
            for table, key in places:
                table.setdefault(key, set()).add(listener)
        try:
            yield listener
        finally:
            with self._lock:
                self._all.pop(listener, None)
                for table, key in places:
                    table[key].discard(listener)
                    if not table[key]:
                        del table[key]

    def close(self) -> None:
        """End all streams; there will be no other. May be called twice."""
        with self._lock:
            self._is_over = True
            for listener in self._all:
                listener.is_over = True
                listener.wake()

    @property
    def stream_count(self) -> int:
        return len(self._all)

    def _workspace(self, run_id: str) -> str | None:
        """Return the run's workspace; None when it is gone and was never told of: then all are meant."""
        found = self._workspaces.get(run_id) or self._find_workspace(run_id)
        if found is not None:
            if len(self._workspaces) >= _MOST_KNOWN:
                self._workspaces.clear()
            self._workspaces[run_id] = found
        return found

    def _listening_to(self, workspace: str | None) -> Iterable[Listener]:
        if workspace is None:
            return {listener for listeners in self._by_workspace.values() for listener in listeners}
        return self._by_workspace.get(workspace, ())


def notifying(store: RunStore, news: ChangeFeed) -> RunStore:
    """Return `store`, telling of changes once they are stored."""
    return cast("RunStore", NotifyingStore(store, news))


class NotifyingStore:
    def __init__(self, store: RunStore, news: ChangeFeed) -> None:
        self._store = store
        self._news = news

    def __getattr__(self, name: str) -> Any:
        """Called for what is not there yet: a method is wrapped at its first use."""
        found = getattr(self._store, name)
        if name not in OF_RUNS and name not in OF_LISTS:
            return found
        telling = self._telling(found, OF_RUNS[name]) if name in OF_RUNS else self._telling_of_list(found)
        setattr(self, name, telling)
        return telling

    def ingest(
        self, run_id: str, attempt: int, parts: Sequence[SegmentPart], *, external_writer: int = 0
    ) -> list[Mark]:
        marks = self._store.ingest(run_id, attempt, parts, external_writer=external_writer)
        # Journals carry tags and properties too, seldom: a page need not read the run again for every point.
        has_tags = any(
            part.tags_set or part.tags_remove or part.properties_add or part.parameters_add or part.parameters_log
            for part in parts
        )
        self._news.tell(run_id, "metrics", *(["tags"] if has_tags else []))
        return marks

    def import_runs(self, records: Sequence[ImportedRecord]) -> list[ImportResult | RunyardError]:
        answers = self._store.import_runs(records)
        for record in records:
            self._news.tell(record.new.id, "status", "metrics", "tags")
        return answers

    def _telling(self, call: Any, what: tuple[str, ...]) -> Any:
        def change(about: Any, *args: Any, **kwargs: Any) -> Any:
            answer = call(about, *args, **kwargs)
            run_ids = answer if _is_ids(answer) else [about if isinstance(about, str) else about.id]
            for run_id in run_ids:
                self._news.tell(run_id, *what)
            return answer

        return change

    def _telling_of_list(self, call: Any) -> Any:
        def change(workspace: str, *args: Any, **kwargs: Any) -> Any:
            answer = call(workspace, *args, **kwargs)
            self._news.tell_list(workspace)
            for run_id in answer if _is_ids(answer) else ():
                self._news.tell(run_id, "status")
            return answer

        return change


def _is_ids(answer: Any) -> bool:
    return isinstance(answer, list) and all(isinstance(item, str) for item in answer)


class RunSignal:
    """`notify` is called from any thread, `watch` on an event loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiters: dict[str, set[tuple[asyncio.AbstractEventLoop, asyncio.Event]]] = {}

    def notify(self, run_id: str) -> None:
        """Wake all requests that watch this run: a log of it grew, or its status changed."""
        with self._lock:
            waiters = list(self._waiters.get(run_id, ()))
        for loop, event in waiters:
            try:
                loop.call_soon_threadsafe(event.set)
            except RuntimeError:
                continue  # that loop was closed, and its requests with it

    @contextmanager
    def watch(self, run_id: str) -> Iterator[asyncio.Event]:
        """Give an event that is set at every change from now on; look at the log after entering, then wait."""
        waiter = (asyncio.get_running_loop(), asyncio.Event())
        with self._lock:
            self._waiters.setdefault(run_id, set()).add(waiter)
        try:
            yield waiter[1]
        finally:
            with self._lock:
                left = self._waiters[run_id]
                left.discard(waiter)
                if not left:
                    del self._waiters[run_id]

    async def wait_until(
        self, run_id: str, look: Callable[[], Awaitable[T]], is_enough: Callable[[T], bool], *, wait_s: float
    ) -> T:
        """Look again at every change until it is enough or the time is over; return what was seen last."""
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_s
        with self.watch(run_id) as changed:
            while True:
                changed.clear()
                found = await look()
                left = until - loop.time()
                if is_enough(found) or left <= 0:
                    return found
                try:
                    await asyncio.wait_for(changed.wait(), left)
                except (asyncio.TimeoutError, TimeoutError):
                    return found
