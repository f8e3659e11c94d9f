"""A SQL database whose writes share transactions: what all products have in common about it."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable
from typing import ClassVar, TypeVar

from sqlalchemy import Connection, Engine

from runyard.store.sql.database import Database, Session
from runyard.store.sql.revisions import bring_up_to_date
from runyard.store.sql.writer import GroupWriter

logger = logging.getLogger(__name__)
T = TypeVar("T")


class GroupedDatabase(Database):
    """One writer with a connection of its own; readers have the engine's others. `place` names it in messages."""

    BEGIN: ClassVar[str]  # starts a transaction that writes

    def __init__(self, engine: Engine, place: str) -> None:
        self.engine = engine
        self.place = place
        self._writing: Connection | None = None
        self._versions: Counter[str] = Counter()
        try:
            with self.translated(), engine.connect() as connection:
                bring_up_to_date(connection, place, lock=self.lock_schema)
        except BaseException:
            engine.dispose()
            raise
        self.writer = GroupWriter(self)

    @abstractmethod
    def lock_schema(self, connection: Connection) -> None:
        """Begin a transaction that lets nobody else change the schema."""

    @abstractmethod
    def undo(self, session: Session) -> bool:
        """Undo to the last `save`; False when the whole transaction is gone."""

    def write(self, job: Callable[[Session], T]) -> T:
        with self.translated():
            return self.writer.write(job)

    def close(self) -> None:
        self.writer.close()
        self.engine.dispose()

    def begin(self) -> Session:
        if self._writing is None:
            self._writing = self.engine.connect()
        session = Session(self._writing)
        session.cursor.execute(self.BEGIN)
        return session

    def save(self, session: Session) -> None:
        session.cursor.execute("SAVEPOINT job")

    def keep(self, session: Session) -> None:
        session.cursor.execute("RELEASE SAVEPOINT job")

    def commit(self, session: Session) -> None:
        session.cursor.execute("COMMIT")
        self._versions.update(session.changed)

    def version(self, table: str) -> int:
        return self._versions[table]

    def lost(self, error: BaseException) -> None:
        """Start over with a new connection: after a failed flush nobody knows what the old one holds."""
        logger.warning("A transaction on %s failed and was undone: %s", self.place, error)
        self.leave(broken=True)

    def leave(self, *, broken: bool = False) -> None:
        connection, self._writing = self._writing, None
        if connection is None:
            return
        try:
            if broken:
                connection.invalidate()
            connection.close()
        except Exception as error:
            logger.warning("Closing a connection to %s failed: %s", self.place, error)

    def undo_job(self, session: Session) -> bool:
        """Undo one job in a transaction that lives on."""
        session.cursor.execute("ROLLBACK TO SAVEPOINT job")
        session.cursor.execute("RELEASE SAVEPOINT job")
        return True
