"""The backend `ssh` passes the suite of all backends, against two sshd of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runyard.client.processes import server_variables
from runyard.compute.base import JobHandle
from runyard.compute.ssh.backend import SshBackend
from runyard.core.config.settings import Settings
from runyard.core.errors import NotTrusted, UserError
from runyard.testing.compute_backend import ComputeBackendSuite
from tests.cluster.bench import ClusterBench
from tests.cluster.sshd import Sshd, make_key
from tests.conftest import end_processes, read_proc
from tests.waiting import wait_for

pytestmark = [pytest.mark.external, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def daemons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[list[Sshd], Path]]:
    folder = tmp_path_factory.mktemp("sshd")
    key = make_key(folder / "key")
    started = [Sshd(folder / name, key).start() for name in ("one", "two")]
    yield started, key
    for one in started:
        one.kill()


def backend_for(home: Path, daemons: list[Sshd], key: Path, **options: Any) -> SshBackend:
    hosts = [{"address": one.address, "port": one.port, "slots": 4} for one in daemons]
    own = {"hosts": hosts, "private_key": str(key), "python": sys.executable, "node_home": str(home / "node home")}
    given = {name: value for name, value in {**own, **options}.items() if value is not None}
    return SshBackend(Settings(home=home), given)


@pytest.fixture
def bench(home: Path, daemons: tuple[list[Sshd], Path]) -> Iterator[ClusterBench]:
    backend = backend_for(home, *daemons)
    assert backend.check().startswith("2 machine(s), 8 slot(s): 127.0.0.1:")
    bench = ClusterBench(home, backend)
    yield bench
    for run_id in bench.server.runs:
        SshBackend.end(backend, JobHandle(run_id, 1))
    bench.close()
    left = end_processes(lambda pid: f"{home}/node home".encode() in read_proc(pid, "environ"), patience_s=0)
    assert not left


class TestSsh(ComputeBackendSuite): ...


def test_host_keys_are_recorded_when_asked_to_and_only_then(home: Path, daemons: tuple[list[Sshd], Path]) -> None:
    backend = backend_for(home, *daemons)
    with pytest.raises(NotTrusted, match="is not known"):
        backend.list_nodes()
    found = backend.check()
    keys = [one.fingerprint() for one in daemons[0]]

    assert all(key in found for key in keys)
    assert (home / "server" / "ssh").stat().st_mode & 0o077 == 0
    shown = [(node.address, node.state, node.host_key) for node in backend.list_nodes()]
    assert shown == [("127.0.0.1", "up", key) for key in keys]
    backend.close()


def test_given_host_keys_are_the_only_ones(home: Path, daemons: tuple[list[Sshd], Path]) -> None:
    one, two = daemons[0]
    known = f"[{one.address}]:{one.port} {(one.folder / 'host_key.pub').read_text()}"
    backend = backend_for(home, [one], daemons[1], known_hosts=known)
    assert "1 machine(s)" in backend.check()
    backend.close()
    backend = backend_for(home, [one, two], daemons[1], known_hosts=known)
    with pytest.raises(NotTrusted, match=f"{two.port} is not known"):
        backend.check()
    assert [node.state for node in backend.list_nodes()] == ["up", "down"]
    backend.close()


def test_a_machine_that_does_not_reach_the_server_is_named(home: Path, daemons: tuple[list[Sshd], Path]) -> None:
    backend = backend_for(home, *daemons)
    backend.check()
    with pytest.raises(UserError, match=r"does not reach this server at 127\.0\.0\.1:1") as caught:
        backend.check_reach({"kind": "tcp", "host": "127.0.0.1", "port": 1, "token": "secret"})
    assert "refused" in caught.value.why
    backend.close()


def test_a_missing_python_is_told_with_what_to_do(home: Path, daemons: tuple[list[Sshd], Path]) -> None:
    backend = backend_for(home, *daemons, python="/nowhere/python $(touch x)")
    with pytest.raises(UserError, match="has no `/nowhere/python") as caught:
        backend.check()
    assert "python=" in caught.value.hint
    backend.close()


def test_without_a_key_the_agent_of_the_servers_user_opens_the_machines(
    home: Path, daemons: tuple[list[Sshd], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(home / "agent")], stdout=subprocess.DEVNULL)
    wait_for((home / "agent").exists)
    backend = backend_for(home, *daemons, private_key=None)
    with pytest.raises(UserError, match="does not let the server's user in"):
        backend.check()
    monkeypatch.setenv("SSH_AUTH_SOCK", str(home / "agent"))
    subprocess.run(["ssh-add", "-q", str(daemons[1])], check=True)

    assert server_variables(Settings(home=home), os.environ)["SSH_AUTH_SOCK"] == str(home / "agent")
    assert "2 machine(s)" in backend.check()
    backend.close()
    agent.kill()
    agent.wait(30)
