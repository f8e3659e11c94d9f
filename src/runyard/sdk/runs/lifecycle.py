"""How a run ends (cancel, fail, complete, flush), and the child runs that a process makes of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, Optional, Sequence

from runyard.core.formats import journal
from runyard.core.names import make_uuid
from runyard.sdk.config.texts import tag_texts, warn
from runyard.sdk.exceptions import UserErrorException

if TYPE_CHECKING:
    from runyard.core.formats.documents import RunError
    from runyard.sdk.runs.interactive import ChildRun
    from runyard.sdk.runs.run import Run

MOST_CHILDREN = 100
STOPPED_S = 15.0  # after the grace: to kill what is left, and to store the rest of the run
BATCH_TAG = "azureml.batch_child_number"


def cancel(run: Run) -> None:
    """Ask the run to stop; the submitted run that this process is only flushes."""
    if run._interactive:
        run._end("Canceled")
    elif run._own:
        run.flush()
    else:
        run._record = run._client.runs.cancel(run.id)


def complete(run: Run) -> None:
    """End an interactive run as Completed; the submitted run that this process is only flushes."""
    if run._interactive:
        run._end("Completed")
    elif run._own:
        run.flush()
    elif _is_unsupervised(run):
        _end_by_journal(run, "Completed")
    elif not run._refresh().status.is_terminal:
        warn(f"Run {run.id} is completed by the end of its script; complete() from elsewhere has no effect.")


def fail(run: Run, error_details: Any, error_code: Optional[str]) -> None:
    """End the run as Failed, and wait until it is; the submitted run that this process is only records the error."""
    message = "" if error_details is None else str(error_details)
    error: RunError = {"code": error_code or "UserError", "message": message, "details": {}}
    if run._interactive:
        run._end("Failed", error)
    elif run._own:
        run._journal().fail(message or None, error_code)
        run.flush()
    elif _is_unsupervised(run):
        _end_by_journal(run, "Failed", error)
    else:
        run._record = run._client.runs.fail(run.id, code=error_code or "UserError", message=message)
        _wait_for_end(run)


def flush(run: Run, timeout_seconds: Any) -> None:
    """Wait until the server has all that this process logged; warn when it has not within `timeout_seconds`."""
    wait_s = _checked_seconds(timeout_seconds)
    if run._writer is not None and not run._writer.flush(wait_s):
        warn(f"The server has not taken all records of run {run.id} within {wait_s:g} s; they follow later.")


def leave_block(run: Run, error: Optional[BaseException]) -> bool:
    """End the run as its `with` block ended; true: the block was left by `sys.exit(0)`, which ends the block only."""
    is_clean_exit = isinstance(error, SystemExit) and error.code in (None, 0)
    if error is None or is_clean_exit:
        run.complete()
    else:
        run.fail(error_details=f"{type(error).__name__}: {error}")
    return is_clean_exit


def _wait_for_end(run: Run) -> None:
    """Wait while the run's processes are stopped, a little longer than the grace that they have."""
    from runyard.sdk.runs.details import PollInterval  # only to wait

    interval, give_up_at = PollInterval(), time.monotonic() + run._facts.spec.grace_s + STOPPED_S
    while not run._refresh().status.is_terminal:
        if time.monotonic() > give_up_at:
            return warn(f"Run {run.id} was asked to fail, but its processes have not ended yet.")
        time.sleep(interval.next())


def _is_unsupervised(run: Run) -> bool:
    """Whether this is a live child run that a script made: no supervisor watches for its end."""
    record = run._refresh()
    return record.type is None and record.attempt == 0 and not record.status.is_terminal


def _end_by_journal(run: Run, status: str, error: Optional[RunError] = None) -> None:
    writer = run._journal()
    writer.end(status, error)
    run.flush()
    writer.close()
    run._writer = None
    run._refresh()


def _checked_seconds(seconds: Any) -> float:
    if isinstance(seconds, (int, float)) and not isinstance(seconds, bool) and seconds >= 0:
        return float(seconds)
    raise UserErrorException(f"timeout_seconds must be a number, zero or more, found {seconds!r}.")


def make_child(
    run: Run,
    run_id: str,
    *,
    name: Optional[str] = None,
    outputs: Any = None,
    tags: Optional[Mapping[str, Optional[str]]] = None,
) -> ChildRun:
    """Make a child run, Running at once, by a record in the parent's journal."""
    from runyard.sdk.runs.interactive import ChildRun  # most scripts make no child

    writer = run._journal()
    payload = {"run_id": run_id, "name": name or "", "tags": dict(tags or {}), "t": time.monotonic_ns()}
    writer.append(journal.CHILD, payload)
    child = ChildRun(run, run_id, writer.for_run(run_id), outputs=outputs)
    run._made.append(child)
    return child


def create_children(
    run: Run, count: Optional[int], tag_key: Optional[str], tag_values: Optional[Sequence[Any]]
) -> List[Run]:
    """Make `count` child runs, or one for each of `tag_values` with that tag."""
    children: List[Run] = [make_child(run, make_uuid(), tags=tags) for tags in _batch(count, tag_key, tag_values)]
    run._journal().wake()
    return children


def iter_children(run: Run, *, recursive: bool, query: Mapping[str, Any]) -> Iterator[Run]:
    """Yield the child runs that fit `query`, newest first; with `recursive` those further below too."""
    from runyard.sdk.runs.run import iter_runs  # run.py loads this module first

    run._flush_family()
    workspace = run.experiment.workspace
    parents = [run.id]
    while parents:
        parent = parents.pop(0)
        yield from iter_runs(workspace, parent=parent, **query)
        if recursive:
            parents += [child.id for child in run._client.runs.iter(workspace.name, parent=parent, view="all")]


def _batch(count: Any, tag_key: Any, tag_values: Any) -> List[Dict[str, Optional[str]]]:
    """Return the tags of each child to make."""
    if count is not None:
        if tag_key is not None or tag_values is not None:
            raise UserErrorException("create_children takes either count or tag_key with tag_values, not both.")
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise UserErrorException(f"count must be a whole number above 0, found {count!r}.")
        _check_size(count)
        return [{BATCH_TAG: str(number)} for number in range(count)]
    if tag_key is None or tag_values is None:
        raise UserErrorException("create_children needs count, or tag_key and tag_values.")
    if isinstance(tag_values, str):
        raise UserErrorException("tag_values must be a list, one value for each child; found one text.")
    values = list(tag_values)
    _check_size(len(values))
    return [tag_texts({tag_key: value}) for value in values]


def _check_size(count: int) -> None:
    if count > MOST_CHILDREN:
        raise UserErrorException(
            f"create_children makes at most {MOST_CHILDREN} children at once, found {count}. Call it several times."
        )
