"""Faults by lane: each lane breaks one thing, now in this way and now in that, and heals it; lanes do not wait for each
other, so faults meet in any combination. A schedule is made of the seed alone, before anything starts.
"""

from __future__ import annotations

import json
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.faults.lying_proxy import LIES
from tests.faults.yard import reapers_in, supervisors_in
from tests.soak.sites import Site, TeamSite, send

Heal = Callable[[], None]
Fault = Callable[[random.Random], Heal]


@dataclass(frozen=True)
class Event:
    at_s: float
    lane: str
    kind: str
    lasts_s: float
    dice: int  # seed of what is left to chance in the fault itself


def lanes_of(site: Site) -> dict[str, dict[str, Fault]]:
    """Return the faults that this site can have, by lane."""
    lanes = {"server": server_faults(site), "processes": process_faults(site), "clock": clock_faults(site)}
    lanes["disk"] = {"full": lambda dice: disk_full(site.disk)} if site.disk.is_small else {}
    if isinstance(site, TeamSite):
        lanes["proxy"] = {lie: proxy_fault(site, lie) for lie in LIES}
        lanes["network"] = network_faults(site)
        lanes["node disk"] = {"full": lambda dice: disk_full(site.node_disk)} if site.node_disk.is_small else {}
        lanes["database"] = database_faults(site)
    return {f"{site.name} {name}": faults for name, faults in lanes.items() if faults}


def server_faults(site: Site) -> dict[str, Fault]:
    def kill(dice: random.Random) -> Heal:
        site.signal_server(signal.SIGKILL)
        return site.start_server

    def freeze(dice: random.Random) -> Heal:
        return frozen([site.server_pid()])

    def restart(dice: random.Random) -> Heal:
        site.stop_server()
        return site.start_server

    return {"kill": kill, "freeze": freeze, "restart": restart}


def process_faults(site: Site) -> dict[str, Fault]:
    """Supervisors and reapers, each alone and both of one run at once."""

    def kill(find: Callable[[Path], list[int]]) -> Fault:
        return lambda dice: killed(pick(dice, find(site.runs_home)))

    def freeze(find: Callable[[Path], list[int]]) -> Fault:
        return lambda dice: frozen(pick(dice, find(site.runs_home)))

    def kill_all(dice: random.Random) -> Heal:
        return killed([*reapers_in(site.runs_home), *supervisors_in(site.runs_home)])

    found = {"supervisor": supervisors_in, "reaper": reapers_in}
    single = {f"kill {name}": kill(find) for name, find in found.items()}
    return {**single, **{f"freeze {name}": freeze(find) for name, find in found.items()}, "kill all of ours": kill_all}


def clock_faults(site: Site) -> dict[str, Fault]:
    clock = site.clock
    if clock is None:
        return {}

    def jump(least_s: float, most_s: float) -> Fault:
        def set_clock(dice: random.Random) -> Heal:
            clock.set(round(dice.uniform(least_s, most_s)))
            return lambda: clock.set(0)

        return set_clock

    day = 86400.0
    return {"ahead": jump(60, 60 * day), "back": jump(-2 * day, -60)}


def database_faults(site: TeamSite) -> dict[str, Fault]:
    postgres = site.postgres
    if postgres is None:
        return {}

    def stop(mode: str) -> Fault:
        def do(dice: random.Random) -> Heal:
            postgres.stop(mode)
            return postgres.start

        return do

    def kill(dice: random.Random) -> Heal:
        pids = postgres.pids()
        killed(pids)
        wait_gone(pids)
        return postgres.start

    return {"stop": stop("fast"), "crash": stop("immediate"), "kill": kill, "freeze": lambda _: frozen(postgres.pids())}


def network_faults(site: TeamSite) -> dict[str, Fault]:
    link = site.link

    def unplug(dice: random.Random) -> Heal:
        link.unplug()
        return link.plug

    def lose(dice: random.Random) -> Heal:
        link.lose_packets()
        return link.find_packets

    return {"unplugged": unplug, "packets lost": lose}


def proxy_fault(site: TeamSite, lie: str) -> Fault:
    def begin(dice: random.Random) -> Heal:
        # Now for everything, now for one kind of request: part of an outage is harder than all of it.
        part = dice.choice([b"", b"", b"/ship ", b"/chunks ", b"/files ", b"/state ", b"/heartbeat "])
        site.proxy.lie(lie, lambda start: part in start)
        return site.proxy.be_honest

    return begin


def disk_full(disk) -> Heal:  # type: ignore[no-untyped-def]  # either of a site's
    disk.fill()
    return disk.free


def killed(pids: Sequence[int | None]) -> Heal:
    for pid in pids:
        if pid is not None:
            send(pid, signal.SIGKILL)
    return lambda: None


def frozen(pids: Sequence[int | None]) -> Heal:
    held = [pid for pid in pids if pid is not None]
    for pid in held:
        send(pid, signal.SIGSTOP)

    def go_on() -> None:
        for pid in held:
            send(pid, signal.SIGCONT)

    return go_on


def pick(dice: random.Random, pids: list[int]) -> list[int]:
    return [dice.choice(sorted(pids))] if pids else []


def wait_gone(pids: Sequence[int]) -> None:
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)


def make_schedule(lanes: dict[str, dict[str, Fault]], *, seed: int, seconds: float, gap_s: float) -> list[Event]:
    """Return the faults of all lanes: what happens depends on the seed and the lanes' names alone."""
    events = []
    for lane, faults in lanes.items():
        dice = random.Random(f"{seed} {lane}")
        at = dice.uniform(2.0, gap_s)
        while at < seconds - 5.0:
            lasts = min(dice.choice([0.5, 3.0, 8.0, 15.0, 25.0]) * dice.uniform(0.5, 1.5), seconds - at)
            events.append(Event(round(at, 1), lane, dice.choice(sorted(faults)), round(lasts, 1), dice.getrandbits(32)))
            at += lasts + dice.uniform(2.0, 2 * gap_s)
    return sorted(events, key=lambda event: event.at_s)


class Breaker:
    """Carries a schedule out, a thread for each lane, and writes down what it did."""

    def __init__(self, lanes: dict[str, dict[str, Fault]], schedule: list[Event], record: Path) -> None:
        self._lanes, self._schedule, self._record = lanes, schedule, record
        self._over, self._lock = threading.Event(), threading.Lock()
        self.done: Counter[str] = Counter()
        self.errors: list[str] = []
        self._threads = [threading.Thread(target=self._run, args=(lane,)) for lane in lanes]

    def run(self, seconds: float) -> None:
        """Break things for so long; at the end all is healed."""
        self._began = time.monotonic()
        for thread in self._threads:
            thread.start()
        self._over.wait(seconds)
        self.heal()

    def heal(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _run(self, lane: str) -> None:
        for event in self._schedule:
            if event.lane == lane:
                if self._over.wait(max(0.0, self._began + event.at_s - time.monotonic())):
                    return
                self._happen(event)

    def _happen(self, event: Event) -> None:
        self._write("begins", event)
        try:
            heal = self._lanes[event.lane][event.kind](random.Random(event.dice))
            self.done[f"{event.lane}: {event.kind}"] += 1
            self._over.wait(event.lasts_s)
            heal()
        except Exception as error:  # the driver's own fault: told at the end
            self.errors.append(f"{event}: {error!r}")
        self._write("healed", event)

    def _write(self, what: str, event: Event) -> None:
        with self._lock, self._record.open("a") as file:
            file.write(
                json.dumps({"wall": time.time(), "t": time.monotonic() - self._began, "what": what, **asdict(event)})
                + "\n"
            )
