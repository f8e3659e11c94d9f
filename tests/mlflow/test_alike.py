"""The same calls to MLflow's own server and to ours, by MLflow's clients: what they are answered is compared.

The calls are in `alike/`. Where the answers differ, `alike/differences.tsv` says why; each of its lines is needed.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.mlflow.servers import TrackingServer, client_variables, make_environment, runyard_server, stock_server

pytestmark = [pytest.mark.external, pytest.mark.timeout(900)]

HERE = Path(__file__).parent
CLIENTS = ("2.22.5", "3.17.2")
FEWEST = 800  # calls
ENOUGH = 0.85  # of the answers, without those that are listed

Answers = Mapping[str, Any]


@pytest.fixture(scope="module")
def answers(session_folder: Path) -> dict[str, tuple[Answers, Answers]]:
    """What MLflow's server and ours answered each client."""
    found = {}
    for version in CLIENTS:
        # MLflow 2.22 cannot load with SQLAlchemy 2.1.
        python = make_environment(
            HERE.parent.parent / f".venv/mlflow-{version}", f"mlflow=={version}", "sqlalchemy<2.1"
        )
        folders = [session_folder / f"{name}-{version}" for name in ("stock", "ours")]
        for folder in folders:
            folder.mkdir(mode=0o700)
        with ThreadPoolExecutor(2) as pool:
            stock = pool.submit(asked, python, stock_server(python, folders[0]), folders[0])
            ours = pool.submit(asked, python, runyard_server(folders[1]), folders[1])
            found[version] = (stock.result(), ours.result())
    return found


def asked(python: Path, starting: AbstractContextManager[TrackingServer], folder: Path) -> Answers:
    target = folder / "answers.json"
    with starting as server:
        subprocess.run(
            [str(python), "-W", "ignore", str(HERE / "alike/ask.py"), str(target)],
            check=True,
            timeout=600,
            cwd=folder,
            stdout=subprocess.DEVNULL,
            env=client_variables(
                MLFLOW_TRACKING_URI=server.base("alike"),
                MLFLOW_TRACKING_TOKEN=server.token,
                MLFLOW_HTTP_REQUEST_MAX_RETRIES="0",
                MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR="false",
            ),
        )
    found: Answers = json.loads(target.read_text())
    return found


def differences() -> list[tuple[re.Pattern[str], str]]:
    rows = [line.split("\t") for line in (HERE / "alike/differences.tsv").read_text().splitlines()]
    return [(re.compile(pattern), reason) for pattern, reason in rows]


def different(pair: tuple[Answers, Answers]) -> dict[str, tuple[Any, Any]]:
    stock, ours = pair
    return {
        case: (stock.get(case), ours.get(case)) for case in sorted({*stock, *ours}) if stock.get(case) != ours.get(case)
    }


@pytest.mark.parametrize("version", CLIENTS)
def test_our_server_answers_as_mlflows_own(answers: dict[str, tuple[Answers, Answers]], version: str) -> None:
    stock, ours = answers[version]
    known = differences()
    unknown = {
        case: pair
        for case, pair in different(answers[version]).items()
        if not any(pattern.search(case) for pattern, _ in known)
    }

    assert not [case for case in (*stock, *ours) if case.endswith("ends early")]
    assert min(len(stock), len(ours)) >= FEWEST
    assert len([case for case in stock if stock[case] == ours.get(case)]) >= ENOUGH * len(stock)
    assert unknown == {}


def test_each_listed_difference_is_there(answers: dict[str, tuple[Answers, Answers]]) -> None:
    found = [case for pair in answers.values() for case in different(pair)]

    assert [pattern.pattern for pattern, _ in differences() if not any(pattern.search(case) for case in found)] == []
