"""R15 and R16: many live runs on one server, and many who submit at once.

How long it takes is a figure of benchmarks/live_runs.py. In `make test-external`, for its ten seconds on two cores.
"""

from __future__ import annotations

import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchmarks.live_runs import live_runs, p99
from runyard.client.client import Client
from runyard.client.decoding import CreatedRun
from runyard.client.transport import Transport
from runyard.core.config.settings import read_settings
from runyard.core.names import make_uuid
from runyard.core.records import NewRun
from runyard.core.specs import RunSpec
from tests.server.conftest import Served, serve

SUBMITTERS, EACH = 100, 10


@pytest.mark.parametrize(
    ("runs", "rounds", "round_s"),
    [
        pytest.param(100, 3, 1.0, marks=pytest.mark.external),
        pytest.param(1000, 120, 5.0, marks=pytest.mark.soak),
    ],
    ids=["100 for a moment", "1000 for ten minutes"],
)
def test_r15_live_runs_lose_nothing_and_nobody_gets_an_error(
    home: Path, runs: int, rounds: int, round_s: float
) -> None:
    load = live_runs(read_settings(), runs=runs, rounds=rounds, round_s=round_s)
    print(f"write p99 {p99(load.writes) * 1e3:.0f} ms, RSS {load.rss_bytes / 1e6:.0f} MB")

    assert load.errors == []
    assert len(load.writes) == runs * rounds * 2


@pytest.fixture
def served(session_folder: Path) -> Iterator[Served]:
    with tempfile.TemporaryDirectory(prefix="r", dir=session_folder) as folder, serve(Path(folder)) as found:
        yield found


@pytest.mark.external
def test_r16_a_hundred_submitters_make_exactly_their_runs(served: Served) -> None:
    """Every tenth request is sent twice at the same time, as a client does that heard no answer."""
    spec = RunSpec(script="train.py")
    wanted = [
        NewRun(make_uuid(), f"s{who}-{number}", "default", "many", spec)
        for who in range(SUBMITTERS)
        for number in range(EACH)
    ]
    sent = [new for at, new in enumerate(wanted) for _ in range(2 if at % EACH == 0 else 1)]
    begin = threading.Barrier(SUBMITTERS)

    def submit(mine: list[NewRun]) -> list[CreatedRun]:
        client = Client(Transport(served.address))
        begin.wait()
        try:
            return [client.runs.create(new) for new in mine]
        finally:
            client.transport.close()

    shares = [sent[at::SUBMITTERS] for at in range(SUBMITTERS)]
    with ThreadPoolExecutor(max_workers=SUBMITTERS) as pool:
        answers = [made for part in pool.map(submit, shares) for made in part]
    runs = list(served.client.runs.iter("default"))

    assert len(sent) == 1100 and len(answers) == 1100
    assert Counter(made.run.id for made in answers) == Counter(new.id for new in sent)
    assert sorted(run.id for run in runs) == sorted(new.id for new in wanted)
    assert sorted(run.number for run in runs) == list(range(1, SUBMITTERS * EACH + 1))
    assert {len(served.backend.jobs_of(new.id)) for new in wanted} == {1}
