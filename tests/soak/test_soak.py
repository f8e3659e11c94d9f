"""`make soak`: faults at random under load, with every point, line and file on a ledger that nothing of it touches.

    RUNYARD_SOAK_MINUTES=2 RUNYARD_SOAK_SEED=7 make soak

A failure prints its seed, and the same seed gives the same schedule of faults. What is needed to understand it is kept
in the folder that is printed: ledgers, the faults with their times, the servers' logs, the records of the runs.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from runyard.core.errors import RunyardError
from runyard.core.formats.plain import to_plain
from runyard.core.records import Run
from tests.faults.yard import say
from tests.soak.faults import Breaker, Event, lanes_of, make_schedule
from tests.soak.ledger import Account, Ledger, read_ledger
from tests.soak.sites import PrivateSite, Site, Submitter, TeamSite
from tests.store.postgres import Postgres
from tests.waiting import wait_for

# Read before the fixtures take our variables away.
MINUTES = float(os.environ.get("RUNYARD_SOAK_MINUTES", "120"))
SEED = int(os.environ.get("RUNYARD_SOAK_SEED") or random.SystemRandom().randrange(1 << 32))
KEPT = os.environ.get("RUNYARD_SOAK_FOLDER", "")  # evidence goes here; without it, into pytest's folder
SITES = os.environ.get("RUNYARD_SOAK_SITES", "team,private").split(",")
END_PATIENCE_S = 600.0
RUNS_AT_ONCE = 3


@dataclass
class Load:
    """Keeps some runs of a site alive, one submitted when another should have ended."""

    site: Site
    seed: int
    runs_at_once: int
    lasts_s: tuple[float, float, float]  # one of them each
    over: threading.Event = field(default_factory=threading.Event)
    refused: int = 0
    submitted: int = 0
    acknowledged: list[str] = field(default_factory=list)

    def is_going(self) -> bool:
        return len(list(self.site.ledgers.iterdir())) >= self.runs_at_once

    def __call__(self) -> None:
        submitter = Submitter(self.site)
        dice = random.Random(f"{self.seed} {self.site.name} load")
        ends: list[float] = []
        try:
            while not self.over.wait(0.2):
                ends = [end for end in ends if end > time.monotonic()]
                if len(ends) >= self.runs_at_once:
                    continue
                lasts = dice.choice(self.lasts_s) * dice.uniform(0.7, 1.0)
                ledger = self.site.ledgers / f"{self.submitted + self.refused:05d}"
                answer = submitter.submit(str(ledger), f"{lasts:.1f}", str(dice.getrandbits(32)))
                self.submitted, self.refused = self.submitted + ("run" in answer), self.refused + ("error" in answer)
                self.acknowledged += [answer["run"]] if "run" in answer else []
                ends.append(time.monotonic() + lasts)
                with (self.site.folder / "submits.jsonl").open("a") as file:
                    file.write(
                        json.dumps({"wall": time.time(), "ledger": ledger.name, "lasts": lasts, **answer}) + "\n"
                    )
                if "error" in answer:
                    self.over.wait(1.0)
        finally:
            submitter.close()


class Checker:
    """Compares runs that have ended with their ledgers."""

    def __init__(self, site: Site, account: Account, evidence: Path) -> None:
        self.site, self.account, self.evidence = site, account, evidence
        self._client = site.client()

    def wait(self, patience_s: float) -> list[Run]:
        """Return all runs of the site; those that have not ended in time are unexplained."""
        deadline = time.monotonic() + patience_s
        while True:
            try:
                runs = [run for run in self._client.runs.iter("default") if run.experiment == "soak"]
                live = [run for run in runs if not run.status.is_terminal]
            except RunyardError as error:
                runs, live = [], []
                if time.monotonic() > deadline:
                    raise AssertionError(f"{self.site.name} does not answer after it was healed") from error
                time.sleep(1.0)
                continue
            if not live or time.monotonic() > deadline:
                break
            time.sleep(0.5)
        self.account.counts["never ended"] += len(live)
        self.account.unexplained += [f"{run.id} is {run.status} for ever: {run.waits_for}" for run in live]
        return runs

    def check(self, acknowledged: list[str], patience_s: float) -> None:
        runs = {run.id: run for run in self.wait(patience_s)}
        self.account.unexplained += [
            f"{run_id} was acknowledged and is gone" for run_id in acknowledged if run_id not in runs
        ]
        self._check_unstarted(list(runs.values()))
        for path in sorted(self.site.ledgers.iterdir()):
            ledger = read_ledger(path)
            before = len(self.account.unexplained)
            if ledger.run_id not in runs:
                self.account.unexplained.append(f"{ledger.run_id} of {path} is not on the server")
                continue
            self.account.check(ledger, runs[ledger.run_id], self._client)
            if len(self.account.unexplained) > before:
                self._keep(ledger, runs[ledger.run_id])

    def _check_unstarted(self, runs: list[Run]) -> None:
        """A run whose script never began has said why."""
        begun = {read_ledger(path).run_id for path in self.site.ledgers.iterdir()}
        unstarted = [run for run in runs if run.id not in begun and run.status.is_terminal and run.parent_id is None]
        self.account.counts["never began"] += len(unstarted)
        self.account.unexplained += [f"{run.id} is {run.status} and never began" for run in unstarted if not run.error]

    def _keep(self, ledger: Ledger, run: Run) -> None:
        folder = self.evidence / run.id
        folder.mkdir()
        shutil.copy(ledger.path, folder / "ledger")
        (folder / "record.json").write_text(json.dumps(to_plain(run), indent=1, default=str))
        for file in self._client.runs.files(run.id):
            if file.name.endswith((".log", ".txt")):
                (folder / file.name.replace("/", "_")).write_bytes(self._client.runs.read_file(run.id, file.name).data)


def endure(
    sites: list[Site],
    folder: Path,
    *,
    seconds: float,
    seed: int,
    lasts_s: tuple[float, float, float],
    schedule: list[Event] | None = None,
) -> Account:
    """Load the sites, break them as the schedule says, heal them, and return what became of every run."""
    evidence = folder / "evidence"
    evidence.mkdir()
    lanes = {lane: faults for site in sites for lane, faults in lanes_of(site).items()}
    if schedule is None:
        schedule = make_schedule(lanes, seed=seed, seconds=seconds, gap_s=25.0)
    breaker = Breaker(lanes, schedule, evidence / "faults.jsonl")
    loads = [Load(site, seed, RUNS_AT_ONCE, lasts_s) for site in sites]
    threads = [threading.Thread(target=one) for one in loads]
    for thread in threads:
        thread.start()
    try:
        for one in loads:
            wait_for(one.is_going, timeout_s=120)
        breaker.run(seconds)
    finally:
        for one in loads:
            one.over.set()
        for thread in threads:
            thread.join()
    account = Account()
    for one, site in zip(loads, sites):
        site.start_server()
        Checker(site, account, evidence).check(one.acknowledged, END_PATIENCE_S)
        if account.unexplained:
            for log in (site.home / "server/server.log", site.folder / "server.out", site.folder / "submitter.log"):
                if log.exists():
                    shutil.copy(log, evidence / f"{site.name}-{log.name}")
    report(account, breaker, loads, seed, evidence)
    assert not breaker.errors, "\n".join(breaker.errors)
    return account


def report(account: Account, breaker: Breaker, loads: list[Load], seed: int, evidence: Path) -> None:
    lines = [f"seed {seed}; evidence in {evidence}"]
    lines += [f"{one.site.name}: {one.submitted} submitted, {one.refused} submits refused" for one in loads]
    lines += [f"  {name}: {count}" for name, count in sorted(account.counts.items())]
    lines += ["faults:", *(f"  {name}: {count}" for name, count in sorted(breaker.done.items()))]
    lines += ["named in the run:", *(f"  {line}" for line in account.named)]
    lines += ["unexplained:", *(f"  {line}" for line in account.unexplained)]
    (evidence / "report.txt").write_text("\n".join(lines) + "\n")
    say("\n".join(["", *lines]))


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_nothing_is_lost_or_doubled_in_hours_of_random_faults(tmp_path: Path) -> None:
    folder = Path(KEPT) / f"soak-{SEED}-{os.getpid()}" if KEPT else tmp_path
    folder.mkdir(parents=True, exist_ok=True)
    say(f"RUNYARD_SOAK_SEED={SEED} RUNYARD_SOAK_MINUTES={MINUTES:g}, in {folder}")
    with ExitStack() as stack:
        postgres = Postgres()
        stack.callback(postgres.close)
        postgres.start()
        stack.callback(postgres.stop)
        sites: list[Site] = []
        if "team" in SITES:
            sites.append(TeamSite("team", new(folder, "team"), postgres=postgres, has_clock=True))
        if "private" in SITES:
            sites.append(PrivateSite("private", new(folder, "private"), has_clock=True))
        for site in sites:
            stack.callback(site.close)
            site.open()
        account = endure(sites, folder, seconds=MINUTES * 60, seed=SEED, lasts_s=(2.0, 20.0, 60.0))

    assert account.counts["points"] > 0
    assert account.unexplained == []


def new(folder: Path, name: str) -> Path:
    (folder / name).mkdir()
    return folder / name


SHORT = [
    Event(0.5, "team proxy", "bad gateway", 3.0, 1),
    Event(1.0, "team network", "packets lost", 2.0, 5),
    Event(4.5, "team server", "kill", 1.0, 2),
    Event(6.0, "team processes", "kill all of ours", 0.1, 3),
    Event(7.0, "team node disk", "full", 2.0, 4),
    Event(9.0, "team network", "unplugged", 2.0, 6),
    Event(10.0, "team proxy", "swallow", 2.0, 4),
]


@pytest.mark.external
@pytest.mark.timeout(300)
def test_nothing_is_lost_or_doubled_in_a_short_schedule_of_faults(tmp_path: Path) -> None:
    site = TeamSite("team", new(tmp_path, "team"))
    try:
        site.open()
        account = endure([site], tmp_path, seconds=13, seed=1, schedule=SHORT, lasts_s=(5.0, 9.0, 15.0))
    finally:
        site.close()

    assert account.counts["runs"] >= 3 and account.counts["points"] > 100
    assert [account.counts[f"{what} lost"] for what in ("points", "lines", "files")] == [0, 0, 0], account.named
    assert account.unexplained == []
