"""Ports of jobs: free when they are taken, and nobody else's as long as the run lives."""

from __future__ import annotations

import resource
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from runyard.launchers.base import LEAST_PORTS as LEAST
from runyard.supervisor.lifecycle.layout import Ports, is_free


@pytest.fixture
def ports() -> Iterator[Ports]:
    found = Ports()
    yield found
    found.close()


def a_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_each_node_has_a_range_of_its_own_that_can_be_bound(ports: Ports) -> None:
    found = ports.take([1, LEAST + 3])

    assert [len(one) for one in found] == [LEAST, LEAST + 3]
    assert all(one == list(range(one[0], one[0] + len(one))) for one in found)
    assert not set(found[0]) & set(found[1])
    for port in (found[0][0], found[1][-1]):
        with socket.socket() as server:
            server.bind(("0.0.0.0", port))
            server.listen(1)


def test_the_preferred_port_comes_first_on_the_first_node_when_it_is_free(ports: Ports) -> None:
    wanted = a_free_port()
    found = ports.take([2, 2], preferred=wanted)

    assert found[0][0] == wanted and len(found[0]) == LEAST + 1
    assert wanted not in found[1]


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_a_port_on_which_somebody_listens_is_not_taken(ports: Ports, family: socket.AddressFamily) -> None:
    with socket.socket(family) as server:
        server.bind(("127.0.0.1" if family is socket.AF_INET else "::1", 0))
        server.listen(1)
        taken = int(server.getsockname()[1])

        assert not is_free(taken)
        assert taken not in ports.take([1], preferred=taken)[0]


def test_a_port_of_another_run_is_not_taken_although_nobody_listens_yet(ports: Ports) -> None:
    wanted = a_free_port()
    code = (
        "import sys; from runyard.supervisor.lifecycle.layout import Ports\n"
        f"ports = Ports(); print(ports.take([1], preferred={wanted})[0][0], flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None and other.stdin is not None
        assert int(other.stdout.readline()) == wanted

        assert is_free(wanted)
        assert wanted not in ports.take([1], preferred=wanted)[0]
        other.stdin.close()
        other.wait(30)
    assert ports.take([1], preferred=wanted)[0][0] == wanted


def test_a_later_supervisor_takes_the_same_ports_again(ports: Ports) -> None:
    first = Ports()
    found = first.take([1, 1])
    first.close()
    ports.hold(found)

    others = Ports()
    assert others.take([1], preferred=found[1][0])[0][0] != found[1][0]
    others.close()


def test_many_nodes_have_all_their_ports(ports: Ports) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
    try:
        found = ports.take([1] * 60)
    finally:
        ports.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)

    assert len({port for of_node in found for port in of_node}) == 60 * LEAST
