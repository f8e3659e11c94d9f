"""A gateway as a process of its own, and replicas of scripts that a test writes."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from runyard.serving.config import RevisionConfig, ServiceConfig
from runyard.serving.control_client import ControlClient
from runyard.serving.tokens import digest_of
from tests.waiting import wait_for

SOURCE = str(Path(__file__).parent.parent.parent / "src")
_names = itertools.count(1)


@dataclass(frozen=True)
class Answer:
    status: int
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def header(self, name: str) -> str | None:
        return {key.lower(): value for key, value in self.headers}.get(name.lower())


def send(
    port: int,
    method: str,
    path: str,
    body: bytes | str | None = None,
    headers: Mapping[str, str] | None = None,
    timeout_s: float = 60,
) -> Answer:
    """Send one request on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    try:
        data = body.encode() if isinstance(body, str) else body
        connection.request(method, path, data, dict(headers or {}))
        answer = connection.getresponse()
        return Answer(answer.status, answer.getheaders(), answer.read())
    finally:
        connection.close()


@dataclass
class Replica:
    """A host process and its log."""

    process: subprocess.Popen[bytes]
    log: Path

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@dataclass
class Deployed:
    """A service with one revision or several."""

    gateway: RunningGateway
    config: ServiceConfig
    app_root: Path
    replicas: list[Replica] = field(default_factory=list)

    @property
    def port(self) -> int:
        return self.gateway.port

    @property
    def path(self) -> str:
        return f"/api/v1/service/{self.config.name}"

    def post(self, body: bytes | str | None, *, inner: str = "/score", method: str = "POST", **headers: str) -> Answer:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return send(self.gateway.port, method, self.path + inner, body, given)

    def get(self, inner: str, **headers: str) -> Answer:
        return self.post(None, inner=inner, method="GET", **headers)

    def log(self) -> str:
        return "".join(replica.text() for replica in self.replicas)

    def state(self) -> dict[str, Any]:
        return self.gateway.state()[self.config.name]

    def put(self, **changes: Any) -> None:
        """Change the service's record in one step."""
        self.config = replace(self.config, **changes)
        with self.gateway.control() as control:
            control.put(self.config)

    def workers(self, number: int = 0) -> list[dict[str, Any]]:
        """Return the workers of a revision; of all where none is named."""
        return [
            worker
            for revision in self.state()["revisions"]
            if number in (0, revision["number"])
            for replica in revision["replicas"]
            for worker in replica["workers"]
        ]

    def add_revision(self, number: int, script: str, *arguments: str, **limits: Any) -> Replica:
        """Start a revision beside the others; it gets no requests yet."""
        root = self.app_root.with_name(f"{self.app_root.name}-{number}")
        write_app(root, script, {})
        first = self.config.weights or ((self.config.revisions[-1].number, 1.0),)
        added = RevisionConfig(number, digest_of(f"secret-{number}"), **limits)
        self.put(revisions=(*self.config.revisions, added), weights=first)
        return self.gateway.replicate(self, *arguments, number=number, app_root=root)

    def switch(self, number: int) -> None:
        """Send all requests to one revision."""
        self.put(weights=((number, 1.0),))

    def keep_only(self, number: int) -> None:
        """Drop the other revisions: their workers end."""
        self.put(revisions=tuple(one for one in self.config.revisions if one.number == number))


class RunningGateway:
    def __init__(self, folder: Path, *arguments: str, variables: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        reader, writer = os.pipe()
        command = [sys.executable, "-m", "runyard.serving.gateway", "--folder", str(folder)]
        command += ["--ready-fd", str(writer), *arguments]
        with open(folder / "gateway.log", "ab") as log:
            self.process = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                pass_fds=[writer],
                env={**os.environ, "PYTHONPATH": SOURCE, **(variables or {})},
            )
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            said = pipe.readline()
        if not said:
            self.process.wait(30)
        assert said, self.log()
        self.port = int(said)
        self.deployed: list[Deployed] = []

    @contextmanager
    def control(self) -> Iterator[ControlClient]:
        client = ControlClient(self.folder)
        try:
            yield client
        finally:
            client.close()

    def state(self) -> dict[str, dict[str, Any]]:
        with self.control() as control:
            return control.state()

    def serving_pid(self) -> int:
        """Return the process behind the keeper, which `process` is."""
        with self.control() as control:
            return int(control.hello()["pid"])

    def log(self) -> str:
        return (self.folder / "gateway.log").read_text(errors="replace")

    def deploy(
        self,
        folder: Path,
        script: str,
        *arguments: str,
        files: Mapping[str, str | bytes] | None = None,
        variables: Mapping[str, str] | None = None,
        revision: RevisionConfig | None = None,
        python: str = sys.executable,
        wait: bool = True,
        **config: Any,
    ) -> Deployed:
        """Serve a script as a new service; `config` are fields of its record."""
        name = config.pop("name", None) or f"service-{next(_names)}"
        app_root = folder / name
        write_app(app_root, script, files or {})
        revision = replace(revision or RevisionConfig(1), worker_token=digest_of("secret-1"))
        service = ServiceConfig(**{"name": name, "id": name, "auth": False, "revisions": (revision,), **config})
        with self.control() as control:
            control.put(service)
        deployed = Deployed(self, service, app_root)
        self.deployed.append(deployed)
        self.replicate(deployed, *arguments, variables=variables or {}, python=python)
        if wait:
            self.wait_ready(deployed)
        return deployed

    def replicate(
        self,
        deployed: Deployed,
        *arguments: str,
        number: int = 1,
        app_root: Path | None = None,
        variables: Mapping[str, str] | None = None,
        python: str = sys.executable,
    ) -> Replica:
        """Start one more replica of a service's revision."""
        root = app_root or deployed.app_root
        log = root.with_name(f"{root.name}-{number}-{len(deployed.replicas)}.log")
        command = [python, "-m", "runyard.serving.worker", "--gateway", f"unix:{self.folder}/workers.sock"]
        command += ["--service", deployed.config.name, "--revision", str(number), "--app-root", str(root)]
        command += ["--replica", f"r{len(deployed.replicas)}"]
        if not any(one in arguments for one in ("--entry", "--no-code")):
            command += ["--entry", "score.py"]
        environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        own = {"PYTHONPATH": SOURCE, "RUNYARD_SERVING_TOKEN": f"secret-{number}"}
        environ.update({**own, **(variables or {})})
        with open(log, "ab") as file:
            process = subprocess.Popen(
                [*command, *arguments], stdout=file, stderr=file, env=environ, start_new_session=True
            )
        replica = Replica(process, log)
        deployed.replicas.append(replica)
        return replica

    def wait_ready(self, deployed: Deployed, *, number: int = 1, workers: int = 1) -> None:
        def is_ready() -> bool:
            found = {one["number"]: one for one in deployed.state()["revisions"]}
            assert not found[number]["failure"], found[number]["failure"]
            assert deployed.replicas[-1].process.poll() is None, deployed.log()
            return bool(found[number]["workers"] >= workers)

        wait_for(is_ready, what=deployed.log)

    def close(self) -> None:
        for deployed in self.deployed:
            for replica in deployed.replicas:
                replica.stop()
        self.process.terminate()
        self.process.wait(60)


def write_app(app_root: Path, script: str, files: Mapping[str, str | bytes]) -> None:
    app_root.mkdir(parents=True, exist_ok=True)
    for name, content in {"score.py": textwrap.dedent(script), **files}.items():
        path = app_root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else textwrap.dedent(content).encode())
