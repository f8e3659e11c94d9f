from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard.runtime.writer import JournalWriter
from tests.runtime.journals import make_run_folder


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    return make_run_folder(tmp_path / "run")


@pytest.fixture
def writer(run_folder: Path) -> Iterator[JournalWriter]:
    writer = JournalWriter(run_folder, "exp_1_ab", attempt=2, rank=3)
    yield writer
    writer.close()
