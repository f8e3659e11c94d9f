"""Runs by the short names that people type: `12`, `#12`, `digits#12`, `last`, the beginning of an id, a run's name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from runyard.core.errors import InvalidArgument, NotFound
from runyard.core.formats.filters import Comparison, Filter
from runyard.core.names import RUN_ID
from runyard.core.records import Run
from runyard.store.base import RunQuery, RunSearch, RunStore

LAST = "last"
MOST_SHOWN = 5  # of the runs that one name fits
_NUMBER = re.compile(r"(?:(?P<experiment>.+)#|#?)(?P<number>\d{1,9})", re.ASCII)


def find_run(store: RunStore, workspace: str, name: str, *, user: str) -> Run:
    """Return the one run of the workspace that `name` means. An id comes before all else.

    `last` is the newest run of `user`; an empty user is the server's owner, and means anybody's newest run. A number
    without an experiment must be the number of one run only.

    Raises:
        NotFound: there is none.
        InvalidArgument: there are several; says which.
    """
    store.get_workspace(workspace)
    for found in _readings(store, workspace, name.strip(), user):
        if len(found) == 1:
            return found[0]
        if found:
            raise _several(name, found)
    raise NotFound(
        f"There is no run `{name[:300]}` in workspace `{workspace}`.",
        hint="`runyard runs list` shows the runs there are.",
    )


def _readings(store: RunStore, workspace: str, name: str, user: str) -> Iterator[Sequence[Run]]:
    """Yield the runs that fit each way to read the name, the strictest way first."""
    if RUN_ID.fullmatch(name):
        exact = store.find_run(name)
        yield [exact] if exact is not None else []
    if name == LAST:
        yield _list(store, workspace, Comparison("user", "=", user) if user else None, limit=1)
    numbered = _NUMBER.fullmatch(name)
    if numbered is not None:
        number = Comparison("number", "=", float(numbered["number"]))
        yield _list(store, workspace, number, experiment=numbered["experiment"])
    if RUN_ID.fullmatch(name):
        yield _beginning_with(store, workspace, name)
    if name:
        yield _list(store, workspace, Comparison("name", "=", name))


def _list(
    store: RunStore, workspace: str, where: Filter | None, *, experiment: str | None = None, limit: int = MOST_SHOWN + 1
) -> list[Run]:
    query = RunQuery(workspace, experiment, where=where, include_children=True, view="all", limit=limit)
    return store.list_runs(query).runs


def _beginning_with(store: RunStore, workspace: str, start: str) -> list[Run]:
    experiments = [experiment.id for experiment in store.list_experiments(workspace, view="All")]
    condition = Comparison("id", "like", f"{start}%")  # in which `_` fits any character
    found = store.search_runs(RunSearch(workspace, experiments, [condition], view="all", limit=100))
    return [run for run in found if run.id.startswith(start)]


def _several(name: str, found: Sequence[Run]) -> InvalidArgument:
    shown = [f"{run.experiment}#{run.number} ({run.id})" for run in found[:MOST_SHOWN]]
    more = " and more" if len(found) > MOST_SHOWN else ""
    return InvalidArgument(
        f"Several runs fit `{name[:300]}`.",
        why=f"{', '.join(shown)}{more}.",
        hint=f"Name one of them, such as `{found[0].experiment}#{found[0].number}`.",
    )
