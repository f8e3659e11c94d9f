"""Calls about runs: creation, reading, metrics, and what their supervisors report.

The first functions read the packed columns of metrics out of the frames of an answer.
"""

from __future__ import annotations

import json
import sys
from typing import (
    TYPE_CHECKING,
    Any,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    Union,
    cast,
)

from runyard.client.calls.files import FileCalls
from runyard.client.decoding import (
    AddedWriter,
    BulkResult,
    CreatedRun,
    Deletion,
    DesiredState,
    RunListPage,
    SeriesValues,
    ShipResult,
    added_writer,
    bulk_result,
    created_run,
    metric_infos,
    read_answer,
    read_record,
    repeatable_delete,
    restored_runs,
    run_page,
    run_wish,
    ship_answer,
)
from runyard.client.http1 import Buffer, quote
from runyard.client.transport import Response
from runyard.core.errors import ProtocolError
from runyard.core.formats.frames import iter_frames, pack_frame
from runyard.core.formats.plain import to_plain
from runyard.core.records import Mark, MetricInfo, NewRun, Run
from runyard.core.statuses import RunStatus

if TYPE_CHECKING:
    from runyard.core.formats.documents import EnvironmentFacts, RunError, RunWarning, SubmitPlan, SweepReport

Values = Union["memoryview[int]", "memoryview[float]", List[Any]]
_FORMATS = {"f8": "d", "i8": "q"}
# A page asks for what one request can carry; `iter` goes on from there.
_REPEATED = ("status", "tag", "property", "parameter", "metric")


class SeriesPoints(NamedTuple):
    """One series, point by point; the three have one length."""

    steps: Values
    times: Values  # wall clock, ns
    values: Values


def read_values(response: Response) -> List[SeriesValues]:
    return [_series(head, body) for head, body in iter_frames(response.read())]


def read_points(response: Response) -> SeriesPoints:
    columns = _columns(response)
    try:
        return SeriesPoints(columns["steps"], columns["times"], columns["values"])
    except KeyError as error:
        raise ProtocolError("A series came without one of its columns.", why=f"There is no {error}.") from error


def read_chart(response: Response) -> Dict[str, List[Any]]:
    return {name: _as_list(values) for name, values in _columns(response).items()}


def _columns(response: Response) -> Dict[str, Values]:
    return {str(head.get("column")): _numbers(head, body)[1] for head, body in iter_frames(response.read())}


def _series(head: Mapping[str, Any], body: memoryview) -> SeriesValues:
    kind, values = _numbers(head, body)
    try:
        return SeriesValues(
            metric=str(head["metric"]),
            kind=str(head["kind"]),
            column=str(head.get("column", "")),
            rank=int(head.get("rank") or 0),
            type=kind,
            count=len(values),
            values=values,
            file=head.get("file"),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ProtocolError("A metric's frame cannot be read.", why=f"Its head is {str(head)[:200]}.") from error


def _numbers(head: Mapping[str, Any], body: memoryview) -> Tuple[str, Values]:
    kind = str(head.get("type"))
    try:
        values = _unpack(kind, body)
    except (KeyError, TypeError, ValueError) as error:
        raise ProtocolError(
            "A column of numbers cannot be read.", why=f"{len(body)} bytes of type {kind[:20]!r}."
        ) from error
    if len(values) != head.get("count", len(values)):
        raise ProtocolError("A column of numbers is cut off.", why=f"{head.get('count')} were due, {len(values)} came.")
    return kind, values


def _unpack(kind: str, body: memoryview) -> Values:
    if kind == "json":
        found = json.loads(bytes(body) or b"[]")
        if not isinstance(found, list):
            raise ValueError("not a list")
        return found
    if kind == "b1":
        return [bool(value) for value in body]
    if kind not in _FORMATS:
        raise ValueError("not a type of numbers")
    if sys.byteorder == "big":
        # Rare enough not to deserve a faster way.
        from array import array

        swapped = array(_FORMATS[kind], body.tobytes())
        swapped.byteswap()
        return swapped.tolist()
    return body.cast("d") if kind == "f8" else body.cast("q")


def _as_list(values: Values) -> List[Any]:
    return values.tolist() if isinstance(values, memoryview) else values


class RunCalls(FileCalls):
    def create(
        self,
        new: NewRun,
        submitter: Optional[Mapping[str, str]] = None,
        launch: bool = True,
        interactive: Optional[Mapping[str, Any]] = None,
    ) -> CreatedRun:
        """Create the run, or return the one made with the same key.

        Args:
            submitter: the submitting process's variables for target `local`; never stored.
            launch: false for a run that some other process is: it is Running at once.
            interactive: `{pid, start_ticks}` of that process, and `folders` (name → absolute path) to ship of it.
        """
        body: Dict[str, object] = {"run": _request(new), "launch": launch}
        if submitter is not None:
            body["submitter"] = dict(submitter)
        if interactive is not None:
            body["interactive"] = dict(interactive)
        return read_answer(self._transport.request("POST", "/runs", json=body), created_run)

    def plan(self, new: NewRun, submitter: Optional[Mapping[str, str]] = None) -> SubmitPlan:
        """Return what `create` would start: target, argv, run_folder, spec, processes. Nothing is stored."""
        body = {"run": _request(new), "submitter": dict(submitter or {})}
        return read_answer(self._transport.request("POST", "/runs/plan", json=body), _submit_plan)

    def plan_of(self, run_id: str) -> SubmitPlan:
        """Return what the run's target was given: argv, script, resources, processes."""
        return read_answer(self._transport.request("GET", f"{_path(run_id)}/plan"), _submit_plan)

    def get(self, run_id: str) -> Run:
        return read_record(Run, self._transport.request("GET", _path(run_id)))

    def find(self, workspace: str, name: str) -> Run:
        """Return the run that people call `name`: its id or the beginning of it, `digits#12`, `last`, its own name."""
        path = f"/workspaces/{quote(workspace)}/runs/named"
        return read_record(Run, self._transport.request("GET", path, query=[("name", name)]))

    def sweep(self, run_id: str) -> SweepReport:
        """Return a sweep with its children: parameters, status, best value, why it was stopped."""
        answer = self._transport.request("GET", f"{_path(run_id)}/sweep")
        return read_answer(answer, lambda plain: cast("SweepReport", dict(plain)))

    def list(self, workspace: str, **query: Any) -> RunListPage:
        """Return one page; `query` holds the parameters of `GET /workspaces/{ws}/runs`, lists where they repeat."""
        path = f"/workspaces/{quote(workspace)}/runs"
        return read_answer(self._transport.request("GET", path, query=_query_pairs(query)), run_page)

    def iter(self, workspace: str, **query: Any) -> Iterator[Run]:
        """Yield all runs that match, page by page."""
        while True:
            page = self.list(workspace, **query)
            yield from page.runs
            if page.next is None or page.next == query.get("cursor"):
                return
            query["cursor"] = page.next

    def update(
        self,
        run_id: str,
        *,
        tags_set: Optional[Mapping[str, Optional[str]]] = None,
        tags_remove: Sequence[str] = (),
        properties_add: Optional[Mapping[str, str]] = None,
        display_name: Optional[str] = None,
        description: Optional[str] = None,
        snapshot_id: Optional[str] = None,
        archived: Optional[bool] = None,
    ) -> Run:
        body = {
            "tags_set": dict(tags_set) if tags_set else None,
            "tags_remove": [*tags_remove] or None,
            "properties_add": dict(properties_add) if properties_add else None,
            "display_name": display_name,
            "description": description,
            "snapshot_id": snapshot_id,
            "archived": archived,
        }
        return read_record(Run, self._transport.request("PATCH", _path(run_id), json=_present(body)))

    def cancel(self, run_id: str) -> Run:
        return read_record(Run, self._transport.request("POST", f"{_path(run_id)}/cancel"))

    def fail(self, run_id: str, *, code: str = "UserError", message: str = "") -> Run:
        """End the run as failed; its processes are stopped."""
        body = {"error": {"code": code, "message": message}}
        return read_record(Run, self._transport.request("POST", f"{_path(run_id)}/fail", json=body))

    def delete(self, run_id: str, *, now: bool = False) -> Deletion:
        """Delete a finished run and its child runs; with `now` for good, also one that is deleted already.

        Raises:
            Conflict: it has not ended, or a child run has not.
        """
        query = {"now": "true"} if now else None
        done = repeatable_delete(
            lambda: self.get(run_id),
            lambda: self._transport.request("DELETE", _path(run_id), query=query, timeout_s=600.0),
            now=now,
        )
        return done if done.deleted else Deletion([run_id])

    def restore(self, run_id: str) -> List[str]:
        """Bring back a deleted run and what was deleted with it; return the ids, none when it is there."""
        return read_answer(self._transport.request("POST", f"{_path(run_id)}/restore"), restored_runs)

    def change_many(
        self,
        run_ids: Sequence[str],
        action: str,
        *,
        tags_set: Optional[Mapping[str, Optional[str]]] = None,
        tags_remove: Sequence[str] = (),
    ) -> BulkResult:
        """Do one thing to up to 1000 runs: tag, untag, cancel, archive, unarchive, delete or restore."""
        body = {"ids": [*run_ids], "action": action, "tags_set": dict(tags_set or {}), "tags_remove": [*tags_remove]}
        return read_answer(self._transport.request("POST", "/runs/bulk", json=body, timeout_s=600.0), bulk_result)

    def resubmit(self, run_id: str, *, new_id: str, key: str, submitter: Optional[Mapping[str, str]] = None) -> Run:
        """Submit a run like this one; the same `new_id` and `key` again is the same run.

        Args:
            submitter: this process's variables for target `local`; never stored.
        """
        body: Dict[str, object] = {"id": new_id, "key": key, "submitter": dict(submitter or {})}
        return read_answer(self._transport.request("POST", f"{_path(run_id)}/resubmit", json=body), created_run).run

    def add_writer(self, run_id: str, *, pid: int, start_ticks: int, host: str = "") -> AddedWriter:
        """Let a process that the run is not log on it; the same process again gets the same folder.

        Args:
            host: a word for a machine that is not the server's: then the folder and its watcher are the caller's.
        """
        body = {"pid": pid, "start_ticks": start_ticks, **({"host": host} if host else {})}
        return read_answer(self._transport.request("POST", f"{_path(run_id)}/writers", json=body), added_writer)

    def metrics(self, run_id: str, *, name: Optional[str] = None, system: bool = False) -> List[MetricInfo]:
        """Return what was logged; with `system` what the run's machine did meanwhile."""
        query = {"name": name, "system": "true" if system else None}
        return read_answer(self._transport.request("GET", f"{_path(run_id)}/metrics", query=query), metric_infos)

    def metric_values(
        self, run_id: str, name: Optional[str] = None, rank: Union[int, str, None] = None
    ) -> List[SeriesValues]:
        """Return all values of all series, or of one metric, in the order the metrics were first logged.

        Args:
            rank: a number, or `lowest`; None: the values of all ranks, in order of time.
        """
        path = f"{_path(run_id)}/metrics/values"
        return read_values(self._transport.request("GET", path, query={"name": name, "rank": rank}, timeout_s=120.0))

    def metric_series(
        self, run_id: str, name: str, *, column: str = "", rank: Union[int, str, None] = None
    ) -> SeriesPoints:
        """Return steps, wall-clock times (ns) and values of one series; `rank` as for all values."""
        query = {"name": name, "column": column, "rank": rank}
        path = f"{_path(run_id)}/metrics/series"
        return read_points(self._transport.request("GET", path, query=query, timeout_s=120.0))

    def chart(
        self,
        run_id: str,
        name: str,
        *,
        column: str = "",
        rank: Optional[int] = None,
        width: int = 1000,
        first: Optional[int] = None,
        last: Optional[int] = None,
    ) -> Dict[str, List[Any]]:
        """Return at most `width` buckets as columns: first_step, last_step, minimum, maximum, last, count…"""
        query = {"name": name, "column": column, "rank": rank, "width": width, "first": first, "last": last}
        return read_chart(self._transport.request("GET", f"{_path(run_id)}/metrics/chart", query=query))

    def ship(self, run_id: str, frames: Iterable[Tuple[Mapping[str, object], Buffer]]) -> ShipResult:
        """Send journal, side and log frames. The answer's marks say from where to go on."""
        body: List[Buffer] = []
        for head, data in frames:
            body += pack_frame(head, data)
        return read_answer(self._transport.request("POST", f"{_path(run_id)}/ship", body=body), ship_answer)

    def heartbeat(self, run_id: str, attempt: int, *, engine_gone: bool = False) -> DesiredState:
        """`engine_gone`: the cluster's process that started the run's supervisor is gone."""
        body = {"attempt": attempt, **({"engine_gone": True} if engine_gone else {})}
        answer = self._transport.request("POST", f"{_path(run_id)}/heartbeat", json=body)
        return read_answer(answer, run_wish)

    def state(
        self,
        run_id: str,
        attempt: int,
        status: Union[RunStatus, str],
        *,
        error: Optional[RunError] = None,
        warnings: Sequence[RunWarning] = (),
        environment: Optional[EnvironmentFacts] = None,
        marks: Optional[Sequence[Mark]] = None,
        logs: Optional[Mapping[str, int]] = None,
        doing: Optional[str] = None,
    ) -> DesiredState:
        """Report a status of this attempt, and what takes time in it (`doing`).

        A final one names all marks and log sizes that the server must hold.

        Raises:
            MissingContent: the server lacks some of them; its details say how far it has got.
        """
        body = {
            "attempt": attempt,
            "status": str(status),
            "error": dict(error) if error is not None else None,
            "warnings": [dict(warning) for warning in warnings] or None,
            "environment": dict(environment) if environment is not None else None,
            "marks": to_plain([*marks]) if marks is not None else None,
            "logs": dict(logs) if logs is not None else None,
            "doing": doing,
        }
        return read_answer(self._transport.request("POST", f"{_path(run_id)}/state", json=_present(body)), run_wish)


def _submit_plan(plain: Any) -> SubmitPlan:
    return cast("SubmitPlan", dict(plain))


def _request(new: NewRun) -> Dict[str, object]:
    """Return the run as a request: whose it is, the server says."""
    plain: Dict[str, object] = to_plain(new)
    del plain["owner"]
    return plain


def _path(run_id: str) -> str:
    return f"/runs/{quote(run_id)}"


def _present(fields: Mapping[str, object]) -> Dict[str, object]:
    return {name: value for name, value in fields.items() if value is not None}


def _query_pairs(query: Mapping[str, Any]) -> List[Tuple[str, Any]]:
    pairs: List[Tuple[str, Any]] = []
    for name, value in query.items():
        if name in _REPEATED and value is not None and not isinstance(value, str):
            pairs += [(name, str(item)) for item in value]
        else:
            pairs.append((name, value))
    return pairs
