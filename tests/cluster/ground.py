"""Machines for tests: network namespaces of one box, each with its own address, host name and /etc/hosts. Root only.

    def test_x(ground: Ground) -> None:                     # the session's; made on first use
        ground.run("node2", ["hostname"]).stdout            # "node2\n"; addresses are 10.77.0.1 … .4, names resolve
        daemon = ground.start("node2", ["slurmd", "-D"])    # goes on; its output: ground.log_of(daemon)
        ground.bind("node2", folder, "/tmp/ray")            # a mount that only this node's later processes see
        ground.cut("node2"); ground.mend("node2")           # its network cable
        ground.kill_node("node2")                           # every process on it, as a power cut does

The file system is shared but for such mounts and /var/tmp, where node homes are: each node has its own (seen from
here: `ground.disk(node)`). /sys/fs/cgroup is there. Nothing leaves the box: the bridge is in a namespace of its own, so
the tests' own process does not reach the nodes by TCP. Run a client with `ground.run`, or talk to the server over its
unix socket, as the fixture `team` does (team.py): a team server on node1, reached by the SDK as usual.

All of it is gone at the end of the session, and also after a crash (keeper.py).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cluster import keeper

COUNT = 4
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# What a machine's own start gives its daemons; the rest of the tests' variables stays here.
KEPT = ("HOME", "LANG", "PYTEST_PROCESS_COOKIE")


class Ground:
    """The nodes `node1` … `node4`."""

    def __init__(self, folder: Path, holders: Mapping[str, int]) -> None:
        self.folder = folder
        self._hub = holders["hub"]
        self._holders = {name: pid for name, pid in holders.items() if name != "hub"}
        self._started: list[subprocess.Popen[str]] = []

    @property
    def nodes(self) -> list[str]:
        return list(self._holders)

    def address(self, node: str) -> str:
        return f"{keeper.NETWORK}.{self.nodes.index(node) + 1}"

    def disk(self, node: str) -> Path:
        """Return where the node's /var/tmp is for the tests."""
        return self.folder / node

    def command(self, node: str, argv: Sequence[str], *, cwd: str = "/") -> list[str]:
        """Return the words that run `argv` on the node."""
        pid = str(self._holders[node])
        return ["nsenter", "--target", pid, "--net", "--uts", "--mount", "--", "env", "-C", cwd, "--", *argv]

    def run(
        self,
        node: str,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        timeout_s: float = 200.0,
        check: bool = True,
        cwd: str = "/",
        **options: Any,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program on the node to its end. `env` is added to what a machine's daemons have."""
        ended = subprocess.run(
            self.command(node, argv, cwd=cwd),
            env=variables(env),
            timeout=timeout_s,
            text=True,
            capture_output=True,
            check=False,
            **{"stdin": subprocess.DEVNULL, **options},
        )
        assert ended.returncode == 0 or not check, f"{' '.join(argv)} on {node}: {ended.stdout}{ended.stderr}"
        return ended

    def start(
        self, node: str, argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: str = "/", **options: Any
    ) -> subprocess.Popen[str]:
        """Start a program on the node, in a session of its own."""
        log = self.folder / f"{node}-{len(self._started)}-{os.path.basename(argv[0])}.log"
        with log.open("w") as output:
            process = subprocess.Popen(
                self.command(node, argv, cwd=cwd),
                env=variables(env),
                text=True,
                start_new_session=True,
                **{"stdin": subprocess.DEVNULL, "stdout": output, "stderr": subprocess.STDOUT, **options},
            )
        log.rename(self._log(process.pid))
        self._started.append(process)
        return process

    def log_of(self, process: subprocess.Popen[str]) -> str:
        return self._log(process.pid).read_text()

    def bind(self, node: str, source: Path | str, target: Path | str) -> None:
        """Mount a folder over another, for what is started on this node from now on."""
        self.run(node, ["mount", "--bind", str(source), str(target)])

    def cut(self, node: str) -> None:
        self._link(node, "down")

    def mend(self, node: str) -> None:
        self._link(node, "up")

    def processes(self, node: str) -> list[int]:
        return keeper.processes_of(self._holders[node])

    def kill_node(self, node: str) -> None:
        keeper.end_all(self._holders[node])

    def collect(self) -> None:
        """Wait for what was started here; it has been killed."""
        for process in self._started:
            process.wait(30)

    def _link(self, node: str, state: str) -> None:
        port = f"v{self.nodes.index(node) + 1}"
        words = ["nsenter", "--target", str(self._hub), "--net", "--", "ip", "link", "set", port, state]
        subprocess.run(words, check=True)

    def _log(self, pid: int) -> Path:
        return self.folder / f"{pid}.log"


def variables(added: Mapping[str, str] | None = None) -> dict[str, str]:
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    return {"PATH": PATH, **kept, **(added or {})}


@contextmanager
def open_ground(folder: Path, count: int = COUNT) -> Iterator[Ground]:
    assert os.geteuid() == 0, "these tests make network namespaces: run them as root"
    folder.mkdir(exist_ok=True)
    words = [sys.executable, keeper.__file__, str(folder / "hosts"), str(count)]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        line = process.stdout.readline()
        assert line, "the test machines could not be made; what failed is above"
        ground = Ground(folder, json.loads(line))
        try:
            yield ground
        finally:
            process.stdin.close()
            process.wait(60)
            ground.collect()
