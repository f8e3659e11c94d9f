"""One change to many runs, and a run once more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, ClassVar, Optional

from fastapi import APIRouter, Request, Response

from runyard.core.errors import InvalidArgument, RunyardError
from runyard.core.names import check_run_id
from runyard.engine.runs.resubmit import Again
from runyard.engine.sweeps.sweep_children import check_free_id
from runyard.server.http.answers import json_answer
from runyard.server.http.calls import Call, call_of
from runyard.server.http.openapi import takes
from runyard.server.http.requests import parse, with_json
from runyard.server.routes.runs import check_target, own_key

router = APIRouter(tags=["runs"])
MOST_RUNS = 1000


@dataclass(frozen=True)
class BulkChange:
    """`tags_set` goes with the action tag, `tags_remove` with untag."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    ids: list[str]
    action: str
    tags_set: dict[str, Optional[str]] = field(default_factory=dict)
    tags_remove: list[str] = field(default_factory=list)


@router.post("/runs/bulk")
@takes(BulkChange)
async def change_runs(request: Request) -> Response:
    """Tag, untag, cancel, archive, unarchive, delete or restore up to a thousand runs; says of each how it went."""
    return await with_json(request, lambda body: _change_runs(call_of(request), body))


@router.post("/runs/{run_id}/resubmit", status_code=201)
@takes(Again)
async def resubmit_run(run_id: str, request: Request) -> Response:
    """Submit a run again: same spec, code, tags and name."""
    return await with_json(request, lambda body: _resubmit(call_of(request), run_id, body))


def _change_runs(call: Call, body: bytes) -> Response:
    call.may("change_runs")
    wanted = parse(BulkChange, body)
    action = _ACTIONS.get(wanted.action)
    if action is None:
        raise InvalidArgument(f"There is no action {wanted.action[:40]!r}.", hint=f"Known: {', '.join(_ACTIONS)}.")
    if len(wanted.ids) > MOST_RUNS:
        raise InvalidArgument(f"{len(wanted.ids)} runs are too many for one call.", why=f"It takes {MOST_RUNS}.")
    change = _Change(call, wanted)
    failed: list[dict[str, Any]] = []
    for run_id in dict.fromkeys(wanted.ids):
        if run_id in change.done:  # a run above took it along
            continue
        try:
            action(change, run_id)
        except RunyardError as error:
            failed.append({"id": run_id, "error": error.to_plain()})
    left = {each["id"] for each in failed}
    done = [run_id for run_id in dict.fromkeys(wanted.ids) if run_id not in left]
    return json_answer({"done": done, "failed": failed, "undo_until": change.undo_until})


class _Change:
    """What one call does to each of its runs, each allowed as the call for that run alone."""

    def __init__(self, call: Call, wanted: BulkChange) -> None:
        self._call, self._wanted = call, wanted
        self.done: set[str] = set()  # also those below
        self.undo_until: datetime | None = None

    def tag(self, run_id: str) -> None:
        self._call.may("write_run", run_id)
        self._call.services.store.update_run(run_id, tags_set=self._wanted.tags_set)

    def untag(self, run_id: str) -> None:
        self._call.may("write_run", run_id)
        self._call.services.store.update_run(run_id, tags_remove=self._wanted.tags_remove)

    def cancel(self, run_id: str) -> None:
        self._call.may("cancel_run", run_id)
        self._call.services.engine.cancel(run_id)

    def archive(self, run_id: str) -> None:
        self._call.may("write_run", run_id)
        self._call.services.engine.archive(run_id, True)

    def unarchive(self, run_id: str) -> None:
        self._call.may("write_run", run_id)
        self._call.services.engine.archive(run_id, False)

    def delete(self, run_id: str) -> None:
        self._call.may("delete_run", run_id)
        gone = self._call.services.store.find_hidden(run_id)  # twice is fine
        if gone is None:
            deleted = self._call.services.engine.delete_run(run_id)
            self.done.update(deleted.deleted)
        self.undo_until = gone.undo_until if gone is not None else deleted.undo_until

    def restore(self, run_id: str) -> None:
        self._call.may("delete_run", run_id)
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


def _resubmit(call: Call, run_id: str, body: bytes) -> Response:
    call.may("resubmit_run", run_id)
    wanted = parse(Again, body or b"{}", unchecked=["submitter"])
    before = call.services.store.get_run(check_run_id(run_id))
    check_target(call, before.workspace, before.spec.target)
    if wanted.id:
        check_free_id(call.services.store, wanted.id)
    named = replace(wanted, key=own_key(call, wanted.key)) if wanted.key else wanted
    made = call.services.engine.resubmit(run_id, named, owner=call.user)
    return json_answer({"run": call.services.engine.explained(made.run)}, status=201 if made.is_new else 200)
