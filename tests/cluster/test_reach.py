"""Who reaches a server from another machine: nobody a private one (A77), everybody with a token a team's."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.ground import Ground
from tests.cluster.team import PORT, Team
from tests.conftest import end_home
from tests.server.private import listening_addresses

pytestmark = [pytest.mark.external, pytest.mark.timeout(300)]

SOURCE = str(Path(__file__).parent.parent.parent / "src")
CONNECT = "import socket, sys\ntry:\n    socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)\n"
CONNECT += "except ConnectionRefusedError:\n    print('refused')\nelse:\n    print('open')"
WORK = """
import json
from azureml.core import Experiment, ScriptRunConfig, Workspace
experiment = Experiment(Workspace.from_config(), "far")
with experiment.start_logging(snapshot_directory=None) as own:
    own.log("x", 1)
run = experiment.submit(ScriptRunConfig("source", script="train.py"))
run.wait_for_completion(raise_on_error=True)
print(json.dumps([own.get_status(), own.get_metrics(), run.get_metrics(), run.get_portal_url()]))
"""


@pytest.fixture
def other_home(session_folder: Path) -> Iterator[Path]:
    home = Path(tempfile.mkdtemp(prefix="o", dir=session_folder))
    yield home
    end_home(home)


def python(ground: Ground, node: str, home: Path, *words: str, cwd: str = "/") -> str:
    kept = {name: os.environ[name] for name in ("XDG_RUNTIME_DIR", "RUNYARD_IDLE_STOP")}
    variables = {**kept, "RUNYARD_HOME": str(home), "PYTHONPATH": SOURCE}
    return ground.run(node, [sys.executable, *words], env=variables, cwd=cwd).stdout


def test_a77_no_socket_of_a_private_server_is_reached_from_another_machine(
    ground: Ground, team: Team, other_home: Path
) -> None:
    python(ground, "node1", other_home, "-m", "runyard.cli", "server", "start")
    pid = json.loads(python(ground, "node1", other_home, "-m", "runyard.cli", "server", "status", "--json"))["pid"]
    ports = [port for _, port in listening_addresses(pid)]
    address = ground.address("node1")

    assert len(ports) == 1
    answers = [python(ground, "node2", other_home, "-c", CONNECT, address, str(port)) for port in [*ports, PORT]]
    assert answers == ["refused\n", "open\n"]  # the control: a team's server on the same machine


def test_a_user_on_another_machine_logs_in_and_works(
    ground: Ground, team: Team, other_home: Path, tmp_path: Path
) -> None:
    info = team.client().server.info()
    pin, token = info.listens_on[-1].partition("#sha256=")[2], team.client().address.token
    (tmp_path / "token").write_text(token)
    (tmp_path / "source").mkdir()
    (tmp_path / "source/train.py").write_text("from azureml.core import Run\nRun.get_context().log('y', 2)")
    login = f"{sys.executable} -m runyard.cli login {team.url} --token-stdin --fingerprint {pin} < {tmp_path}/token"
    kept = {"RUNYARD_HOME": str(other_home), "PYTHONPATH": SOURCE}
    ground.run("node3", ["sh", "-c", login], env=kept)

    done = json.loads(python(ground, "node3", other_home, "-c", WORK, cwd=str(tmp_path)))

    assert done[:3] == ["Completed", {"x": 1}, {"y": 2}]
    assert done[3].startswith(f"{team.url}/runs/")  # to be sent to others: it signs nobody in
    assert not (other_home / "server").exists()
