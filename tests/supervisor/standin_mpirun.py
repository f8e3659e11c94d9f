"""Stands for Open MPI where none is installed: starts a daemon on each host through the agent, daemons start ranks.

`mpirun --host A:2,B:2 -n 4 … PROGRAM` as the launcher writes it. Ends with the first code that is not 0, and stops all
ranks when one fails, as mpirun does.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys


def main(arguments: list[str]) -> int:
    if arguments[0] == "--daemon":
        return run_ranks(json.loads(arguments[1]))
    hosts = [host.rsplit(":", 1) for host in arguments[1].split(",")]
    program = arguments[arguments.index("none") + 1 :]
    size = int(arguments[arguments.index("-n") + 1])
    jobs, first = [], 0
    for host, slots in hosts:
        part = {"program": program, "first": first, "count": int(slots), "size": size}
        first += int(slots)
        words = [sys.executable, __file__, "--daemon", json.dumps(part)]
        agent = os.environ.get("PRTE_MCA_plm_ssh_agent", "")  # noqa: SIM112
        jobs.append(words if host == "localhost" else [agent, host, " ".join(map(shlex.quote, words))])
    return wait_for_all([subprocess.Popen(words) for words in jobs])


def run_ranks(part: dict[str, object]) -> int:
    first, count = int(str(part["first"])), int(str(part["count"]))
    program = part["program"]
    assert isinstance(program, list)
    ranks = []
    for place in range(count):
        told = {"RANK": first + place, "SIZE": part["size"], "LOCAL_RANK": place, "LOCAL_SIZE": count}
        environ = {**os.environ, **{f"OMPI_COMM_WORLD_{name}": str(value) for name, value in told.items()}}
        ranks.append(subprocess.Popen(program, env=environ, start_new_session=True))
    return wait_for_all(ranks)


def wait_for_all(children: list[subprocess.Popen[bytes]]) -> int:
    """Wait for all; the first failure stops the others."""
    left = {child.pid: child for child in children}

    def stop(*_: object) -> None:
        for child in list(left.values()):
            child.terminate()

    signal.signal(signal.SIGTERM, stop)
    worst = 0
    while left:
        pid, status = os.wait()
        if left.pop(pid, None) is not None and status and not worst:
            worst = os.waitstatus_to_exitcode(status)
            stop()
    return abs(worst)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
