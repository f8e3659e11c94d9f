"""The table of endpoints, and one call of an endpoint. A resource's module adds its endpoints with `endpoint`.

A JSON endpoint is a plain function from a `Call` to a dict, and runs on a worker thread. An endpoint that moves bytes
is an async function from a `Call` to an answer, marked by `streamed`: it reads `call.request` itself.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from runyard.core.errors import NotAllowed, NotFound
from runyard.core.names import RUN_ID, check_workspace_name, make_uuid
from runyard.core.records import Run, Workspace
from runyard.server.access.permissions import UNOWNED, ObjectOwner
from runyard.server.http.calls import RequestContext
from runyard.server.mlflow.errors import RESOURCE_DOES_NOT_EXIST, MlflowError
from runyard.server.mlflow.requests import Fields
from runyard.store.base import RunStore

Document = Mapping[str, Any]  # an answer's JSON object


@dataclass(frozen=True)
class Call:
    """One request: `path` has the parts of the path that the endpoint's template names."""

    context: RequestContext
    workspace: str
    base: str  # of the URL: `/mlflow/<workspace>`
    path: Mapping[str, str]
    fields: Fields
    request: Request

    @property
    def store(self) -> RunStore:
        """The server's store."""
        return self.context.services.store

    def require(self, verb: str, run_id: str | None = None, *, owner: ObjectOwner = UNOWNED) -> None:
        """Raise unless the principal may do this in the workspace, to the run, or to what `owner` owns."""
        if run_id is not None:
            self.context.require(verb, run_id)
        else:
            self.context.require(verb, workspace=self.workspace, owner=owner)

    def run(self, verb: str, run_id: str) -> Run:
        """Return a run of this workspace that the principal may do `verb` to."""
        self.require_run(verb, run_id)
        found = self.store.find_run(run_id)
        if found is None:
            raise no_run(run_id)
        self.check_here(found)
        return found

    def require_run(self, verb: str, run_id: str) -> None:
        """Raise unless the principal may do `verb` to the run, which may be in any workspace, or nowhere."""
        if not RUN_ID.fullmatch(run_id):
            raise MlflowError(f"Invalid run ID: '{run_id[:300]}'")
        self.context.require(verb, run_id)

    def check_here(self, run: Run) -> None:
        """Raise unless the run is in this workspace."""
        if run.workspace != self.workspace:
            raise no_run(run.id)

    def ensure_workspace(self) -> None:
        """Make the workspace when there is none, for principals that may: `Workspace(...)` does the same."""
        try:
            self.store.get_workspace(check_workspace_name(self.workspace))
        except NotFound:
            try:
                self.context.require("put_workspace", workspace=self.workspace)
            except NotAllowed as error:
                raise MlflowError(
                    f"There is no workspace '{self.workspace}'. {error.what}", RESOURCE_DOES_NOT_EXIST
                ) from None
            made = Workspace(make_uuid(), self.workspace, datetime.now(timezone.utc), owner=self.context.user)
            self.store.put_workspace(made)


def no_run(run_id: str) -> MlflowError:
    """Return the error for a run that is not in the workspace."""
    return MlflowError(f"Run with id={run_id} not found", RESOURCE_DOES_NOT_EXIST)


Work = Callable[[Call], Document]
StreamedWork = Callable[[Call], Awaitable[Response]]


@dataclass(frozen=True)
class Endpoint:
    """`verbs` are the rights that it may ask for, the first being what it is for (`access/permissions.py`)."""

    method: str
    template: str
    verbs: tuple[str, ...]
    work: Work | None = None
    streamed: StreamedWork | None = None


TABLE: dict[tuple[str, str], Endpoint] = {}  # method, template
_PATTERNS: list[tuple[re.Pattern[str], Endpoint]] = []  # of templates with parameters


def endpoint(methods: str, template: str, *verbs: str) -> Callable[[Work], Work]:
    """Add a JSON endpoint, such as `@endpoint("GET POST", "mlflow/runs/search", "list_runs")`.

    `template` is what follows `/api/2.0/`. `{name}` is one part of the path, `{name:path}` all that follow.
    """

    def add(work: Work) -> Work:
        for method in methods.split():
            _add(Endpoint(method, template, verbs, work=work))
        return work

    return add


def streamed(methods: str, template: str, *verbs: str) -> Callable[[StreamedWork], StreamedWork]:
    """Add an endpoint that reads its body or writes its answer in pieces; otherwise as `endpoint`."""

    def add(work: StreamedWork) -> StreamedWork:
        for method in methods.split():
            _add(Endpoint(method, template, verbs, streamed=work))
        return work

    return add


def find_endpoint(method: str, path: str) -> tuple[Endpoint, Mapping[str, str]] | None:
    """Return the endpoint of a path below `/api/2.0/`, and the parts that its template names."""
    known = TABLE.get((method, path))
    if known is not None:
        return known, {}
    for pattern, found in _PATTERNS:
        match = pattern.fullmatch(path) if found.method == method else None
        if match is not None:
            return found, match.groupdict()
    return None


def _add(found: Endpoint) -> None:
    if (found.method, found.template) in TABLE:
        raise ValueError(f"{found.method} {found.template} is in the table of MLflow's endpoints twice")
    TABLE[found.method, found.template] = found
    if "{" in found.template:
        parts = re.split(r"\{(\w+)(:path)?\}", found.template)
        pattern = ""
        for text, name, is_path in zip(parts[::3], [*parts[1::3], None], [*parts[2::3], None]):
            pattern += re.escape(text)
            if name is not None:
                pattern += f"(?P<{name}>{'.+' if is_path else '[^/]+'})"
        _PATTERNS.append((re.compile(pattern), found))
