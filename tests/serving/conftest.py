"""One gateway for the tests of a file; each test has services of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serving.deployments import RunningGateway


@pytest.fixture(scope="module")
def gateway() -> Iterator[RunningGateway]:
    with tempfile.TemporaryDirectory(prefix="ry-gw-") as folder:  # short: sockets lie in it
        running = RunningGateway(Path(folder))
        try:
            yield running
        finally:
            running.close()
