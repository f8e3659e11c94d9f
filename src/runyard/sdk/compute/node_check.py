"""The script of `runyard compute test` on every node: inspect the node, ask the server, try to reach other nodes."""

from __future__ import annotations

import json
import os
import platform
import shutil
import socket
import time
from typing import Any, List, Optional, Tuple, TypedDict

MEET_S = 60.0  # nodes that start together may still be a while apart
REACH_S = 5.0
METRIC = "compute_test/node_"
Peer = Tuple[int, str, int]  # rank, address, port


def main() -> None:
    """Log one text for this node: what it has, and what it could not reach."""
    from runyard.sdk.runs.context import get_context

    rank, count = int(os.environ.get("RUNYARD_NODE_RANK", "0")), int(os.environ.get("AZUREML_NODE_COUNT", "1"))
    run: Any = get_context(allow_offline=False)
    found: NodeFindings = {**look_around(rank), **ask_server(run._client)}
    if count > 1:
        found.update(meet(rank, count))
    run.log(f"{METRIC}{rank}", json.dumps(found))
    print(json.dumps(found, indent=2))


class UnreachableNode(TypedDict):
    rank: int
    address: str
    why: str


class NodeFindings(TypedDict, total=False):
    """What one node found; `self_test.NodeReport` reads it."""

    rank: int
    host: str
    address: str
    python: str
    runyard: str
    cpus: int
    gpus: List[str]
    disk_free_bytes: int
    clock_offset_s: float
    server_s: float
    server_error: str
    meet_error: str
    unreachable: List[UnreachableNode]
    absent: List[int]


def look_around(rank: int) -> NodeFindings:
    import runyard
    from runyard.core.machine.gpus import list_gpus

    return {
        "rank": rank,
        "host": socket.gethostname(),
        "address": os.environ.get("RUNYARD_NODE_ADDRESS", ""),
        "python": platform.python_version(),
        "runyard": runyard.__version__,
        "cpus": len(os.sched_getaffinity(0)),
        "gpus": [gpu.name for gpu in list_gpus()],
        "disk_free_bytes": shutil.disk_usage(".").free,
    }


def ask_server(client: Any) -> NodeFindings:
    """Return how far this clock is from the server's, and how long an answer takes."""
    try:
        offset_s, answer_s = client.server.clock_offset()
    except Exception as error:
        return {"server_error": f"{type(error).__name__}: {error}".partition("\n")[0]}
    return {"clock_offset_s": offset_s, "server_s": answer_s}


def meet(rank: int, count: int) -> NodeFindings:
    """Find the other nodes through node 0, and connect to each of them."""
    own = os.environ.get("RUNYARD_NODE_ADDRESS") or "127.0.0.1"
    try:
        listener = _listen(own)
        place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
        if rank == 0:
            return _host(place, (0, own, listener.getsockname()[1]), count)
        return _join(place, (rank, own, listener.getsockname()[1]))
    except (OSError, ValueError) as error:
        return {"meet_error": f"node 0 could not be reached: {error}"}


def _host(place: Tuple[str, int], own: Peer, count: int) -> NodeFindings:
    """Collect where all listen, tell them, and stay until they have tried."""
    guests: List[Tuple[socket.socket, Peer]] = []
    deadline = time.monotonic() + MEET_S
    with _listen(place[0], place[1]) as door:
        while len(guests) < count - 1 and time.monotonic() < deadline:
            guest = _accept(door, deadline)
            if guest is not None:
                guests.append(guest)
    peers = [own, *(peer for _, peer in guests)]
    for guest_socket, _ in guests:
        _send(guest_socket, peers)
    unreachable = _reach(own[0], peers)
    for guest_socket, _ in guests:
        _receive(guest_socket)
    for guest_socket, _ in guests:
        guest_socket.close()
    came = {peer[0] for peer in peers}
    return {"unreachable": unreachable, "absent": [other for other in range(count) if other not in came]}


def _join(place: Tuple[str, int], own: Peer) -> NodeFindings:
    deadline = time.monotonic() + MEET_S
    while True:
        try:
            door = socket.create_connection(place, timeout=REACH_S)
            break
        except OSError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.1)
    with door:
        door.settimeout(MEET_S)
        _send(door, own)
        peers = [(int(rank), str(address), int(port)) for rank, address, port in _receive(door) or []]
        unreachable = _reach(own[0], peers)
        _send(door, "done")
        door.recv(1)  # node 0 closes when all have tried: until then our listener must be there
    return {"unreachable": unreachable}


def _reach(rank: int, peers: List[Peer]) -> List[UnreachableNode]:
    """Return the nodes that a connection could not be made to, with why."""
    found: List[UnreachableNode] = []
    for other, address, port in peers:
        if other == rank:
            continue
        try:
            socket.create_connection((address, port), timeout=REACH_S).close()
        except OSError as error:
            found.append({"rank": other, "address": address, "why": str(error)})
    return found


def _listen(address: str, port: int = 0) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, port))
    listener.listen(256)
    return listener


def _accept(door: socket.socket, deadline: float) -> Optional[Tuple[socket.socket, Peer]]:
    door.settimeout(max(0.01, deadline - time.monotonic()))
    try:
        guest, _ = door.accept()
        guest.settimeout(MEET_S)
        rank, address, port = _receive(guest)
        return guest, (int(rank), str(address), int(port))
    except (OSError, ValueError, TypeError):
        return None


def _send(to: socket.socket, value: Any) -> None:
    to.sendall(json.dumps(value).encode() + b"\n")


def _receive(of: socket.socket) -> Any:
    """Return one line as a value; None when nothing came."""
    data = b""
    try:
        while not data.endswith(b"\n"):
            part = of.recv(65536)
            if not part or len(data) > 1 << 20:
                return None
            data += part
    except OSError:
        return None
    return json.loads(data)


if __name__ == "__main__":
    main()
