"""One request as the routes see it: who asks, and the server's parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from starlette.requests import Request

from runyard.core.errors import NotAllowed
from runyard.core.names import check_run_id
from runyard.core.records import Run
from runyard.server.permissions import Principal, UserPrincipal, authorize
from runyard.server.services import Services


@dataclass(frozen=True)
class Call:
    services: Services
    principal: Principal

    def may(self, verb: str, run_id: str | None = None) -> None:
        """Raise unless who asks may do this, to that run where one is meant."""
        if run_id is not None:
            check_run_id(run_id)
        authorize(self.principal, verb, run_id, store=self.services.store)

    def may_make(self, verb: str, *, is_there: Callable[[], bool]) -> None:
        """Raise unless who asks may do this. To a user for whom the thing is there already, reading it is enough."""
        try:
            self.may(verb)
        except NotAllowed:
            if not isinstance(self.principal, UserPrincipal) or not is_there():
                raise
            self.may("read_workspace")

    def readable_run(self, run_id: str) -> Run:
        """Return the run when who asks may read it."""
        self.may("read_run", run_id)
        return self.services.store.get_run(run_id)


def call_of(request: Request) -> Call:
    return Call(services_of(request), request.state.principal)


def services_of(request: Request) -> Services:
    """Return the server's parts, for the route that needs no principal."""
    found: Services = request.app.state.services
    return found
