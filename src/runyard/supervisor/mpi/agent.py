"""The program that mpirun calls in place of ssh: `agent.py [options] HOST WORD…`. It asks the supervisor and waits.

The words are a shell line that starts Open MPI's daemon for that node. The supervisor has the daemon started there, in
the run's own process tree, and answers with its exit code. When the supervisor is killed, the agent asks its successor.
A self-contained script (`python -I -S`), which imports nothing of ours.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from typing import List, Optional, Tuple

SOCKET = "agent.sock"
PATIENCE_S = 60.0
PAUSE_S = 0.1


def main(arguments: List[str]) -> int:
    """Have the daemon started, wait for its end, and return its exit code; 1 if no supervisor answers for a minute."""
    host, line = parse(arguments)
    request = json.dumps({"host": host, "line": line}).encode() + b"\n"
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        answer = ask(os.environ["RUNYARD_RUN_FOLDER"], request)
        if answer is not None:
            return answer
        time.sleep(PAUSE_S)
    sys.stderr.write(f"runyard: the run's supervisor did not answer, so nothing was started on {host}\n")
    return 1


def parse(arguments: List[str]) -> Tuple[str, str]:
    """Return (host, shell line) from ssh's arguments; options are ignored."""
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        rest.pop(0)
    if len(rest) < 2:
        sys.exit("usage: agent.py HOST WORD…")
    return rest[0], " ".join(rest[1:])


def ask(folder: str, request: bytes) -> Optional[int]:
    """Return the daemon's exit code; None when no supervisor is there, or it ended before it answered."""
    try:
        place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return 1  # the run folder is gone
    try:
        with socket.socket(socket.AF_UNIX) as link:
            link.connect(f"/proc/self/fd/{place}/{SOCKET}")  # a path of any length
            link.sendall(request)
            answer = link.makefile("rb").readline()
        return int(json.loads(answer)["code"]) if answer.endswith(b"\n") else None
    except OSError:
        return None
    finally:
        os.close(place)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
