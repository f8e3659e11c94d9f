"""A hostname for a process and what it starts, whoever runs it; the machine keeps its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

CODE = """
import os, socket, subprocess, sys
if len(sys.argv) > 1:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE: as it would be had it been started by that user
sys.path.insert(0, {source!r})
before = os.getuid(), os.getgid()
from runyard.supervisor.processes.spawn import take_hostname
assert take_hostname("127.0.1.2")
assert (os.getuid(), os.getgid()) == before
print(socket.gethostname(), subprocess.check_output(["uname", "-n"], text=True).strip())
"""


@pytest.mark.parametrize("user", [[], ["nobody"]], ids=["this-user", "a-user-without-privileges"])
def test_the_hostname_holds_for_the_process_and_its_children_alone(user: list[str]) -> None:
    if user and os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    import runyard

    source = os.path.dirname(os.path.dirname(runyard.__file__))
    before = socket.gethostname()
    # Everything is imported before the change of user: the interpreter may lie where that one cannot look.
    code = "import ctypes, encodings.idna, runyard.supervisor.processes.spawn\n" + CODE.format(source=source)
    environ = {**os.environ, "PYTHONPATH": source}
    done = subprocess.run(
        [sys.executable, "-c", code, *user], env=environ, capture_output=True, text=True, timeout=30, check=False
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "127.0.1.2 127.0.1.2\n", "")
    assert socket.gethostname() == before
