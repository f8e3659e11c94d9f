"""One request as the routes see it: its principal, and the server's parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from starlette.requests import Request

from runyard.core.errors import NotAllowed
from runyard.core.names import check_run_id
from runyard.core.records import Run
from runyard.core.users import ADMIN
from runyard.server.access.hosts import is_unix
from runyard.server.access.permissions import (
    UNOWNED,
    ObjectOwner,
    Owner,
    Principal,
    RunPrincipal,
    UserPrincipal,
    authorize,
)
from runyard.server.access.route_rights import API, verbs_of
from runyard.server.services import Services


@dataclass(frozen=True)
class RequestContext:
    services: Services
    principal: Principal
    verbs: tuple[str, ...]  # those that the route may ask for
    is_same_machine: bool  # it came over the unix socket, which only the server's account can open

    def require(
        self, verb: str, run_id: str | None = None, *, workspace: str | None = None, owner: ObjectOwner = UNOWNED
    ) -> None:
        """Raise unless the principal may do this to the object: a run, a workspace or something in it."""
        if verb not in self.verbs:
            raise ValueError(f"route_rights.py does not say that this route asks for {verb!r}")
        if run_id is not None:
            check_run_id(run_id)
        authorize(self.principal, verb, run_id, workspace=workspace, owner=owner, store=self.services.store)

    def require_change(
        self, verb: str, owners: Callable[[], Iterable[str | None]], *, workspace: str | None = None
    ) -> None:
        """Raise unless the principal may do this to the objects of all `owners`; the role is checked first."""
        self.require(verb, workspace=workspace, owner=self.user)
        for owner in owners():
            self.require(verb, workspace=workspace, owner=owner)

    def may_make(self, verb: str, *, workspace: str, is_there: Callable[[], bool]) -> None:
        """Raise unless the principal may do this. A user needs only the right to read if the object already exists."""
        try:
            self.require(verb, workspace=workspace)
        except NotAllowed:
            if not isinstance(self.principal, UserPrincipal) or not is_there():
                raise
            self.require("read_workspace", workspace=workspace)

    def readable_run(self, run_id: str) -> Run:
        """Return the run when the principal may read it."""
        self.require("read_run", run_id)
        return self.services.store.get_run(run_id)

    @property
    def external_writer(self) -> int:
        """The number of the external writer that asks, 0 when it is none.

        Its token tells, never the body: version 0.2 and older put the number into `attempt`, later ones put 0 there.
        """
        return self.principal.external_writer if isinstance(self.principal, RunPrincipal) else 0

    @property
    def user(self) -> str:
        """The user in whose name this is done; "": the server's owner."""
        if isinstance(self.principal, UserPrincipal):
            return self.principal.name
        return "" if isinstance(self.principal, Owner) else self.principal.user

    @property
    def is_admins(self) -> bool:
        """Whether it is done for the server's owner or an admin, by themselves or by a run of theirs."""
        return not self.user or (not isinstance(self.principal, Owner) and self.principal.role == ADMIN)


def call_of(request: Request) -> RequestContext:
    route = request.scope["route"]
    return RequestContext(
        services_of(request),
        request.state.principal,
        verbs_of(request.method, route.path_format, is_api=request.scope["path"].startswith(f"{API}/")),
        is_unix(request.scope),
    )


def services_of(request: Request) -> Services:
    """Return the server's parts, for the route that needs no principal."""
    found: Services = request.app.state.services
    return found
