"""A real Ray with tokens and TLS on the test machines: the head on node1 without CPUs, workers on the others."""

from __future__ import annotations

import os
import secrets
import shlex
import signal
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from runyard.server.net.certificates import make_certificate
from tests.cluster.ground import Ground
from tests.conftest import read_proc
from tests.e2e.frameworks import interpreter_with
from tests.waiting import wait_for

KNOWN_WORKERS = """
from ray._private.state import state
from ray.core.generated.gcs_pb2 import WorkerTableData
rows = [WorkerTableData.FromString(row) for row in state._connect_and_get_accessor().get_worker_table()]
print(*(row.pid for row in rows if row.is_alive))
"""
LIVING_NODES = "print(sum(node['Alive'] for node in ray.nodes()))"
RAY = ("ray[default]==2.60.0",)
HEAD, WORKERS = "node1", ("node2", "node3", "node4")
PORT, CLIENT_PORT = 6379, 10001
CPUS = 4  # of a worker
WITH_GPUS, GPUS = "node4", 2  # Ray believes what it is told


class RayCluster:
    def __init__(self, ground: Ground, folder: Path, *, has_dashboard: bool = False) -> None:
        self.folder = folder
        self._has_dashboard = has_dashboard
        self.python = interpreter_with(RAY)
        self.address = f"{ground.address(HEAD)}:{PORT}"
        self.token = secrets.token_hex(32)
        self._ground = ground

    @property
    def env(self) -> dict[str, str]:
        """What somebody must know who speaks to it."""
        tls = {"CA_CERT": "certificate.pem", "SERVER_CERT": "certificate.pem", "SERVER_KEY": "key.pem"}
        files = {f"RAY_TLS_{name}": str(self.folder / file) for name, file in tls.items()}
        return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": self.token, "RAY_USE_TLS": "1", **files}

    @property
    def options(self) -> dict[str, Any]:
        """What a target is attached with, on the head's machine."""
        return {"address": self.address, "python": self.python, "env": self.env}

    @property
    def python_from_here(self) -> str:
        """A program that is Ray's interpreter on the head's machine, for those who are on none of the machines."""
        path = self.folder / "python-on-head"
        words = shlex.join(self._ground.command(HEAD, [self.python]))
        path.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        path.chmod(0o755)
        return str(path)

    def start(self) -> None:
        (self.folder / "rt").mkdir(parents=True)
        self._make_certificate()
        for node in (HEAD, *WORKERS):  # a driver would take another machine's raylet by its socket file
            (self.folder / node).mkdir()
            self._ground.bind(node, self.folder / node, self.folder / "rt")
        self.start_head()
        with ThreadPoolExecutor() as threads:
            list(threads.map(self.start_worker, WORKERS))
        assert set(self.raylets()) == {HEAD, *WORKERS}

    def start_head(self) -> None:
        words = ["--head", f"--port={PORT}", f"--temp-dir={self.folder / 'rt'}", "--num-cpus=0"]
        dashboard = [f"--include-dashboard={self._has_dashboard}", f"--dashboard-host={self._ground.address(HEAD)}"]
        # What the head knows outlives it.
        durable = {"RAY_gcs_storage": "rocksdb", "RAY_gcs_storage_path": str(self.folder / "gcs")}
        self._start(HEAD, *words, *dashboard, f"--ray-client-server-port={CLIENT_PORT}", env=durable)

    def start_worker(self, node: str) -> None:
        gpus = GPUS if node == WITH_GPUS else 0
        self._start(node, f"--address={self.address}", f"--num-cpus={CPUS}", f"--num-gpus={gpus}")

    def kill_head(self) -> None:
        """End what Ray has on the head's machine; a server of ours may be there too."""
        of_ray = os.fsencode(Path(self.python).parent.parent)
        for pid in self._ground.processes(HEAD):
            if read_proc(pid, "cmdline").startswith((of_ray, b"ray::")):
                os.kill(pid, signal.SIGKILL)

    @contextmanager
    def without_gcs(self) -> Iterator[None]:
        """Kill the process that knows the cluster, and start it again afterwards: it remembers."""
        (pid,) = [pid for pid in self._ground.processes(HEAD) if read_proc(pid, "comm") == b"gcs_server\n"]
        argv = [os.fsdecode(word) for word in read_proc(pid, "cmdline").rstrip(b"\0").split(b"\0")]
        lines = [os.fsdecode(line) for line in read_proc(pid, "environ").split(b"\0") if b"=" in line]
        os.kill(pid, signal.SIGKILL)
        yield
        self._ground.start(HEAD, argv, env=dict(line.split("=", 1) for line in lines))
        wait_for(lambda: self.ask(LIVING_NODES), timeout_s=120)

    def raylets(self) -> dict[str, int]:
        """Return the raylet's process on each node that has one."""
        return {
            node: pid
            for node in (HEAD, *WORKERS)
            for pid in self._ground.processes(node)
            if read_proc(pid, "comm") == b"raylet\n"
        }

    def kill_raylet(self, node: str) -> None:
        os.kill(self.raylets()[node], signal.SIGKILL)

    def restart_workers(self, *nodes: str) -> None:
        """Start what was killed, and wait until the cluster has noticed both."""
        for node in nodes:
            wait_for(lambda node=node: not self._workers(node))
            self.start_worker(node)
        wait_for(lambda: self.ask(LIVING_NODES) == str(1 + len(WORKERS)), timeout_s=90)

    def ask(self, code: str) -> str:
        """Run lines of Python on the head's machine, connected to the cluster, and return the last line they print.

        It is empty where the cluster does not answer.
        """
        program = (
            f"import ray\nray.init('auto', namespace='runyard', log_to_driver=False, logging_level='ERROR')\n{code}"
        )
        printed = self._ground.run(HEAD, [self.python, "-c", program], env=self.env, check=False).stdout
        return printed.rstrip("\n").rpartition("\n")[2]  # Ray's own words may stand before

    def has_ready_workers(self, nodes: Iterable[str]) -> bool:
        """Whether one waits on each: called idle by its name, and known to the cluster, which it is only later."""
        idle = {node: {pid for pid in self._workers(node) if is_idle(pid)} for node in nodes}
        known = set(map(int, self.ask(KNOWN_WORKERS).split())) if all(idle.values()) else set()
        return all(pids & known for pids in idle.values())

    def _make_certificate(self) -> None:
        """One for all machines, signed by itself."""
        names = ["localhost", "127.0.0.1", *(self._ground.address(node) for node in (HEAD, *WORKERS))]
        certificate, key = make_certificate(names)
        (self.folder / "certificate.pem").write_bytes(certificate)
        (self.folder / "key.pem").write_bytes(key)

    def _workers(self, node: str) -> list[int]:
        return [pid for pid in self._ground.processes(node) if read_proc(pid, "comm").startswith(b"ray::")]

    def _start(self, node: str, *words: str, env: Mapping[str, str] | None = None) -> None:
        usual = [f"--node-ip-address={self._ground.address(node)}", "--object-store-memory=80000000"]
        argv = [self.python, "-m", "ray.scripts.scripts", "start", *words, *usual, "--disable-usage-stats"]
        starting = self._ground.start(node, argv, env={**self.env, **(env or {})})  # its daemons keep the log open
        assert starting.wait(90) == 0, self._ground.log_of(starting)


def is_idle(pid: int) -> bool:
    return read_proc(pid, "comm").startswith(b"ray::IDLE")


@contextmanager
def open_ray(ground: Ground, folder: Path, *, has_dashboard: bool = False) -> Iterator[RayCluster]:
    cluster = RayCluster(ground, folder, has_dashboard=has_dashboard)
    cluster.start()
    yield cluster
    for node in WORKERS:
        ground.kill_node(node)
    cluster.kill_head()
