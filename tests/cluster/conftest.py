"""The test machines, one set per session, and a team server on the first of them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.ground import Ground, open_ground
from tests.cluster.sshd import Boxes
from tests.cluster.team import Team


@pytest.fixture(scope="session")
def ground(session_folder: Path) -> Iterator[Ground]:
    with open_ground(session_folder / "ground") as ground:
        yield ground


@pytest.fixture(scope="session")
def team_server(ground: Ground, session_folder: Path) -> Iterator[Team]:
    team = Team(ground, Path(tempfile.mkdtemp(prefix="t", dir=session_folder)))
    team.start()
    yield team
    team.stop()


@pytest.fixture(scope="session")
def session_boxes(ground: Ground, session_folder: Path) -> Boxes:
    return Boxes(ground, session_folder / "boxes")


@pytest.fixture
def boxes(session_boxes: Boxes) -> Boxes:
    return session_boxes.start()


@pytest.fixture
def team(team_server: Team, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Team:
    """The session's team server, as the one that the SDK talks to."""
    monkeypatch.setenv("RUNYARD_HOME", str(team_server.home))
    monkeypatch.setenv("RUNYARD_GRACE", "2")
    monkeypatch.chdir(tmp_path)
    return team_server
