"""Holds the test machines: namespaces that live as long as this process, and nothing on them outlives it.

Run as a program by `ground.py`: makes the nodes, prints their holders' pids as JSON, and waits for the end of its
standard input, which comes even when the tests are killed. Then it ends every process of the nodes; the namespaces go
with their last process, so nothing is left in /run/netns or /etc.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

NETWORK = "10.77.0"
_HOLD = """
hostname "$1" && mount --bind "$2" /etc/hosts && mkdir -p -m 1777 "$3" && mount --bind "$3" /var/tmp &&
ip link set lo up && echo ready && exec cat
"""
_HUB = "ip link set lo up && ip link add br0 type bridge && ip link set br0 up && echo ready && exec cat"


def main(hosts_file: str, count: int) -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with open(hosts_file, "w") as file:
        file.write("127.0.0.1 localhost\n")
        file.writelines(f"{NETWORK}.{rank} node{rank}\n" for rank in range(1, count + 1))
    hub = _hold("hub", [_HUB])
    names = [f"node{rank}" for rank in range(1, count + 1)]
    disks = os.path.dirname(hosts_file)
    holders = {name: _hold(name, [_HOLD, "sh", name, hosts_file, os.path.join(disks, name)]) for name in names}
    for rank, holder in enumerate(holders.values(), start=1):
        _plug(hub.pid, holder.pid, rank)
    print(json.dumps({"hub": hub.pid, **{name: holder.pid for name, holder in holders.items()}}), flush=True)
    sys.stdin.read()
    for holder in holders.values():
        end_all(holder.pid)
    return 0


def end_all(holder: int) -> None:
    """Kill every process of the node but its holder, and those that the killed started meanwhile."""
    while found := processes_of(holder):
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.01)


def processes_of(holder: int) -> list[int]:
    """Return the processes in the node's network namespace, without the holder. One that lives or is dying counts."""
    mine = _network(str(holder))
    pids = [name for name in os.listdir("/proc") if name.isdigit() and int(name) != holder]
    return [int(pid) for pid in pids if mine and _network(pid) == mine and int(pid) != os.getpid()]


def _network(pid: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:  # gone, or a zombie: it has no namespaces any more
        return ""


def _hold(name: str, command: list[str]) -> subprocess.Popen[str]:
    words = ["unshare", "--net", "--uts", "--mount", "--propagation", "slave", "--", "sh", "-c", *command]
    holder = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "ready\n", f"{name} could not be made: are you root?"
    return holder


def _plug(hub: int, node: int, rank: int) -> None:
    _in_network(hub, "link", "add", f"v{rank}", "type", "veth", "peer", "name", "eth0", "netns", str(node))
    _in_network(hub, "link", "set", f"v{rank}", "master", "br0", "up")
    _in_network(node, "addr", "add", f"{NETWORK}.{rank}/24", "dev", "eth0")
    _in_network(node, "link", "set", "eth0", "up")


def _in_network(pid: int, *words: str) -> None:
    subprocess.run(["nsenter", "--target", str(pid), "--net", "--", "ip", *words], check=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
