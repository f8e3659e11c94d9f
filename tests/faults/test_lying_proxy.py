"""C1: whatever a proxy says in the server's place, everything of a live run arrives, and exactly once."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import pytest

from runyard.client.client import Client
from runyard.client.tls import fingerprint_of
from runyard.client.transport import Transport
from runyard.core.config.paths import run_folder
from runyard.core.formats.chunks import chunk_id
from runyard.core.formats.plain import to_plain
from runyard.core.formats.tree import FileEntry, encode_tree, tree_id
from runyard.core.machine.facts import supervisor_command
from runyard.core.specs import EnvironmentSpec, RunSpec
from runyard.core.statuses import RunStatus
from runyard.server.net.certificates import load_context, make_certificate
from tests.faults.lying_proxy import LIES, Proxy, lying_proxy
from tests.server.conftest import Served, serve
from tests.supervisor.supervised import share_cache

T = TypeVar("T")

# Writes one of each kind per step: a point, a line, an output and an explicit upload of its own name.
SCRIPT = """
import os, sys, time
from azureml.core import Run
run, n = Run.get_context(), 0
os.makedirs("outputs", exist_ok=True)
while not os.path.exists(sys.argv[1]):
    run.log("n", n)
    print(n, flush=True)
    if n % 20 == 0:
        with open("outputs/%d.txt" % n, "w") as file:
            file.write("output %d" % n)
        with open("scratch", "w") as file:
            file.write("upload %d" % n)
        run.upload_file("sent/%d.txt" % n, "scratch")
    n += 1
    time.sleep(0.005)
run.log("total", n)
"""


def until(what: Callable[[], T], *, within_s: float = 120.0) -> T:
    """Return the first true answer of `what`; each look may be a request, so there are few."""
    give_up_at = time.monotonic() + within_s
    while not (answer := what()):
        assert time.monotonic() < give_up_at, f"not within {within_s:g} s: {what}"
        time.sleep(0.05)
    return answer


@dataclass
class Behind:
    """A server in this process, a proxy before it, and a live run whose supervisor knows the proxy alone."""

    served: Served
    proxy: Proxy
    folder: Path
    process: subprocess.Popen[bytes]
    stop: Path
    run_id: str = "exp_1"

    def status(self) -> RunStatus:
        return self.served.client.runs.get(self.run_id).status

    def points(self) -> list[float]:
        found = {one.name for one in self.served.client.runs.metrics(self.run_id)}
        return self.served.client.runs.metric_values(self.run_id, "n")[0].to_list() if "n" in found else []

    def finish(self) -> None:
        self.stop.touch()
        until(lambda: self.status().is_terminal)
        assert self.process.wait(60) == 0

    def check_all_arrived_once(self) -> None:
        runs = self.served.client.runs
        run = runs.get(self.run_id)
        assert (run.status, run.warnings) == (RunStatus.COMPLETED, [])
        total = int(runs.metric_values(self.run_id, "total")[0].to_list()[0])
        assert self.points() == list(range(total))
        log = runs.read_file(self.run_id, "user_logs/std_log.txt").data
        assert log == b"".join(b"%d\n" % n for n in range(total))
        names = {file.name for file in runs.files(self.run_id)}
        for n in range(0, total, 20):
            assert {f"outputs/{n}.txt", f"sent/{n}.txt"} <= names
            assert runs.read_file(self.run_id, f"outputs/{n}.txt").data == b"output %d" % n
            assert runs.read_file(self.run_id, f"sent/{n}.txt").data == b"upload %d" % n
        assert not self.folder.exists()


def context_of(folder: Path, name: str) -> tuple[ssl.SSLContext, str]:
    certificate, key = make_certificate(["127.0.0.1"])
    (folder / f"{name}.pem").write_bytes(certificate)
    (folder / f"{name}.key").write_bytes(key)
    context = load_context(folder / f"{name}.pem", folder / f"{name}.key")
    return context, fingerprint_of(ssl.PEM_cert_to_DER_cert(certificate.decode()))


@pytest.fixture
def behind(home: Path, tmp_path: Path) -> Iterator[Behind]:
    share_cache(home)
    with ExitStack() as stack:
        served = stack.enter_context(serve(home))
        context, fingerprint = context_of(tmp_path, "proxy")
        proxy = stack.enter_context(lying_proxy(str(home / "s"), context))
        yield stack.enter_context(started(served, proxy, home, tmp_path, fingerprint))


class started:
    """Starts the supervisor of a run that a user of the server submitted; kills what is left of it at the end."""

    def __init__(self, served: Served, proxy: Proxy, home: Path, tmp_path: Path, fingerprint: str) -> None:
        token = served.client.users.add("ann", role="admin").token  # `local` is for admins
        ann = Client(Transport(replace(served.address, token=token)))
        served.others.append(ann)
        script = SCRIPT.encode()
        ann.content.put([(chunk_id(script), script)])
        tree = encode_tree([FileEntry("train.py", 0o644, len(script), (chunk_id(script),))])
        ann.content.put_trees([(tree_id(tree), tree)])
        snapshot = ann.content.put_snapshot(tree_id(tree), 1, len(script))
        stop = tmp_path / "stop"
        spec = RunSpec(
            script="train.py",
            arguments=[str(stop)],
            environment=EnvironmentSpec(interpreter=sys.executable),
            output_folders=["outputs"],
        )
        as_ann = replace(served, client=ann)
        as_ann.submit("exp_1", spec=spec, snapshot_id=snapshot, snapshot_root=tree_id(tree))
        job = until(lambda: served.backend.jobs_of("exp_1"))[-1]
        address = {**to_plain(proxy.address(job.token, fingerprint)), "token": ""}
        submitter = {"PATH": os.environ["PATH"], "HOME": str(home)}
        job = replace(job, server=address, home=str(home), submitter=submitter, spec=spec)
        self._folder = run_folder(home, job.run_id, job.attempt)
        self._folder.mkdir(parents=True, mode=0o700)
        (self._folder / "job.json").write_text(json.dumps(to_plain(job)))
        environ = {"PATH": os.environ["PATH"], "RUNYARD_HOME": str(home)}
        process = subprocess.Popen(
            [*supervisor_command(), "--run", str(self._folder)], env=environ, stdin=subprocess.DEVNULL
        )
        self._behind = Behind(served, proxy, self._folder, process, stop)

    def __enter__(self) -> Behind:
        try:
            until(self._behind.points)
        except BaseException:
            self.__exit__()
            print(self._behind.served.client.runs.get("exp_1"))
            raise
        return self._behind

    def __exit__(self, *_: object) -> None:
        self._behind.stop.touch()
        self._behind.proxy.be_honest()
        if self._behind.process.poll() is None:
            self._behind.process.kill()
            self._behind.process.wait()


@pytest.mark.parametrize(
    "lies",
    [
        pytest.param(("bad gateway", "login page", "swallow", "cut"), id="some"),
        pytest.param(LIES, id="all", marks=[pytest.mark.long, pytest.mark.timeout(300)]),
    ],
)
def test_no_lie_of_a_proxy_costs_a_live_run_anything(behind: Behind, lies: Sequence[str]) -> None:
    for lie in lies:
        before = len(behind.points())
        behind.proxy.lie(lie)
        until(lambda lie=lie: behind.proxy.count(lie, "/ship ") >= (1 if lie == "silent" else 4))
        behind.proxy.be_honest()
        until(lambda before=before: len(behind.points()) > before)
    behind.finish()

    behind.check_all_arrived_once()


@pytest.mark.parametrize(
    "route",
    [b"/files", *(pytest.param(one, marks=pytest.mark.long) for one in (b"/ship ", b"/chunks ", b"/state "))],
)
def test_one_route_that_a_proxy_refuses_for_long_holds_nothing_else_up(behind: Behind, route: bytes) -> None:
    """A proxy that limits the size of bodies says 413 to the large ones; here one kind of request is refused."""
    behind.proxy.lie("too large", lambda start: start.startswith(b"POST ") and route in start)
    if route != b"/state ":  # the next one is the run's end
        until(lambda: behind.proxy.told["too large"] >= 5)
    behind.stop.touch()
    until((behind.folder / "final.json").exists)
    told = behind.proxy.told["too large"]
    until(lambda: behind.proxy.told["too large"] >= told + 3)
    assert not behind.status().is_terminal
    behind.proxy.be_honest()
    behind.finish()

    behind.check_all_arrived_once()


@pytest.mark.long
def test_another_certificate_for_a_while_is_an_outage_and_nothing_is_sent_to_it(behind: Behind, tmp_path: Path) -> None:
    own, other = behind.proxy._tls, context_of(tmp_path, "other")[0]
    assert own is not None
    behind.proxy.lie("reset")  # hang up on connections that were made before
    behind.proxy.show(other)
    seen = len(behind.proxy.seen)
    until(lambda: (behind.folder / "system_logs/supervisor.log").read_text().count("another certificate") >= 3)
    behind.proxy.show(own)
    behind.proxy.be_honest()
    behind.finish()

    assert len(behind.proxy.seen) - seen <= 8
    behind.check_all_arrived_once()
