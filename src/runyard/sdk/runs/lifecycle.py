"""Child runs: made one by one or many at once, submitted, and listed.

Ending a run: cancel, fail, complete, flush, and the `with` block.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, Optional, Sequence, Type, TypeVar, Union

from runyard.core.formats import journal
from runyard.core.names import check_run_id, make_uuid
from runyard.sdk.config.texts import narrowed, tag_texts, warn
from runyard.sdk.errors import raises_azure_errors
from runyard.sdk.exceptions import UserErrorException
from runyard.sdk.runs.tags import RunTags

if TYPE_CHECKING:
    from types import TracebackType

    from runyard.sdk.runs.interactive import ChildRun
    from runyard.sdk.runs.run import Run


R = TypeVar("R", bound="RunControl")


@raises_azure_errors
class RunControl(RunTags):
    def cancel(self) -> None:
        """Ask the run and all below it to stop. Twice is fine; a finished run stays as it is.

        Inside a submitted run itself it only flushes; a run that this process is ends as Canceled.
        """
        if self._interactive:
            self._end("Canceled")
        elif self._own:
            self.flush()
        else:
            self._record = self._client.runs.cancel(self._run_id)

    def start(self) -> None:
        """Do nothing: a run starts with its submit."""

    def clean(self) -> List[str]:
        """Do nothing: a run's folder on its node is removed at its end. Return the files removed here: none."""
        return []

    def complete(self, _set_status: bool = True) -> None:
        """End an interactive run as Completed. Inside a submitted run, wait until all that was logged has arrived."""
        if self._interactive:
            self._end("Completed")
        elif self._own:
            self.flush()
        elif self._is_unsupervised():
            self._end_by_journal("Completed")
        elif not self._refresh().status.is_terminal:
            warn(f"Run {self._run_id} is completed by the end of its script; complete() from elsewhere has no effect.")

    def fail(self, error_details: Any = None, error_code: Optional[str] = None, _set_status: bool = True) -> None:
        """End the run as Failed and stop its processes. Inside a submitted run only the error is recorded."""
        message = "" if error_details is None else str(error_details)
        error = {"code": error_code or "UserError", "message": message, "details": {}}
        if self._interactive:
            self._end("Failed", error)
        elif self._own:
            self._journal().fail(message or None, error_code)
            self.flush()
        elif self._is_unsupervised():
            self._end_by_journal("Failed", error)
        else:
            self._record = self._client.runs.fail(self._run_id, code=error_code or "UserError", message=message)

    def flush(self, timeout_seconds: float = 300) -> None:
        """Wait until the server has all that this process logged; warn when it has not within `timeout_seconds`."""
        wait_s = _checked_seconds(timeout_seconds)
        if self._writer is not None and not self._writer.flush(wait_s):
            warn(f"The server has not taken all records of run {self._run_id} within {wait_s:g} s; they follow later.")

    def __enter__(self: R) -> R:
        return self

    def __exit__(
        self, cls: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> bool:
        if error is None:
            self.complete()
            return False
        if isinstance(error, SystemExit) and error.code in (None, 0):
            self.complete()
            return True
        self.fail(error_details=f"{type(error).__name__}: {error}")
        return False

    def _end(self, status: str, error: Optional[Dict[str, Any]] = None) -> None:
        raise NotImplementedError  # interactive runs only

    def _is_unsupervised(self) -> bool:
        """Whether this is a live child run that a script made: it ends when somebody says so."""
        facts = self._refresh()
        return facts.type is None and facts.attempt == 0 and not facts.status.is_terminal

    def _end_by_journal(self, status: str, error: Optional[Dict[str, Any]] = None) -> None:
        writer = self._journal()
        writer.end(status, error)
        self.flush()
        writer.close()
        self._writer = None
        self._refresh()


def _checked_seconds(seconds: Any) -> float:
    if isinstance(seconds, (int, float)) and not isinstance(seconds, bool) and seconds >= 0:
        return float(seconds)
    raise UserErrorException(f"timeout_seconds must be a number, zero or more, found {seconds!r}.")


MOST_CHILDREN = 100
BATCH_TAG = "azureml.batch_child_number"
Filter = Union[str, Mapping[str, Any], None]


@raises_azure_errors
class RunChildren(RunControl):
    @property
    def parent(self) -> Optional[Run]:
        """The run that this one belongs to, or None. A script may read it, add to it and cancel it."""
        from runyard.sdk.runs.run import Run  # run.py stands on this module

        parent_id = self._facts.parent_id
        return None if parent_id is None else Run.get(self._experiment.workspace, parent_id)

    def child_run(self, name: Optional[str] = None, run_id: Optional[str] = None, outputs: Any = None) -> Run:
        """Make a child run, Running at once; `complete()`, `fail()` or a `with` block ends it.

        Args:
            name: shown after the parent's own name, `parent>child`.
            run_id: the child's id; a random UUID when not given.
            outputs: a folder to upload as the child's files when it ends.
        """
        return self._make_child(check_run_id(run_id) if run_id else make_uuid(), name=name, outputs=outputs)

    def create_children(
        self,
        count: Optional[int] = None,
        tag_key: Optional[str] = None,
        tag_values: Optional[Sequence[Any]] = None,
    ) -> List[Run]:
        """Make many child runs, all Running: `count` of them, or one for each of `tag_values` with that tag.

        Raises:
            UserErrorException: both ways at once, neither, or more than 100 children.
        """
        made: List[Run] = [self._make_child(make_uuid(), tags=tags) for tags in _batch(count, tag_key, tag_values)]
        self._journal().wake()
        return made

    def submit_child(self, config: Any, tags: Optional[Mapping[str, Any]] = None, **kwargs: Any) -> Run:
        """Submit `config` as a child of this run and return it at once."""
        from runyard.sdk.submit.submission import submit  # loads the client and the snapshot code

        self._flush_own()
        return submit(self._experiment, config, tags=tags, options=kwargs, parent_id=self._run_id)

    def get_children(
        self,
        recursive: bool = False,
        tags: Filter = None,
        properties: Filter = None,
        type: Optional[str] = None,
        status: Union[str, Sequence[str], None] = None,
        _rehydrate_runs: bool = True,
    ) -> Iterator[Run]:
        """Yield the child runs, newest first; with `recursive` all below them too. The rest narrows what is yielded."""
        from runyard.sdk.runs.run import _typed  # run.py stands on this module

        self._flush_family()
        workspace = self._experiment.workspace
        query = narrowed(type, tags, properties, status)
        parents = [self._run_id]
        while parents:
            parent = parents.pop(0)
            for record in self._client.runs.iter(workspace.name, parent=parent, view="all", **query):
                yield _typed(workspace, record)
            if recursive:
                parents += [found.id for found in self._client.runs.iter(workspace.name, parent=parent, view="all")]

    def _make_child(
        self,
        run_id: str,
        *,
        name: Optional[str] = None,
        outputs: Any = None,
        tags: Optional[Mapping[str, Optional[str]]] = None,
    ) -> ChildRun:
        from runyard.sdk.runs.interactive import ChildRun  # most scripts make no child

        writer = self._journal()
        payload = {"run_id": run_id, "name": name or "", "tags": dict(tags or {}), "t": time.monotonic_ns()}
        writer.append(journal.CHILD, payload)
        child = ChildRun(self, run_id, writer.for_run(run_id), outputs=outputs)
        self._made.append(child)
        return child

    @property
    def _made(self) -> List[ChildRun]:
        """The children that this process made of the run and that have not ended."""
        made: List[ChildRun] = self.__dict__.setdefault("_made_children", [])
        return made

    def _flush_family(self) -> None:
        self._flush_own()
        for child in list(self._made):
            child._flush_family()


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
