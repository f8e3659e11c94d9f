from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.store.postgres import running_postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a PostgreSQL server's database, for external tests."""
    with running_postgres() as url:
        yield url
