"""The seam `RunStore`: everything the server remembers except bytes of files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from runyard.core.errors import Conflict, StoreUnavailable
from runyard.core.formats.filters import Field, Filter
from runyard.core.records import Asset, Experiment, Mark, MetricInfo, NewRun, Run, RunFile, Workspace
from runyard.core.statuses import RunStatus
from runyard.core.users import Access, RunAccess, User

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class MetricCondition:
    """`metrics.<name> <op> <value>` on the last value; op is one of < <= > >= = !=."""

    name: str
    op: str
    value: float


@dataclass(frozen=True)
class RunQuery:
    """Which runs, in which order. Conditions are joined by AND."""

    workspace: str
    experiment: str | None = None
    statuses: Sequence[RunStatus] = ()
    type: str | None = None
    parent_id: str | None = None
    include_children: bool = False
    tags: Mapping[str, str | None] = field(default_factory=dict)  # None: the key is present
    properties: Mapping[str, str | None] = field(default_factory=dict)
    parameters: Mapping[str, str | None] = field(default_factory=dict)
    metrics: Sequence[MetricCondition] = ()
    where: Filter | None = None  # beside the conditions above
    view: str = "active"  # "active", "archived", "all" (both), or "deleted": those that can be restored
    order: str = "created"  # a field of core.filters: numbers before texts, runs without the field last
    descending: bool = True
    limit: int = 100
    cursor: str | None = None  # from the page before
    max_bytes: int | None = None  # of a page's records: it may end before `limit`, but holds one run at least


@dataclass(frozen=True)
class References:
    roots: set[str]  # trees: the runs' snapshots
    chunks: set[str]  # of the runs' files


@dataclass(frozen=True)
class RunPage:
    runs: list[Run]
    next: str | None


@dataclass(frozen=True)
class TableRow:
    """A run as one line of a table: what is short of it, and a value for each column that was asked for."""

    id: str
    number: int
    experiment: str
    display_name: str
    status: RunStatus
    type: str | None
    target: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    parent_id: str | None
    submitted_by: str
    archived: bool
    waits_for: str
    error: dict[str, str] | None  # {"code", "line"}
    values: list[Any]  # a text (of a long one its beginning), the last value of a metric, or None


@dataclass(frozen=True)
class RunTable:
    total: int
    rows: list[TableRow]


@dataclass(frozen=True)
class Column:
    """A metric, parameter, tag or property, and how many of the runs that were looked at have it."""

    field: Field
    runs: int


@dataclass(frozen=True)
class Group:
    value: str | float | None  # None: those without the field
    count: int


@dataclass(frozen=True)
class Groups:
    groups: list[Group]  # by value: numbers, then texts, then None
    total: int  # how many groups there are


@dataclass(frozen=True)
class Tally:
    """How the runs of one experiment stand."""

    experiment: str
    statuses: dict[str, int]
    last: TableRow  # the newest


@dataclass(frozen=True)
class Points:
    """Points of one series in journal order. `kind`: f8, i8, b1 (bool kept as i8) are arrays; json is a list."""

    metric: str
    kind: str
    values: NDArray[np.float64] | NDArray[np.int64] | list[Any]
    times: NDArray[np.int64]  # CLOCK_MONOTONIC ns of the writer
    steps: NDArray[np.int64] | None = None  # None: number them by position
    column: str = ""


@dataclass(frozen=True)
class Rows:
    """Rows of a table metric: every column has `len(times)` scalars, None where the row had no such column."""

    metric: str
    columns: Mapping[str, list[Any]]
    times: Sequence[int]


@dataclass(frozen=True)
class ArtifactMetric:
    metric: str
    kind: str  # image, confusion_matrix, …
    file: str
    time: int


@dataclass(frozen=True)
class SegmentPart:
    """What bytes [start, end) of one journal segment mean. Applied whole or not at all."""

    writer: str
    segment: int
    start: int
    end: int
    rank: int = 0
    role: str = "worker"
    wall_offset_ns: int = 0  # wall clock minus CLOCK_MONOTONIC when the segment was opened
    names: Mapping[int, str] = field(default_factory=dict)  # name ids defined in these bytes; -1: the segment's HEADER
    content: Sequence[Points | Rows | ArtifactMetric] = ()  # in journal order
    tags_set: Mapping[str, str | None] = field(default_factory=dict)
    tags_remove: Sequence[str] = ()
    properties_add: Mapping[str, str] = field(default_factory=dict)
    quarantine: Sequence[Mapping[str, Any]] = ()  # records that could not be applied, each with a reason


@dataclass(frozen=True)
class ValueParts:
    """The values of one series in arrays of 64-bit numbers that follow each other; of a b1 each is 0 or 1."""

    rank: int
    kind: str  # f8, i8 or b1
    count: int
    parts: Iterator[NDArray[Any]]


@dataclass(frozen=True)
class Series:
    """Points of one (metric, column, rank), writers merged by monotonic time, attempts one after another."""

    metric: str
    column: str
    rank: int
    kind: str  # f8, i8, b1 or json; ints are widened to f8 once a float is among them
    values: NDArray[np.float64] | NDArray[np.int64] | list[Any]
    steps: NDArray[np.int64]
    times_ns: NDArray[np.int64]  # wall clock


STEP, TIME = "step", "time"  # what a chart may be drawn over


@dataclass(frozen=True)
class Chart:
    """At most `width` buckets of a numeric series, minima and maxima exact; arrays of one length."""

    first_step: NDArray[np.int64]
    last_step: NDArray[np.int64]
    first_time_ns: NDArray[np.int64]
    last_time_ns: NDArray[np.int64]
    minimum: NDArray[np.float64]
    maximum: NDArray[np.float64]
    last: NDArray[np.float64]
    count: NDArray[np.int64]


@dataclass(frozen=True)
class MetricSummary:
    """A scalar metric of one run, in four values. `last` is what was logged last, of any type."""

    last: Any
    minimum: float | None
    maximum: float | None
    count: int


class RunStore(ABC):
    """Keeps workspaces, experiments, runs, metrics, file names and run tokens.

    Shared between threads. A write is durable when it returns, and all of it or none of it happened. Names and ids are
    checked by the caller. Unknown ids raise NotFound; what the disk or database refuses raises StoreUnavailable.
    """

    def claim(self) -> None:  # noqa: B027  # a database in the home is claimed by the home's lock
        """Be the only server of this database until `close`: two would both decide about its runs.

        Raises:
            StoreUnavailable: another server has it.
        """

    def find_fault(self) -> StoreUnavailable | None:
        """Return why nothing can be stored any more until a person acts, None when all is well. Quick."""
        return None

    @abstractmethod
    def close(self) -> None: ...

    # Small facts of the server itself: its id, its port.
    @abstractmethod
    def find_value(self, key: str) -> str | None: ...

    @abstractmethod
    def set_value(self, key: str, value: str) -> None: ...

    # Users of a team's server. `token_hash` is the SHA-256 of a token, in hex.
    @abstractmethod
    def add_user(self, name: str, *, role: str, label: str, token_hash: str) -> User:
        """Make a user with a first token.

        Raises:
            Conflict: there is one of that name.
        """

    @abstractmethod
    def get_user(self, name: str) -> User: ...

    @abstractmethod
    def list_users(self) -> list[User]:
        """By name."""

    @abstractmethod
    def set_user_role(self, name: str, role: str) -> User: ...

    @abstractmethod
    def remove_user(self, name: str) -> None:
        """Remove the user with all tokens; an unknown name is no error."""

    @abstractmethod
    def add_user_token(self, name: str, *, label: str, token_hash: str) -> User:
        """Raises: Conflict: the user has a token of that label."""

    @abstractmethod
    def replace_user_tokens(self, name: str, *, label: str, token_hash: str) -> User:
        """Put one token in the place of all that the user has. One transaction."""

    @abstractmethod
    def remove_user_token(self, name: str, label: str) -> User:
        """Remove one token; an unknown label is no error."""

    @abstractmethod
    def find_access(self, token_hash: str) -> Access | None: ...

    @abstractmethod
    def find_access_by_id(self, token_id: int) -> Access | None: ...

    @abstractmethod
    def note_token_seen(self, token_id: int) -> None:
        """Stamp the token's last use; an unknown id is no error."""

    @abstractmethod
    def put_workspace(self, workspace: Workspace) -> Workspace:
        """Return the workspace of that name, made from `workspace` when there is none."""

    @abstractmethod
    def get_workspace(self, name: str) -> Workspace: ...

    @abstractmethod
    def list_workspaces(self) -> list[Workspace]: ...

    @abstractmethod
    def put_experiment(self, workspace: str, name: str, *, owner: str | None = None) -> Experiment:
        """Return the experiment of that name, made now when there is none."""

    @abstractmethod
    def get_experiment(self, workspace: str, name: str) -> Experiment: ...

    @abstractmethod
    def list_experiments(
        self, workspace: str, *, view: str = "ActiveOnly", name: str | None = None
    ) -> list[Experiment]:
        """`view` is ActiveOnly, ArchivedOnly, All (both), or DeletedOnly: those that can be restored."""

    @abstractmethod
    def update_experiment(
        self,
        workspace: str,
        name: str,
        *,
        archived: bool | None = None,
        tags_set: Mapping[str, str | None] | None = None,
        tags_remove: Sequence[str] = (),
    ) -> Experiment: ...

    @abstractmethod
    def hide_experiment(self, workspace: str, name: str, *, until: datetime) -> list[str]:
        """Hide an experiment, its runs and all below them, as `hide_run` does; return the runs' ids.

        `put_experiment` and `create_run` bring the experiment back without its runs.

        Raises:
            Conflict: one of them has not ended; nothing was hidden.
        """

    @abstractmethod
    def restore_experiment(self, workspace: str, name: str) -> list[str]:
        """Bring back the experiment and the runs that were hidden with it; return their ids.

        Raises:
            NotFound: it was not hidden, or is gone for good.
        """

    @abstractmethod
    def delete_experiment(self, workspace: str, name: str) -> None:
        """Delete an experiment that has no runs, hidden or not.

        Raises:
            Conflict: it has some.
        """

    @abstractmethod
    def delete_workspace(self, name: str) -> None:
        """Delete a workspace that has no experiments, with its assets.

        Raises:
            Conflict: it has some.
        """

    @abstractmethod
    def put_asset(
        self,
        workspace: str,
        kind: str,
        name: str,
        document: Mapping[str, Any],
        *,
        key: str = "",
        owner: str | None = None,
    ) -> tuple[Asset, bool]:
        """Keep the next version of a named thing; the flag says whether it is new.

        A key that the newest version has as well makes it that version. Numbers are not given again after a delete.
        """

    @abstractmethod
    def get_asset(self, workspace: str, kind: str, name: str, *, version: int | None = None) -> Asset:
        """Return that version, the newest by default."""

    @abstractmethod
    def list_assets(self, workspace: str, kind: str, *, name: str | None = None) -> list[Asset]:
        """The newest version of each name, by name; with `name` all its versions, oldest first."""

    @abstractmethod
    def update_asset(
        self, workspace: str, kind: str, name: str, *, version: int, document: Mapping[str, Any]
    ) -> Asset: ...

    @abstractmethod
    def delete_asset(self, workspace: str, kind: str, name: str, *, version: int | None = None) -> None:
        """Delete one version, or all; what is not there is no error."""

    @abstractmethod
    def append_events(self, run_id: str, events: Sequence[Mapping[str, Any]], *, after: int) -> int:
        """Append to the journal of a run that decides over others (a sweep); return how many events it then has.

        Raises:
            Conflict: the journal does not end after event number `after`; nothing was written.
        """

    @abstractmethod
    def list_events(self, run_id: str, *, after: int = 0) -> list[dict[str, Any]]: ...

    @abstractmethod
    def create_run(self, new: NewRun) -> tuple[Run, bool]:
        """Create the run, or return the one made with the same key; the flag says whether it is new.

        The experiment is made when there is none. `number` counts up within the experiment.

        Raises:
            Conflict: the key was used for another run, or the id is taken.
        """

    @abstractmethod
    def get_run(self, run_id: str) -> Run: ...

    @abstractmethod
    def find_run(self, run_id: str) -> Run | None: ...

    @abstractmethod
    def list_runs(self, query: RunQuery) -> RunPage: ...

    @abstractmethod
    def read_table(self, query: RunQuery, *, columns: Sequence[Field] = (), offset: int = 0) -> RunTable:
        """Return `query.limit` runs from that place on, and how many there are in all; a cursor is passed over."""

    @abstractmethod
    def list_columns(self, query: RunQuery) -> tuple[list[Column], int]:
        """Return what the newest runs of the query have, most used first, and how many runs were looked at."""

    @abstractmethod
    def group_runs(self, query: RunQuery, by: Field, *, limit: int = 1000) -> Groups:
        """Return the first `limit` values that a field has in the runs of the query, with how many runs have each.

        Raises:
            InvalidArgument: it is `created` or `duration`.
        """

    @abstractmethod
    def count_by_experiment(self, query: RunQuery) -> list[Tally]:
        """Return how the runs of the query stand, for each experiment that has some."""

    @abstractmethod
    def list_unfinished(self) -> list[Run]:
        """Runs of all workspaces whose status is not terminal, oldest first."""

    @abstractmethod
    def set_status(
        self,
        run_id: str,
        status: RunStatus,
        *,
        attempt: int | None = None,
        expected: Sequence[RunStatus] | None = None,
        error: Mapping[str, Any] | None = None,
        waits_for: str | None = None,
    ) -> Run:
        """Move the run on, stamp its times and timeline. The same status again changes nothing.

        Raises:
            InvalidTransition: not allowed from the present status, or not one of `expected`.
            Conflict: `attempt` is not the run's present attempt.
        """

    @abstractmethod
    def start_attempt(self, run_id: str, *, token_hash: str, waits_for: str = "") -> Run:
        """Count the attempt up, record its token's hash, and set the status Queued. One transaction."""

    @abstractmethod
    def fence_attempt(
        self, run_id: str, attempt: int, *, code: str = "", why: str = "", host: str = "", is_over: bool = False
    ) -> Run:
        """Record that the present attempt was given up, and set the status Queued. One transaction.

        Again, with `is_over`, when nothing of it lives any more; the reason that was given first stays.

        Raises:
            InvalidTransition: the run has ended.
            Conflict: `attempt` is not the run's present attempt.
        """

    @abstractmethod
    def set_desired(self, run_id: str, desired: str, error: Mapping[str, Any] | None = None) -> Run:
        """Record what should become of the run ("cancel", "fail"). The first wish stays; a finished run stays too."""

    @abstractmethod
    def update_run(
        self,
        run_id: str,
        *,
        tags_set: Mapping[str, str | None] | None = None,
        tags_remove: Sequence[str] = (),
        properties_add: Mapping[str, str] | None = None,
        display_name: str | None = None,
        description: str | None = None,
        warnings_add: Sequence[Mapping[str, Any]] = (),
        environment: Mapping[str, Any] | None = None,
        snapshot: tuple[str, str] | None = None,
        archived: bool | None = None,
    ) -> Run:
        """Change what may change. `snapshot` is (id, root tree).

        Raises:
            Conflict: a property exists with another value (properties are immutable).
        """

    @abstractmethod
    def hide_run(self, run_id: str, *, until: datetime) -> list[str]:
        """Hide a finished run and its descendants: every call answers as if they were gone; return their ids.

        Their ids and keys stay taken, and the content they refer to stays in use, until they are deleted.

        Raises:
            Conflict: one of them has not ended; none was hidden.
        """

    @abstractmethod
    def restore_run(self, run_id: str) -> list[str]:
        """Bring back a hidden run, what was hidden with it below it, and its experiment; return the runs' ids.

        Raises:
            NotFound: it was not hidden, or is gone for good.
            Conflict: the run above it is hidden.
        """

    @abstractmethod
    def find_hidden(self, run_id: str) -> Run | None: ...

    @abstractmethod
    def list_family(self, run_id: str) -> list[str]:
        """Return the ids of a run and its descendants, hidden or not; none for an unknown id."""

    @abstractmethod
    def find_next_purge(self) -> datetime | None:
        """Return when the first of what is hidden is to be deleted."""

    @abstractmethod
    def list_purges(self, now: datetime) -> list[str]:
        """Return hidden runs whose time has come, at most a thousand."""

    @abstractmethod
    def purge_run(self, run_id: str, now: datetime) -> list[str]:
        """Delete a run and its descendants as `delete_run`, if they are hidden and their time has come.

        Else nothing is done, as when somebody restored it a moment ago. Returns the ids of those deleted.
        """

    @abstractmethod
    def purge_experiments(self, now: datetime) -> None:
        """Delete hidden experiments without runs whose time has come."""

    @abstractmethod
    def delete_run(self, run_id: str) -> list[str]:
        """Delete a finished run, hidden or not, and its descendants with their metrics, file names and tokens; return
        their ids.

        Numbers are not given again.

        Raises:
            Conflict: one of them has not ended; none was deleted.
        """

    @abstractmethod
    def add_token(self, token_hash: str, *, run_id: str, attempt: int) -> None: ...

    @abstractmethod
    def find_token(self, token_hash: str) -> RunAccess | None:
        """Return what a run's token opens. One query: busy runs ask every few seconds."""

    @abstractmethod
    def list_owners(self, workspace: str, *, experiment: str | None = None) -> set[str]:
        """Return the owners of the runs there, deleted ones too; of a run that records none, its submitter."""

    @abstractmethod
    def is_descendant(self, run_id: str, ancestor_id: str) -> bool:
        """Whether `run_id` is `ancestor_id` or one of its descendants."""

    @abstractmethod
    def list_marks(self, run_id: str, attempt: int) -> list[Mark]: ...

    @abstractmethod
    def find_mark(self, run_id: str, attempt: int, writer: str, segment: int) -> int | None:
        """Return how far one segment is stored; None when nothing of it is."""

    @abstractmethod
    def list_names(self, run_id: str, attempt: int, writer: str, segment: int) -> dict[int, str]:
        """Name ids defined so far in a segment."""

    @abstractmethod
    def ingest(self, run_id: str, attempt: int, parts: Sequence[SegmentPart]) -> list[Mark]:
        """Apply parts whose `start` is the segment's mark; skip those that lie before it. One transaction.

        Returns the marks of all segments named. A part that starts beyond its mark is not applied: the mark tells.
        A second kind of metric under one name is left out and noted in the run's warnings, once.
        A property that exists with another value keeps the old one, likewise noted.
        """

    @abstractmethod
    def list_metrics(self, run_id: str, *, name: str | None = None) -> list[MetricInfo]: ...

    @abstractmethod
    def summarize_metrics(
        self, run_ids: Sequence[str], *, names: Sequence[str] | None = None
    ) -> dict[str, dict[str, MetricSummary]]:
        """Return run → metric → summary of scalars, for many runs at once; without names all but the machine's own.

        Runs that are not there, or logged none, are left out.
        """

    @abstractmethod
    def read_series(self, run_id: str, metric: str, *, column: str = "", rank: int | None = None) -> Series:
        """All points; `rank` None is the lowest rank (workers before servers) that logged the metric."""

    @contextmanager
    def read_values(
        self, run_id: str, metric: str, *, column: str = "", rank: int | None = None
    ) -> Iterator[Series | ValueParts]:
        """Give the values of a series in parts where they can be read so, else all of it.

        Parts are read while the block lasts, so do nothing slow in it.
        """
        yield self.read_series(run_id, metric, column=column, rank=rank)

    @abstractmethod
    def chart(
        self,
        run_id: str,
        metric: str,
        *,
        column: str = "",
        rank: int | None = None,
        width: int = 1000,
        x: str = STEP,
        first: int | None = None,
        last: int | None = None,
    ) -> Chart:
        """Draw the points whose `x` (STEP, or TIME: wall clock in ns) is `first` to `last`, both included."""

    @abstractmethod
    def put_file(self, run_id: str, file: RunFile, *, replace: bool = True) -> RunFile:
        """Raises: Conflict: the name exists with other content and `replace` is false."""

    def put_files(self, run_id: str, files: Sequence[RunFile], *, replace: bool = True) -> list[RunFile | Conflict]:
        """Store many files in one transaction; return for each, in its place, what is stored now or what refused it.

        A file that is refused does not keep the others out.
        """
        return [self._try_file(run_id, file, replace=replace) for file in files]

    def _try_file(self, run_id: str, file: RunFile, *, replace: bool) -> RunFile | Conflict:
        try:
            return self.put_file(run_id, file, replace=replace)
        except Conflict as error:
            return error

    @abstractmethod
    def find_file(self, run_id: str, name: str) -> RunFile | None: ...

    def find_files(self, run_id: str, names: Sequence[str]) -> dict[str, RunFile]:
        """Return those of the files that the run has, by name."""
        found = ((name, self.find_file(run_id, name)) for name in names)
        return {name: file for name, file in found if file is not None}

    @abstractmethod
    def list_files(self, run_id: str, *, with_chunks: bool = True) -> list[RunFile]:
        """Sorted by name. Without chunks, the places of stored content are left out: a large file names many."""

    @abstractmethod
    def sum_file_sizes(self, *, run_id: str | None = None, submitted_by: str | None = None) -> int:
        """Return how many bytes the files of a run have, or those of all runs of a user, deleted ones included."""

    @abstractmethod
    def put_snapshot(self, snapshot_id: str, root: str, *, files: int, size_bytes: int) -> None: ...

    @abstractmethod
    def find_snapshot(self, snapshot_id: str) -> str | None:
        """Return the root tree's id."""

    @abstractmethod
    def list_snapshots(self) -> dict[str, str]:
        """Return id → root tree of all that are recorded."""

    @abstractmethod
    def delete_snapshots(self, ids: Collection[str]) -> None:
        """Forget them; unknown ids are passed over."""

    @abstractmethod
    def read_references(self) -> References:
        """Return what content the runs that are there refer to."""

    # The index of packed content; artifacts.content.ContentStore calls these (its protocol is `ChunkIndex`).
    @abstractmethod
    def find_chunks(self, ids: Sequence[str]) -> dict[str, tuple[str, int, int, int, str]]:
        """Return id → (pack, offset, stored bytes, plain bytes, codec) for those that exist."""

    @abstractmethod
    def add_chunks(self, pack: str, places: Mapping[str, tuple[int, int, int, str]]) -> None:
        """Record id → (offset, stored bytes, plain bytes, codec) of a pack that is already on disk. Known ids stay."""

    @abstractmethod
    def iter_packs(self) -> Iterator[str]: ...

    @abstractmethod
    def iter_chunk_places(self) -> Iterator[tuple[str, str, int, int, int, str]]:
        """Yield (id, pack, offset, stored bytes, plain bytes, codec) of all."""

    @abstractmethod
    def remove_chunks(self, ids: Collection[str]) -> None:
        """Forget them, in one transaction; unknown ids are passed over."""

    @abstractmethod
    def replace_pack(self, old: str, new: str | None, places: Mapping[str, tuple[int, int, int, str]]) -> None:
        """Record that all chunks of `old` lie in the pack `new` at `places`, and forget `old`. One transaction."""
