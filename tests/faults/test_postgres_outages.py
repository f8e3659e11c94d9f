"""C1: PostgreSQL is stopped, killed and frozen under live runs of a user; nothing is lost and nothing comes twice."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from azureml.core import Experiment, ScriptRunConfig, Workspace
from runyard.client.client import Client
from runyard.client.transport import Transport
from runyard.core.config.logins import Login, store_login
from runyard.core.errors import StoreUnavailable
from tests.faults.test_lying_proxy import SCRIPT, until
from tests.server import private
from tests.server.team import start_team, team_address
from tests.store.postgres import Postgres, controlled_postgres

pytestmark = pytest.mark.external


def restart(postgres: Postgres) -> None:
    postgres.stop("fast")
    time.sleep(5)  # the fault itself: how long it is away
    postgres.start()


def kill(postgres: Postgres) -> None:
    postgres.signal_all(signal.SIGKILL)
    time.sleep(2)
    (postgres.folder / "data/postmaster.pid").unlink(missing_ok=True)
    postgres.start()


def freeze(postgres: Postgres) -> None:
    postgres.signal_all(signal.SIGSTOP)
    time.sleep(5)
    postgres.signal_all(signal.SIGCONT)


def test_a_live_run_loses_nothing_to_outages_of_the_database(home: Path, tmp_path: Path) -> None:
    server_home, source, stop = home / "of-the-server", tmp_path / "source", tmp_path / "stop"
    server_home.mkdir(mode=0o700)
    source.mkdir()
    (source / "train.py").write_text(SCRIPT)
    with controlled_postgres() as postgres:
        own = start_team(server_home, database=postgres.url)
        minted = own.users.add("ann", role="admin").token  # a user's token is looked up in the database
        address = team_address(own, minted)
        store_login(home, Login(str(address), minted, address.fingerprint))
        ann = Client(Transport(address))
        experiment = Experiment(Workspace.from_config(), "outages")
        run = experiment.submit(ScriptRunConfig(str(source), script="train.py", arguments=[str(stop)]))

        def points() -> int:
            return sum(one.count for one in ann.runs.metrics(run.id) if one.name == "n")

        for outage in (restart, kill, freeze):
            before = until(points)
            outage(postgres)
            until(lambda before=before: has_grown(points, before))
        postgres.stop("fast")
        stop.touch()  # the run ends while the database is away
        with pytest.raises(StoreUnavailable):
            until(lambda: ann.runs.get(run.id) and time.sleep(0.5))
        assert own.server.info().health == {"database": "away", "disk": "ok"}
        postgres.start()
        details = run.wait_for_completion(raise_on_error=True)

        total = run.get_metrics()["total"]
        assert details.get("warnings", []) == []
        assert run.get_metrics()["n"] == list(range(total))
        run.download_file("user_logs/std_log.txt", str(tmp_path / "log"))
        assert (tmp_path / "log").read_text() == "".join(f"{n}\n" for n in range(total))
        names = set(run.get_file_names())
        assert {f"{folder}/{n}.txt" for folder in ("outputs", "sent") for n in range(0, total, 20)} <= names
        assert not list((server_home / "runs").glob("*/*"))
        ann.transport.close()
        own.transport.close()
        private.stop(server_home)


def has_grown(points: object, before: int) -> bool:
    try:
        return points() > before + 50  # type: ignore[operator]
    except StoreUnavailable:
        return False
