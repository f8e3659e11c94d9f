"""The whole app behind its real guard, in this process, and the real client over a unix socket."""

from __future__ import annotations

import asyncio
import socket
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from runyard.client.address import Address
from runyard.client.client import Client
from runyard.client.transport import Transport
from runyard.compute.base import ComputeBackend
from runyard.core.config.server_settings import ServerSettings
from runyard.core.config.settings import Settings
from runyard.core.formats.plain import to_plain
from runyard.core.names import make_uuid
from runyard.core.records import NewRun
from runyard.core.specs import JobSpec, RunSpec
from runyard.core.users import ADMIN, READER, USER
from runyard.server.access.credentials import CACHED_S, Credentials
from runyard.server.access.guard import guard
from runyard.server.access.hosts import HostNames
from runyard.server.access.signin import Signin
from runyard.server.app import create_app
from runyard.server.routes import signin as signin_routes
from runyard.server.services import Services, open_services
from runyard.store.base import RunStore
from runyard.testing.compute_backend import FakeBackend

TOKEN = "t" * 43
PORT = 8787


@dataclass(frozen=True)
class Served:
    services: Services
    backend: FakeBackend
    client: Client
    address: Address
    others: list[Client] = field(default_factory=list)
    app: Any = None  # behind its guard
    skew: list[float] = field(default_factory=lambda: [0.0])  # how far the clock of credentials is ahead

    def submit(self, run_id: str = "exp_1", *, by: Client | None = None, **changes: Any) -> str:
        """Submit a run, as the owner or as `by`, and return its id."""
        spec = RunSpec(script="train.py", arguments=["--alpha", "0.5"])
        new = NewRun(key=make_uuid(), id=run_id, workspace="default", experiment="exp", spec=spec)
        return (by or self.client).runs.create(replace(new, **changes)).run.id

    def as_run(self, run_id: str) -> Client:
        """Return a client with the token that the run's own code has."""
        return self.with_token(self.job_of(run_id).token)

    def job_of(self, run_id: str) -> JobSpec:
        """Return the run's last job, once it is handed to its target."""
        deadline = time.monotonic() + 30
        while not self.backend.jobs_of(run_id):
            assert time.monotonic() < deadline, f"{run_id} was not handed over"
            time.sleep(0.005)
        return self.backend.jobs_of(run_id)[-1]

    def as_user(self, name: str = "alice", *, role: str = USER) -> Client:
        """Return a client with a token of a user, who is added when there is none of that name."""
        if name in [user.name for user in self.client.users.list()]:
            return self.with_token(self.client.users.add_token(name, label=f"t{len(self.others)}").token)
        return self.with_token(self.client.users.add(name, role=role).token)

    def as_reader(self, name: str = "rita") -> Client:
        return self.as_user(name, role=READER)

    def as_admin(self, name: str = "ada") -> Client:
        return self.as_user(name, role=ADMIN)

    def with_token(self, token: str) -> Client:
        found = Client(Transport(replace(self.address, token=token)))
        self.others.append(found)
        return found

    def forget_credentials(self) -> None:
        """Let the time pass for which the server believes what it last read about a token."""
        self.skew[0] += CACHED_S

    def close(self) -> None:
        for client in (self.client, *self.others):
            client.transport.close()


@pytest.fixture
def served(session_folder: Path) -> Iterator[Served]:
    with tempfile.TemporaryDirectory(prefix="s", dir=session_folder) as folder, serve(Path(folder)) as found:
        yield found


@pytest.fixture(scope="module")
def shared(session_folder: Path) -> Iterator[Served]:
    """One server with the run `exp_1` for all tests of a module that leave nothing behind."""
    with tempfile.TemporaryDirectory(prefix="m", dir=session_folder) as folder, serve(Path(folder)) as found:
        found.submit("exp_1")
        yield found


@contextmanager
def serve(
    folder: Path,
    *,
    local_runs: int = 0,
    cluster: str = "",
    engines: Mapping[str, ComputeBackend] | None = None,
    settings: ServerSettings | None = None,
    store: RunStore | None = None,
) -> Iterator[Served]:
    """Serve a home; may be entered again with the same folder, as a restarted server would.

    `cluster`: the name of a target besides `local`, whose nodes are other machines. `engines`: those that targets can
    be attached to, by kind.
    """
    address = Address("unix", path=str(folder / "s"), token=TOKEN, home=None)
    backend = FakeBackend()
    services = open_services(
        Settings(home=folder / "home", local_runs=local_runs),
        {**to_plain(address), "token": ""},
        node_address={"kind": "tcp", "host": "server", "port": PORT, "token": ""} if cluster or engines else None,
        backends={"local": backend, **({cluster: backend} if cluster else {}), **(engines or {})},
        server_settings=settings,
        store=store,
    )
    app = create_app(services)
    signin = app.state.signin = Signin(token=TOKEN, server_id=services.server_id)
    app.include_router(signin_routes.router, prefix="/api/v1")
    skew = [0.0]
    clock = lambda: time.monotonic() + skew[0]  # noqa: E731
    credentials = Credentials(token=TOKEN, store=services.store, signin=signin, clock=clock)
    guarded = guard(app, names=HostNames(PORT), credentials=credentials, activity=services.activity)
    try:
        with running(guarded, folder / "s"):
            found = Served(services, backend, Client(Transport(address)), address, app=guarded, skew=skew)
            yield found
            found.close()
    finally:
        services.close()


class Prompt(uvicorn.Server):
    """Leaves at once: uvicorn's own pauses take a tenth of a second for each of hundreds of tests."""

    async def main_loop(self) -> None:
        while not self.should_exit:
            await asyncio.sleep(0.005)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for listener in (*self.servers, *(sockets or [])):
            listener.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        until = time.monotonic() + 1.0  # for whoever still waits for news
        while (self.server_state.connections or self.server_state.tasks) and time.monotonic() < until:
            await asyncio.sleep(0.001)
        for task in self.server_state.tasks:
            task.cancel()


@contextmanager
def running(app: Any, path: Path) -> Iterator[None]:
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(path))
        listening.listen(100)
        config = uvicorn.Config(
            app,
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
        )
        server = Prompt(config)
        thread = threading.Thread(target=server.run, args=([listening],), name="server")
        thread.start()
        try:
            yield
        finally:
            server.should_exit = True
            thread.join()
