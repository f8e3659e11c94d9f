"""A team server on node1, with a home of its own. Tests reach it as every user of that machine does.

    def test_y(team: Team, ground: Ground) -> None:
        team.workspace()                        # azureml.core.Workspace; RUNYARD_HOME is set for the test
        team.kill()                             # kill -9; talk to it only after team.start()
        team.start()
        team.url                                # https://10.77.0.1:8787, where nodes reach it

The SDK talks over the server's unix socket: the file system is shared.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from azureml.core import Workspace
from runyard.client.client import Client
from runyard.client.private_server import find
from runyard.core.config.settings import read_settings
from tests.cluster.ground import Ground
from tests.conftest import is_zombie
from tests.waiting import wait_for

NODE, PORT = "node1", 8787


class Team:
    def __init__(self, ground: Ground, home: Path) -> None:
        self.home = home
        self.ground = ground
        self._address = ground.address(NODE)

    @property
    def url(self) -> str:
        return f"https://{self._address}:{PORT}"

    def start(self) -> None:
        self.cli("server", "start", "--host", self._address, "--port", str(PORT))

    def cli(self, *words: str) -> str:
        """Run `runyard …` on the server's machine."""
        variables = {name: os.environ[name] for name in os.environ if name.startswith(("RUNYARD_", "XDG_"))}
        argv = [sys.executable, "-m", "runyard.cli", *words]
        return self.ground.run(NODE, argv, env={**variables, "RUNYARD_HOME": str(self.home)}).stdout

    def client(self) -> Client:
        found = find(read_settings({**os.environ, "RUNYARD_HOME": str(self.home)}))
        assert found is not None, "the team server does not run"
        return found

    def workspace(self) -> Workspace:
        return Workspace.from_config()

    def pid(self) -> int:
        return self.client().server.info().pid

    def kill(self) -> None:
        """As a crash does: nothing is written, nobody is told."""
        pid = self.pid()
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not os.path.exists(f"/proc/{pid}") or is_zombie(pid))

    def stop(self) -> None:
        self.cli("server", "stop")
