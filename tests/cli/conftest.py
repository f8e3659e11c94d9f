"""A private server that all tests of a file share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import end_home


@pytest.fixture(scope="module")
def shared_home(session_folder: Path) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        home = Path(tempfile.mkdtemp(prefix="r", dir=session_folder))
        patch.setenv("RUNYARD_HOME", str(home))
        yield home
        end_home(home)
