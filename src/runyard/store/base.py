"""The seam `RunStore`: everything the server remembers except bytes of files.

The parts come first, each a small interface with a suite of its own in `runyard.testing.run_store`; their union is
`RunStore`. The values that they take and return are in `types` and can be imported from here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from runyard.core.errors import Conflict, RunyardError, StoreUnavailable
from runyard.core.formats.filters import Field
from runyard.core.records import Asset, Experiment, Mark, MetricInfo, NewRun, Run, RunChange, RunFile, Workspace
from runyard.core.statuses import RunStatus
from runyard.core.users import Access, RunAccess, User
from runyard.store.types import (
    ALL_RANKS,
    STEP,
    TIME,
    ArtifactMetric,
    Chart,
    Column,
    Group,
    Groups,
    History,
    ImportedPart,
    ImportedRecord,
    ImportResult,
    MetricCondition,
    MetricSummary,
    Points,
    References,
    Rows,
    RunPage,
    RunQuery,
    RunSearch,
    RunTable,
    SearchOrder,
    SegmentPart,
    SegmentState,
    Series,
    TableRow,
    Tally,
    ValueParts,
)

if TYPE_CHECKING:
    from runyard.core.formats.run_inputs import DatasetInput

__all__ = [
    "ALL_RANKS",
    "STEP",
    "TIME",
    "ArtifactMetric",
    "AssetEdit",
    "Assets",
    "Chart",
    "Column",
    "Files",
    "Group",
    "Groups",
    "History",
    "ImportResult",
    "ImportedPart",
    "ImportedRecord",
    "MetricCondition",
    "MetricSeries",
    "MetricSummary",
    "Points",
    "Queries",
    "References",
    "Rows",
    "RunPage",
    "RunQuery",
    "RunRecords",
    "RunSearch",
    "RunStore",
    "RunTable",
    "SearchOrder",
    "SegmentPart",
    "SegmentState",
    "Series",
    "TableRow",
    "Tally",
    "Users",
    "ValueParts",
    "Workspaces",
]


class Workspaces(ABC):
    """Keeps workspaces and the experiments in them.

    Workspaces and experiments are named by their names; an experiment's name is unique in its workspace. What takes an
    experiment's name takes its title too: the name wins where one experiment has it and another the title. `put_…` may
    be repeated. A hidden experiment answers as if it were deleted until it is restored or purged.
    An unknown workspace or experiment raises NotFound.
    """

    @abstractmethod
    def put_workspace(self, workspace: Workspace) -> Workspace:
        """Return the workspace of that name, made from `workspace` when there is none."""

    @abstractmethod
    def get_workspace(self, name: str) -> Workspace:
        """Return the workspace of that name."""

    @abstractmethod
    def list_workspaces(self) -> list[Workspace]:
        """Return all workspaces, sorted by name."""

    @abstractmethod
    def delete_workspace(self, name: str) -> None:
        """Delete a workspace that has no experiments, with its assets.

        Raises:
            Conflict: it has some.
        """

    @abstractmethod
    def put_experiment(self, workspace: str, name: str, *, owner: str | None = None) -> Experiment:
        """Return the experiment of that name, made now when there is none."""

    @abstractmethod
    def create_experiment(
        self,
        workspace: str,
        title: str,
        *,
        owner: str | None = None,
        tags: Mapping[str, str | None] | None = None,
        artifact_location: str | None = None,
    ) -> Experiment:
        """Make an experiment that is shown by `title`, any text. That is its name too, where it can be and is free.

        Raises:
            Conflict: another one, archived or not, is shown by it.
        """

    @abstractmethod
    def find_experiment(self, workspace: str, *, id: str | None = None, title: str | None = None) -> Experiment | None:
        """Return the experiment of that id, or the one that is shown by that title, archived or not; None for none."""

    @abstractmethod
    def get_experiment(self, workspace: str, name: str) -> Experiment:
        """Return the experiment of that name, unless it is hidden."""

    @abstractmethod
    def list_experiments(
        self, workspace: str, *, view: str = "ActiveOnly", name: str | None = None
    ) -> list[Experiment]:
        """Return the experiments of a view, sorted by name; with `name` that one alone, or the one of that title.

        `view` is ActiveOnly, ArchivedOnly, All (both), or DeletedOnly: those that can be restored.
        """

    @abstractmethod
    def update_experiment(
        self,
        workspace: str,
        name: str,
        *,
        archived: bool | None = None,
        tags_set: Mapping[str, str | None] | None = None,
        tags_remove: Sequence[str] = (),
        title: str | None = None,
    ) -> Experiment:
        """Archive or bring back an experiment, change its tags and title. None leaves `archived` or the title as it is.

        Raises:
            Conflict: another one, archived or not, is shown by that title.
        """

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
    def purge_experiments(self, now: datetime) -> None:
        """Delete hidden experiments without runs whose time has come."""


class RunRecords(ABC):
    """Keeps the records of runs: status, attempts, tags, tokens, parents, event journals, and their deletion.

    The caller chooses a run's id, which is unique on the server, among hidden runs too. Every change of a run is one
    transaction on the record as it is then, so two threads that change one run do not lose each other's change. Changes
    may be repeated: `create_run` by its key, `set_status` and `set_desired` because the same value changes nothing.
    Unless a method says otherwise, an unknown or hidden run raises NotFound.
    """

    @abstractmethod
    def create_run(self, new: NewRun) -> tuple[Run, bool]:
        """Create the run, or return the one made with the same key; the flag says whether it is new.

        The experiment is made when there is none. `number` counts up within the experiment.

        Raises:
            Conflict: the key was used for another run, or the id is taken.
        """

    @abstractmethod
    def get_run(self, run_id: str) -> Run:
        """Return the run."""

    @abstractmethod
    def find_run(self, run_id: str) -> Run | None:
        """Return the run; None when it is unknown or hidden."""

    @abstractmethod
    def list_unfinished(self) -> list[Run]:
        """Return the runs of all workspaces whose status is not terminal, oldest first."""

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
        """Record what should become of a run that has not ended ("cancel", "fail"). Only the first call counts."""

    @abstractmethod
    def update_run(self, run_id: str, change: RunChange) -> Run:
        """Change what a run's record allows to change; archiving an archived run keeps its first time.

        Raises:
            Conflict: a property exists with another value (properties are immutable); nothing was changed.
        """

    @abstractmethod
    def report_status(self, run_id: str, status: RunStatus, *, ended_at: datetime | None = None) -> Run:
        """Set the status that the client of a run of type `mlflow` tells; any may follow any other, so a run reopens.

        Raises:
            InvalidTransition: it is a run of another type.
        """

    @abstractmethod
    def import_runs(self, records: Sequence[ImportedRecord]) -> list[ImportResult | RunyardError]:
        """Store each run, or what is new of it, in one transaction; return for each what became of it, or its error.

        May be repeated: a run that came from the same source before takes the record's fields, its tags beside those
        that it has, and only the points that it lacks. The points of a metric are counted from its first, so a part
        that begins before the end of what is stored is the same points again; where it is not, each of its points that
        is not stored is added. A parent that is not in the workspace is left out, and noted. An experiment is made when
        there is none.

        Returned errors:
            Conflict: another run has the id.
            TooLarge: its tags or texts are beyond the limits of a run.
            InvalidArgument: a part begins behind the end of what is stored.
        """

    @abstractmethod
    def append_events(self, run_id: str, events: Sequence[Mapping[str, Any]], *, after: int) -> int:
        """Append to the journal of a run that decides over others (a sweep); return how many events it then has.

        Raises:
            Conflict: the journal does not end after event number `after`; nothing was written.
        """

    @abstractmethod
    def list_events(self, run_id: str, *, after: int = 0) -> list[dict[str, Any]]:
        """Return the events of a run's journal after event number `after`, in order."""

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
    def find_hidden(self, run_id: str) -> Run | None:
        """Return a hidden run with the time until which it can be restored; None when it is not hidden."""

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

        Otherwise nothing is done: a user may have restored it a moment ago. Returns the ids of those deleted.
        """

    @abstractmethod
    def delete_run(self, run_id: str) -> list[str]:
        """Delete a finished run, hidden or not, and its descendants with their metrics, file names and tokens; return
        their ids.

        Numbers are not given again.

        Raises:
            Conflict: one of them has not ended; none was deleted.
        """

    @abstractmethod
    def add_token(self, token_hash: str, *, run_id: str, attempt: int, external_writer: int = 0) -> None:
        """Record the hash of a token of one attempt, or of an external writer. A known hash stays as it is."""

    @abstractmethod
    def find_token(self, token_hash: str) -> RunAccess | None:
        """Return what a run's token opens. One query: busy runs ask every few seconds."""

    @abstractmethod
    def list_owners(self, workspace: str, *, experiment: str | None = None) -> set[str]:
        """Return the owners of the runs there, deleted ones too; of a run that records none, its submitter."""

    @abstractmethod
    def is_descendant(self, run_id: str, ancestor_id: str) -> bool:
        """Return whether `run_id` is `ancestor_id` or one of its descendants."""


class MetricSeries(ABC):
    """Keeps the metrics of runs: takes in parts of journals, gives back series, charts and summaries.

    A journal consists of segments, each named by (attempt, external writer, writer, segment). The external writer is 0
    for a process of the run; other processes have attempt 0. A segment's *mark* is the offset up to which its bytes are
    stored. `ingest` may be repeated with the same parts: what lies before the mark is skipped.
    An unknown or hidden run raises NotFound, and so does a metric, column or rank that the run did not log.
    """

    @abstractmethod
    def ingest(
        self, run_id: str, attempt: int, parts: Sequence[SegmentPart], *, external_writer: int = 0
    ) -> list[Mark]:
        """Apply parts whose `start` is the segment's mark; skip those that lie before it. One transaction.

        Returns the marks of all segments named. A part that starts beyond its mark is not applied: the mark tells.
        A second kind of metric under one name is left out and noted in the run's warnings, once.
        A property that exists with another value keeps the old one, likewise noted.
        """

    @abstractmethod
    def log(
        self,
        run_id: str,
        points: Sequence[Points],
        change: RunChange,
        *,
        check: Callable[[Run, bool], None] = lambda run, is_archived: None,
    ) -> Run:
        """Change the record as `update_run` and add points of a client without a journal. One transaction.

        `check` is called with the run as it is before, and whether its experiment is archived; what it raises is
        raised here, and nothing was stored.

        Points need steps; their times are the wall clock's. A point that the client sent before, with the same metric,
        step, time and value, is passed over.

        Raises:
            Conflict: a property or a logged parameter exists with another value; nothing was stored.
            InvalidArgument: the run has a metric of that name that is no series of numbers; nothing was stored.
        """

    @abstractmethod
    def list_marks(self, run_id: str, attempt: int, *, external_writer: int = 0) -> list[Mark]:
        """Return the marks of all segments of an attempt or external writer, sorted by writer and segment."""

    @abstractmethod
    def find_segment(
        self, run_id: str, attempt: int, writer: str, segment: int, *, external_writer: int = 0
    ) -> SegmentState | None:
        """Return how far one segment is stored, and what it has defined; None when nothing of it is stored."""

    @abstractmethod
    def list_metrics(self, run_id: str, *, name: str | None = None) -> list[MetricInfo]:
        """Return what the run logged, in the order of first logging; with `name` that metric alone, or nothing."""

    @abstractmethod
    def summarize_metrics(
        self, run_ids: Sequence[str], *, names: Sequence[str] | None = None
    ) -> dict[str, dict[str, MetricSummary]]:
        """Return run → metric → summary of scalars, for many runs at once; without names all but the machine's own.

        Runs that are not there, or logged none, are left out.
        """

    @abstractmethod
    def read_series(self, run_id: str, metric: str, *, column: str = "", rank: int | None = None) -> Series:
        """Return all points of a rank, or of all ranks in order of time.

        Args:
            rank: a number, ALL_RANKS, or None for the lowest that logged the metric, workers before servers.
        """

    @abstractmethod
    def read_history(self, run_id: str, metric: str, *, offset: int = 0, limit: int | None = None) -> History:
        """Return the numbers of the lowest rank by time in ms, then step, then value: `limit` from `offset` on."""

    @contextmanager
    def read_values(
        self, run_id: str, metric: str, *, column: str = "", rank: int | None = None
    ) -> Iterator[Series | ValueParts]:
        """Yield the values of a series in parts where they can be read so, else all of it.

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
        """Return a chart of the points with `first` <= x <= `last`; x is STEP, or TIME: wall clock in ns."""


class Files(ABC):
    """Keeps the names of runs' files, snapshots, and the index of packed content; never the bytes themselves.

    Content is named by ids (hashes) that `artifacts` makes. A pack is a stored object that holds many chunks. Every
    call may be repeated: what is known stays, and what is unknown is passed over when it is removed. An unknown or
    hidden run raises NotFound. `runyard.artifacts.content.ContentStore` calls the methods about chunks and packs: its
    protocol is `ChunkIndex`.
    """

    @abstractmethod
    def put_file(self, run_id: str, file: RunFile, *, replace: bool = True) -> RunFile:
        """Record a file of a run; return it as stored.

        Raises:
            Conflict: the name exists with other content and `replace` is false.
        """

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
    def delete_files(self, run_id: str, names: Collection[str]) -> None:
        """Forget these files of a run, in one transaction; unknown names are passed over."""

    @abstractmethod
    def find_file(self, run_id: str, name: str) -> RunFile | None:
        """Return the file of that name; None when the run has none."""

    def find_files(self, run_id: str, names: Sequence[str]) -> dict[str, RunFile]:
        """Return those of the files that the run has, by name."""
        files = ((name, self.find_file(run_id, name)) for name in names)
        return {name: file for name, file in files if file is not None}

    @abstractmethod
    def list_files(self, run_id: str, *, with_chunks: bool = True) -> list[RunFile]:
        """Return the run's files, sorted by name. `with_chunks=False` leaves out their chunks, which can be many."""

    @abstractmethod
    def sum_file_sizes(self, *, run_id: str | None = None, submitted_by: str | None = None) -> int:
        """Return how many bytes the files of a run have, or those of all runs of a user, deleted ones included."""

    @abstractmethod
    def put_snapshot(self, snapshot_id: str, root: str, *, files: int, size_bytes: int) -> None:
        """Record a stored snapshot with its root tree. A known id stays as it is."""

    @abstractmethod
    def find_snapshot(self, snapshot_id: str) -> str | None:
        """Return the root tree's id."""

    @abstractmethod
    def list_snapshots(self) -> dict[str, str]:
        """Return id → root tree of all that are recorded."""

    @abstractmethod
    def delete_snapshots(self, ids: Collection[str]) -> None:
        """Forget these snapshots; unknown ids are passed over."""

    @abstractmethod
    def read_references(self) -> References:
        """Return what content the runs that are there refer to."""

    @abstractmethod
    def find_chunks(self, ids: Sequence[str]) -> dict[str, tuple[str, int, int, int, str]]:
        """Return id → (pack, offset, stored bytes, plain bytes, codec) for those that exist."""

    @abstractmethod
    def add_chunks(self, pack: str, places: Mapping[str, tuple[int, int, int, str]]) -> None:
        """Record id → (offset, stored bytes, plain bytes, codec) of a pack that is already on disk. Known ids stay."""

    @abstractmethod
    def iter_packs(self) -> Iterator[str]:
        """Yield the names of all packs."""

    @abstractmethod
    def iter_chunk_places(self) -> Iterator[tuple[str, str, int, int, int, str]]:
        """Yield (id, pack, offset, stored bytes, plain bytes, codec) of all."""

    @abstractmethod
    def remove_chunks(self, ids: Collection[str]) -> None:
        """Forget these chunks, in one transaction; unknown ids are passed over."""

    @abstractmethod
    def replace_pack(self, old: str, new: str | None, places: Mapping[str, tuple[int, int, int, str]]) -> None:
        """Record that all chunks of `old` lie in the pack `new` at `places`, and forget `old`. One transaction."""


AssetEdit = Callable[[Asset], Mapping[str, Any]]  # an asset's next document


class Assets(ABC):
    """Keeps what a workspace registers by name, in versions: models, environments, datasets and the like.

    An asset is named by (workspace, kind, name). Its versions count up from 1, and a number is not given again. Its
    document is plain JSON; the store interprets only a model's files, which keep their content in use.
    An unknown workspace or version raises NotFound.
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
    def import_asset(self, asset: Asset) -> tuple[Asset, bool]:
        """Keep a version with its own number and times; return what is stored, and whether it is new.

        Where the version is there, it stays as it is. What is registered later gets a higher number.
        """

    @abstractmethod
    def get_asset(self, workspace: str, kind: str, name: str, *, version: int | None = None) -> Asset:
        """Return that version, the newest by default."""

    @abstractmethod
    def list_assets(
        self, workspace: str, kind: str, *, name: str | None = None, all_versions: bool = False
    ) -> list[Asset]:
        """Return the newest version of each name, by name; with `name` all its versions, oldest first.

        With `all_versions` and no name, return all versions of each name.
        """

    def update_asset(self, workspace: str, kind: str, name: str, *, version: int, document: Mapping[str, Any]) -> Asset:
        """Replace the document of one version, and stamp the time of the change."""
        return self.edit_asset(workspace, kind, name, lambda _: document, version=version)

    @abstractmethod
    def edit_asset(
        self, workspace: str, kind: str, name: str, edit: AssetEdit, *, version: int | None = None, stamp: bool = True
    ) -> Asset:
        """Replace the document of one version, by default the newest, by what `edit` makes of it. One transaction.

        `edit` may be called more than once, and calls nothing of the store. Without `stamp`, the time of the last
        change stays.
        """

    @abstractmethod
    def rename_assets(self, workspace: str, kinds: Sequence[str], name: str, new_name: str) -> None:
        """Give all versions of a name another name, in each of these kinds. One transaction.

        The versions keep their numbers, and neither name gives those numbers again.

        Raises:
            Conflict: there is a version of the new name.
            NotFound: no kind has a version of the name.
        """

    @abstractmethod
    def delete_asset(self, workspace: str, kind: str, name: str, *, version: int | None = None) -> None:
        """Delete one version, or all; what is not there is no error."""


class Users(ABC):
    """Keeps the users of a team's server: names, roles, and hashes of their tokens.

    `token_hash` is the SHA-256 of a token, in hex; tokens themselves are never stored. A token's id is never given to
    another token. An unknown user raises NotFound.
    """

    @abstractmethod
    def add_user(self, name: str, *, role: str, label: str, token_hash: str) -> User:
        """Create a user with a first token.

        Raises:
            Conflict: there is one of that name.
        """

    @abstractmethod
    def get_user(self, name: str) -> User:
        """Return the user with the labels of its tokens."""

    @abstractmethod
    def list_users(self) -> list[User]:
        """Return all users, sorted by name."""

    @abstractmethod
    def set_user_role(self, name: str, role: str) -> User:
        """Give the user another role; its tokens have it from then on."""

    @abstractmethod
    def remove_user(self, name: str) -> None:
        """Remove the user with all tokens; an unknown name is no error."""

    @abstractmethod
    def add_user_token(self, name: str, *, label: str, token_hash: str) -> User:
        """Give the user one more token.

        Raises:
            Conflict: the user has a token of that label.
        """

    @abstractmethod
    def replace_user_tokens(self, name: str, *, label: str, token_hash: str) -> User:
        """Put one token in the place of all that the user has. One transaction."""

    @abstractmethod
    def remove_user_token(self, name: str, label: str) -> User:
        """Remove one token; an unknown label is no error."""

    @abstractmethod
    def find_access(self, token_hash: str) -> Access | None:
        """Return who a token belongs to and what it allows; None for an unknown token."""

    @abstractmethod
    def find_access_by_id(self, token_id: int) -> Access | None:
        """Return the same by the token's id, which browser sessions carry."""

    @abstractmethod
    def note_token_seen(self, token_id: int) -> None:
        """Stamp the token's last use; an unknown id is no error."""


class Queries(ABC):
    """Searches runs and counts them. Reads only; hidden runs are found only by the view "deleted".

    Every call sees one state of the database. It raises NotFound for an unknown workspace, and InvalidArgument for an
    order, view, cursor or comparison that does not exist.
    """

    @abstractmethod
    def list_runs(self, query: RunQuery) -> RunPage:
        """Return one page of the runs that match, in the query's order."""

    @abstractmethod
    def search_runs(self, search: RunSearch) -> list[Run]:
        """Return `limit` runs from `offset` on; unknown experiments have none."""

    @abstractmethod
    def list_datasets(
        self, workspace: str, experiment_ids: Sequence[str], *, limit: int = 1000
    ) -> list[tuple[str, DatasetInput]]:
        """Return (experiment id, dataset) of what runs of these experiments read, each name, digest and context once.

        They come in the order of the runs that read them first.
        """

    @abstractmethod
    def read_table(self, query: RunQuery, *, columns: Sequence[Field] = (), offset: int = 0) -> RunTable:
        """Return `query.limit` rows from `offset` on, and the number of all; the query's cursor is ignored."""

    @abstractmethod
    def list_columns(self, query: RunQuery) -> tuple[list[Column], int]:
        """Return the fields that the newest runs of the query have, most used first, and how many runs were read."""

    @abstractmethod
    def group_runs(self, query: RunQuery, by: Field, *, limit: int = 1000) -> Groups:
        """Return the first `limit` values that a field has in the runs of the query, with how many runs have each.

        Raises:
            InvalidArgument: it is `created` or `duration`.
        """

    @abstractmethod
    def count_by_experiment(self, query: RunQuery) -> list[Tally]:
        """Return the number of the query's runs per status, for each experiment that has some; sorted by name."""


class RunStore(Workspaces, RunRecords, MetricSeries, Files, Assets, Users, Queries):
    """Everything that the server remembers except the bytes of files: the union of the parts above.

    One object, shared between threads. A write is durable when it returns, and all of it or none of it happened; a read
    sees every write that returned before it. Calls block, so do not call from an event loop. The caller checks names
    and ids. What the disk or the database refuses raises StoreUnavailable.
    """

    def claim(self) -> None:  # a database in the home is claimed by the home's lock
        """Be the only server of this database until `close`: two would both decide about its runs.

        Raises:
            StoreUnavailable: another server has it.
        """

    def find_fault(self) -> StoreUnavailable | None:
        """Return why nothing can be stored any more until a person acts, None when all is well. Quick."""
        return None

    @abstractmethod
    def close(self) -> None:
        """Release the database; no other method may be called afterwards. May be repeated."""

    @abstractmethod
    def find_value(self, key: str) -> str | None:
        """Return a small fact of the server itself, such as its id or its port; None when it was never set."""

    @abstractmethod
    def set_value(self, key: str, value: str) -> None:
        """Set such a fact, replacing the old value."""
