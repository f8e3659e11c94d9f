"""The schema's revision: made on an empty database, brought up to date on an old one, refused when it is newer."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection, inspect

from runyard.core.errors import StoreUnavailable
from runyard.store.sql.schema import KNOWN_REVISIONS, REVISION, metadata


def bring_up_to_date(connection: Connection, place: str, *, lock: Callable[[Connection], None]) -> None:
    """Leave the database at `place` with this program's schema. `lock` begins a transaction that shuts others out.

    Raises:
        StoreUnavailable: the database is newer than this program, or not ours.
    """
    if _find_revision(connection) == REVISION:
        return
    lock(connection)
    try:
        # Another process may have done it while this one waited for the lock.
        found = _find_revision(connection)
        if found is None:
            _create(connection, place)
        elif found != REVISION:
            _upgrade(connection, place, found)
        connection.exec_driver_sql("COMMIT")
    except BaseException:
        # The driver's own call: a full disk may have ended the transaction, and ROLLBACK would be the error then.
        connection.connection.rollback()
        raise


def _find_revision(connection: Connection) -> str | None:
    # Alembic costs 10 MB and 300 ms; a server that starts on a current schema never loads it.
    if not inspect(connection).has_table("alembic_version"):
        return None
    row = connection.exec_driver_sql("SELECT version_num FROM alembic_version").first()
    return None if row is None else str(row[0])


def _create(connection: Connection, place: str) -> None:
    strangers = inspect(connection).get_table_names()
    if strangers:
        raise StoreUnavailable(
            f"The database `{place}` is not Runyard's.",
            why=f"It holds other tables: {', '.join(sorted(strangers)[:5])}.",
            hint="Set RUNYARD_HOME to another folder.",
        )
    metadata.create_all(connection)
    connection.exec_driver_sql(
        "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, "
        "CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
    )
    connection.exec_driver_sql(f"INSERT INTO alembic_version (version_num) VALUES ('{REVISION}')")


def _upgrade(connection: Connection, place: str, found: str) -> None:
    if found not in KNOWN_REVISIONS:
        raise StoreUnavailable(
            f"The database `{place}` was made by a newer Runyard.",
            why=f"Its schema is {found}; this version knows schemas up to {REVISION}.",
            hint="Upgrade with `pip install --upgrade runyard`, or set RUNYARD_HOME to another folder.",
        )
    from runyard.store.migrations import upgrade  # slow, and only an old database needs it

    upgrade(connection, REVISION)
