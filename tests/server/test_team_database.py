"""A team's server with PostgreSQL: a real one, a real run, and a server that is killed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from azureml.core import Experiment, ScriptRunConfig, Workspace
from runyard.client import private_server
from runyard.core.errors import StoreUnavailable
from runyard.core.logins import Login, store_login
from runyard.server.history import count_runs
from tests.cli.command_line import runyard
from tests.server import private
from tests.server.team import start_team, team_address
from tests.store.postgres import running_postgres

pytestmark = pytest.mark.external

SCRIPT = """
import sys, time
from azureml.core import Run
run = Run.get_context()
for step in range(200):
    run.log('step', step)
    if step == 50:
        open(sys.argv[1] + '/half', 'w').close()
        while not __import__('os').path.exists(sys.argv[1] + '/go'):
            time.sleep(0.01)
"""


def test_nothing_is_lost_when_a_server_with_postgresql_is_killed(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server_home, source = home / "of-the-server", tmp_path / "source"
    server_home.mkdir(mode=0o700)
    source.mkdir()
    (source / "train.py").write_text(SCRIPT)
    with running_postgres() as url:
        own = start_team(server_home, database=f"{url}&password=s3cret")
        info = own.server.info()
        assert (info.database, info.team) == ("PostgreSQL", True)
        store_login(home, Login(str(team_address(own)), own.address.token, team_address(own).fingerprint))
        run = Experiment(Workspace.from_config(), "far").submit(
            ScriptRunConfig(str(source), script="train.py", arguments=[str(tmp_path)])
        )
        private.wait_until((tmp_path / "half").exists, within_s=60)
        private.kill(info.pid)
        (tmp_path / "go").touch()  # it goes on to its end while no server is there
        again = private.start(server_home)
        run.wait_for_completion(raise_on_error=True)

        assert run.get_metrics()["step"] == list(range(200))
        assert count_runs(server_home / "server/runyard.db") == 0
        for words in (["server", "status"], ["server", "status", "--json"], ["server", "settings"]):
            shown = runyard(*words, environ={"RUNYARD_HOME": str(server_home)})
            assert shown.returncode == 0
            assert "s3cret" not in shown.stdout + shown.stderr
        assert json.loads(runyard("server", "status", "--json").stdout)["database"] == "PostgreSQL"
        assert "s3cret" not in private.log_of(server_home)

        second = home / "second"
        second.mkdir(mode=0o700)
        monkeypatch.setattr(private_server, "_START_AGAIN_S", 0.0)
        with pytest.raises(StoreUnavailable, match="Another Runyard server uses it"):
            start_team(second, database=url)
        again.transport.close()
        own.transport.close()
        private.stop(server_home)


def test_a_home_with_runs_keeps_its_database_unless_forced(home: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('hello')")
    Experiment(Workspace.from_config(), "near").submit(ScriptRunConfig(str(tmp_path), script="train.py"))
    with running_postgres() as url:
        refused = runyard("server", "set", "server.database", url)
        assert refused.returncode == 1
        assert "1 run(s) in its SQLite database" in refused.stderr
        assert runyard("runs", "list", "--json").stdout.count("near_") > 0

        assert runyard("server", "set", "server.database", url, "--force").returncode == 0
        assert json.loads(runyard("runs", "list", "--json").stdout) == []
        assert runyard("server", "set", "server.database", "", "--force").returncode == 0
        assert runyard("runs", "list", "--json").stdout.count("near_") > 0
        private.stop(home)
