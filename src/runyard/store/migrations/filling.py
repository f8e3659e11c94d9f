"""New columns of `runs` filled from the runs' documents, a batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa

from runyard.store.text import load

BATCH = 1000


def fill_runs(
    connection: sa.Connection, columns: Sequence[str], values_of: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    """Set `columns` of every run to what `values_of` makes of its document."""
    runs = sa.table("runs", *map(sa.column, ("serial", "document", *columns)))
    wanted = sa.select(runs.c.serial, runs.c.document).order_by(runs.c.serial).limit(BATCH)
    last = -1
    while rows := list(connection.execute(wanted.where(runs.c.serial > last))):
        for serial, document in rows:
            connection.execute(sa.update(runs).where(runs.c.serial == serial).values(values_of(load(document))))
        last = rows[-1][0]
