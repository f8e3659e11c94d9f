"""With the real private server: a supervisor that cannot reach it starts it again, and leaves it running."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from runyard.client.client import Client
from runyard.client.private_server import find
from runyard.core.config.settings import read_settings
from runyard.core.statuses import RunStatus
from runyard.supervisor.proc import descendants, list_processes
from tests.waiting import wait_for


def client_of(home: Path) -> Client | None:
    return find(read_settings({**os.environ, "RUNYARD_HOME": str(home)}))


@pytest.mark.long
def test_a_supervisor_starts_a_killed_server_and_it_outlives_the_run(home: Path, tmp_path: Path) -> None:
    from azureml.core import Environment, Experiment, ScriptRunConfig, Workspace

    stop = tmp_path / "stop"
    (tmp_path / "src").mkdir()
    (tmp_path / "src/train.py").write_text(
        "import os, time\nfrom azureml.core import Run\nrun = Run.get_context()\n"
        f"n = 0\nwhile not os.path.exists({str(stop)!r}):\n"
        "    run.log('n', n)\n    n += 1\n    time.sleep(0.001)\nprint(n)\n"
    )
    environment = Environment("mine")
    environment.python.user_managed_dependencies = True
    config = ScriptRunConfig(
        source_directory=str(tmp_path / "src"), script="train.py", compute_target="local", environment=environment
    )
    run = Experiment(Workspace.from_config(), "exp").submit(config)
    client = client_of(home)
    assert client is not None
    wait_for(lambda: client.runs.metrics(run.id))
    old = client.server.info().pid
    os.kill(old, signal.SIGKILL)
    back = wait_for(lambda: client_of(home))
    new = back.server.info().pid
    reaper = json.loads((home / "runs" / run.id / "1/claim").read_text())["pid"]
    below = {entry.pid for entry in descendants(list_processes(), reaper)}
    stop.touch()
    wait_for(lambda: back.runs.get(run.id).status is RunStatus.COMPLETED)
    wait_for(lambda: not (home / "runs" / run.id).exists())
    count = int(back.runs.read_file(run.id, "user_logs/std_log.txt", 0, 100, 0).data)
    values = back.runs.metric_values(run.id, "n")[0].to_list()

    assert new != old
    assert below and new not in below
    assert values == list(range(count))
    assert client_of(home) is not None and back.server.info().pid == new
