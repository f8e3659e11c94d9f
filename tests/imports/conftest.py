"""A private server that all tests of a file share; each test has a workspace of its own."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard.client.client import Client
from runyard.sdk.workspaces.server import connect
from runyard.sdk.workspaces.workspace import Workspace
from tests.conftest import end_home


@pytest.fixture(scope="module")
def shared_home(session_folder: Path) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        home = Path(tempfile.mkdtemp(prefix="i", dir=session_folder))
        patch.setenv("RUNYARD_HOME", str(home))
        yield home
        end_home(home)


@pytest.fixture
def client(shared_home: Path) -> Client:
    return connect()


@pytest.fixture
def workspace(client: Client) -> str:
    name = f"w{uuid.uuid4().hex[:12]}"
    Workspace.create(name, show_output=False)
    return name
