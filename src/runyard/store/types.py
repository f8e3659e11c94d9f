"""The values that go into and come out of a RunStore: queries, pages, table rows, journal parts, series, charts.

All of them are immutable. numpy is imported for type checkers only; arrays are made where points are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from runyard.core.formats.filters import Comparison, Field, Filter
from runyard.core.records import NewRun, Run
from runyard.core.statuses import RunStatus

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ALL_RANKS = -1  # instead of the number of a rank
STEP, TIME = "step", "time"  # what a chart may be drawn over


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
class SearchOrder:
    """One key of a search's order: `start`, `end`, `id`, `name`, `note`, `user`, `status`, a metric, a label."""

    field: Field
    descending: bool = False
    statuses: Sequence[Sequence[str]] = ()  # of the field `status`: those that count as equal, in ascending order


@dataclass(frozen=True)
class RunSearch:
    """Which runs, children too, in an order of several keys. All conditions must hold.

    The fields of conditions are those of `SearchOrder`, `parent`, and `datasets` with the key name, digest or context:
    one of the datasets that the run read must fit. `id` with a key is that text with the id behind it. A metric is its
    latest number: see `MetricSummary`. Beside = != < <= > >= and `present`, which are as in filters, the operators are
    `absent`, `like` and `ilike` (`%` any text, `_` one character), `in` and `not in` (a tuple of texts). In conditions
    `start` and `end` are whole milliseconds.
    A run without the field fits `absent` alone; NaN fits != alone.

    In each key of the order NaN comes behind the numbers and a run without the field last, whatever the direction; at
    the end newer starts come first, then lower ids. Texts are ordered by their characters' codes.
    A run of an archived experiment counts as archived. A tag that MLflow keeps git's commit, branch or repository in is
    the run's property of it where the run has no such tag; a run without a description has no `note`.
    """

    workspace: str
    experiment_ids: Sequence[str]
    conditions: Sequence[Comparison] = ()
    view: str = "active"
    orders: Sequence[SearchOrder] = ()
    offset: int = 0
    limit: int = 100


@dataclass(frozen=True)
class References:
    """Content that runs and models still use; everything else may be collected."""

    roots: set[str]  # trees: the runs' snapshots
    chunks: set[str]  # of the runs' files
    snapshots: set[str] = field(default_factory=set)  # ids of those that services and their images are made from


@dataclass(frozen=True)
class RunPage:
    """One page of runs; `next` is the cursor of the page after it, None on the last page."""

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
    """A window of a table of runs; `total` counts the runs of the whole table."""

    total: int
    rows: list[TableRow]


@dataclass(frozen=True)
class Column:
    """A metric, parameter, tag or property, and how many of the runs that were looked at have it."""

    field: Field
    runs: int


@dataclass(frozen=True)
class Group:
    """How many runs have one value of a field."""

    value: str | float | None  # None: those without the field
    count: int


@dataclass(frozen=True)
class Groups:
    """The values of a field in the runs of a query, with the number of runs of each."""

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
    """A metric whose value is a file of the run, such as a logged image."""

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
    names: Mapping[int, str] = field(default_factory=dict)  # name ids defined in these bytes
    content: Sequence[Points | Rows | ArtifactMetric] = ()  # in journal order
    tags_set: Mapping[str, str | None] = field(default_factory=dict)
    tags_remove: Sequence[str] = ()
    properties_add: Mapping[str, str] = field(default_factory=dict)
    parameters_add: Mapping[str, str] = field(default_factory=dict)  # a parameter that the run has stays as it is
    parameters_log: Mapping[str, str] = field(default_factory=dict)  # logged ones; another value becomes a warning
    quarantine: Sequence[Mapping[str, Any]] = ()  # records that could not be applied, each with a reason


@dataclass(frozen=True)
class SegmentState:
    """How far a journal segment is stored, and what decoding the rest of it needs."""

    mark: int
    names: Mapping[int, str]  # name ids defined so far
    rank: int
    role: str
    wall_offset_ns: int


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


@dataclass(frozen=True)
class History:
    """Numbers of a metric in MLflow's order; arrays of one length."""

    values: NDArray[np.float64]
    steps: NDArray[np.int64]
    ms: NDArray[np.int64]  # wall clock

    def __len__(self) -> int:
        return len(self.values)

    def chosen(self, which: Any) -> History:
        """Return the points at these places: a slice, or an array of indexes."""
        return History(self.values[which], self.steps[which], self.ms[which])


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
    """A scalar metric of one run in few values. `last` is what was logged last, of any type.

    `latest` is the number with the highest step, then time in ms, then value (NaN below all); None where none is.
    """

    last: Any
    minimum: float | None
    maximum: float | None
    count: int
    latest: float | None
    latest_step: int | None = None  # of the point that `latest` is
    latest_ms: int | None = None


@dataclass(frozen=True)
class ImportedPart:
    """Points, rows or a file of one metric of another tracker's run; `start` of that metric's come before them."""

    start: int
    content: Points | Rows | ArtifactMetric


@dataclass(frozen=True)
class ImportedRecord:
    """A run of another tracker as it shall be stored.

    `origin` is the property by which it is known again: JSON with `source`, the kind of tracker, and `created_ns`, the
    time of creation that it has there.
    """

    new: NewRun
    origin: str
    created_at: datetime | None = None  # None: the source does not know; the run is made now
    ended_at: datetime | None = None
    archived: bool = False
    parameters: Mapping[str, str] = field(default_factory=dict)  # logged ones
    error: Mapping[str, Any] | None = None
    notes: Sequence[str] = ()  # what was left out of it
    parts: Sequence[ImportedPart] = ()


@dataclass(frozen=True)
class ImportResult:
    """What became of an imported run."""

    run: Run
    is_new: bool
    points: int  # points and rows that were not there before
    notes: Sequence[str] = ()  # what the store left out, or took in another way
