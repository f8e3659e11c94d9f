"""What tells a start of the machine, or of a container on it, from the next one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from runyard.core.machine.facts import boot_id, container_id

_SAY = (
    "from runyard.core.machine.facts import boot_id, container_id; import os; "
    "print(boot_id(), container_id(), os.getpid())"
)


def test_outside_of_containers_there_is_no_container_id() -> None:
    if os.readlink("/proc/self/ns/pid") != "pid:[4026531836]":
        pytest.skip("these tests run in a container themselves")

    assert container_id() == ""


def test_each_start_of_a_container_has_an_id_of_its_own_on_the_same_boot() -> None:
    command = ["unshare", "--map-root-user", "--pid", "--fork", "--mount-proc", sys.executable, "-c", _SAY]
    if subprocess.run([*command[:-3], "true"], capture_output=True, check=False).returncode:
        pytest.skip("no namespaces may be made here")
    starts = [subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() for _ in range(2)]

    assert [one[0] for one in starts] == [boot_id()] * 2
    assert starts[0][2] == "1"
    assert starts[0][1] != starts[1][1]
