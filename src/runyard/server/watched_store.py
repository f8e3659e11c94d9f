"""A store that says of every change which run changed, and in what: open pages read it again then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from runyard.core.records import Mark
    from runyard.server.live import News
    from runyard.store.base import RunStore, SegmentPart

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
}
# Methods that change a workspace's list, their first argument.
OF_LISTS = frozenset(
    {"put_experiment", "update_experiment", "hide_experiment", "restore_experiment", "delete_experiment"}
)


def watched(store: RunStore, news: News) -> RunStore:
    """Return `store`, telling of changes once they are stored."""
    return cast("RunStore", _Watched(store, news))


class _Watched:
    def __init__(self, store: RunStore, news: News) -> None:
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

    def ingest(self, run_id: str, attempt: int, parts: Sequence[SegmentPart]) -> list[Mark]:
        marks = self._store.ingest(run_id, attempt, parts)
        # Journals carry tags and properties too, seldom: a page need not read the run again for every point.
        has_tags = any(part.tags_set or part.tags_remove or part.properties_add for part in parts)
        self._news.tell(run_id, "metrics", *(["tags"] if has_tags else []))
        return marks

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
