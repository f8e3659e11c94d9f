from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.supervisor.supervised import Site


@pytest.fixture
def site(home: Path) -> Iterator[Site]:
    site = Site(home)
    yield site
    site.close()
