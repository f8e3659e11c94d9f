"""The real server process in its default configuration, two runs with their tokens, and canaries outside every root."""

from __future__ import annotations

import os
import secrets
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from runyard.client.client import Client
from runyard.client.private_server import connect
from runyard.core.config.paths import run_folder
from runyard.core.config.server_settings import ServerSettings, write_server_settings
from runyard.core.config.settings import read_settings
from runyard.core.names import make_run_id, make_uuid
from runyard.core.records import NewRun
from runyard.core.users import ROLES
from tests.attacks.wire import Wire
from tests.conftest import stop_server
from tests.waiting import wait_for


@dataclass(frozen=True)
class OwnedRun:
    """A run and the token that its code has."""

    id: str
    token: str
    process: subprocess.Popen[bytes]


@dataclass(frozen=True)
class Victim:
    home: Path
    client: Client
    wire: Wire  # TCP
    unix: Wire
    first: OwnedRun
    second: OwnedRun
    canary: Path  # a file outside every served root

    @property
    def token(self) -> str:
        return self.client.address.token

    @property
    def secret(self) -> bytes:
        return self.canary.read_bytes()

    def bearer(self, token: str | None = None) -> list[tuple[str, str]]:
        return [("Authorization", f"Bearer {self.token if token is None else token}")]


@pytest.fixture(scope="module")
def victim(session_folder: Path) -> Iterator[Victim]:
    home = Path(tempfile.mkdtemp(prefix="v", dir=session_folder))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RUNYARD_HOME", str(home))
        with started(home, session_folder) as found:
            yield found


@contextmanager
def started(home: Path, session_folder: Path) -> Iterator[Victim]:
    client = connect(read_settings({**os.environ, "RUNYARD_HOME": str(home)}))
    client.workspaces.put("default")
    url = urlsplit(client.address.web_url or "")
    canary = Path(tempfile.mkdtemp(prefix="c", dir=session_folder)) / "canary"
    canary.write_bytes(secrets.token_hex(32).encode())
    first, second = own_run(client), own_run(client)
    yield Victim(
        home=home,
        client=client,
        wire=Wire(str(url.hostname), int(url.port or 0)),
        unix=Wire("", 0, unix=client.address.path),
        first=first,
        second=second,
        canary=canary,
    )
    for run in (first, second):
        end_run(home, run)
    stop_server(home)


@dataclass(frozen=True)
class Team(Victim):
    """The same with users, and a run that holds secrets in all its parts."""

    tokens: Mapping[str, str]  # role → token of the user of that name


@pytest.fixture(scope="session")
def team(session_folder: Path) -> Iterator[Team]:
    """One server for all files that use it: what a test changes there must be its own."""
    home = Path(tempfile.mkdtemp(prefix="t", dir=session_folder))
    write_server_settings(home, ServerSettings(local_for_users=True))  # what is refused is refused for its own reason
    with started(home, session_folder) as victim:
        tokens = {role: victim.client.users.add(role, role=role).token for role in ROLES}
        yield Team(**vars(victim), tokens=tokens)


def end_run(home: Path, run: OwnedRun) -> None:
    run.process.kill()
    run.process.wait()
    wait_for_watcher(home, run.id)


def wait_for_watcher(home: Path, run_id: str) -> None:
    """A watcher that cannot reach its server starts it again, so it must have left first."""
    wait_for(lambda: not run_folder(home, run_id, 1).exists(), what=f"the watcher of {run_id} leaves")


def own_run(client: Client, parent: str | None = None) -> OwnedRun:
    """Create a run that some process is, and return what its code would hold."""
    process = subprocess.Popen(["sleep", "600"])
    ticks = int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19])
    new = NewRun(
        key=make_uuid(),
        id=make_run_id("attacked"),
        workspace="default",
        experiment="attacked",
        type=None,
        parent_id=parent,
    )
    created = client.runs.create(new, launch=False, interactive={"pid": process.pid, "start_ticks": ticks})
    assert created.token
    return OwnedRun(created.run.id, created.token, process)
