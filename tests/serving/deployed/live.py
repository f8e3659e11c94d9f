"""Services as users have them: deployed through the server's routes, answered by runs."""

from __future__ import annotations

import json
import os
import socket
import sys
import textwrap
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from runyard.client.client import Client
from runyard.core.config.paths import server_folder
from runyard.core.errors import RunyardError
from runyard.core.specs import EnvironmentSpec
from runyard.core.webservices import NewService, RevisionSpec, ServiceChange, ServiceSettings, Webservice
from runyard.sdk.runs.source import store_source
from runyard.serving.control_client import ControlClient
from tests.conftest import belongs_to, command_of, live_pids
from tests.faults.yard import is_ours, processes
from tests.server import private
from tests.serving.deployments import Answer, send
from tests.serving.load import COOKIE, processes_with
from tests.waiting import wait_for

WORKSPACE = "default"


def home() -> Path:
    return Path(os.environ["RUNYARD_HOME"])


_clients: dict[Path, Client] = {}


def client() -> Client:
    """Return a client of the home's server, which is started where there is none."""
    found = _clients.pop(home(), None)
    if found is not None:
        try:
            found.server.info()
        except RunyardError:
            found.transport.close()
            found = None
    _clients[home()] = found or private.start(home())
    return _clients[home()]


def close_clients() -> None:
    while _clients:
        _clients.popitem()[1].transport.close()


@dataclass
class LiveService:
    """A deployed service. Its replicas' processes carry the cookie."""

    name: str
    folder: Path
    cookie: str = field(default_factory=lambda: uuid.uuid4().hex)
    port: int = 0
    path: str = ""
    ran: list[str] = field(default_factory=list)  # its replicas' runs, once it is deleted

    @property
    def record(self) -> Webservice:
        return client().webservices.get(WORKSPACE, self.name)

    def spec(self, script: str, *, files: Mapping[str, str] | None = None, **fields: Any) -> RevisionSpec:
        """Return what a revision with this script serves; `fields` are its other fields."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, text in {"score.py": script, **(files or {})}.items():
            (self.folder / name).write_text(textwrap.dedent(text))
        source = store_source(client(), str(self.folder))
        plain: dict[str, Any] = {
            "entry": "score.py",
            "snapshot_id": source.snapshot_id,
            "environment": EnvironmentSpec(interpreter=sys.executable),
            **fields,
        }
        plain["variables"] = {COOKIE: self.cookie, **plain.get("variables", {})}
        return RevisionSpec(**plain)

    def deploy(self, spec: RevisionSpec, **settings: Any) -> None:
        """Deploy and wait until it answers."""
        self.submit(spec, **settings)
        settled = self.settled()
        assert settled.state == "Healthy", self.tell(settled)

    def submit(self, spec: RevisionSpec, **settings: Any) -> None:
        """Deploy; requests wait until it is ready."""
        wanted = ServiceSettings(**{"compute_type": "Local", **settings})
        record = client().webservices.deploy(WORKSPACE, self.name, NewService(wanted, spec))
        place = urlsplit(record.scoring_uri)
        assert place.port
        self.port, self.path = place.port, place.path.rpartition("/")[0]

    def change(self, script: str, **fields: Any) -> Webservice:
        """Serve another script; return the record once that has succeeded or failed."""
        client().webservices.change(WORKSPACE, self.name, ServiceChange(revision=self.spec(script, **fields)))
        return self.settled()

    def settled(self) -> Webservice:
        def is_settled() -> bool:
            try:
                return getattr(self.record.operation, "state", "") != "Running"
            except RunyardError:  # a server that is killed now
                return False

        wait_for(is_settled, timeout_s=120, what=self.name)
        return self.record

    def delete(self) -> None:
        for one in client().webservices.list(WORKSPACE):
            if one.name == self.name:
                self.ran += [f"{one.run_id}_{number}" for number in range(1, one.last_replica + 1)]
        client().webservices.delete(WORKSPACE, self.name)

    def end(self) -> None:
        """Delete it and wait until its runs have ended: a server that is stopped before would come back for them."""
        self.delete()
        calls = client().runs

        def left() -> list[str]:
            return [run_id for run_id in self.ran if not calls.get(run_id).status.is_terminal]

        wait_for(lambda: not left(), what=left)
        wait_for(lambda: not self.processes(), what=self.processes)

    def post(
        self, body: bytes | str | None = "", *, inner: str = "/score", method: str = "POST", **head: str
    ) -> Answer:
        given = {name.replace("_", "-"): value for name, value in head.items()}
        return send(self.port, method, self.path + inner, body, given, timeout_s=180)

    def is_reachable(self) -> bool:
        """Return whether the gateway listens."""
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=60).close()
        except ConnectionRefusedError:
            return False
        return True

    def live(self) -> dict[str, Any]:
        """Return the gateway's state of it."""
        with_gateway = control()
        try:
            return with_gateway.state().get(self.name, {})
        finally:
            with_gateway.close()

    def workers(self) -> list[dict[str, Any]]:
        return [
            worker
            for revision in self.live().get("revisions", ())
            for replica in revision["replicas"]
            for worker in replica["workers"]
        ]

    def processes(self) -> dict[int, str]:
        """Return the command lines of its replicas' processes: hosts and workers."""
        return processes_with(self.cookie)

    def hosts(self) -> list[int]:
        workers = {one["pid"] for one in self.workers()}
        return [
            pid for pid, line in self.processes().items() if "runyard.serving.worker" in line and pid not in workers
        ]

    def supervisors(self) -> list[int]:
        """Return the supervisors of its replicas: children of the reapers that started the hosts."""
        parents = {pid: parent for pid, parent, _ in processes()}
        reapers = {parents.get(host) for host in self.hosts()}
        return [pid for pid, parent, line in processes() if parent in reapers and is_ours(line)]

    def log(self, replica: int = -1) -> str:
        """Return what a replica printed, by default the last one's."""
        record = self.record
        found = [ref for revision in record.revisions for ref in revision.replicas]
        run_id = found[replica].run_id
        calls = client().runs
        names = [one.name for one in calls.files(run_id) if one.name.startswith("user_logs/")]
        return "".join(calls.read_file(run_id, name).data.decode(errors="replace") for name in names)

    def tell(self, record: Webservice) -> str:
        error = record.error or (record.operation.error if record.operation else None)
        return f"{record.name} is {record.state}: {error}; {self.live()}"


def control() -> ControlClient:
    facts = json.loads((server_folder(home()) / "gateway/gateway.json").read_text())
    return ControlClient(Path(facts["sockets"]))


def keeper_pid() -> int:
    return int(json.loads((server_folder(home()) / "gateway/gateway.json").read_text())["pid"])


def gateway_pid() -> int:
    found = control()
    try:
        return int(found.hello()["pid"])
    finally:
        found.close()


def server_pid() -> int:
    return private.pid_of(client())


def gateway_processes() -> list[str]:
    """Return the command lines of the home's gateways."""
    found = [command_of(pid) for pid in live_pids() if belongs_to(pid, home())]
    return [line for line in found if "runyard.serving.gateway" in line]


def scaled(spec: RevisionSpec, **fields: Any) -> RevisionSpec:
    return replace(spec, scaling=replace(spec.scaling, **fields))
