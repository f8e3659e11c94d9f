"""Every route, asked by everybody about everything: the requests, and what the table of rights says of each."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from runyard.core.names import make_uuid
from runyard.core.users import ADMIN, ROLES
from runyard.server.access.permissions import RIGHTS, Reach, Right
from runyard.server.access.route_rights import API, API_ROUTES

CLUSTER = "cluster"


@dataclass(frozen=True)
class Thing:
    """Objects of one user in one workspace."""

    what: str
    workspace: str
    run_id: str
    owner: str
    names: str  # of its experiment, assets and secrets


@dataclass(frozen=True)
class Who:
    """A principal as the table knows it. `run_id`: a run's token; `is_live`: of a live run of a user who may submit."""

    what: str
    token: str
    user: str = ""
    role: str = ""
    run_id: str = ""
    workspace: str = ""
    is_live: bool = False
    is_ended: bool = False
    is_writer: bool = False


@dataclass(frozen=True)
class Step:
    who: Who
    method: str
    template: str
    thing: Thing

    @property
    def verb(self) -> str:
        return API_ROUTES[f"{self.method} {self.template}"][0]

    def __str__(self) -> str:
        return f"{self.who.what}: {self.method} {self.template} of {self.thing.what}"


# Where a principal that may do it would end what the walk still needs; they are asked about nothing instead.
FINAL = {
    "POST /server/stop",
    "POST /runs/{run_id}/cancel",
    "POST /runs/{run_id}/state",
    "POST /signout",
    *(route for route in API_ROUTES if route.startswith("DELETE ")),
}
OPENED = {"GET /health"}
# Routes that answer 200 with an error for each object that may not be touched.
EACH = {"POST /charts", "POST /runs/bulk"}


def iter_steps(principals: list[Who], things: list[Thing]) -> Iterator[Step]:
    for route in API_ROUTES:
        method, template = route.split(" ")
        for who in principals:
            own = [Thing("itself", who.workspace, who.run_id, who.user, "nothing")] if who.run_id else []
            named = (*things, *own) if _names_something(method, template) else things[:1]
            yield from (Step(who, method, template, thing) for thing in named)


def _names_something(method: str, template: str) -> bool:
    """Whether the request differs from object to object."""
    return "{" in template + _QUERIES.get(template, "") or f"{method} {template}" in _NAMING_BODIES


def is_allowed(step: Step) -> bool:
    """What the table says: the principal, the verb, the object."""
    right, who = RIGHTS[step.verb], step.who
    if not who.token:
        return False
    if who.run_id:
        return _run_reaches(step, right)
    if not who.role:
        return True
    if step.method == "PUT" and step.verb in ("put_workspace", "put_experiment") and step.thing.names != "new":
        return True  # it is there: that only reads it
    if ROLES.index(who.role) > ROLES.index(right.role):
        return False
    if step.verb == "read_secret" and step.template.endswith("{name}"):
        return who.role == ADMIN or who.user == step.thing.owner
    is_needed = right.own or step.verb == "create_run"  # below a run of one's own
    if not is_needed or who.role == ADMIN:
        return True
    return step.verb != "delete_workspace" and who.user == step.thing.owner


def _run_reaches(step: Step, right: Right) -> bool:
    who, thing, reach = step.who, step.thing, right.run
    is_itself = thing.run_id == who.run_id
    if step.template.endswith("/runs/named"):
        return False  # a name is looked up among all runs of the workspace
    if who.is_writer:
        return step.verb == "put_content" or (
            is_itself and step.verb in ("read_run", "add_file", "heartbeat", "state", "ship")
        )
    if reach in (Reach.NEVER, Reach.SERVER, Reach.CONTENT):
        return reach is not Reach.NEVER
    if reach is Reach.WORKSPACE:
        is_read = step.verb != "read_secret" or not step.template.endswith("{name}") or who.user == thing.owner
        is_there = thing.workspace == who.workspace or step.template == "/workspaces"  # which lists its own alone
        return who.is_live and is_there and is_read
    if reach is Reach.WORKSPACE_OWN:
        return who.is_live and thing.workspace == who.workspace and thing.owner == who.user
    if reach is Reach.CHILD:
        return is_itself and who.is_live
    is_over = reach is Reach.CHANGE and who.is_ended and step.verb != "cancel_run"  # which changes nothing then
    return is_itself and not is_over


class Asking:
    """Requests to the guarded app in this process, each until its answer begins; streams are then left."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def status_of(self, step: Step, *, about_nothing: bool = False) -> tuple[int, bytes]:
        thing = replace(step.thing, run_id="no-such-run", names="nowhere") if about_nothing else step.thing
        path, query = _path(step.template, thing)
        body = b"" if step.method in ("GET", "DELETE") else json.dumps(_body(step, thing)).encode()
        headers = [(b"host", b"runyard"), (b"content-length", str(len(body)).encode())]
        if body:
            kind = b"application/json" if step.template not in _FRAMES else b"application/x-runyard-frames"
            headers.append((b"content-type", kind))
        if step.who.token:
            headers.append((b"authorization", f"Bearer {step.who.token}".encode()))
        scope = {
            "type": "http",
            "method": step.method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": headers,
            "server": ("socket", None),
            "client": None,
            "scheme": "http",
            "http_version": "1.1",
        }
        return await self._ask(scope, body)

    async def _ask(self, scope: dict[str, Any], body: bytes) -> tuple[int, bytes]:
        status: list[int] = []
        pieces: list[bytes] = []
        done = asyncio.Event()
        sent = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> dict[str, Any]:
            if sent:
                return sent.pop()
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                status.append(message["status"])
            else:
                pieces.append(bytes(message.get("body", b"")))
                done.set()

        asked = asyncio.create_task(self._app(scope, receive, send))
        begun = asyncio.create_task(done.wait())
        await asyncio.wait({asked, begun}, return_when=asyncio.FIRST_COMPLETED, timeout=60)
        for task in (asked, begun):
            task.cancel()
        await asyncio.gather(asked, begun, return_exceptions=True)
        assert status, scope["path"]
        return status[0], b"".join(pieces)


_FRAMES = {"/chunks", "/trees", "/runs/{run_id}/ship", "/workspaces/{workspace}/imports/runs"}
_NAMING_BODIES = {"POST /runs", "POST /runs/plan", "POST /runs/bulk", "POST /metrics/summary", "POST /charts"}
_QUERIES = {
    "/workspaces/{workspace}/groups": "by=status&parent={run_id}",
    "/workspaces/{workspace}/runs": "parent={run_id}",
    "/workspaces/{workspace}/table": "parent={run_id}",
    "/workspaces/{workspace}/columns": "parent={run_id}",
    "/workspaces/{workspace}/tally": "parent={run_id}",
    "/runs": "id={run_id}",
    "/events": "run={run_id}",
    "/runs/{run_id}/metrics/series": "name=m",
    "/runs/{run_id}/metrics/chart": "name=m",
    "/runs/{run_id}/log/search": "text=m",
    "/snapshots/{snapshot}/diff": "with=00000000-0000-0000-0000-000000000000",
    "/nodes/uv": "system=none&machine=none",
}


def _path(template: str, thing: Thing) -> tuple[str, str]:
    values = {
        "workspace": thing.workspace,
        "experiment": thing.names,
        "run_id": thing.run_id,
        "kind": "dataset",
        "name": "workspaceblobstore" if "/datastores/" in template else thing.names,
        "version": "1",
        "rank": "0",
        "tree": "0" * 64,
        "snapshot": "00000000-0000-0000-0000-000000000000",
    }
    filled = defaultdict(lambda: "x", values)
    return API + template.format_map(filled), _QUERIES.get(template, "").format_map(filled)


def _body(step: Step, thing: Thing) -> dict[str, Any]:
    run = {"key": make_uuid(), "id": f"w-{make_uuid()}", "workspace": thing.workspace, "experiment": "walked"}
    plan = {"run": {**run, "spec": {"script": "t.py", "target": CLUSTER}}}
    bodies: dict[str, dict[str, Any]] = {
        "POST /runs": {
            "run": {**run, "type": None, "parent_id": thing.run_id, "spec": {"target": CLUSTER}},
            "launch": False,
        },
        "POST /runs/plan": plan,
        "POST /download-tickets": {"path": "/"},
        "POST /runs/bulk": {"ids": [thing.run_id], "action": "tag", "tags_set": {"walked": "yes"}},
        "POST /metrics/summary": {"runs": [thing.run_id]},
        "POST /charts": {"series": [{"run": thing.run_id, "metric": "m"}]},
        "PATCH /runs/{run_id}": {"tags_set": {"walked": "yes"}},
        "POST /runs/{run_id}/files": {"file": {"name": "outputs/x", "size": 0, "chunks": []}},
        "POST /runs/{run_id}/files/batch": {"files": [{"name": "outputs/y", "size": 0, "chunks": []}]},
        "POST /runs/{run_id}/files/fetch": {"names": ["outputs/x"]},
        "POST /runs/{run_id}/heartbeat": {"attempt": 0},
        "POST /runs/{run_id}/state": {"attempt": 0, "status": "Completed"},
        "POST /runs/{run_id}/fail": {"error": 1},  # whoever may is told that this is no error
        "PUT /workspaces/{workspace}/secrets/{name}": {"value": "walked"},
        "PUT /workspaces/{workspace}/assets/{kind}/{name}/{version}": {"document": {"walked": "yes"}},
        "PATCH /workspaces/{workspace}/experiments/{experiment}": {"tags_set": {"walked": "yes"}},
    }
    return bodies.get(f"{step.method} {step.template}", {})
