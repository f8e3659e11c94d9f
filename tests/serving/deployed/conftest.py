"""A private server that the tests of a file share; its gateway and replicas are real processes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import end_home
from tests.serving.deployed.live import close_clients


@pytest.fixture(scope="module")
def served_home(session_folder: Path) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        home = Path(tempfile.mkdtemp(prefix="s", dir=session_folder))
        patch.setenv("RUNYARD_HOME", str(home))
        patch.setenv("RUNYARD_GRACE", "2")
        yield home
        close_clients()
        end_home(home)
