"""What a peer can cost: A81 and A82, before and after its token is known."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard.client.client import Client
from runyard.server.net.protocol import CrowdedProtocol
from tests.server.guarded import BEARER, Guarded, serving
from tests.server.private import pid_of, start
from tests.server.raw_http import Answer, Door, is_closed, is_hung_up, read_answer, tcp_door

JSON = "Content-Type: application/json"
FRAMES = "Content-Type: application/x-runyard-frames"
POST = b"POST /api/v1/runs HTTP/1.1\r\nHost: runyard\r\n"
MIB = 1 << 20


@pytest.fixture(scope="module")
def server() -> Iterator[Guarded]:
    with serving() as running:
        yield running


@pytest.fixture(params=["unix", "tcp"])
def door(request: pytest.FixtureRequest, server: Guarded) -> Door:
    return server.unix if request.param == "unix" else server.tcp


def head(door: Door, method: str, target: str, *headers: str) -> bytes:
    return "\r\n".join([f"{method} {target} HTTP/1.1", f"Host: {door.host}", *headers, "", ""]).encode("latin-1")


def send_chunked(door: Door, target: str, *headers: str, most: int) -> tuple[Answer, int]:
    """Send chunks until the server has had enough; return its answer and the bytes sent."""
    sent = 0
    with door.connect() as sock:
        sock.sendall(head(door, "POST", target, "Transfer-Encoding: chunked", *headers))
        try:
            while sent < most:
                sock.sendall(b"10000\r\n" + bytes(65536) + b"\r\n")
                sent += 65536
        except OSError:
            pass
        return read_answer(sock), sent


def test_a_body_is_refused_by_its_announced_length_alone(door: Door) -> None:
    with door.connect() as sock:
        sock.sendall(head(door, "PUT", "/api/v1/workspaces/abc", BEARER, JSON, f"Content-Length: {1 << 30}"))
        answer = read_answer(sock)

        assert answer.status == 413
        assert b"TooLarge" in answer.body
        assert is_closed(sock, within_s=2)


def test_a_body_without_a_length_is_refused_when_it_is_too_long(door: Door) -> None:
    answer, sent = send_chunked(door, "/api/v1/runs/x/cancel", BEARER, JSON, most=1 << 30)

    assert sent < 16 * MIB
    assert answer.status == 404


def test_a_body_that_a_route_reads_is_cut_at_the_limit(door: Door) -> None:
    answer, sent = send_chunked(door, "/api/v1/signin-codes", BEARER, JSON, most=1 << 30)

    assert answer.status == 413
    assert sent < 16 * MIB


def test_a_body_before_a_token_is_not_read_at_all(door: Door) -> None:
    answer, sent = send_chunked(door, "/api/v1/chunks", JSON, most=1 << 30)

    assert answer.status == 401
    assert sent < 8 * MIB


@pytest.mark.parametrize(
    ("target", "taken", "refused"),
    [
        ("/api/v1/chunks", 32, 35),
        ("/api/v1/trees", 32, 35),
        ("/api/v1/runs/x/ship", 64, 65),
        ("/api/v1/workspaces/abc", 1, 2),
    ],
)
def test_each_route_has_its_own_limit(server: Guarded, target: str, taken: int, refused: int) -> None:
    def status(size: int) -> int:
        headers = [
            BEARER,
            "Content-Type: application/x-runyard-frames",
            f"Content-Length: {size}",
            "Expect: 100-continue",
        ]
        with server.unix.connect() as sock:
            sock.sendall(head(server.unix, "POST", target, *headers))
            return read_answer(sock).status

    assert status(refused * MIB) == 413
    # The server asks for the body (100), or answers by itself since it has no such run or method.
    assert status(taken * MIB) in (100, 404, 405)


@pytest.mark.parametrize("size", [70_000, 300_000, MIB, 10 * MIB])
def test_a_head_that_is_too_long_is_refused(door: Door, size: int) -> None:
    begin = time.process_time()
    one = door.ask("GET", "/api/v1/health", ["X-Long: " + "a" * size])
    many = door.ask("GET", "/api/v1/health", [f"X-{i}: {'a' * 1000}" for i in range(size // 1000)])
    path = door.ask("GET", "/" + "a" * size)

    assert (one.status, many.status, path.status) == (431, 431, 431)
    assert time.process_time() - begin < 3  # the server is in this process


def test_a_head_of_usual_size_is_taken(door: Door) -> None:
    assert door.ask("GET", "/api/v1/health", ["X-Long: " + "a" * 30_000]).status == 200


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET\r\n\r\n",
        b"GET /api/v1/health HTTP/1.1\r\nHost : x\r\n\r\n",
        b"GET /api/v1/health HTTP/9.9\r\nHost: runyard\r\n\r\n",
        POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        POST + b"Content-Length: -1\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /api/v1/health HTTP/1.1\r\nHost: runyard\r\nX: a\x00b\r\n\r\n",
    ],
    ids=range(9),
)
def test_what_is_not_http_is_refused_and_the_server_goes_on(server: Guarded, data: bytes) -> None:
    assert server.unix.send(data).status in (0, 400, 401)
    assert server.unix.ask("GET", "/api/v1/health").status == 200


class Impatient(CrowdedProtocol):
    head_s = 0.2
    body_s = 0.2
    answer_s = 0.2


@pytest.fixture(scope="module")
def impatient() -> Iterator[Guarded]:
    with serving(Impatient) as running:
        yield running


def test_a_peer_that_stops_sending_is_dropped(impatient: Guarded) -> None:
    door = impatient.tcp
    with door.connect() as silent, door.connect() as half, door.connect() as body:
        half.sendall(b"GET /api/v1/health HTTP/1.1\r\nHost: 127")
        body.sendall(head(door, "PUT", "/api/v1/workspaces/abc", BEARER, JSON, "Content-Length: 10") + b"{")

        assert is_closed(silent, within_s=5)
        assert read_answer(half).status == 408
        assert is_closed(body, within_s=5)


def test_a_peer_that_does_not_take_its_answer_is_dropped(impatient: Guarded) -> None:
    with impatient.unix.connect() as sock:
        sock.sendall(head(impatient.unix, "GET", "/api/v1/openapi.json", BEARER) * 100)

        assert is_hung_up(sock, within_s=5)


def resident_kb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def slowest_of(client: Client, count: int) -> float:
    spent = []
    for _ in range(count):
        begin = time.perf_counter()
        client.server.info()
        spent.append(time.perf_counter() - begin)
    return sorted(spent)[int(count * 0.99) - 1]


def test_oversize_requests_and_slow_peers_cost_the_real_server_little(home: Path) -> None:
    client = start(home)
    pid = pid_of(client)
    door = tcp_door(int(str(client.address.web_url).rpartition(":")[2]))
    bearer = f"Authorization: Bearer {client.address.token}"
    before = resident_kb(pid)

    begin = cpu_s(pid)
    statuses = [
        send_chunked(door, "/api/v1/chunks", JSON, most=1 << 30)[0].status,
        send_chunked(door, "/api/v1/signin-codes", bearer, JSON, most=1 << 30)[0].status,
        door.ask("GET", "/api/v1/server", ["X: " + "a" * (10 * MIB)]).status,
        door.ask(
            "PUT", "/api/v1/workspaces/abc", [bearer, JSON, "Content-Encoding: gzip"], b"\x1f\x8b" + bytes(1000)
        ).status,
    ]
    spent = cpu_s(pid) - begin
    slow = [door.connect() for _ in range(500)]
    try:
        for sock in slow:
            sock.sendall(b"GET /api/v1/server HTTP/1.1\r\nHost:")
        p99 = slowest_of(client, 200)
    finally:
        for sock in slow:
            sock.close()

    assert statuses == [401, 413, 431, 415]
    assert spent < 4  # at most 1 s each
    assert p99 < 1.0
    assert resident_kb(pid) - before < 50_000
