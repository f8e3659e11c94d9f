"""Routes of runs: create, read, change, cancel and fail one run; change or read many.

After the routes of one run come one change to many runs, and submitting a run again. The last routes answer many runs
at once for pages that compare them, with a summary of their metrics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, ClassVar, Optional

from fastapi import APIRouter, Request, Response

from runyard.core.compute_options import RAY
from runyard.core.errors import InvalidArgument, NotAllowed, NotFound, RunyardError, TooLarge
from runyard.core.names import check_metric_name, check_run_id, check_workspace_name
from runyard.core.records import SNAPSHOT_PROPERTY, NewRun, Run, RunChange
from runyard.engine.ingest.effects import Writer, run_key
from runyard.engine.runs.resubmit import ResubmitRequest
from runyard.engine.runs.submit import ExternalProcess, Submitted
from runyard.engine.sweeps.sweeps import check_free_id
from runyard.server.access.permissions import RunPrincipal, UserPrincipal
from runyard.server.http.answers import json_answer
from runyard.server.http.calls import RequestContext, call_of
from runyard.server.http.openapi import ErrorBody, QueryParameter, error_body, gives, reads, takes
from runyard.server.http.references import find_run
from runyard.server.http.requests import OF_RUNS, parse, run_query, with_json
from runyard.store.base import MetricSummary
from runyard.store.record_limits import record_size

router = APIRouter(tags=["runs"])
MAX_PAGE_BYTES = 16 << 20  # of the runs' records
FORBID: dict[str, str] = {"extra": "forbid"}
MAX_KEY = 200
MOST_RUNS = 1000
MAX_READ = 100
MAX_READ_BYTES = 64 << 20
MAX_SUMMARIZED = 1000
MAX_NAMES = 100


@dataclass(frozen=True)
class WatchedProcess:
    __pydantic_config__: ClassVar[dict[str, str]] = FORBID

    pid: int
    start_ticks: int
    host: str = ""  # a word for another machine: the process has a watcher there; "": it is on the server's


@dataclass(frozen=True)
class InteractiveProcess(WatchedProcess):
    folders: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RunRequest:
    __pydantic_config__: ClassVar[dict[str, str]] = FORBID

    run: NewRun
    submitter: dict[str, str] = field(default_factory=dict)
    launch: bool = True
    interactive: Optional[InteractiveProcess] = None


@dataclass(frozen=True)
class RunPatch:
    """The body of `PATCH /runs/{run_id}`."""

    __pydantic_config__: ClassVar[dict[str, str]] = FORBID

    tags_set: Optional[dict[str, Optional[str]]] = None
    tags_remove: list[str] = field(default_factory=list)
    properties_add: Optional[dict[str, str]] = None
    display_name: Optional[str] = None
    description: Optional[str] = None
    snapshot_id: Optional[str] = None
    archived: Optional[bool] = None


@dataclass(frozen=True)
class FailRequest:
    error: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CreatedRunAnswer:
    """`token` and `folder` come once, with a new run that its own process reports."""

    run: Run
    token: Optional[str]
    folder: Optional[str]


@dataclass(frozen=True)
class RunPageAnswer:
    """`next` is the `cursor` of the next page; None: this is the last one."""

    runs: list[Run]
    next: Optional[str]


@dataclass(frozen=True)
class WriterAnswer(Writer):
    attempt: int  # version 0.2 and older know an external writer by its attempt


@router.post("/runs", status_code=201)
@gives(CreatedRunAnswer, also=200)
@takes(RunRequest)
async def create_run(request: Request) -> Response:
    """Create a run, or return the one made with the same key (200)."""
    return await with_json(request, lambda body: _create(call_of(request), body))


@router.get("/runs/{run_id}")
@gives(Run)
def get_run(run_id: str, request: Request) -> Response:
    """Return one run."""
    call = call_of(request)
    return json_answer(call.services.engine.explained(call.readable_run(run_id)))


@router.get("/workspaces/{workspace}/runs/named")
@gives(Run)
def find_named_run(workspace: str, request: Request, name: str = "") -> Response:
    """Return the run that `name` means: an id or the beginning of one, `digits#12`, `12`, `last`, or a run's name."""
    call = call_of(request)
    call.require("list_runs")
    run = find_run(call.services.store, check_workspace_name(workspace), name, user=call.user)
    return json_answer(call.services.engine.explained(call.readable_run(run.id)))


@router.get("/workspaces/{workspace}/runs")
@gives(RunPageAnswer)
@reads(*OF_RUNS)
def list_runs(workspace: str, request: Request) -> Response:
    """List runs, newest first, a page at a time."""
    call = call_of(request)
    query = replace(run_query(check_workspace_name(workspace), request.query_params), max_bytes=MAX_PAGE_BYTES)
    call.require("list_runs", query.parent_id)
    page = call.services.store.list_runs(query)
    return json_answer(RunPageAnswer(page.runs, page.next))


@router.patch("/runs/{run_id}")
@gives(Run)
@takes(RunPatch)
async def update_run(run_id: str, request: Request) -> Response:
    """Change tags, add properties, name, describe or archive a run."""
    return await with_json(request, lambda body: _update(call_of(request), run_id, body))


@router.post("/runs/{run_id}/cancel")
@gives(Run)
def cancel_run(run_id: str, request: Request) -> Response:
    """Ask for the run's end; twice is fine, a finished run is answered as it is."""
    call = call_of(request)
    call.require("cancel_run", run_id)
    return json_answer(call.services.engine.cancel(run_id))


@router.post("/runs/{run_id}/fail")
@gives(Run)
@takes(FailRequest)
async def fail_run(run_id: str, request: Request) -> Response:
    """End the run as failed; its processes are stopped."""
    return await with_json(request, lambda body: _fail(call_of(request), run_id, body))


@router.post("/runs/{run_id}/writers", status_code=201)
@gives(WriterAnswer)
@takes(WatchedProcess)
async def add_writer(run_id: str, request: Request) -> Response:
    """Give a process that logs on a run which it is not a journal folder with a watcher."""
    return await with_json(request, lambda body: _add_writer(call_of(request), run_id, body))


def _create(call: RequestContext, body: bytes) -> Response:
    if not isinstance(call.principal, RunPrincipal):
        call.require("create_run")
    wanted = parse(RunRequest, body, unchecked=["submitter"])
    if isinstance(call.principal, RunPrincipal):
        _check_child(call, wanted)
    elif wanted.run.parent_id is not None:
        call.require("write_run", wanted.run.parent_id)  # its token will add to the parent
    _check_watched(call, wanted.interactive)
    if wanted.launch:
        check_target(call, wanted.run.workspace, wanted.run.spec.target)
    made = _submit(call, replace(wanted, run=_signed(call, wanted.run)))
    answer = CreatedRunAnswer(call.services.engine.explained(made.run), made.token, made.folder)
    return json_answer(answer, status=201 if made.is_new else 200)


def _signed(call: RequestContext, run: NewRun) -> NewRun:
    """Return the run with whose it is: a run's code acts for the user of that run."""
    if run.owner is not None:
        raise InvalidArgument("A request does not say the `owner` of its run.", hint="The server does, by its token.")
    check_free_id(call.services.store, run.id)
    signed = replace(run, key=own_key(call, run.key), owner=call.user)
    if isinstance(call.principal, UserPrincipal):
        return replace(signed, submitted_by=call.principal.name)
    if isinstance(call.principal, RunPrincipal):
        return replace(signed, submitted_by=call.services.store.get_run(call.principal.run_id).submitted_by)
    return signed


def own_key(call: RequestContext, key: str) -> str:
    """Return the key in the namespace of the principal, so that it never names a run that another principal or the
    engine made. A child that a script's journal makes has the key that the script's own request would have.
    """
    if not 1 <= len(key) <= MAX_KEY:
        raise InvalidArgument(f"A run's key must have 1 to {MAX_KEY} characters, found {len(key)}.")
    if isinstance(call.principal, UserPrincipal):
        return f"user:{call.principal.name}:{key}"
    if isinstance(call.principal, RunPrincipal):
        return run_key(call.principal.run_id, key)
    return f"owner:{key}" if ":" in key else key


def check_target(call: RequestContext, workspace: str, name: str) -> None:
    """Raise unless the principal may start programs there: on the server's machine they run as its account, and can
    read its token, its keys and the files of all users.
    """
    if call.is_admins or call.services.server_settings.local_for_users:
        return
    target = call.services.engine.compute.find(workspace, name)
    if target is not None and target.is_local:
        why = f"Runs on `{name}` are programs of the server's own account, which can read all that it keeps."
    elif target is not None and target.backend == RAY and target.name == name and not target.workspace:
        why = "A Ray cluster that is named by its address can have code run in the server's own account."
    else:
        return
    raise NotAllowed(
        f"You may not submit runs to `{name}`.",
        why=f"{why} On this server that is for admins.",
        hint="Name a compute target that an admin attached (`runyard compute list`). An admin opens this to all users "
        "with `runyard server set compute.local.for_users true`.",
    )


def _check_watched(call: RequestContext, process: WatchedProcess | None) -> None:
    """Processes and folders of the server's machine are for its own account, over the unix socket."""
    if process is None or process.host:
        return
    if call.is_same_machine and (call.is_admins or isinstance(call.principal, RunPrincipal)):
        return
    raise NotAllowed(
        "The server watches no process and no folder of its machine for you.",
        why="It would give you files of its own account; that is for this account, over the unix socket.",
        hint="Elsewhere the SDK watches its own process and names its machine in `host`.",
    )


def _submit(call: RequestContext, wanted: RunRequest) -> Submitted:
    engine = call.services.engine
    if wanted.launch:
        return engine.submit(wanted.run, submitter=wanted.submitter)
    told = wanted.interactive
    watched = ExternalProcess(told.pid, told.start_ticks, told.folders) if told is not None and not told.host else None
    return engine.register_external_run(wanted.run, watched)


def _check_child(call: RequestContext, wanted: RunRequest) -> None:
    """A run's code creates only its own descendants, on the target it runs on itself."""
    assert isinstance(call.principal, RunPrincipal)
    call.require("create_run", wanted.run.parent_id)
    if wanted.interactive is not None and wanted.interactive.folders:
        raise NotAllowed("A run's code may not have folders of this machine shipped.", hint="Use run.upload_folder().")
    own = call.services.store.get_run(call.principal.run_id)
    meant = call.services.engine.compute.find(own.workspace, wanted.run.spec.target)  # it may be an alias
    if wanted.run.workspace != own.workspace or own.spec.target not in (wanted.run.spec.target, meant and meant.name):
        raise NotAllowed(
            f"Run `{own.id}` may create runs only in workspace `{own.workspace}` on target `{own.spec.target}`.",
            hint="Submit from outside of the run to use another target.",
        )


def _update(call: RequestContext, run_id: str, body: bytes) -> Response:
    call.require("write_run", run_id)
    change = parse(RunPatch, body)
    if change.archived is not None and isinstance(call.principal, RunPrincipal):
        raise NotAllowed("A run's code may not archive runs.", hint=f"`runyard runs archive {run_id}`")
    snapshot = _snapshot(call, run_id, change.snapshot_id)
    # The property never changes, so the first snapshot stays the run's.
    property_of_snapshot = {} if snapshot is None else {SNAPSHOT_PROPERTY: snapshot[0]}
    run = call.services.store.update_run(
        run_id,
        RunChange(
            tags_set=change.tags_set,
            tags_remove=change.tags_remove,
            properties_add={**(change.properties_add or {}), **property_of_snapshot},
            display_name=change.display_name,
            description=change.description,
            snapshot=snapshot,
        ),
    )
    if change.archived is not None:
        run = call.services.engine.archive(run_id, change.archived)
    return json_answer(run)


def _snapshot(call: RequestContext, run_id: str, snapshot_id: str | None) -> tuple[str, str] | None:
    """Return (id, root tree). A run's code may read its own snapshot, so it may not choose which one that is."""
    if snapshot_id is None:
        return None
    if isinstance(call.principal, RunPrincipal):
        own = call.services.store.get_run(call.principal.run_id)
        if run_id in (own.id, own.parent_id):
            raise NotAllowed(
                f"Run `{own.id}` may not choose {'its own snapshot' if run_id == own.id else 'the snapshot above it'}.",
                hint="Call run.take_snapshot() outside of the run.",
            )
    call.services.content.hold_snapshot(snapshot_id)
    root = call.services.store.find_snapshot(snapshot_id)
    if root is None:
        raise NotFound(f"There is no snapshot `{snapshot_id[:64]}`.", why="It must be stored before a run can name it.")
    return snapshot_id, root


def _fail(call: RequestContext, run_id: str, body: bytes) -> Response:
    call.require("fail_run", run_id)
    return json_answer(call.services.engine.fail(run_id, parse(FailRequest, body or b"{}", lenient=True).error))


def _add_writer(call: RequestContext, run_id: str, body: bytes) -> Response:
    call.require("fail_run", run_id)
    process = parse(WatchedProcess, body)
    _check_watched(call, process)
    told = ExternalProcess(process.pid, process.start_ticks, host=process.host)
    writer = call.services.engine.add_writer(run_id, told)
    return json_answer(WriterAnswer(**vars(writer), attempt=writer.external_writer), status=201)


@dataclass(frozen=True)
class BulkChange:
    """`tags_set` goes with the action tag, `tags_remove` with untag."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    ids: list[str]
    action: str
    tags_set: dict[str, Optional[str]] = field(default_factory=dict)
    tags_remove: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class FailedChange:
    id: str
    error: ErrorBody


@dataclass(frozen=True)
class BulkAnswer:
    """`undo_until`: until when deleted runs can be restored."""

    done: list[str]
    failed: list[FailedChange]
    undo_until: Optional[datetime]


@dataclass(frozen=True)
class ResubmittedRun:
    run: Run


@router.post("/runs/bulk")
@gives(BulkAnswer)
@takes(BulkChange)
async def change_runs(request: Request) -> Response:
    """Tag, untag, cancel, archive, unarchive, delete or restore up to a thousand runs; says of each how it went."""
    return await with_json(request, lambda body: _change_runs(call_of(request), body))


@router.post("/runs/{run_id}/resubmit", status_code=201)
@gives(ResubmittedRun, also=200)
@takes(ResubmitRequest)
async def resubmit_run(run_id: str, request: Request) -> Response:
    """Submit a run again: same spec, code, tags and name."""
    return await with_json(request, lambda body: _resubmit(call_of(request), run_id, body))


def _change_runs(call: RequestContext, body: bytes) -> Response:
    call.require("change_runs")
    wanted = parse(BulkChange, body)
    action = _ACTIONS.get(wanted.action)
    if action is None:
        raise InvalidArgument(f"There is no action {wanted.action[:40]!r}.", hint=f"Known: {', '.join(_ACTIONS)}.")
    if len(wanted.ids) > MOST_RUNS:
        raise InvalidArgument(f"{len(wanted.ids)} runs are too many for one call.", why=f"It takes {MOST_RUNS}.")
    change = _Change(call, wanted)
    failed: list[FailedChange] = []
    for run_id in dict.fromkeys(wanted.ids):
        if run_id in change.done:  # a run above took it along
            continue
        try:
            action(change, run_id)
        except RunyardError as error:
            failed.append(FailedChange(run_id, error_body(error)))
    left = {each.id for each in failed}
    done = [run_id for run_id in dict.fromkeys(wanted.ids) if run_id not in left]
    return json_answer(BulkAnswer(done, failed, change.undo_until))


class _Change:
    """What one call does to each of its runs, each allowed as the call for that run alone."""

    def __init__(self, call: RequestContext, wanted: BulkChange) -> None:
        self._call, self._wanted = call, wanted
        self.done: set[str] = set()  # also those below
        self.undo_until: datetime | None = None

    def tag(self, run_id: str) -> None:
        self._call.require("write_run", run_id)
        self._call.services.store.update_run(run_id, RunChange(tags_set=self._wanted.tags_set))

    def untag(self, run_id: str) -> None:
        self._call.require("write_run", run_id)
        self._call.services.store.update_run(run_id, RunChange(tags_remove=self._wanted.tags_remove))

    def cancel(self, run_id: str) -> None:
        self._call.require("cancel_run", run_id)
        self._call.services.engine.cancel(run_id)

    def archive(self, run_id: str) -> None:
        self._call.require("write_run", run_id)
        self._call.services.engine.archive(run_id, True)

    def unarchive(self, run_id: str) -> None:
        self._call.require("write_run", run_id)
        self._call.services.engine.archive(run_id, False)

    def delete(self, run_id: str) -> None:
        self._call.require("delete_run", run_id)
        gone = self._call.services.store.find_hidden(run_id)  # twice is fine
        if gone is None:
            deleted = self._call.services.engine.delete_run(run_id)
            self.done.update(deleted.deleted)
        self.undo_until = gone.undo_until if gone is not None else deleted.undo_until

    def restore(self, run_id: str) -> None:
        self._call.require("delete_run", run_id)
        self.done.update(self._call.services.engine.restore_run(run_id))


_ACTIONS: dict[str, Callable[[_Change, str], None]] = {
    "tag": _Change.tag,
    "untag": _Change.untag,
    "cancel": _Change.cancel,
    "archive": _Change.archive,
    "unarchive": _Change.unarchive,
    "delete": _Change.delete,
    "restore": _Change.restore,
}


def _resubmit(call: RequestContext, run_id: str, body: bytes) -> Response:
    call.require("resubmit_run", run_id)
    wanted = parse(ResubmitRequest, body or b"{}", unchecked=["submitter"])
    before = call.services.store.get_run(check_run_id(run_id))
    check_target(call, before.workspace, before.spec.target)
    if wanted.id:
        check_free_id(call.services.store, wanted.id)
    named = replace(wanted, key=own_key(call, wanted.key)) if wanted.key else wanted
    made = call.services.engine.resubmit(run_id, named, owner=call.user)
    return json_answer(ResubmittedRun(call.services.engine.explained(made.run)), status=201 if made.is_new else 200)


@dataclass(frozen=True)
class SummaryRequest:
    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    runs: list[str]
    names: Optional[list[str]] = None


Summary = tuple[Any, Optional[float], Optional[float], int]  # the last, least and greatest value, and how many


@dataclass(frozen=True)
class MetricSummaries:
    metrics: dict[str, dict[str, Summary]]  # by metric and run
    left_out: int  # metrics beyond the most of one answer


@dataclass(frozen=True)
class FoundRuns:
    runs: list[Run]
    missing: list[str]


@router.get("/runs")
@gives(FoundRuns)
@reads(QueryParameter("id", "string", "A run. May be repeated.", repeated=True))
def read_runs(request: Request) -> Response:
    """Return the runs with the ids asked for, in that order; `missing` names those that are not there."""
    call = call_of(request)
    ids = _checked(call, request.query_params.getlist("id"), most=MAX_READ)
    runs, missing, size = [], [], 0
    for run_id in ids:
        run = call.services.store.find_run(run_id)
        if run is None:
            missing.append(run_id)
            continue
        runs.append(call.services.engine.explained(run))
        size += record_size(run)
        if size > MAX_READ_BYTES and len(runs) > 1:
            raise TooLarge(
                f"The first {len(runs)} of these {len(ids)} runs have records of {size:,} bytes.",
                why=f"{MAX_READ_BYTES:,} bytes are the most of one answer.",
                hint="Ask for fewer runs at once.",
            )
    return json_answer(FoundRuns(runs, missing))


@router.post("/metrics/summary")
@gives(MetricSummaries)
@takes(SummaryRequest)
async def summarize_metrics(request: Request) -> Response:
    """Return the last, least and greatest value of scalar metrics of many runs."""
    return await with_json(request, lambda body: _summarize(call_of(request), body))


def _summarize(call: RequestContext, body: bytes) -> Response:
    wanted = parse(SummaryRequest, body)
    ids = _checked(call, wanted.runs, most=MAX_SUMMARIZED)
    names = None if wanted.names is None else [check_metric_name(name) for name in wanted.names]
    if names is not None and len(names) > MAX_NAMES:
        raise InvalidArgument(f"{len(names)} metrics are asked for at once; {MAX_NAMES} is the most.")
    found = call.services.store.summarize_metrics(ids, names=names)
    count = Counter(name for summaries in found.values() for name in summaries)
    kept = [name for name, _ in count.most_common(MAX_NAMES)]
    return json_answer(MetricSummaries({name: _rows(found, name) for name in kept}, left_out=len(count) - len(kept)))


def _rows(found: dict[str, dict[str, MetricSummary]], name: str) -> dict[str, Summary]:
    values = {run_id: summaries.get(name) for run_id, summaries in found.items()}
    return {
        run_id: (one.last, one.minimum, one.maximum, one.count) for run_id, one in values.items() if one is not None
    }


def _checked(call: RequestContext, ids: Sequence[str], *, most: int) -> list[str]:
    """Return the ids once each, when the principal may read all of these runs."""
    wanted = [check_run_id(run_id) for run_id in dict.fromkeys(ids)]
    if not 1 <= len(wanted) <= most:
        raise InvalidArgument(
            f"{len(wanted)} runs are asked for at once.", why=f"It is 1 to {most}.", hint="Name each with its `id`."
        )
    for run_id in wanted:
        call.require("read_run", run_id)
    return wanted
