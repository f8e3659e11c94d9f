"""Two servers with live runs, and everything of them that can be broken: a team's behind a proxy, and a private one."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from azureml.core import Workspace
from azureml.core.compute import ComputeTarget, RemoteCompute
from runyard.client import private_server, processes
from runyard.client.client import Client
from runyard.client.tls import fingerprint_of
from runyard.client.transport import Transport
from runyard.core.config.paths import server_folder
from runyard.core.config.server_settings import ServerSettings, write_server_settings
from runyard.core.errors import RunyardError
from runyard.core.machine.facts import find_own_address
from runyard.server.net.certificates import load_context, make_certificate
from tests.cluster.sshd import Sshd, make_key
from tests.conftest import kill_all
from tests.faults.test_disk_full import fill
from tests.faults.yard import is_alive
from tests.server import private
from tests.server.team import free_port
from tests.soak.clock import Clock
from tests.soak.front import Front
from tests.soak.link import HERE, THERE, Link
from tests.store.postgres import Postgres
from tests.waiting import wait_for

USER, TARGET = "alice", "box"


class Disk:
    """A small disk of its own where we may mount one, else a plain folder that is never full."""

    def __init__(self, folder: Path, size_mb: int) -> None:
        folder.mkdir(mode=0o700, parents=True)
        self.folder = folder
        words = ["mount", "-t", "tmpfs", "-o", f"size={size_mb}m,mode=700", "none", str(folder)]
        self.is_small = os.geteuid() == 0 and subprocess.run(words, check=False).returncode == 0

    def fill(self) -> None:
        fill(self.folder / "filler")

    def free(self) -> None:
        (self.folder / "filler").unlink(missing_ok=True)

    def close(self) -> None:
        if self.is_small:
            subprocess.run(["umount", "-l", str(self.folder)], check=True)


class Site:
    """One server and the runs of one user on it. `home` is the server's, `runs_home` where runs are supervised."""

    def __init__(self, name: str, folder: Path, *, has_clock: bool = False) -> None:
        self.name, self.folder = name, folder
        self.disk = Disk(folder / "disk", size_mb=1024)
        self.home = self.runs_home = self.disk.folder / "home"
        self.home.mkdir(mode=0o700)
        self.clock = Clock(folder) if has_clock else None
        self.client_variables: dict[str, str] = {"RUNYARD_HOME": str(self.home)}
        self.ledgers = folder / "ledgers"
        self.ledgers.mkdir()
        self.stopping = threading.Event()

    def open(self) -> None:
        """Start the server and what it needs."""
        self.start_server()

    def start_server(self) -> None:
        """Start the server, again and again while its database or disk is away; as systemd would."""
        settings = private.settings_of(self.home, RUNYARD_GRACE="2", RUNYARD_IDLE_STOP="0")
        while not self.stopping.wait(0.5):
            try:
                self._start_once(settings)
                return
            except RunyardError:
                continue

    def _start_once(self, settings: Any) -> None:
        if private_server.find(settings) is not None:
            return
        clock = self.clock.variables() if self.clock else {}
        variables = {**processes.server_variables(settings, os.environ), **clock}
        reader, writer = os.pipe()
        server_folder(self.home).mkdir(mode=0o700, exist_ok=True)
        with open(reader, "rb") as answer, open(self.folder / "server.out", "ab") as output:
            words = processes.server_command(settings, writer)
            subprocess.run(words, env=variables, cwd="/", stdout=output, stderr=output, pass_fds=[writer], check=False)
            os.close(writer)
            answer.read()  # its word, or its end

    def server_pid(self) -> int | None:
        try:
            pid = int(json.loads((server_folder(self.home) / "lock").read_text())["pid"])
        except (OSError, ValueError, KeyError):
            return None
        return pid if is_alive(pid) else None

    def signal_server(self, number: int) -> None:
        pid = self.server_pid()
        if pid is not None:
            send(pid, number)

    def stop_server(self) -> None:
        """Ask it to leave; one that cannot answer now is killed."""
        pid = self.server_pid()
        if pid is None:
            return
        send(pid, signal.SIGTERM)
        try:
            wait_for(lambda: not is_alive(pid), timeout_s=20)
        except AssertionError:
            send(pid, signal.SIGKILL)

    def client(self) -> Client:
        """Return a client of the user, for reading when all is well."""
        found = private_server.find(private.settings_of(self.home))
        assert found is not None, f"the server of {self.name} does not answer"
        return found

    def close(self) -> None:
        self.stopping.set()
        self.stop_server()
        for home in {self.home, self.runs_home}:
            kill_all(home)
        self.disk.close()


class PrivateSite(Site):
    """A user's own server on SQLite."""

    target = "local"


class TeamSite(Site):
    """A team's server with a proxy in front. Its runs are on a machine over SSH, behind a cable of its own."""

    target = TARGET

    def __init__(self, name: str, folder: Path, *, postgres: Postgres | None = None, has_clock: bool = False) -> None:
        super().__init__(name, folder, has_clock=has_clock)
        self.postgres = postgres
        self._stack = ExitStack()
        self.node_disk = Disk(folder / "node", size_mb=256)
        self.runs_home = self.node_disk.folder / "home"
        own = find_own_address()
        assert own, "this machine needs an address of its own"
        certificate, key = make_certificate([own])
        (folder / "tls.pem").write_bytes(certificate)
        (folder / "tls.key").write_bytes(key)
        (folder / "tls.key").chmod(0o600)
        port = free_port(own)
        self.link = Link()
        self._stack.callback(self.link.close)
        self.proxy = Front((own, port), load_context(folder / "tls.pem", folder / "tls.key"), HERE)
        self._stack.callback(self.proxy.close)
        settings = ServerSettings(
            host=own,
            port=port,
            names=[f"{HERE}:{self.proxy.port}"],
            tls_cert=str(folder / "tls.pem"),
            tls_key=str(folder / "tls.key"),
            database=postgres.url if postgres else "",
        )
        write_server_settings(self.home, settings)
        self._pinned = fingerprint_of(ssl.PEM_cert_to_DER_cert(certificate.decode()))

    def open(self) -> None:
        super().open()
        self._attach_machine()
        self._address = self.proxy.address(self._owner().users.add(USER).token, self._pinned)
        (self.folder / USER).mkdir(mode=0o700)
        self.client_variables = {
            "RUNYARD_HOME": str(self.folder / USER),
            "RUNYARD_URL": f"{self._address}#sha256={self._pinned}",
            "RUNYARD_TOKEN": self._address.token,
        }

    def _owner(self) -> Client:
        return super().client()

    def _attach_machine(self) -> None:
        key = make_key(self.folder / "key")
        daemon = Sshd(self.folder / "sshd", key, address=THERE, prefix=self.link.words).start()
        self._stack.callback(daemon.kill)
        config = RemoteCompute.attach_configuration(
            address=f"{THERE}:{daemon.port}",
            username="root",
            private_key_file=str(key),
            python=sys.executable,
            node_home=str(self.runs_home),
            slots=8,
        )
        saved = dict(os.environ)
        os.environ["RUNYARD_HOME"] = str(self.home)
        try:
            ComputeTarget.attach(Workspace.from_config(), TARGET, config).wait_for_completion()
        finally:
            os.environ.clear()
            os.environ.update(saved)

    def client(self) -> Client:
        return Client(Transport(self._address))

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._stack.close()
            self.node_disk.close()


class Submitter:
    """A user's process that submits one run after another."""

    def __init__(self, site: Site) -> None:
        project = site.folder / "project"
        project.mkdir()
        (project / "train.py").write_text((Path(__file__).parent / "training.py").read_text())
        words = [sys.executable, str(Path(__file__).parent / "submitter.py"), str(project), site.target]
        environ = {name: value for name, value in os.environ.items() if not name.startswith("RUNYARD_")}
        self._log = open(site.folder / "submitter.log", "wb")  # noqa: SIM115  # as long as the process
        self._process = subprocess.Popen(
            words,
            env={**environ, **site.client_variables, "RUNYARD_GRACE": "2"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def submit(self, *arguments: str) -> dict[str, str]:
        """Return {"run": id} or {"error": text}."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(arguments) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("{"):
                answer: dict[str, str] = json.loads(line)
                return answer
        return {"error": "the submitting process died"}

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._log.close()


def send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass
