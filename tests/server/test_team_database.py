"""A team's server with PostgreSQL: a real one, a real run, and a server that is killed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from azureml.core import Experiment, Run, ScriptRunConfig, Workspace
from runyard.client import private_server
from runyard.core.config.database_change import count_runs
from runyard.core.config.logins import Login, store_login
from runyard.core.errors import StoreUnavailable
from tests.cli.command_line import runyard
from tests.server import private
from tests.server.team import start_team, team_address
from tests.store.postgres import controlled_postgres, running_postgres
from tests.waiting import wait_for

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
        wait_for((tmp_path / "half").exists, timeout_s=60)
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


def test_c2_another_database_by_force_costs_neither_database_a_file(home: Path, tmp_path: Path) -> None:
    first = keep_file(tmp_path, b"first")
    before = packs_of(home)
    with running_postgres() as url:
        assert runyard("server", "start", "--database", url, "--force").returncode == 0
        assert json.loads(runyard("runs", "list", "--json").stdout) == []
        second = keep_file(tmp_path, b"second")
        assert packs_of(home) == before and len(before) == 1

        assert runyard("server", "set", "server.database", "", "--force").returncode == 0
        assert read_file(first, tmp_path) == b"first"
        assert runyard("server", "start", "--database", url, "--force").returncode == 0
        assert read_file(second, tmp_path) == b"second"
        private.stop(home)


def test_c2_a_postgresql_that_came_up_empty_is_refused_and_costs_no_file(home: Path, tmp_path: Path) -> None:
    with controlled_postgres() as postgres:
        assert runyard("server", "start", "--database", postgres.url).returncode == 0
        run_id = keep_file(tmp_path, b"weights")
        before = packs_of(home)
        private.stop(home)
        postgres.stop("fast")
        os.rename(postgres.folder / "data", postgres.folder / "unmounted")
        postgres.make_volume()
        postgres.start()

        for words in (["server", "start"], ["runs", "list"]):
            refused = runyard(*words)
            assert refused.returncode == 1
            assert "does not belong to the files that are stored" in refused.stderr
            assert "The database is empty. Nothing was changed." in refused.stderr
        assert packs_of(home) == before and len(before) == 1
        postgres.stop("fast")
        os.rename(postgres.folder / "data", postgres.folder / "empty")
        os.rename(postgres.folder / "unmounted", postgres.folder / "data")
        postgres.start()
        assert read_file(run_id, tmp_path) == b"weights"
        private.stop(home)


def keep_file(folder: Path, data: bytes) -> str:
    """Have a run whose file is stored, and return its id."""
    (folder / "sent").write_bytes(data * 1000)
    run = Experiment(Workspace.from_config(), "kept").start_logging(snapshot_directory=None)
    run.upload_file("outputs/m", str(folder / "sent"))
    run.complete()
    run.wait_for_completion()
    return str(run.id)


def read_file(run_id: str, folder: Path) -> bytes:
    """Return what `keep_file` gave for that run."""
    Run.get(Workspace.from_config(), run_id).download_file("outputs/m", str(folder / "read"))
    data = (folder / "read").read_bytes()
    assert data == data[: len(data) // 1000] * 1000
    return data[: len(data) // 1000]


def packs_of(home: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (home / "artifacts/packs").iterdir()}
