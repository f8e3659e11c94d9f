"""The values that calls return beside the records of `core`, and the functions that decode answers.

The values are named tuples, because six dataclasses would make the import 3 ms slower.
"""

from __future__ import annotations

from dataclasses import field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Callable, Dict, List, NamedTuple, Optional, Tuple, Type, TypeVar, Union

from runyard.client.transport import Response
from runyard.core.errors import NotFound, ProtocolError, RunyardError, error_from_plain
from runyard.core.formats.plain import from_plain
from runyard.core.lazy_dataclass import dataclass
from runyard.core.records import Mark, MetricInfo, Run
from runyard.core.statuses import RunStatus

if TYPE_CHECKING:
    from runyard.core.formats.documents import RunError

T = TypeVar("T")


@dataclass(frozen=True)
class ServerInfo:
    id: str
    version: str
    api: int
    pid: int
    host: str
    url: str = ""
    home: str = ""
    started_at: str = ""
    runs_live: int = 0
    idle_stop_s: float = 0.0
    listens_on: List[str] = field(default_factory=list)
    database: str = "SQLite"
    team: bool = False  # others use it too
    health: Dict[str, str] = field(default_factory=dict)  # "ok", or what is wrong with each part


class Collection(NamedTuple):
    """What `runyard server collect` freed; the rest goes by itself within `rest_within_s`."""

    removed: int  # chunks and trees
    freed_bytes: int
    rest_within_s: float
    aside_bytes: int = 0  # set aside, and freed some days later


class Deletion(NamedTuple):
    """Runs that are deleted; `undo_until` None: for good."""

    deleted: List[str]
    undo_until: Optional[datetime] = None


class BulkResult(NamedTuple):
    """How a change of many runs went; `failed` holds (id, why not)."""

    done: List[str]
    failed: List[Tuple[str, RunyardError]]
    undo_until: Optional[datetime] = None


class CreatedRun(NamedTuple):
    """`token` and `folder` are there for a run that we do not launch: its watcher needs them."""

    run: Run
    token: Optional[str] = None
    folder: Optional[str] = None

    def __repr__(self) -> str:
        return f"CreatedRun(run={self.run.id!r}, folder={self.folder!r})"


class AddedWriter(NamedTuple):
    """Where a process that is no part of a run writes what it logs on it."""

    token: str
    folder: str
    external_writer: int

    def __repr__(self) -> str:
        return f"AddedWriter(folder={self.folder!r}, external_writer={self.external_writer})"


class RunListPage(NamedTuple):
    runs: List[Run]
    next: Optional[str] = None


class SeriesValues(NamedTuple):
    """All values of one series. Numbers are a view of the answer's bytes: `to_list` makes Python values of them."""

    metric: str
    kind: str  # scalar, table or artifact
    column: str
    rank: int  # -1: several ranks
    type: str  # f8, i8, b1 or json
    count: int  # type: ignore[assignment]  # a column's length, not the tuple's method
    values: Union[memoryview[int], memoryview[float], List[Any]]
    file: Optional[str] = None

    def to_list(self) -> List[Any]:
        return self.values.tolist() if isinstance(self.values, memoryview) else list(self.values)


class FilePart(NamedTuple):
    data: bytes
    size: int  # of the whole file, now
    complete: bool  # it will not grow


class ShipResult(NamedTuple):
    marks: List[Mark]
    logs: Dict[str, int]
    desired: Optional[str] = None
    attempt: int = 0


class DesiredState(NamedTuple):
    """What the server wants of a run: the answer to heartbeats and state reports."""

    desired: Optional[str] = None
    desired_error: Optional[RunError] = None
    attempt: int = 0
    status: Optional[RunStatus] = None


def read_record(cls: Type[T], response: Response) -> T:
    """Return the answer as a record of `core`.

    Raises:
        ProtocolError: the server sent something else.
    """
    return read_answer(response, lambda plain: from_plain(cls, plain))


def read_records(cls: Type[T], response: Response) -> List[T]:
    return read_answer(response, lambda plain: [from_plain(cls, item) for item in _as_list(plain)])


def read_answer(response: Response, build: Callable[[Any], T]) -> T:
    """Return what `build` makes of the answer.

    Raises:
        ProtocolError: it cannot; the server sent something else.
    """
    plain = response.json()
    try:
        return build(plain)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise ProtocolError(
            "The server's answer cannot be read.",
            why=f"It is not of the shape that it should have ({type(error).__name__}: {error}).",
            hint="Client and server may be of different versions: `runyard server status` shows the server's.",
        ) from error


def created_run(plain: Any) -> CreatedRun:
    return CreatedRun(from_plain(Run, plain["run"]), plain.get("token"), plain.get("folder"))


def added_writer(plain: Any) -> AddedWriter:
    # Only processes that log on a run of another process need it.
    from runyard.core.attempts import with_external_writer

    return AddedWriter(str(plain["token"]), str(plain["folder"]), int(with_external_writer(plain)["external_writer"]))


def collection(plain: Any) -> Collection:
    return Collection(
        int(plain["removed"]),
        int(plain["freed_bytes"]),
        float(plain["rest_within_s"]),
        int(plain.get("aside_bytes", 0)),
    )


def repeatable_delete(look: Callable[[], object], delete: Callable[[], Response], *, now: bool) -> Deletion:
    """Return the runs that are gone. A delete whose answer was lost is sent again and then finds nothing: it is done.

    Raises:
        NotFound: `look` did not find it either. With `now` the server is asked: it may be deleted already.
    """
    is_there = True
    try:
        look()
    except NotFound:
        if not now:
            raise
        is_there = False
    try:
        return read_answer(delete(), deletion)
    except NotFound:
        if not is_there:
            raise
        return Deletion([])


def deletion(plain: Any) -> Deletion:
    return Deletion(deleted_runs(plain), _moment(plain.get("undo_until")))


def bulk_result(plain: Any) -> BulkResult:
    failed = [(str(item["id"]), error_from_plain(item["error"])) for item in _as_list(plain["failed"])]
    done = [str(item) for item in _as_list(plain["done"])]
    return BulkResult(done, failed, _moment(plain.get("undo_until")))


def restored_runs(plain: Any) -> List[str]:
    return [str(item) for item in _as_list(plain["restored"])]


def deleted_runs(plain: Any) -> List[str]:
    return [str(item) for item in _as_list(plain["deleted"])]


def run_page(plain: Any) -> RunListPage:
    return RunListPage([from_plain(Run, item) for item in _as_list(plain["runs"])], plain.get("next"))


def metric_infos(plain: Any) -> List[MetricInfo]:
    """Return metrics; numbers that JSON lacks come as text."""
    numbers = ("last", "minimum", "maximum")
    return [
        from_plain(MetricInfo, {**item, **{key: _number(item.get(key)) for key in numbers}}) for item in _as_list(plain)
    ]


def _number(value: Any) -> Any:
    return float(value) if value in ("NaN", "Infinity", "-Infinity") else value


def ship_answer(plain: Any) -> ShipResult:
    marks = [from_plain(Mark, item) for item in _as_list(plain["marks"])]
    return ShipResult(marks, dict(plain.get("logs") or {}), plain.get("desired"), int(plain.get("attempt") or 0))


def run_wish(plain: Any) -> DesiredState:
    status = plain.get("status")
    return DesiredState(
        desired=plain["desired"],  # always there: an answer without it is not our server's, and nothing was reported
        desired_error=plain.get("desired_error"),
        attempt=int(plain.get("attempt") or 0),
        status=RunStatus(status) if status is not None else None,
    )


def _moment(text: Optional[str]) -> Optional[datetime]:
    return None if text is None else datetime.fromisoformat(text)


def _as_list(plain: Any) -> List[Any]:
    if not isinstance(plain, list):
        raise TypeError(f"a list was due, {type(plain).__name__} came")
    return plain
