"""`runyard.runs`, `get` and `wait`: find runs that exist, and wait for many."""

from __future__ import annotations

from typing import Any, Iterable, List, Mapping, Optional, Sequence, Union

from runyard.core.errors import NotFound
from runyard.native.border import plain_errors
from runyard.native.handle import RunHandle, run_failed
from runyard.native.places import find_workspace
from runyard.sdk.config.texts import narrowed
from runyard.sdk.runs.run import _typed


@plain_errors
def runs(
    filter: Optional[str] = None,
    *,
    experiment: Optional[str] = None,
    status: Union[str, Sequence[str], None] = None,
    tags: Union[str, Mapping[str, Any], None] = None,
    sort: Optional[str] = None,
    limit: Optional[int] = None,
    children: bool = False,
) -> List[RunHandle]:
    """Return the runs that fit, newest first.

    `runyard.runs("metrics.loss < 0.1 and params.lr = 0.01")` filters as `runyard runs list --filter` does; a bare word
    is searched for in names, ids and tags.

    Args:
        experiment: only runs of this one.
        status: one, or several: `Completed`, `Failed`, `Running` …
        tags: {key: value}, or a key that runs must have.
        sort: a field such as `metrics.loss`, smallest first; `-metrics.loss` is largest first.
        limit: at most so many.
        children: runs below others too, such as the trials of sweeps.
    """
    workspace = find_workspace()
    query = {name: value for name, value in narrowed(None, tags, None, status).items() if value is not None}
    wanted = {"filter": filter, "experiment": experiment, "include_children": "true" if children else None}
    query.update({name: value for name, value in wanted.items() if value is not None})
    if sort is not None:
        query.update(order=sort.lstrip("-+"), descending="true" if sort.startswith("-") else "false")
    if limit is not None:
        query["limit"] = max(1, min(limit, 200))
    found: List[RunHandle] = []
    for record in workspace._client.runs.iter(workspace.name, **query):
        if limit is not None and len(found) >= limit:
            break
        found.append(RunHandle(_typed(workspace, record)))
    return found


@plain_errors
def get(name: str) -> RunHandle:
    """Return one run: by its id or the beginning of it, `digits#12`, `last`, or the name it was given.

    Raises:
        NotFound: there is none.
        InvalidArgument: several fit.
    """
    workspace = find_workspace()
    try:
        return RunHandle(_typed(workspace, workspace._client.runs.find(workspace.name, str(name))))
    except NotFound as error:
        hint = error.hint or "runyard.runs() lists the runs there are."
        raise NotFound(f"There is no run `{name}`.", why=error.why, hint=hint) from None


@plain_errors
def wait(
    runs: Union[RunHandle, Iterable[RunHandle]], *, check: bool = True, timeout: Optional[float] = None
) -> List[RunHandle]:
    """Wait until all of these runs have ended; return them as a list.

    Args:
        check: raise when one of them did not complete, after all have ended.
        timeout: give up waiting after so many seconds in all; the runs go on.

    Raises:
        RunFailed: runs failed or were canceled.
        TimeoutError: not all have ended within `timeout`.
    """
    import time  # only to wait

    several: List[RunHandle] = [runs] if isinstance(runs, RunHandle) else list(runs)
    until = None if timeout is None else time.monotonic() + timeout
    for run in several:
        run.wait(check=False, timeout=None if until is None else max(0.0, until - time.monotonic()))
    bad = [run for run in several if str(run._run._facts.status) != "Completed"]
    if check and bad:
        raise run_failed(bad)
    return several
