"""The table of rights as Markdown: verbs for docs/security.md, routes for docs/reference/rights.md."""

from __future__ import annotations

from itertools import groupby

from runyard.core.users import ADMIN, READER, USER
from runyard.server.access.permissions import RIGHTS, Reach, Right
from runyard.server.access.route_rights import API_ROUTES

BEGIN, END = "<!-- The table of rights, written by `make docs`: -->", "<!-- end of the table -->"
PAGE = """\
# Rights by route

Written by `make docs` from the table that the server asks (`server/access/permissions.py`, `route_rights.py`). What
each verb lets a user, an admin and a run's token do is in [Security](../security.md#the-table-of-rights). Paths are
below `/api/v1`; the first verb is what the route is for, others are asked for what it names besides.

| object | route | verbs |
|---|---|---|
"""


def table() -> str:
    rows = ["| may | object | reader | user | admin, owner | a run's token |", "|---|---|---|---|---|---|"]
    return "\n".join([*rows, *(_row(verb, right) for verb, right in RIGHTS.items())])


def page() -> str:
    routes = [(RIGHTS[verbs[0]].of if verbs else "nothing", route, verbs) for route, verbs in API_ROUTES.items()]
    ordered = sorted(routes, key=lambda row: [right.of for right in RIGHTS.values()].index(row[0]) if row[2] else -1)
    lines = []
    for of, rows in groupby(ordered, key=lambda row: row[0]):
        lines += [f"| {of} | `{route}` | {', '.join(verbs) or 'public'} |" for _, route, verbs in rows]
    return PAGE + "\n".join(lines) + "\n"


def in_page(text: str) -> str:
    """Return a page with the table as it is now between its marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


def _row(verb: str, right: Right) -> str:
    reader = "yes" if right.role == READER else ""
    user = "" if right.role == ADMIN else "own" if right.own else "yes" if right.role in (READER, USER) else ""
    run = right.run.value if right.run is not Reach.NEVER else ""
    return f"| {right.words} (`{verb}`) | {right.of} | {reader} | {user} | yes | {run} |"
