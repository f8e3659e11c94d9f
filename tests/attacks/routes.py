"""The live route table of a server as requests, each with its parameters filled in."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import NamedTuple

from runyard.server.access.permissions import RIGHTS, Right
from runyard.server.access.route_rights import API_ROUTES
from tests.attacks.conftest import Victim
from tests.attacks.wire import Answer, Wire

FILLED = {
    "workspace": "default",
    "experiment": "attacked",
    "kind": "environment",
    "name": "x",
    "version": "1",
    "key": "k",
    "rank": "0",
    "tree": "0" * 64,
    "snapshot": "00000000-0000-0000-0000-000000000000",
    "label": "x",
}
QUERIES = {
    "/workspaces/{workspace}/groups": "?by=status",
    "/runs/{run_id}/metrics/series": "?name=m",
    "/runs/{run_id}/metrics/chart": "?name=m",
    "/runs/{run_id}/log/search": "?text=m",
    "/snapshots/{snapshot}/diff": "?with=00000000-0000-0000-0000-000000000000",
}


BODIES = {"/download-tickets": b'{"path": "/"}'}  # what is checked before who asks


class Route(NamedTuple):
    method: str
    template: str  # below /api/v1, as the document has it

    def path(self, **values: str) -> str:
        known = {**FILLED, **({"name": "workspaceblobstore"} if "/datastores/" in self.template else {}), **values}
        filled = self.template.format_map(defaultdict(lambda: "x", known))
        return f"/api/v1{filled}{QUERIES.get(self.template, '')}"


def live_routes(victim: Victim) -> list[Route]:
    """Every method of every path, without `GET /health`, which is public."""
    answer = victim.unix.send("GET", "/api/v1/openapi.json", headers=victim.bearer())
    paths = json.loads(answer.body)["paths"]
    found = [
        Route(method.upper(), path.removeprefix("/api/v1")) for path, methods in paths.items() for method in methods
    ]
    assert len(found) >= 50
    return [route for route in found if route.template != "/health"]


def rights_table(fits: Callable[[Right], bool]) -> set[Route]:
    """Return the routes whose verb has a right of this kind, by the table that the server asks."""
    return {Route(*route.split(" ")) for route, verbs in API_ROUTES.items() if verbs and fits(RIGHTS[verbs[0]])}


def verb_of(route: Route) -> str:
    return API_ROUTES[f"{route.method} {route.template}"][0]


def routes_of(*lines: str) -> set[Route]:
    """Return routes written as `GET POST /path`."""
    return {Route(method, line.split()[-1]) for line in lines for method in line.split()[:-1]}


def ask(
    wire: Wire, route: Route, token: str, *, body: bytes = b"", extra: Iterable[tuple[str, str]] = (), **values: str
) -> Answer:
    headers = [("Authorization", f"Bearer {token}"), *extra]
    if route.method not in ("GET", "DELETE"):
        headers.append(("Content-Type", "application/json"))
    sent = b"" if route.method in ("GET", "DELETE") else body or BODIES.get(route.template, b"{}")
    return wire.send(route.method, route.path(**values), headers=headers, body=sent)
