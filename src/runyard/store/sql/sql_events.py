"""SqlStore's part for the journals of sweeps: events of a run, numbered without gaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import bindparam, func, select

from runyard.store.rules import check_next_event
from runyard.store.sql.database import Session
from runyard.store.sql.rows import SqlPart, get_run_row
from runyard.store.sql.schema import run_events
from runyard.store.sql.statements import Insert, Statement
from runyard.store.text import dump, load

_LAST = Statement(select(func.max(run_events.c.number)).where(run_events.c.run_serial == bindparam("row")))
_INSERT = Insert(run_events, "run_serial", "number", "document")
_EVENTS = Statement(
    select(run_events.c.document)
    .where(run_events.c.run_serial == bindparam("row"), run_events.c.number > bindparam("after"))
    .order_by(run_events.c.number)
)


class SqlEvents(SqlPart):
    def append_events(self, run_id: str, events: Sequence[Mapping[str, Any]], *, after: int) -> int:
        def append(session: Session) -> int:
            row = get_run_row(session, run_id, to_change=True).serial
            found = session.one(_LAST, row=row)
            last = int(found[0] or 0) if found is not None else 0
            check_next_event(run_id, last=last, after=after)
            for number, event in enumerate(events, start=last + 1):
                session.run(_INSERT, run_serial=row, number=number, document=dump(dict(event)))
            return last + len(events)

        return self._database.write(append)

    def list_events(self, run_id: str, *, after: int = 0) -> list[dict[str, Any]]:
        with self._database.reading() as session:
            row = get_run_row(session, run_id).serial
            return [dict(load(found[0])) for found in session.all(_EVENTS, row=row, after=after)]
